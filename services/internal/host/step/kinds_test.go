package step

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/service"
	"millwright/store"
)

func TestAKindIsWrittenOnceEveryServiceKnowsIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		all := string(ledger.KnownKinds())
		without := strings.Replace(all, "20-", "21-", 1) // does not know ClaimCreated
		candidates := []store.Leader{{Service: ledger.ServiceLifecycle, Info: map[string]string{store.InfoKinds: all}}}
		r.restartWith(func(cfg *fold.StateConfig) {
			cfg.Candidates = func(context.Context) ([]store.Leader, error) { return candidates, nil }
		})
		h, ctx := r.leading(ledger.ServiceLifecycle, ledger.ModeActive)
		outcome := func(kind ledger.Kind, payload any) error {
			t.Helper()
			if err := r.state.ReadKinds(ctx); err != nil {
				t.Fatal(err)
			}
			_, err := h.Outcome(ctx, service.Outcome{Kind: kind, Payload: payload})
			return err
		}
		created := &ledger.ClaimCreated{Claim: "c", UID: "u"}
		if err := outcome(ledger.KindClaimCreated, created); err != nil {
			t.Fatal(err)
		}
		older := store.Leader{Service: ledger.ServiceTerminator, Identity: "terminator-0", Info: map[string]string{store.InfoKinds: without, "version": "0.9"}}
		candidates = append(candidates, older)
		err := outcome(ledger.KindClaimCreated, created)
		if !errors.Is(err, service.ErrHeldBack) || !strings.Contains(err.Error(), "terminator-0") || !strings.Contains(err.Error(), "0.9") {
			t.Errorf("an older standby: %v", err)
		}
		if err := outcome(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: "c"}); err != nil {
			t.Errorf("a kind that it knows: %v", err)
		}
		if err := outcome(ledger.KindAlarmRaised, &ledger.AlarmRaised{}); err != nil {
			t.Errorf("a kind that it may skip: %v", err)
		}
		candidates[1].Info = map[string]string{"version": "0.1"} // says nothing: the first version
		if err := outcome(ledger.KindClaimCreated, created); err != nil {
			t.Errorf("a kind of the first version: %v", err)
		}
		candidates = candidates[:1]
		if err := outcome(ledger.KindClaimCreated, created); err != nil {
			t.Errorf("after it was replaced: %v", err)
		}
	})
}

func TestAnUnknownKindMakesItStandDown(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, ctx := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		newer := store.Draft{Service: "lifecycle", Mode: "active", Kind: 99, Payload: []byte("{}")}
		newer.Ignorable = true
		if _, err := r.log.Append(ctx, newer); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := h.Failed(); err != nil {
			t.Fatalf("stood down at a kind it may skip: %v", err)
		}
		newer.Ignorable = false
		if _, err := r.log.Append(ctx, newer); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := h.Failed(); !errors.Is(err, fold.ErrStandDown) || !errors.Is(err, ledger.ErrUnknownKind) {
			t.Errorf("goes on with a kind it does not know: %v", err)
		}
		if err := h.Snapshot(service.ForEffects, nil); !errors.Is(err, fold.ErrStandDown) {
			t.Errorf("still decides: %v", err)
		}
	})
}

// TestOnlyWhatAllCanReadIsCompressed: a service of an older version would stand down at a compressed record.
func TestOnlyWhatAllCanReadIsCompressed(t *testing.T) {
	leader := func(format string) store.Leader {
		return store.Leader{Info: map[string]string{store.InfoFormat: format}}
	}
	cases := map[string]struct {
		candidates []store.Leader
		want       int
	}{
		"all do":                     {[]store.Leader{leader("2"), leader("3")}, 2},
		"all read what is newer":     {[]store.Leader{leader("4"), leader("3")}, 3},
		"one is of an older version": {[]store.Leader{leader("2"), {Info: map[string]string{}}}, 1},
		"one reads the first format": {[]store.Leader{leader("1")}, 1},
		"nobody knows who there is":  {nil, 1},
		"nobody but us, who could":   {[]store.Leader{}, 3},
		"one says what is no number": {[]store.Leader{leader("two")}, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &fold.State{Candidates: func(context.Context) ([]store.Leader, error) { return c.candidates, nil }}
			if c.candidates != nil {
				s.Others.Store(&c.candidates)
			}
			if got := s.Format(); got != c.want {
				t.Errorf("format %d, want %d", got, c.want)
			}
		})
	}
}
