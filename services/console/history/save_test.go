package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
)

// A history that was saved, read again and gone on with is one that was never interrupted.
func TestAHistoryThatIsSavedGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	live := func(x *teller, from, to int) {
		for i := from; i < to; i++ {
			a, b := x.launched("blue", int64(300_001+i)), x.launched("red", 100_000)
			seq := x.tell(&ledger.CommandStarted{Reason: "Underutilized", Candidates: []ledger.Candidate{node(a, "blue", 300_001, "shop", "web"), node(b, "red", 100_000)}, Replacements: []ledger.PlannedClaim{{NodePool: "blue"}}})
			x.tell(&ledger.Launched{Claim: ledger.ClaimName("log", "blue", seq, 0), Price: 170_000})
			if i%3 > 0 {
				x.tell(&ledger.CommandSucceeded{ID: ledger.CommandID("log", seq)})
				x.gone(a)
			}
			x.spot("blue", 40_000, 100_000+int64(i))
			x.gone(x.spot("red", 1000, 3000))
			x.tell(&ledger.ClaimDoomed{Claim: fmt.Sprint("c", i), Reason: "unhealthy", Failed: &ledger.FailedInstance{ImageID: "ami", Zone: "a"}})
			x.tell(&ledger.InstanceTerminated{Claim: fmt.Sprint("unknown", i)})
		}
	}
	whole, first := newTeller(), newTeller()
	live(whole, 0, 20)
	live(first, 0, 10)
	if err := first.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file, "log")
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Last() != first.seq {
		t.Errorf("it goes on after record %d, not %d", loaded.Last(), first.seq)
	}
	second := &teller{History: loaded, seq: first.seq, now: first.now}
	live(second, 10, 20)
	answers := func(x *teller) string {
		return fmt.Sprintf("%+v\n%+v\n%+v", *x.Timeline(began, x.now, Filter{Reason: "Drifted"}, 7, 900), *x.Savings(time.Time{}, x.now), append(x.Summary(began, x.now), fmt.Sprint(x.Cost("blue", x.now), x.Health(time.Time{}))))
	}
	if d := cmp.Diff(answers(whole), answers(second)); d != "" {
		t.Error(d)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 1
	for about, bad := range map[string][]byte{"empty": nil, "cut off": good[:len(good)-1], "changed": flipped, "of another log": bytes.Replace(good, []byte(savedFormat+"log"), []byte(savedFormat+"gol"), 1)} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file, "log"); err == nil {
			t.Errorf("%s: it is read", about)
		}
	}
}

// A NodePool has cost what its instances did while they were there.
func TestTheCostOfANodePool(t *testing.T) {
	x := newTeller()
	first := x.launched("blue", 600_000) // in minute 2
	x.launched("blue", 60_000)           // in minute 4
	x.launched("red", 900_000)
	x.gone(first) // in minute 7
	x.now = x.now.Add(56 * time.Minute)
	want := "cost over its life: $0.1100 for 2 instances since 2026-03-02 10:02 UTC, of which 1 run now for $0.0600/h"
	if got := x.Cost("blue", began.Add(64*time.Minute)); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := x.Cost("green", x.now); got != nil {
		t.Errorf("of one that is not: %q", got)
	}
}
