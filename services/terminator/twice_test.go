package terminator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/terminator"
)

// twice runs each effect again right after itself, as when a step that looked before its record starts it
// once it has ended.
type twice struct{ service.Host }

func (h twice) Effect(key string, l lane.Lane, timeout time.Duration, fn func(context.Context) error) bool {
	return h.Host.Effect(key, l, timeout, func(ctx context.Context) error { return errors.Join(fn(ctx), fn(ctx)) })
}

func TestWhatIsRecordedOfADrainIsRecordedOnce(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, _ *terminator.Service) {
		s := terminator.New(twice{r.Host}, terminator.Deps{Cluster: r.Kube, Kube: r.Kube, Logger: zerolog.Nop()})
		r.Settle(s, 10*time.Second)
		if n := len(surges(r)); n != 1 {
			t.Errorf("%d records of a surge", n)
		}
		r.Kube.Remove(single("web-abc-1"))
		r.Settle(s, 10*time.Second)
		if n := len(r.Entries(ledger.KindNodeDrained)); n != 1 {
			t.Errorf("%d records that the node is drained", n)
		}
	})
}
