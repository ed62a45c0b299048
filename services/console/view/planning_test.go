package view

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millwright/planner/ledger"
)

// One plan at a time for each person, a few in all; a planner that fails on an object, or takes too long, is
// an answer, and its place is free again once it has ended.
func TestPlacesOfPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, end := New(Config{}), make(chan struct{})
		ask := func(who string, fn func(context.Context) (int, error)) error {
			_, err := planned(t.Context(), v, who, fn)
			return err
		}
		waits := func(context.Context) (int, error) { <-end; return 0, nil }
		for _, who := range []string{"ann", "ben"} {
			go func() { _ = ask(who, waits) }()
		}
		synctest.Wait()
		if err := ask("ann", waits); !errors.Is(err, ErrPlanning) {
			t.Errorf("a second one of the same person: %v", err)
		}
		if err := ask("cyn", waits); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: %v", err)
		}
		close(end)
		synctest.Wait()
		if err := ask("ann", func(context.Context) (int, error) { panic("no such object") }); !errors.Is(err, ErrQuestion) || !strings.Contains(err.Error(), "no such object") {
			t.Errorf("a planner that fails: %v", err)
		}
		began := time.Now()
		err := ask("ann", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, ErrQuestion) || time.Since(began) > planTimeout+time.Second {
			t.Errorf("one without end: %v after %s", err, time.Since(began))
		}
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(v.planning.by) != 0 {
			t.Errorf("places are taken for %v", v.planning.by)
		}
	})
}

// A planner that fails on what it sees says nothing of any node, and ends nothing.
func TestALookThatFailsIsNone(t *testing.T) {
	found, next := verdicts(nil, ledger.SearchFrom{Drift: "n"}, map[string]verdict{"n": {toGo: true}})
	if len(found) != 0 || next != (ledger.SearchFrom{}) {
		t.Errorf("%v, from %v", found, next)
	}
}
