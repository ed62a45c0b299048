package terminator_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/terminator"
)

// A Node that cannot be tainted (a webhook denies it) evicts nothing, and holds up no other node's pods.
func TestANodeThatCannotBeTaintedHoldsUpNoOther(t *testing.T) {
	hosttest.Run(t, ledger.ServiceTerminator, ledger.ModeActive, func(r *hosttest.Rig) {
		s := newService(r)
		begin := func(node string) {
			r.AddNode(node, "general")
			claim := r.Kube.GetClaim(node + "-claim")
			claim.DeletionTimestamp = &metav1.Time{Time: r.Now()}
			r.Kube.Put(claim)
			rec := r.Append(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: karpv1.DisruptionReasonUnderutilized,
				Candidates: []ledger.Candidate{{Claim: claim.Name, ClaimUID: claim.UID, Node: node, NodePool: "general"}}})
			r.Append(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(r.Host.LogID(), rec.Seq)})
		}
		r.Kube.Fail["patch large"] = errors.New("admission webhook \"x\" denied the request")
		r.Kube.Put(plannertest.Pod("big", plannertest.On("large"), plannertest.Requests("cpu", "4")))
		r.Kube.Put(plannertest.Pod("tiny", plannertest.On("small"), plannertest.Requests("cpu", "100m")))
		begin("large")
		begin("small")
		r.Settle(s, 10*time.Minute)
		if r.Kube.GetPod("default/tiny") != nil {
			t.Errorf("after ten minutes the small pod of another node has been asked to go %d times", r.Kube.Called("evict default/tiny"))
		}
	})
}

// Pods without requests (BestEffort) go after the larger ones, and not never.
func TestPodsWithoutRequestsAreEvictedToo(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		byCommand(r)
		noRequests := func(p *corev1.Pod) {
			for i := range p.Spec.Containers {
				p.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
			}
		}
		r.Kube.Put(bound("big", plannertest.Requests("cpu", "1")), bound("none", noRequests))
		r.Settle(s, 10*time.Minute)
		if !drained(r) {
			t.Errorf("after ten minutes: the pod without requests has been asked to go %d times; events %q", r.Kube.Called("evict default/none"), r.Events)
		}
	})
}
