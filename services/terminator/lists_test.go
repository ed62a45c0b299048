package terminator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/terminator"
)

// hangingLists is an API server that does everything but list pods, until it is well again.
type hangingLists struct {
	*hosttest.Kube
	well atomic.Bool
}

func (h *hangingLists) PodsOnNode(ctx context.Context, node string) ([]corev1.Pod, error) {
	if h.well.Load() {
		return h.Kube.PodsOnNode(ctx, node)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// Many nodes are empty, and whether they are cannot be asked; pods of another are evicted at once all the
// same.
func TestListsThatHangHoldUpNoEviction(t *testing.T) {
	hosttest.Run(t, ledger.ServiceTerminator, ledger.ModeActive, func(r *hosttest.Rig) {
		goes := func(name string) {
			r.AddNode(name, "general")
			claim := r.Kube.GetClaim(name + "-claim")
			claim.DeletionTimestamp = &metav1.Time{Time: r.Now()}
			r.Kube.Put(claim)
		}
		for i := range 70 {
			goes(fmt.Sprintf("empty%d", i))
		}
		lists := &hangingLists{Kube: r.Kube}
		s := terminator.New(r.Host, terminator.Deps{Cluster: r.Kube, Kube: lists, Logger: zerolog.Nop()})
		r.Settle(s, 15*time.Second)
		goes("busy")
		r.Kube.Put(plannertest.Pod("a", plannertest.On("busy")))
		r.Settle(s, 5*time.Second)
		if n := r.Kube.Called("evict default/a"); n == 0 {
			t.Error("its pod is not evicted within 5 s")
		}
		lists.well.Store(true)
		r.Settle(s, 70*time.Second)
		if n := len(r.Entries(ledger.KindNodeDrained)); n != 71 {
			t.Errorf("%d of 71 nodes are drained once lists are answered", n)
		}
	})
}
