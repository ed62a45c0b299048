package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit/overview"
)

func TestHealthRanksWhatFailedMost(t *testing.T) {
	h := &overview.Health{}
	add := func(kind ledger.Kind, payload any) {
		h.Add(ledger.Entry{Mode: ledger.ModeActive, Kind: kind, Payload: payload})
	}
	for i, image := range []string{"ami-good", "ami-bad", "ami-bad", "ami-bad"} {
		add(ledger.KindLaunched, &ledger.Launched{ImageID: image, InstanceType: "m5.large", Zone: []string{"a", "b"}[i%2]})
	}
	add(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Reason: "expired"})
	fail := func(image, zone, reason, cause string) {
		add(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Reason: reason, Failed: &ledger.FailedInstance{ImageID: image, InstanceType: "m5.large", Zone: zone, Cause: cause}})
	}
	fail("ami-good", "a", "instance_status", "")
	fail("ami-bad", "b", "unhealthy", "StorageReady")
	fail("ami-bad", "b", "registration_timeout", "")
	var out bytes.Buffer
	if err := printHealth(&out, h.Rows(time.Time{})); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"image ami-bad 2 3 1 registration_timeout, 1 unhealthy (StorageReady)", "image ami-good 1 1 1 instance_status",
		"type m5.large 3 4 1 instance_status, 1 registration_timeout, 1 unhealthy (StorageReady)",
		"zone b 2 2 1 registration_timeout, 1 unhealthy (StorageReady)", "zone a 1 2 1 instance_status",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", out.String())
	}
}
