package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store/audit/overview"
)

// Kinds and objects are those of why, in any case, for who reads the log itself too.
func TestWordsOfTheLog(t *testing.T) {
	f := filter{kinds: []string{"launched"}, object: "NodePools/a.b"}
	if err := f.words(&target{dataDir: "d"}); err != nil || f.kinds[0] != "Launched" || f.object != "pool/a.b" {
		t.Errorf("%+v, %v", f, err)
	}
	for object, want := range map[string]string{"pod/web": "pod/default/web", "claim/c": "claim/c", "planet/mars": "planet/mars", "": ""} {
		f := filter{object: object}
		if err := f.words(&target{dataDir: "d"}); err != nil || f.object != want {
			t.Errorf("%s: %s, %v", object, f.object, err)
		}
	}
	f = filter{kinds: []string{"Launched", "Lunched"}}
	if err := f.words(&target{dataDir: "d"}); err == nil || !strings.Contains(err.Error(), "no such kind") {
		t.Error(err)
	}
}

// A record is about what it makes, too, whose names follow from the record: the console says so, and so does
// the log itself.
func TestTheLogOfWhatARecordMakes(t *testing.T) {
	planned := ledger.Entry{Seq: 7, Kind: ledger.KindProvisioningPlanned, Payload: &ledger.ProvisioningPlanned{
		Claims: []ledger.PlannedClaim{{NodePool: "general"}}, Refused: []ledger.Refused{{Pods: []ledger.PodRef{{Namespace: "shop", Name: "web-0"}}}}}}
	for object, want := range map[string]bool{"claim/" + ledger.ClaimName("log", "general", 7, 0): true, "pod/shop/web-0": true, "pool/general": true, "pool/other": false} {
		if got := (filter{object: object, logID: "log"}).wants(planned); got != want {
			t.Errorf("%s: %t", object, got)
		}
	}
}

// A span before now that is negative says nothing of the future: it is a slip.
func TestNoSpanIsNegative(t *testing.T) {
	spans := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, name := range []string{"since", "until", "older-than"} {
			flag := c.Flags().Lookup(name)
			if flag == nil || slices.Contains([]string{"replay"}, c.Name()) {
				continue
			}
			spans++
			if err := c.Flags().Set(name, "-1h"); err == nil || !strings.Contains(err.Error(), "must not be negative") {
				t.Errorf("millctl %s --%s=-1h: %v", c.Name(), name, err)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	if walk(command()); spans < 9 {
		t.Errorf("%d spans", spans)
	}
}

func TestStatusOfTheStream(t *testing.T) {
	for want, stream := range map[string]overview.StreamStatus{"S: messages 3 to 9\n": {Incarnation: "S", First: 3, Last: 9}, "S: read to message 9\n": {Incarnation: "S", Last: 9}} {
		var out strings.Builder
		(&status{&overview.Status{Stream: &stream}}).printStream(&out)
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}
