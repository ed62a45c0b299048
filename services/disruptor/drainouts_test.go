package disruptor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/disruptor"
	"millwright/services/internal/host/hosttest"

	"github.com/rs/zerolog"
)

// drains has two nodes whose only pods are protected: that of "empty" would fit on "full", not the other way.
func drains(t *testing.T, mode ledger.Mode, test func(r *hosttest.Rig, s *disruptor.Service)) {
	t.Helper()
	run(t, mode, func(r *hosttest.Rig, s *disruptor.Service) {
		protected := plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")
		r.See(plannertest.Pool("general"))
		r.AddNode("full", "general")
		r.Kube.Put(plannertest.Policy("drain", `{drainOut: {nodes: 100%}}`), plannertest.Pod("job", plannertest.On("empty"), plannertest.Requests("cpu", "500m"), protected),
			plannertest.Pod("db", plannertest.On("full"), plannertest.Requests("cpu", "3"), protected, plannertest.Selector(corev1.LabelHostname, "full")))
		test(r, s)
	})
}

func taintedToDrain(r *hosttest.Rig, node string) bool {
	return slices.ContainsFunc(r.Kube.GetNode(node).Spec.Taints, planner.IsDrainOut)
}

// A node that only protected pods keep is tainted, and goes as an empty one when they have ended, with the
// taint on it until then. People are told.
func TestANodeDrainsOut(t *testing.T) {
	drains(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Settle(s, 15*time.Second)
		started := r.Entries(ledger.KindDrainOutStarted)
		if len(started) != 1 || !taintedToDrain(r, "empty") || taintedToDrain(r, "full") {
			t.Fatalf("records %v, taints %v and %v", r.Kinds(), r.Kube.GetNode("empty").Spec.Taints, r.Kube.GetNode("full").Spec.Taints)
		}
		const event = `Node/empty DrainingOut: Node is to run empty by itself, as DisruptionPolicy "drain" wants: nothing but these pods keeps it: default/job (do-not-disrupt)`
		if !slices.Contains(r.Events, event) {
			t.Errorf("no event %q in %q", event, r.Events)
		}
		if got, err := r.Kube.GetPolicy(t.Context(), "drain"); err != nil || got.Status.DrainingOut != 1 {
			t.Errorf("the policy's status says %+v, %v", got.Status, err)
		}
		r.Kube.Remove(r.Kube.GetPod("default/job"))
		r.Settle(s, 5*time.Second)
		commands := r.Entries(ledger.KindCommandStarted)
		if len(commands) != 1 || commands[0].Payload.(*ledger.CommandStarted).Reason != karpv1.DisruptionReasonEmpty {
			t.Fatalf("records %v, want the empty node to go", r.Kinds())
		}
		if n := len(r.Entries(ledger.KindDrainOutEnded)); n > 0 || !taintedToDrain(r, "empty") {
			t.Errorf("it ended %d times before the node went", n)
		}
	})
}

// Whatever ends it takes the taint back, once, and a new leader takes back what the last one could not.
func TestADrainOutIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(r *hosttest.Rig)
		want string
	}{
		"on a stop":          {func(r *hosttest.Rig) { r.Stop(ledger.StopVoluntary) }, "stopped (voluntary) by test: trial"},
		"on a complete stop": {func(r *hosttest.Rig) { r.Stop(ledger.StopAll) }, "stopped (all) by test: trial"},
		"without the policy": {func(r *hosttest.Rig) { r.Gone(plannertest.Policy("drain", "{}")) }, "no DisruptionPolicy wants it any more"},
		"while it is paused": {func(r *hosttest.Rig) {
			r.Kube.Put(plannertest.Policy("drain", `{drainOut: {}, pause: {until: "2100-01-01T00:00:00Z"}}`))
		}, "pauses disruption until"},
		"when its pods may go": {func(r *hosttest.Rig) { r.Kube.Put(plannertest.Pod("other", plannertest.On("empty"))) }, "pod default/other is on it, which does not hold it"},
		"when room is needed": {func(r *hosttest.Rig) {
			r.Kube.Put(plannertest.Pod("more", plannertest.On("full"), plannertest.Requests("cpu", "800m"), plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
		}, "its pods would not fit on the nodes that stay"},
	} {
		t.Run(name, func(t *testing.T) {
			drains(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
				r.Settle(s, 5*time.Second)
				if !taintedToDrain(r, "empty") {
					t.Fatal("the node was not tainted")
				}
				r.Kube.Fail["patch empty"] = errors.New("api server away")
				c.end(r)
				r.Settle(s, 15*time.Second)
				ended := r.Entries(ledger.KindDrainOutEnded)
				if len(ended) != 1 || !strings.Contains(ended[0].Payload.(*ledger.DrainOutEnded).Nodes[0].Reason, c.want) {
					t.Fatalf("records %v, want one end: %q", r.Kinds(), c.want)
				}
				delete(r.Kube.Fail, "patch empty")
				successor := disruptor.New(r.Host, disruptor.Deps{Kube: r.Kube, Logger: zerolog.Nop()})
				r.Settle(successor, 15*time.Second)
				if taintedToDrain(r, "empty") {
					t.Error("the taint was left")
				}
				if n := len(r.Entries(ledger.KindDrainOutStarted)); n != 1 {
					t.Errorf("it began %d times", n)
				}
			})
		})
	}
}

// A new leader taints what was recorded and not tainted.
func TestANewLeaderTaintsWhatDrainsOut(t *testing.T) {
	drains(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Fail["patch empty"] = errors.New("api server away")
		r.Settle(s, 5*time.Second)
		if n := len(r.Entries(ledger.KindDrainOutStarted)); n != 1 || taintedToDrain(r, "empty") {
			t.Fatalf("%d records; tainted: %t", n, taintedToDrain(r, "empty"))
		}
		clear(r.Kube.Fail)
		r.Settle(disruptor.New(r.Host, disruptor.Deps{Kube: r.Kube, Logger: zerolog.Nop()}), 5*time.Second)
		if n := len(r.Entries(ledger.KindDrainOutStarted)); n != 1 || !taintedToDrain(r, "empty") {
			t.Errorf("%d records; tainted: %t", n, taintedToDrain(r, "empty"))
		}
	})
}

// A taint of which nothing is recorded, such as one that an older program has left, is taken back; other
// taints stay.
func TestATaintThatNothingAsksForIsTakenBack(t *testing.T) {
	drains(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Gone(plannertest.Policy("drain", "{}"))
		full := r.Kube.GetNode("full")
		full.Spec.Taints = []corev1.Taint{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "millwright.sh/drain-out", Effect: corev1.TaintEffectPreferNoSchedule}}
		r.Kube.Put(full)
		r.Settle(s, 5*time.Second)
		if taints := r.Kube.GetNode("full").Spec.Taints; len(taints) != 1 || taints[0].Key != "team" {
			t.Errorf("the node has %v", taints)
		}
	})
}

// In shadow mode it is said once and nothing is done.
func TestNothingDrainsOutInShadowMode(t *testing.T) {
	drains(t, ledger.ModeShadow, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Settle(s, 30*time.Second)
		if n := len(r.Entries(ledger.KindDrainOutStarted)); n != 1 || taintedToDrain(r, "empty") {
			t.Errorf("%d records; tainted: %t", n, taintedToDrain(r, "empty"))
		}
	})
}
