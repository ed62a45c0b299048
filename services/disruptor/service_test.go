package disruptor_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright/planner/condition"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/disruptor"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/kube"
)

// run has a pool whose nodes may be taken as soon as they are empty, and one empty node.
func run(t *testing.T, mode ledger.Mode, test func(r *hosttest.Rig, s *disruptor.Service)) {
	t.Helper()
	hosttest.Run(t, ledger.ServiceDisruptor, mode, func(r *hosttest.Rig) {
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general", whenEmpty))
		r.AddNode("empty", "general")
		test(r, disruptor.New(r.Host, disruptor.Deps{Kube: r.Kube, Logger: zerolog.Nop()}))
	})
}

// whenEmpty leaves nodes with pods alone.
func whenEmpty(p *karpv1.NodePool) {
	p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
}

func reasonOf(c *karpv1.NodeClaim) *metav1.Condition {
	return condition.Get(c.Status.Conditions, karpv1.ConditionTypeDisruptionReason)
}

// The rules: disruption §6.
func TestAnEmptyNodeGoes(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Settle(s, 5*time.Second)
		want := []ledger.Kind{ledger.KindCommandStarted, ledger.KindCommandConfirmed, ledger.KindCommandSucceeded}
		if got := r.Kinds()[2:]; !slices.Equal(got, want) {
			t.Fatalf("records %v, want %v", got, want)
		}
		if !kube.IsDisrupted(r.Kube.GetNode("empty")) {
			t.Error("the node is not tainted")
		}
		claim := r.Kube.GetClaim("empty-claim")
		if claim.DeletionTimestamp == nil {
			t.Error("the claim was not deleted")
		}
		if c := reasonOf(claim); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Empty" {
			t.Errorf("its condition DisruptionReason is %+v", c)
		}
		for _, e := range []string{"Node/empty DisruptionTerminating: Disrupting Node: Empty",
			"NodeClaim/empty-claim DisruptionTerminating: Disrupting NodeClaim: Empty",
			"NodeClaim/empty-claim DisruptionReason: Status condition transitioned, Type: DisruptionReason, Status: Unknown -> True, Reason: Empty, Message: Empty"} {
			if !slices.Contains(r.Events, e) {
				t.Errorf("no event %q in %q", e, r.Events)
			}
		}
	})
}

// The rules: disruption §6.
func TestNothingIsDeletedBeforeTheWorldShowsTheTaint(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Blind = true // the taint is set, but no observation of it comes
		r.Settle(s, 30*time.Second)
		if !kube.IsDisrupted(r.Kube.GetNode("empty")) {
			t.Error("the node is not tainted")
		}
		if n := r.Kube.Called("delete empty-claim"); n > 0 {
			t.Errorf("the claim was deleted %d times", n)
		}
		if len(r.Entries(ledger.KindCommandConfirmed)) > 0 {
			t.Error("the command was confirmed")
		}
	})
}

func TestAPodThatArrivesRollsTheCommandBack(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Fail["patch empty"] = errors.New("api server away") // holds the command before its taint
		r.Settle(s, time.Second)
		if len(r.Entries(ledger.KindCommandStarted)) != 1 {
			t.Fatal("no command was started")
		}
		r.Kube.Put(plannertest.Pod("late", plannertest.On("empty")))
		delete(r.Kube.Fail, "patch empty")
		r.Settle(s, 5*time.Second)
		if got := r.Entries(ledger.KindCommandRolledBack); len(got) != 1 {
			t.Fatalf("%d roll-backs, want 1", len(got))
		}
		if kube.IsDisrupted(r.Kube.GetNode("empty")) {
			t.Error("the taint was left")
		}
		if c := reasonOf(r.Kube.GetClaim("empty-claim")); c != nil {
			t.Errorf("the condition was left: %+v", c)
		}
		if n := r.Kube.Called("delete empty-claim"); n > 0 {
			t.Error("the claim was deleted")
		}
	})
}

// As behind a webhook of admission that has died: the API server does without it after the 10 s that are the
// default of timeoutSeconds, or after up to 30 s.
func TestAnEmptyNodeGoesThoughEachWriteTakesLong(t *testing.T) {
	for _, slow := range []time.Duration{10 * time.Second, 25 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
				r.Kube.Slow = slow + time.Second
				r.Settle(s, 3*time.Minute)
				if !kube.IsDisrupted(r.Kube.GetNode("empty")) || r.Kube.GetClaim("empty-claim").DeletionTimestamp == nil || len(r.Entries(ledger.KindCommandSucceeded)) != 1 {
					t.Errorf("the node has the taints %v; records %v, calls %q", r.Kube.GetNode("empty").Spec.Taints, r.Kinds(), r.Kube.Calls)
				}
			})
		})
	}
}

// A command of many nodes gets on although an effect ends before it has asked for the deletion of each.
func TestManyEmptyNodesGoThoughEachWriteTakesLong(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		const many = 12
		for i := range many - 1 {
			r.AddNode(fmt.Sprintf("empty%d", i), "general")
		}
		r.Kube.Slow = 11 * time.Second
		r.Settle(s, 10*time.Minute)
		if n := len(r.Kube.DeletingNodeClaims()); n != many || len(r.Entries(ledger.KindCommandStarted)) != 1 || len(r.Entries(ledger.KindCommandSucceeded)) != 1 {
			t.Errorf("%d of %d NodeClaims are deleted; records %v", n, many, r.Kinds())
		}
	})
}

// The rules: DESIGN §5.
func TestACommandIsResumedFromTheLog(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Fail["delete empty-claim"] = errors.New("api server away")
		r.Settle(s, 3*time.Second)
		if len(r.Entries(ledger.KindCommandConfirmed)) != 1 || len(r.Entries(ledger.KindCommandSucceeded)) != 0 {
			t.Fatalf("records %v", r.Kinds())
		}
		delete(r.Kube.Fail, "delete empty-claim")
		successor := disruptor.New(r.Host, disruptor.Deps{Kube: r.Kube, Logger: zerolog.Nop()})
		r.Settle(successor, 2*time.Second)
		if len(r.Entries(ledger.KindCommandSucceeded)) != 1 || len(r.Entries(ledger.KindCommandStarted)) != 1 {
			t.Errorf("records %v, want the one command to succeed", r.Kinds())
		}
	})
}

// A replacement that vanishes ends its command: the nodes it was to replace are free again, and it is not
// repeated forever.
func TestACommandWhoseReplacementVanishesIsRolledBack(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Put(plannertest.Pod("busy", plannertest.On("empty")))
		claim := r.Kube.GetClaim("empty-claim")
		rec := r.Append(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Underutilized", Method: "single",
			Candidates:   []ledger.Candidate{{Node: "empty", Claim: claim.Name, ClaimUID: claim.UID, NodePool: "general"}},
			Replacements: []ledger.PlannedClaim{{NodePool: "general", InstanceTypes: []string{"m5.large"}}}})
		id := ledger.CommandID(r.Host.LogID(), rec.Seq)
		r.Append(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})
		r.Settle(s, 5*time.Second)
		if len(r.Entries(ledger.KindCommandRolledBack)) > 0 || r.Kube.Called("delete empty-claim") > 0 || !kube.IsDisrupted(r.Kube.GetNode("empty")) {
			t.Fatalf("the command does not wait for its replacement: %v, %q", r.Kinds(), r.Kube.Calls)
		}
		r.Append(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: ledger.ClaimName(r.Host.LogID(), "general", rec.Seq, 0), Reason: "liveness"})
		r.Settle(s, 5*time.Second)
		if n := len(r.Entries(ledger.KindCommandAbandoned)); n != 1 {
			t.Fatalf("%d roll-backs, want 1: %v", n, r.Kinds())
		}
		if kube.IsDisrupted(r.Kube.GetNode("empty")) || reasonOf(r.Kube.GetClaim("empty-claim")) != nil {
			t.Error("the node is still marked")
		}
		if r.Kube.Called("delete empty-claim") > 0 {
			t.Error("its claim was deleted")
		}
	})
}

// A drifted node of a static NodePool goes once the node that replaces it is there.
func TestADriftedStaticNodeIsReplaced(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Put(plannertest.Pod("busy", plannertest.On("empty")))
		one := int64(1)
		r.See(plannertest.Pool("general", whenEmpty, func(p *karpv1.NodePool) { p.Spec.Replicas = &one }))
		claim := r.Kube.GetClaim("empty-claim")
		claim.Status.Conditions = append(claim.Status.Conditions, plannertest.True(karpv1.ConditionTypeDrifted, r.Now()))
		r.Kube.Put(claim)
		r.Settle(s, 5*time.Second)
		started := r.Entries(ledger.KindCommandStarted)
		if len(started) != 1 || len(r.Entries(ledger.KindCommandConfirmed)) != 1 {
			t.Fatalf("records %v", r.Kinds())
		}
		if !kube.IsDisrupted(r.Kube.GetNode("empty")) || r.Kube.Called("delete empty-claim") > 0 {
			t.Fatal("the node is not tainted, or goes before its replacement is there")
		}
		if c := reasonOf(r.Kube.GetClaim("empty-claim")); c == nil || c.Reason != "Drifted" {
			t.Errorf("its condition DisruptionReason is %+v", c)
		}
		name := ledger.ClaimName(r.Host.LogID(), "general", started[0].Seq, 0)
		r.Append(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: "claim-" + types.UID(name)})
		r.Append(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: "fresh"})
		r.Kube.Put(plannertest.Claim(name, "fresh", "general"), plannertest.Node("fresh", plannertest.InPool("general")))
		r.Settle(s, 5*time.Second)
		if len(r.Entries(ledger.KindCommandSucceeded)) != 1 || r.Kube.GetClaim("empty-claim").DeletionTimestamp == nil {
			t.Errorf("the drifted node did not go: %v, %q", r.Kinds(), r.Kube.Calls)
		}
		if r.Kube.GetClaim(name).DeletionTimestamp != nil || len(r.Entries(ledger.KindCommandStarted)) != 1 {
			t.Errorf("more goes than drifted: %v", r.Kinds())
		}
	})
}

func TestStaleMarksAreTakenBack(t *testing.T) {
	cases := map[string]struct {
		given func(r *hosttest.Rig, claim *karpv1.NodeClaim, node *corev1.Node)
		left  bool
	}{
		"of a node that nothing takes away": {given: func(*hosttest.Rig, *karpv1.NodeClaim, *corev1.Node) {}},
		"but not of a claim that is being deleted": {left: true, given: func(r *hosttest.Rig, c *karpv1.NodeClaim, _ *corev1.Node) {
			c.DeletionTimestamp = &metav1.Time{Time: r.Now()}
		}},
		"nor of a node that is being deleted": {left: true, given: func(r *hosttest.Rig, _ *karpv1.NodeClaim, n *corev1.Node) {
			n.DeletionTimestamp = &metav1.Time{Time: r.Now()}
		}},
		"nor of a node that drains": {left: true, given: func(r *hosttest.Rig, _ *karpv1.NodeClaim, n *corev1.Node) {
			r.Append(ledger.KindDrainStarted, &ledger.DrainStarted{Node: n.Name})
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
				node, claim := addMarkedNode(r), r.Kube.GetClaim("marked-claim")
				claim.Status.Conditions = append(claim.Status.Conditions, plannertest.True(karpv1.ConditionTypeDisruptionReason, r.Now()))
				c.given(r, claim, node)
				r.Kube.Put(claim, node)
				r.Settle(s, 2*time.Second)
				if left := kube.IsDisrupted(r.Kube.GetNode("marked")); left != c.left {
					t.Errorf("taint left: %v, want %v", left, c.left)
				}
				if left := reasonOf(r.Kube.GetClaim("marked-claim")) != nil; left != c.left {
					t.Errorf("condition left: %v, want %v", left, c.left)
				}
			})
		})
	}
}

// addMarkedNode makes a node with a pod and the taint of a command that nobody has recorded.
func addMarkedNode(r *hosttest.Rig) *corev1.Node {
	r.AddNode("marked", "general")
	r.Kube.Put(plannertest.Pod("busy", plannertest.On("marked")))
	node := r.Kube.GetNode("marked")
	node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedTaint())
	r.Kube.Put(node)
	return node
}

func TestTheLiveObjectDecidesAboutAStaleMark(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		addMarkedNode(r)
		r.Kube.Blind = true
		claim := r.Kube.GetClaim("marked-claim")
		claim.DeletionTimestamp = &metav1.Time{Time: r.Now()}
		r.Kube.Put(claim) // deleted, but the World does not know yet
		r.Settle(s, 2*time.Second)
		if !kube.IsDisrupted(r.Kube.GetNode("marked")) {
			t.Error("the taint of a claim that is being deleted was taken back")
		}
	})
}

// A deposed leader takes off the mark it saw, never that of a command its successor has started since.
func TestOnlyTheMarkThatWasSeenIsTakenOff(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		node := addMarkedNode(r)
		r.Kube.Blind = true
		node.Annotations = map[string]string{karpv1.RecordAnnotationKey: ledger.RecordAnnotation(r.Host.LogID(), 99)}
		r.Kube.Put(node) // marked anew, but the World does not show it yet
		r.Settle(s, 2*time.Second)
		if !kube.IsDisrupted(r.Kube.GetNode("marked")) {
			t.Fatal("the mark of a later command was taken off")
		}
	})
}

func TestAStopForbidsNewCommands(t *testing.T) {
	for _, level := range []ledger.Stop{ledger.StopVoluntary, ledger.StopAll} {
		run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
			r.Stop(level)
			r.Settle(s, 5*time.Second)
			if n := len(r.Entries(ledger.KindCommandStarted)); n != 0 {
				t.Errorf("%s: %d commands in spite of the stop", level, n)
			}
			r.Stop(ledger.StopNone)
			r.Settle(s, 5*time.Second)
			if n := len(r.Entries(ledger.KindCommandSucceeded)); n != 1 {
				t.Errorf("%s: %d commands after the stop", level, n)
			}
		})
	}
}

// stoppedIn stops a command that can't go on from the call that fails, and lets the call work again.
func stoppedIn(r *hosttest.Rig, s *disruptor.Service, call string) {
	r.Kube.Fail[call] = errors.New("api server away")
	r.Settle(s, 3*time.Second)
	r.Stop(ledger.StopVoluntary)
	delete(r.Kube.Fail, call)
	r.Settle(s, 5*time.Second)
}

func TestAStopRollsBackWhatHasTakenNothing(t *testing.T) {
	states := map[string]struct {
		call      string
		confirmed int
	}{"before the taint": {"patch empty", 0}, "after it was confirmed": {"delete empty-claim", 1}}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
				stoppedIn(r, s, state.call)
				if n := len(r.Entries(ledger.KindCommandConfirmed)); n != state.confirmed {
					t.Fatalf("%d confirmations, want %d", n, state.confirmed)
				}
				rolled := r.Entries(ledger.KindCommandRolledBack)
				if len(rolled) != 1 || len(r.Entries(ledger.KindCommandStarted)) != 1 {
					t.Fatalf("records %v, want one command that is rolled back", r.Kinds())
				}
				if why := rolled[0].Payload.(*ledger.CommandRolledBack).Reason; why != "stopped (voluntary) by test: trial" {
					t.Errorf("reason %q", why)
				}
				if kube.IsDisrupted(r.Kube.GetNode("empty")) || reasonOf(r.Kube.GetClaim("empty-claim")) != nil {
					t.Error("taint or condition was left")
				}
				if r.Kube.GetClaim("empty-claim").DeletionTimestamp != nil {
					t.Error("the claim was deleted")
				}
			})
		})
	}
}

func TestAStoppedCommandThatHasBegunPausesAndGoesOn(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.AddNode("empty2", "general")
		stoppedIn(r, s, "delete empty2-claim") // the first claim of the command is deleted, the second is not
		if r.Kube.GetClaim("empty-claim").DeletionTimestamp == nil || r.Kube.GetClaim("empty2-claim").DeletionTimestamp != nil {
			t.Fatalf("calls %q", r.Kube.Calls)
		}
		if n := len(r.Entries(ledger.KindCommandRolledBack, ledger.KindCommandSucceeded)); n != 0 {
			t.Errorf("records %v, want a command that waits", r.Kinds())
		}
		if !kube.IsDisrupted(r.Kube.GetNode("empty2")) {
			t.Error("the taint was taken back")
		}
		r.Stop(ledger.StopNone)
		r.Settle(s, 5*time.Second)
		if r.Kube.GetClaim("empty2-claim").DeletionTimestamp == nil || len(r.Entries(ledger.KindCommandSucceeded)) != 1 {
			t.Errorf("records %v, want the command to succeed after the stop", r.Kinds())
		}
	})
}

func TestShadowStartsOneCommandAndTouchesNothing(t *testing.T) {
	run(t, ledger.ModeShadow, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Settle(s, 20*time.Second)
		if list := r.Entries(ledger.KindCommandStarted); len(list) != 1 || list[0].Mode != ledger.ModeShadow {
			t.Errorf("commands %+v, want one in shadow", list)
		}
		if len(r.Kube.Calls) > 0 {
			t.Errorf("calls %q", r.Kube.Calls)
		}
	})
}

func TestABudgetHoldsInEveryInterleaving(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.See(plannertest.Pool("general", plannertest.Budgets(karpv1.Budget{Nodes: "1"})))
		for _, name := range []string{"n1", "n2", "n3"} {
			r.AddNode(name, "general")
		}
		r.Settle(s, 20*time.Second)
		deleted := 0
		for _, c := range r.Kube.NodeClaims() {
			if c.DeletionTimestamp != nil {
				deleted++
			}
		}
		if deleted != 1 {
			t.Errorf("%d nodes go at a time, the budget allows 1", deleted)
		}
	})
}

// A node with pods that fit elsewhere is marked, confirmed and deleted; its pods are not planned for a second
// time.
func TestANodeWhosePodsFitElsewhereGoes(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.See(plannertest.Pool("general", func(p *karpv1.NodePool) {
			for key, value := range map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand, corev1.LabelInstanceTypeStable: "m5.xlarge"} {
				p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
					karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
			}
		}))
		r.AddNode("other", "general")
		r.Kube.Put(plannertest.Pod("a", plannertest.On("empty"), plannertest.Requests("cpu", "1", "memory", "1Gi")),
			plannertest.Pod("b", plannertest.On("other"), plannertest.Requests("cpu", "1", "memory", "1Gi")))
		r.Settle(s, 5*time.Second)
		started := r.Entries(ledger.KindCommandMovesStarted)
		if len(started) != 1 || len(r.Entries(ledger.KindCommandConfirmed)) != 1 || len(r.Entries(ledger.KindCommandSucceeded)) != 1 {
			t.Fatalf("records %v", r.Kinds())
		}
		gone, kept := r.Kube.GetClaim("empty-claim"), r.Kube.GetClaim("other-claim")
		if (gone.DeletionTimestamp == nil) == (kept.DeletionTimestamp == nil) {
			t.Errorf("deleted: %v and %v, want one", gone.DeletionTimestamp, kept.DeletionTimestamp)
		}
	})
}

// A replacement that is there lets the old node go; one that is not wanted any more goes with its command.
func TestAReplacementAndItsCommand(t *testing.T) {
	for name, arrives := range map[string]bool{"goes through": false, "is given up, for a pod arrived": true} {
		t.Run(name, func(t *testing.T) {
			run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
				r.See(plannertest.Pool("general"))
				r.Kube.Put(plannertest.Pod("a", plannertest.On("empty"), plannertest.Requests("cpu", "1", "memory", "6Gi")))
				if arrives {
					r.Kube.Fail["patch empty"] = errors.New("api server away")
				}
				r.Settle(s, 2*time.Second)
				started := r.Entries(ledger.KindCommandMovesStarted)
				if len(started) != 1 {
					t.Fatalf("records %v", r.Kinds())
				}
				replacement := ledger.ClaimName(r.Host.LogID(), "general", started[0].Seq, 0)
				r.Append(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: replacement, UID: "claim-" + types.UID(replacement)})
				if arrives {
					r.See(plannertest.Pool("general", whenEmpty))
					r.Kube.Put(plannertest.Pod("late", plannertest.On("empty")))
					delete(r.Kube.Fail, "patch empty")
					r.Settle(s, 3*time.Second)
					if len(r.Entries(ledger.KindCommandAbandoned)) != 1 || kube.IsDisrupted(r.Kube.GetNode("empty")) {
						t.Errorf("not given up, or the taint was left: %v", r.Kinds())
					}
					return
				}
				if r.Kube.Called("delete empty-claim") > 0 {
					t.Fatal("the node goes before its replacement is there")
				}
				r.Append(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: replacement, Node: "fresh"})
				r.Settle(s, 3*time.Second)
				if len(r.Entries(ledger.KindCommandSucceeded)) != 1 || r.Kube.GetClaim("empty-claim").DeletionTimestamp == nil {
					t.Errorf("the node did not go: %v", r.Kinds())
				}
			})
		})
	}
}

// The status of a DisruptionPolicy says, once, what it selects and when it opens; and what of it can't be
// read.
func TestPoliciesAreToldTheirStatus(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		p := plannertest.Policy("nights", `{windows: [{action: Allow, schedule: "0 2 * * *", duration: 2h, timeZone: Europe/Berlin}]}`)
		p.Generation = 1
		r.Kube.Fail["status nights"] = errors.New("api server away")
		r.Kube.Put(p)
		r.Settle(s, 5*time.Second)
		delete(r.Kube.Fail, "status nights")
		r.Settle(s, time.Minute)
		got, err := r.Kube.GetPolicy(t.Context(), "nights")
		if err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(got.Status.Conditions, "Ready"); c == nil || c.Status != metav1.ConditionTrue || got.Status.NodePoolCount != 1 || len(got.Status.NextWindows) != 10 {
			t.Fatalf("status is %+v", got.Status)
		}
		if len(r.Entries(ledger.KindCommandStarted)) > 0 {
			t.Error("a command was started outside of the window")
		}
		calls := r.Kube.Called("status nights")
		r.Settle(s, time.Minute)
		if now := r.Kube.Called("status nights"); now != calls {
			t.Errorf("the status was written %d times more although nothing changed", now-calls)
		}
		got.Spec.Windows[0].TimeZone, got.Generation = "Europe/Atlantis", 2
		r.Kube.Put(got)
		r.Settle(s, 30*time.Second)
		got, _ = r.Kube.GetPolicy(t.Context(), "nights")
		c := meta.FindStatusCondition(got.Status.Conditions, "Ready")
		if c.Status != metav1.ConditionFalse || c.Message != `spec.windows[0].timeZone: time zone "Europe/Atlantis" is not in the IANA database` || c.ObservedGeneration != 2 {
			t.Errorf("condition is %+v", c)
		}
	})
}

// A command that a policy wants approved waits, is carried out once it is, and is shown to whoever looks at
// the node.
func TestACommandWaitsForApproval(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Put(plannertest.Policy("ask", `{approval: {}}`))
		r.Settle(s, 30*time.Second)
		proposed := r.Entries(ledger.KindCommandProposed)
		if len(proposed) != 1 || len(r.Entries(ledger.KindCommandStarted)) > 0 || kube.IsDisrupted(r.Kube.GetNode("empty")) {
			t.Fatalf("records %v, want one proposal and no taint", r.Kinds())
		}
		id := ledger.CommandID(r.Host.LogID(), proposed[0].Seq)
		if !slices.ContainsFunc(r.Events, func(e string) bool {
			return strings.HasPrefix(e, "Node/empty DisruptionProposed: Command "+id+" (Empty, saves ")
		}) {
			t.Errorf("no event tells of it: %q", r.Events)
		}
		r.Append(ledger.KindProposalAnswered, &ledger.ProposalAnswered{ID: id, Approved: true, By: "ann", Why: "fine"})
		r.Settle(s, 10*time.Second)
		started := r.Entries(ledger.KindCommandStarted)
		if len(started) != 1 || started[0].Payload.(*ledger.CommandStarted).Proposal != id || started[0].Causation != proposed[0].Seq {
			t.Fatalf("records %v, want the command", r.Kinds())
		}
		if r.Kube.GetClaim("empty-claim").DeletionTimestamp == nil {
			t.Error("the claim was not deleted")
		}
	})
}

// What nobody approves ends by itself, and is asked anew.
func TestAProposalExpires(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.Kube.Put(plannertest.Policy("ask", `{approval: {expireAfter: 1m}}`))
		r.Settle(s, 30*time.Second)
		r.Settle(s, time.Minute)
		if len(r.Entries(ledger.KindProposalEnded)) != 1 || len(r.Entries(ledger.KindCommandProposed)) != 2 {
			t.Errorf("records %v, want the proposal to end and a second one", r.Kinds())
		}
	})
}

// A NodeClaim whose deletion is refused, as by an admission policy, holds up none of the command's others.
func TestARefusedDeletionHoldsUpNoOther(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		r.AddNode("free", "general")
		r.Kube.Fail["delete empty-claim"] = errors.New("denied by policy")
		r.Settle(s, 5*time.Second)
		started := r.Entries(ledger.KindCommandStarted)
		if len(started) != 1 || len(started[0].Payload.(*ledger.CommandStarted).Candidates) != 2 {
			t.Fatalf("commands started: %+v", started)
		}
		if r.Kube.GetClaim("free-claim").DeletionTimestamp == nil {
			t.Error("the other claim was not deleted")
		}
		delete(r.Kube.Fail, "delete empty-claim")
		r.Settle(s, 15*time.Second)
		if r.Kube.GetClaim("empty-claim").DeletionTimestamp == nil || len(r.Entries(ledger.KindCommandSucceeded)) != 1 {
			t.Errorf("records %v, want the command to succeed when nothing is refused any more", r.Kinds())
		}
	})
}
