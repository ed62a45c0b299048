package terminator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/kube"
	"millwright/services/internal/kube/kubetest"
	"millwright/services/internal/service"
	"millwright/services/terminator"
)

// run has one node with a claim that is being deleted; deadline zero is none.
func run(t *testing.T, mode ledger.Mode, deadline time.Duration, test func(r *hosttest.Rig, s *terminator.Service)) {
	t.Helper()
	hosttest.Run(t, ledger.ServiceTerminator, mode, func(r *hosttest.Rig) {
		r.AddNode("n", "general")
		claim := r.Kube.GetClaim("n-claim")
		claim.DeletionTimestamp = &metav1.Time{Time: r.Now()}
		if deadline > 0 {
			claim.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: r.Now().Add(deadline).Format(time.RFC3339)}
		}
		r.Kube.Put(claim)
		test(r, newService(r))
	})
}

func newService(r *hosttest.Rig) *terminator.Service {
	return terminator.New(r.Host, terminator.Deps{Cluster: r.Kube, Kube: r.Kube, Logger: zerolog.Nop()})
}

func bound(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	return plannertest.Pod(name, append([]func(*corev1.Pod){plannertest.On("n")}, options...)...)
}

func drained(r *hosttest.Rig) bool { return len(r.Entries(ledger.KindNodeDrained)) > 0 }

func conditionOf(r *hosttest.Rig, kind string) string {
	c := condition.Get(r.Kube.GetClaim("n-claim").Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

func TestADrainFromStartToEnd(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("a"), bound("b"), plannertest.DaemonPod("d", "n"))
		r.Settle(s, 10*time.Second)
		kinds := slices.DeleteFunc(r.Kinds(), func(k ledger.Kind) bool { return k < ledger.KindDrainStarted })
		want := []ledger.Kind{ledger.KindDrainStarted, ledger.KindDrainTierStarted, ledger.KindDrainTierStarted, ledger.KindNodeDrained}
		if !slices.Equal(kinds, want) {
			t.Fatalf("records %v, want %v: pods, then daemons, then drained", kinds, want)
		}
		node := r.Kube.GetNode("n")
		if !kube.IsDisrupted(node) || node.Labels[corev1.LabelNodeExcludeBalancers] != "karpenter" {
			t.Errorf("taints %v, labels %v", node.Spec.Taints, node.Labels)
		}
		if got := conditionOf(r, karpv1.ConditionTypeDrained) + " " + conditionOf(r, karpv1.ConditionTypeVolumesDetached); got != "True/Drained True/VolumesDetached" {
			t.Errorf("conditions %s", got)
		}
		for _, want := range []string{
			"Pod/a Evicted: Evicted pod: Forceful Termination",
			"NodeClaim/n-claim Drained: Status condition transitioned, Type: Drained, Status: Unknown -> True, Reason: Drained",
			"NodeClaim/n-claim VolumesDetached: Status condition transitioned, Type: VolumesDetached, Status: Unknown -> True, Reason: VolumesDetached",
		} {
			if !slices.Contains(r.Events, want) {
				t.Errorf("events %q lack %q", r.Events, want)
			}
		}
		r.Kube.Remove(r.Kube.GetNode("n"))
		r.Settle(s, time.Second)
		if len(r.Entries(ledger.KindDrainEnded)) != 1 {
			t.Error("the end of the drain is not recorded")
		}
	})
}

func TestATerminationTimestampThatCannotBeReadIsTold(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		claim := r.Kube.GetClaim("n-claim")
		claim.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: "tomorrow at noon"}
		r.Kube.Put(claim, bound("a", plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
		r.Settle(s, 5*time.Second)
		want := `NodeClaim/n-claim InvalidTerminationTimestamp: karpenter.sh/nodeclaim-termination-timestamp "tomorrow at noon" is no time as in RFC 3339: pods are waited for without a deadline`
		if !slices.Contains(r.Events, want) {
			t.Errorf("events %q", r.Events)
		}
	})
}

// In UTC it is the year 10000, which no record can hold: the drain goes on as without a deadline, and so do
// others.
func TestADeadlineOfTheYear10000IsNone(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		claim := r.Kube.GetClaim("n-claim")
		claim.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: "9999-12-31T23:59:59-01:00"}
		r.Kube.Put(claim, bound("a"))
		if _, err := r.Step(s); err != nil {
			t.Error(err)
		}
		r.Settle(s, 10*time.Second)
		if !drained(r) {
			t.Error("the node is not drained")
		}
	})
}

// The rules: lifecycle §8.
func TestNothingIsEvictedBeforeTheTaint(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("a"))
		r.Kube.Fail["patch n"] = errors.New("api server away")
		r.Settle(s, 5*time.Second)
		if r.Kube.Called("evict default/a") > 0 || drained(r) {
			t.Errorf("calls %q", r.Kube.Calls)
		}
	})
}

// A webhook of admission that has died, and that the API server does without after the 10 s that are the
// default of timeoutSeconds, holds up each write for as long: nodes drain slowly, but they do. So they do
// behind one that may take 30 s, the most there is.
func TestANodeDrainsThoughEachWriteTakesLong(t *testing.T) {
	for _, slow := range []time.Duration{10 * time.Second, 25 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
				r.Kube.Put(bound("a"), plannertest.DaemonPod("d", "n"))
				r.Kube.Slow = slow + time.Second
				r.Settle(s, 5*time.Minute)
				if !drained(r) || conditionOf(r, karpv1.ConditionTypeDrained) != "True/Drained" {
					t.Errorf("after 5 minutes the node has the taints %v and its NodeClaim the condition %s; calls %q",
						r.Kube.GetNode("n").Spec.Taints, conditionOf(r, karpv1.ConditionTypeDrained), r.Kube.Calls)
				}
			})
		})
	}
}

// late is a cache in which nothing changes any more, and an API server that counts reads of Nodes.
type late struct {
	*hosttest.Kube
	nodes  []*corev1.Node
	claims []*karpv1.NodeClaim
	reads  int
}

func (l *late) NodesByProviderID(string) []*corev1.Node                  { return l.nodes }
func (l *late) NodeClaimsByProviderID(string) []*karpv1.NodeClaim        { return l.claims }
func (l *late) DeletingNodes() []*corev1.Node                            { return deleting(l.nodes) }
func (l *late) DeletingNodeClaims() []*karpv1.NodeClaim                  { return deleting(l.claims) }
func (l *late) VolumeAttachmentsOf(string) []*storagev1.VolumeAttachment { return nil }

func deleting[T metav1.Object](list []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return o.GetDeletionTimestamp() == nil })
}

func (l *late) Node(ctx context.Context, name string) (*corev1.Node, error) {
	l.reads++
	return l.Kube.Node(ctx, name)
}

func TestALateCacheIsNoReasonToWriteAgainAndAgain(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, _ *terminator.Service) {
		r.Kube.Put(bound("a"))
		l := &late{Kube: r.Kube, nodes: r.Kube.Nodes(), claims: r.Kube.NodeClaims()}
		r.Settle(terminator.New(r.Host, terminator.Deps{Cluster: l, Kube: l, Logger: zerolog.Nop()}), 9*time.Second)
		if !kube.IsDisrupted(r.Kube.GetNode("n")) || conditionOf(r, karpv1.ConditionTypeDrained) != "Unknown/Draining" {
			t.Error("nothing was written")
		}
		if writes := r.Kube.Called("condition n-claim"); l.reads != 2 || writes != 2 {
			t.Errorf("%d reads of the Node and %d writes of the condition within 9 s, want 2 of each", l.reads, writes)
		}
	})
}

// The rules: lifecycle §8.3.
func TestABudgetHoldsTheDrain(t *testing.T) {
	cases := map[string]struct {
		err   error
		event string
	}{
		"that forbids the eviction":    {kubetest.EvictionForbidden(), "Failed to drain node, evicting pod violates a PDB (Pod=default/a)"},
		"of more than one for the pod": {kubetest.ManyBudgets(), "Failed to drain node, eviction does not support multiple PDBs (Pod=default/a)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
				r.Kube.Put(bound("a"))
				r.Kube.Fail["evict default/a"] = c.err
				r.Settle(s, time.Minute)
				if drained(r) {
					t.Error("the node counts as drained")
				}
				if n := r.Kube.Called("evict default/a"); n < 5 || n > 20 {
					t.Errorf("%d attempts in a minute: the backoff is from 100 ms to 10 s", n)
				}
				if !slices.Contains(r.Events, "Node/n FailedDraining: "+c.event) {
					t.Errorf("events %q", r.Events)
				}
				delete(r.Kube.Fail, "evict default/a")
				r.Settle(s, 15*time.Second)
				if !drained(r) {
					t.Error("the drain does not go on when the budget allows it")
				}
			})
		})
	}
}

func TestAPodThatIsGoneOrAnotherIsNotEvicted(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		ghost := bound("ghost")
		r.See(ghost) // in the World, not in the API server
		r.Settle(s, 3*time.Second)
		if n := r.Kube.Called("evict default/ghost"); n != 1 {
			t.Errorf("%d evictions of a pod that does not exist, want 1", n)
		}
	})
}

// The rules: lifecycle §8.1.
func TestAProtectedPodIsWaitedForAndNeverEvicted(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("keep", plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
		r.Settle(s, time.Minute)
		if drained(r) || r.Kube.Called("evict default/keep") > 0 {
			t.Errorf("calls %q", r.Kube.Calls)
		}
		if !slices.Contains(r.Events, "Node/n FailedDraining: Failed to drain node, 1 pods are waiting to be evicted") {
			t.Errorf("events %q", r.Events)
		}
	})
}

// The rules: lifecycle §8.4.
func TestTheDeadlineDeletesPods(t *testing.T) {
	run(t, ledger.ModeActive, time.Minute, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("keep", plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
		r.Settle(s, 29*time.Second)
		if n := len(deletes(r)); n > 0 {
			t.Fatalf("deleted though the grace period of 30 s still fits before the deadline: %q", r.Kube.Calls)
		}
		r.Settle(s, 10*time.Second)
		list := deletes(r)
		if len(list) != 1 || !strings.HasSuffix(list[0], "] default/keep") {
			t.Fatalf("deletions %q", list)
		}
		var grace int
		if _, err := fmt.Sscanf(list[0], "delete[%d]", &grace); err != nil || grace < 25 || grace > 30 {
			t.Errorf("grace %d of the 30 s left", grace)
		}
		if !slices.ContainsFunc(r.Events, func(e string) bool {
			return strings.HasPrefix(e, "Pod/keep Disrupted: Deleting the pod to accommodate")
		}) {
			t.Errorf("events %q", r.Events)
		}
		if !slices.ContainsFunc(r.Events, func(e string) bool { return strings.HasPrefix(e, "NodeClaim/n-claim TerminationGracePeriodExpiring") }) {
			t.Errorf("events %q", r.Events)
		}
	})
}

func deletes(r *hosttest.Rig) (list []string) {
	for _, c := range r.Kube.Calls {
		if strings.HasPrefix(c, "delete[") {
			list = append(list, c)
		}
	}
	return list
}

// The rules: lifecycle §8.5.
func TestVolumesAreWaitedForUntilTheDeadline(t *testing.T) {
	volume := "pv-1"
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va", UID: "va"},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
	run(t, ledger.ModeActive, time.Minute, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(attachment)
		r.Settle(s, 50*time.Second)
		if drained(r) {
			t.Fatal("drained with a volume attached")
		}
		if got := conditionOf(r, karpv1.ConditionTypeDrained) + " " + conditionOf(r, karpv1.ConditionTypeVolumesDetached); got != "True/Drained Unknown/AwaitingVolumeDetachment" {
			t.Errorf("conditions %s", got)
		}
		if !slices.Contains(r.Events, "Node/n AwaitingVolumeDetachment: Awaiting deletion of bound volumeattachments (va)") {
			t.Errorf("events %q", r.Events)
		}
		r.Settle(s, 20*time.Second)
		list := r.Entries(ledger.KindNodeDrained)
		if len(list) != 1 || list[0].Payload.(*ledger.NodeDrained).VolumesDetached {
			t.Fatalf("after the deadline: %+v", list)
		}
		if got := conditionOf(r, karpv1.ConditionTypeVolumesDetached); got != "False/TerminationGracePeriodElapsed" {
			t.Errorf("condition %s", got)
		}
	})
}

func TestAPodTheWorldDoesNotKnowHoldsTheNode(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Blind = true
		r.Kube.Put(bound("late"))
		r.Settle(s, 10*time.Second)
		if drained(r) {
			t.Fatal("drained although the API server lists a pod")
		}
		r.Kube.Blind = false
		r.Kube.Put(bound("late"))
		r.Settle(s, 10*time.Second)
		if !drained(r) {
			t.Error("not drained after the pod went")
		}
	})
}

// A pod may be too large to be published, or what is in it cannot be read: the World never has it.
func TestAPodTheWorldNeverKnowsIsEvicted(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Blind = true
		r.Kube.Put(bound("huge"))
		r.Kube.Blind = false
		r.Settle(s, 40*time.Second)
		if !drained(r) || r.Kube.Called("evict default/huge") != 1 {
			t.Fatalf("drained %t, calls %q", drained(r), r.Kube.Calls)
		}
		tiers := r.Entries(ledger.KindDrainTierStarted)
		if len(tiers) != 1 || len(tiers[0].Payload.(*ledger.DrainTierStarted).Evict) != 1 {
			t.Errorf("tiers on record: %+v", tiers)
		}
		if !slices.Contains(r.Events, "Node/n FailedDraining: Failed to drain node, 1 pods are waiting to be evicted") {
			t.Errorf("events %q", r.Events)
		}
	})
}

// A webhook that refuses one eviction, or hangs, holds up neither the others nor what the deadline demands.
func TestARefusedEvictionHoldsUpNoOther(t *testing.T) {
	run(t, ledger.ModeActive, 2*time.Minute, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Blind = true // the World never knows the pods
		r.Kube.Put(bound("a"), bound("b"))
		r.Kube.Blind = false
		r.Kube.Fail["evict default/a"] = errors.New("denied by policy")
		r.Settle(s, 40*time.Second)
		if r.Kube.Called("evict default/b") != 1 {
			t.Errorf("b was not evicted: calls %q", r.Kube.Calls)
		}
		r.Settle(s, 2*time.Minute)
		if !slices.ContainsFunc(r.Kube.Calls, func(c string) bool { return strings.HasPrefix(c, "delete[") && strings.HasSuffix(c, " default/a") }) {
			t.Errorf("a was not deleted at the deadline: calls %q", r.Kube.Calls)
		}
	})
}

func TestPodsThatStayAreNamedInTheRecord(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(plannertest.DaemonPod("agent", "n", plannertest.Toleration(karpv1.DisruptedTaintKey)))
		r.Settle(s, 10*time.Second)
		list := r.Entries(ledger.KindNodeDrained)
		if len(list) != 1 {
			t.Fatalf("records %v", r.Kinds())
		}
		if pods := list[0].Payload.(*ledger.NodeDrained).Pods; len(pods) != 1 || pods[0].Name != "agent" {
			t.Errorf("pods listed directly before: %+v", pods)
		}
		if r.Kube.Called("evict default/agent") > 0 {
			t.Error("a pod that tolerates the taint was evicted")
		}
	})
}

func TestWithoutTheBusPodsComeFromTheAPIServer(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Settle(s, time.Second)
		r.Kube.Blind = true
		r.Kube.Put(bound("a"))
		for range 600 { // no heartbeats
			_, _ = r.Step(s)
			time.Sleep(100 * time.Millisecond)
		}
		if r.Kube.Called("evict default/a") == 0 || !drained(r) {
			t.Errorf("evictions %d, drained %v", r.Kube.Called("evict default/a"), drained(r))
		}
	})
}

// EC2 has given the node's address, and so its name, to another instance, which goes too before the
// terminator, which was away, has recorded that the first drain is over.
func TestADrainIsNotThatOfANodeThatHadTheNameBefore(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Settle(s, 10*time.Second)
		if !drained(r) {
			t.Fatal("not drained")
		}
		r.Kube.Remove(r.Kube.GetNode("n"), r.Kube.GetClaim("n-claim"))
		r.AddNode("n", "general")
		claim := r.Kube.GetClaim("n-claim")
		claim.UID, claim.DeletionTimestamp = "another", &metav1.Time{Time: r.Now()}
		r.Kube.Put(claim, bound("a"))
		r.Settle(newService(r), 15*time.Second)
		started, ended := r.Entries(ledger.KindDrainStarted), r.Entries(ledger.KindDrainEnded)
		if r.Kube.Called("evict default/a") != 1 || len(started) != 2 || len(ended) != 1 || len(r.Entries(ledger.KindNodeDrained)) != 2 {
			t.Errorf("%d evictions, %d drains began and %d ended, %d nodes drained", r.Kube.Called("evict default/a"), len(started), len(ended),
				len(r.Entries(ledger.KindNodeDrained)))
		}
	})
}

func TestADrainIsResumedFromTheLog(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("a"))
		r.Kube.Linger = true
		r.Settle(s, 3*time.Second)
		before := len(r.Kinds())
		r.Kube.Remove(bound("a"))
		r.Settle(newService(r), 8*time.Second)
		if !drained(r) {
			t.Error("the successor did not finish the drain")
		}
		if after := len(r.Kinds()); after != before+1 {
			t.Errorf("the successor added %d records, want NodeDrained only", after-before)
		}
	})
}

func TestNodesThatAreNotOursAreLeftAlone(t *testing.T) {
	hosttest.Run(t, ledger.ServiceTerminator, ledger.ModeActive, func(r *hosttest.Rig) {
		foreign := plannertest.Node("foreign")
		foreign.DeletionTimestamp = &metav1.Time{Time: r.Now()}
		foreign.Finalizers = []string{"example.com/other"}
		r.Kube.Put(foreign, plannertest.Node("idle"))
		r.Settle(newService(r), 5*time.Second)
		if len(r.Kinds()) > 0 || len(r.Kube.Calls) > 0 {
			t.Errorf("records %v, calls %q", r.Kinds(), r.Kube.Calls)
		}
	})
}

// The rules: lifecycle §1.
func TestNodesOfAnotherProviderAreLeftAlone(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		claim := r.Kube.GetClaim("n-claim")
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "example.com", Kind: "OtherNodeClass", Name: "default"}
		unlabelled := plannertest.Node("unlabelled") // and without a NodeClaim
		unlabelled.DeletionTimestamp, unlabelled.Finalizers = &metav1.Time{Time: r.Now()}, []string{karpv1.TerminationFinalizer}
		ours := unlabelled.DeepCopy()
		ours.Name, ours.UID, ours.Spec.ProviderID = "ours", "ours", "aws:///zone-a/i-0000000000000ours"
		ours.Labels = map[string]string{awsv1.LabelEC2NodeClass: "default"}
		r.Kube.Put(claim, unlabelled, ours, bound("a"), plannertest.Pod("b", plannertest.On("unlabelled")), plannertest.Pod("c", plannertest.On("ours")))
		r.Settle(s, 10*time.Second)
		for _, name := range []string{"n", "unlabelled"} {
			if kube.IsDisrupted(r.Kube.GetNode(name)) {
				t.Errorf("%s is tainted", name)
			}
		}
		if got := r.Kube.Called("evict default/a") + r.Kube.Called("evict default/b"); got > 0 || r.Kube.Called("evict default/c") == 0 {
			t.Errorf("calls %q", r.Kube.Calls)
		}
	})
}

// The rules: lifecycle §8.
func TestAnEmptyNodeIsWatchedForPodsThatArePlacedAlready(t *testing.T) {
	for _, c := range []struct {
		deadline, wait time.Duration
		drained        bool
	}{{0, 4 * time.Second, false}, {0, 8 * time.Second, true}, {3 * time.Second, 3 * time.Second, true}} {
		run(t, ledger.ModeActive, c.deadline, func(r *hosttest.Rig, s *terminator.Service) {
			r.Settle(s, c.wait)
			if drained(r) != c.drained {
				t.Errorf("%s after the taint with a deadline in %s: drained %v", c.wait, c.deadline, drained(r))
			}
		})
	}
}

// ahead is a host whose clock is.
type ahead struct {
	service.Host
	by time.Duration
}

func (a *ahead) Now() time.Time { return a.Host.Now().Add(a.by) }

func TestAnEmptyNodeEndsAlthoughTheClockWasSetBack(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, _ *terminator.Service) {
		host := &ahead{r.Host, 30 * 24 * time.Hour}
		s := terminator.New(host, terminator.Deps{Cluster: r.Kube, Kube: r.Kube, Logger: zerolog.Nop()})
		r.Settle(s, 2*time.Second)
		host.by = 0
		r.Settle(s, 10*time.Second)
		if !drained(r) {
			t.Error("it is watched until the clock shows again what it did")
		}
	})
}

func TestShadowDrainsNothing(t *testing.T) {
	run(t, ledger.ModeShadow, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("a"))
		r.Settle(s, 10*time.Second)
		if len(r.Kube.Calls) > 0 {
			t.Errorf("calls %q", r.Kube.Calls)
		}
		if list := r.Entries(ledger.KindDrainStarted); len(list) != 1 || list[0].Mode != ledger.ModeShadow {
			t.Errorf("records %v, want one shadow drain", r.Kinds())
		}
	})
}

// byCommand says in the log that a command took the node.
func byCommand(r *hosttest.Rig) {
	rec := r.Append(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: karpv1.DisruptionReasonEmpty,
		Candidates: []ledger.Candidate{{Claim: "n-claim", ClaimUID: r.Kube.GetClaim("n-claim").UID, Node: "n", NodePool: "general"}}})
	r.Append(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(r.Host.LogID(), rec.Seq)})
}

func TestAStopPausesDrains(t *testing.T) {
	cases := map[string]struct {
		level     ledger.Stop
		byCommand bool
		paused    bool
	}{
		"voluntary pauses what a command began":     {ledger.StopVoluntary, true, true},
		"voluntary leaves forceful drains going on": {ledger.StopVoluntary, false, false},
		"all pauses what a command began":           {ledger.StopAll, true, true},
		"all pauses forceful drains":                {ledger.StopAll, false, true},
	}
	for name, c := range cases {
		for _, deadline := range []time.Duration{0, 20 * time.Second} {
			t.Run(fmt.Sprintf("%s, deadline %s", name, deadline), func(t *testing.T) {
				run(t, ledger.ModeActive, deadline, func(r *hosttest.Rig, s *terminator.Service) {
					r.Kube.Put(bound("a"))
					if c.byCommand {
						byCommand(r)
					}
					r.Stop(c.level)
					r.Settle(s, 40*time.Second)
					if gone := r.Kube.GetPod("default/a") == nil; gone == c.paused || drained(r) == c.paused {
						t.Errorf("pod gone: %v, drained: %v; calls %q", gone, drained(r), r.Kube.Calls)
					}
					if !kube.IsDisrupted(r.Kube.GetNode("n")) {
						t.Error("the node is not tainted")
					}
					told := slices.ContainsFunc(r.Events, func(e string) bool { return strings.HasPrefix(e, "Node/n DrainPaused") })
					if told != c.paused {
						t.Errorf("events %q", r.Events)
					}
					r.Stop(ledger.StopNone)
					r.Settle(s, 15*time.Second)
					if r.Kube.GetPod("default/a") != nil || !drained(r) {
						t.Errorf("the drain did not go on after the stop; calls %q", r.Kube.Calls)
					}
				})
			})
		}
	}
}

// An API server that does not take the note holds evictions up for some attempts alone.
func TestEvictionsGoOnWithoutTheNote(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("a"))
		r.Kube.Fail["patch n"] = errors.New("api server away")
		r.Settle(s, 3*time.Second)
		delete(r.Kube.Fail, "patch n")
		r.Kube.Fail["condition n-claim"] = apierrors.NewServerTimeout(corev1.Resource("nodeclaims"), "patch", 1)
		r.LogAway(true)
		r.Settle(s, 60*time.Second)
		at := slices.Index(r.Kube.Calls, "evict default/a")
		if tries := strings.Count(strings.Join(r.Kube.Calls[:max(at, 0)], "\n"), "condition n-claim"); at < 0 || tries < 3 {
			t.Errorf("calls %q", r.Kube.Calls)
		}
	})
}

// The condition DisruptionReason is on a NodeClaim from when a command marks its node. If somebody else
// deletes it before the command is confirmed, it is not the command that empties the node. And the condition
// may come after the deletion.
func TestADrainIsACommandsOnlyIfTheCommandHadTheNodeClaimDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		confirmed, succeeded, late bool
		want                       string
	}{
		"not confirmed":                      {want: "Forceful Termination"},
		"confirmed":                          {confirmed: true, want: "Empty"},
		"succeeded":                          {confirmed: true, succeeded: true, want: "Empty"},
		"not confirmed, condition not there": {late: true, want: "Forceful Termination"},
		"confirmed, condition not there yet": {confirmed: true, late: true, want: "Empty"},
		"succeeded, condition not there yet": {confirmed: true, succeeded: true, late: true, want: "Empty"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
				claim := r.Kube.GetClaim("n-claim")
				if !c.late {
					claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: karpv1.ConditionTypeDisruptionReason, Status: metav1.ConditionTrue, Reason: "Empty"})
					r.Kube.Put(claim)
				}
				rec := r.Append(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: karpv1.DisruptionReasonEmpty,
					Candidates: []ledger.Candidate{{Claim: "n-claim", ClaimUID: claim.UID, Node: "n", NodePool: "general"}}})
				id := ledger.CommandID(r.Host.LogID(), rec.Seq)
				if c.confirmed {
					r.Append(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})
				}
				if c.succeeded {
					r.Append(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: id})
				}
				r.Settle(s, 2*time.Second)
				drains := r.Entries(ledger.KindDrainStarted)
				if len(drains) != 1 || drains[0].Payload.(*ledger.DrainStarted).Reason != c.want {
					t.Errorf("drains %v", drains)
				}
			})
		})
	}
}
