package terminator_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/kube"
	"millwright/services/terminator"
)

// labelled is an API server with a webhook that keeps a label of Nodes as a platform team wants it.
type labelled struct{ *hosttest.Kube }

func (l labelled) PatchNode(ctx context.Context, name string, p kube.Patch) (*corev1.Node, error) {
	n, err := l.Kube.PatchNode(ctx, name, p)
	if err != nil {
		return n, err
	}
	n = l.Kube.GetNode(name).DeepCopy()
	n.Labels[corev1.LabelNodeExcludeBalancers] = "true"
	l.Kube.Put(n)
	return n, nil
}

// A node whose label of load balancers another keeps at "true", which excludes it as well, is drained.
func TestALabelThatAnotherKeepsHoldsUpNoDrain(t *testing.T) {
	run(t, ledger.ModeActive, time.Minute, func(r *hosttest.Rig, _ *terminator.Service) {
		r.Kube.Put(bound("a"))
		s := terminator.New(r.Host, terminator.Deps{Cluster: r.Kube, Kube: labelled{r.Kube}, Logger: zerolog.Nop()})
		r.Settle(s, 10*time.Minute)
		if !drained(r) {
			t.Errorf("ten minutes after the deadline of one: tainted %t, evictions %d, %d patches of the Node", kube.IsDisrupted(r.Kube.GetNode("n")), r.Kube.Called("evict default/a"), r.Kube.Called("patch n"))
		}
	})
}
