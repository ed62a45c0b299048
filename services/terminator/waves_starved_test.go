package terminator_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/kube/kubetest"
)

// Large pods whose budget allows no eviction hold up no smaller ones, of other owners and on other nodes, for
// longer than waveMax.
func TestBlockedLargePodsHoldUpNoSmallerOnes(t *testing.T) {
	for name, blocked := range map[string]int{"one": 1, "four": 4, "twelve": 12} {
		t.Run(name, func(t *testing.T) {
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
				// A pod of a Workflow takes its hour to end, and nothing comes in its place.
				r.Kube.Put(plannertest.Pod("step", plannertest.On("small"), plannertest.OwnedBy("argoproj.io/v1alpha1", "Workflow", "w"),
					plannertest.Deleting(r.Now().Add(time.Hour)), func(p *corev1.Pod) { h := int64(3600); p.Spec.TerminationGracePeriodSeconds = &h }))
				for i := range blocked {
					node := fmt.Sprintf("n%d", i)
					pod := fmt.Sprintf("big-%d", i)
					r.Kube.Fail["evict default/"+pod] = kubetest.EvictionForbidden()
					r.Kube.Put(plannertest.Pod(pod, plannertest.On(node), plannertest.Requests("cpu", "4")))
					begin(node)
					r.Settle(s, 7*time.Second/2)
				}
				r.Kube.Put(plannertest.Pod("tiny", plannertest.On("small"), plannertest.Requests("cpu", "100m")))
				begin("small")
				r.Settle(s, 10*time.Minute)
				if r.Kube.GetPod("default/tiny") != nil {
					t.Errorf("after ten minutes the small pod has been asked to go %d times", r.Kube.Called("evict default/tiny"))
				}
			})
		})
	}
}
