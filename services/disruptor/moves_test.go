package disruptor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/condition"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/disruptor"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
	"millwright/store"
)

// filled has two nodes of a Balanced NodePool, each with a small pod: one of them is not needed.
func filled(t *testing.T, test func(r *hosttest.Rig, s *disruptor.Service, metric func(name string) []string)) {
	t.Helper()
	hosttest.Run(t, ledger.ServiceDisruptor, ledger.ModeActive, func(r *hosttest.Rig) {
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general", plannertest.Budgets(karpv1.Budget{Nodes: "1"}), func(p *karpv1.NodePool) {
			p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyBalanced
		}))
		for _, n := range []string{"a", "b"} {
			r.AddNode(n, "general")
			node := r.Kube.GetNode(n)
			node.Labels[corev1.LabelInstanceTypeStable], node.Labels[karpv1.CapacityTypeLabelKey] = "m5.large", karpv1.CapacityTypeOnDemand
			r.Kube.Put(node, plannertest.Pod("on-"+n, plannertest.On(n), plannertest.Requests("cpu", "100m")))
		}
		registry := prometheus.NewRegistry()
		s := disruptor.New(r.Host, disruptor.Deps{Kube: r.Kube, Logger: zerolog.Nop(), Registerer: registry})
		test(r, s, func(name string) []string { return series(t, registry, name) })
	})
}

// series lists those of a metric as "label=value,… count", with the counts of histograms.
func series(t *testing.T, registry *prometheus.Registry, name string) (list []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			list = append(list, fmt.Sprintf("%s %v", strings.Join(labels, ","), value))
		}
	}
	return list
}

func wantEvent(t *testing.T, r *hosttest.Rig, want string) {
	t.Helper()
	if !slices.ContainsFunc(r.Events, func(e string) bool { return strings.Contains(e, want) }) {
		t.Errorf("no event %q in\n%s", want, strings.Join(r.Events, "\n"))
	}
}

// The rules: operations §3.
func TestWhatIsSaidOfAConsolidation(t *testing.T) {
	filled(t, func(r *hosttest.Rig, s *disruptor.Service, metric func(string) []string) {
		r.Settle(s, 10*time.Second)
		if len(r.Entries(ledger.KindCommandSucceeded)) != 1 {
			t.Fatalf("records %v", r.Kinds())
		}
		for _, object := range []string{"Node/a", "NodeClaim/a-claim"} {
			wantEvent(t, r, object+" ConsolidationCandidate: Consolidation candidate: delete, terminating 1 nodes (1 pods) a/m5.large/on-demand (savings: $0.10)")
			wantEvent(t, r, object+" ConsolidationApproved: score 1.00 >= threshold 0.50 (k: 2, savings 50.0%, disruption 50.0%)")
		}
		for _, name := range []string{"karpenter_nodeclaims_disrupted_total", "karpenter_pods_disruption_initiated_total"} {
			if got := metric(name); !slices.Equal(got, []string{"capacity_type=on-demand,nodepool=general,reason=underutilized 1"}) {
				t.Errorf("%s %v", name, got)
			}
		}
		if got := metric("karpenter_consolidation_moves_total"); !slices.Equal(got, []string{"decision=approved,nodepool=general,policy=Balanced 1"}) {
			t.Errorf("moves %v", got)
		}
		if got := metric("karpenter_consolidation_score"); !slices.Equal(got, []string{"decision=approved,nodepool=general,policy=Balanced 1"}) {
			t.Errorf("scores %v", got)
		}
		for _, want := range []string{"consolidation_type=,reason=drifted", "consolidation_type=empty,reason=empty", "consolidation_type=multi,reason=underutilized"} {
			got := metric("karpenter_voluntary_disruption_decision_evaluation_duration_seconds")
			if !slices.ContainsFunc(got, func(x string) bool { return strings.HasPrefix(x, want) }) {
				t.Errorf("durations of %s are not among %v", want, got)
			}
		}
	})
}

// counted are series but those at 0.
func counted(series []string) []string {
	return slices.DeleteFunc(series, func(s string) bool { return strings.HasSuffix(s, " 0") })
}

// The rules: operations §3.
func TestWhatIsSaidOfARejectedConsolidation(t *testing.T) {
	filled(t, func(r *hosttest.Rig, s *disruptor.Service, metric func(string) []string) {
		r.Kube.Fail["patch a"] = errors.New("api server away")
		r.Settle(s, time.Second)
		r.Kube.Put(plannertest.Pod("late", plannertest.On("a")))
		delete(r.Kube.Fail, "patch a")
		r.Settle(s, 2*time.Second)
		for _, object := range []string{"Node/a", "NodeClaim/a-claim"} {
			wantEvent(t, r, object+" ConsolidationRejected: Consolidation rejected: delete, terminating 1 nodes (1 pods) a/m5.large/on-demand, reason: churn (savings: $0.10)")
		}
		if got := counted(metric("karpenter_voluntary_disruption_failed_validations_total")); len(got) != 1 {
			t.Errorf("failed validations %v", got)
		}
	})
}

// A command says on its replacements that it waits for them, and counts those that were not ready when it
// fails. The rules: disruption §6.
func TestWhatIsSaidOfReplacements(t *testing.T) {
	filled(t, func(r *hosttest.Rig, s *disruptor.Service, metric func(string) []string) {
		claim := r.Kube.GetClaim("a-claim")
		rec := r.Append(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Drifted", Method: "drift",
			Candidates:   []ledger.Candidate{{Node: "a", Claim: claim.Name, ClaimUID: claim.UID, NodePool: "general"}},
			Replacements: []ledger.PlannedClaim{{NodePool: "general", InstanceTypes: []string{"m5.large"}}, {NodePool: "general", InstanceTypes: []string{"m5.large"}}}})
		r.Append(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: ledger.CommandID(r.Host.LogID(), rec.Seq)})
		first, second := ledger.ClaimName(r.Host.LogID(), "general", rec.Seq, 0), ledger.ClaimName(r.Host.LogID(), "general", rec.Seq, 1)
		r.Settle(s, time.Second)
		if slices.ContainsFunc(r.Events, func(e string) bool { return strings.Contains(e, "DisruptionLaunching") }) {
			t.Errorf("events on NodeClaims that are not there: %q", r.Events)
		}
		r.Kube.Put(plannertest.Claim(first, "", "general"))
		r.Settle(s, time.Second)
		wantEvent(t, r, "NodeClaim/"+first+" DisruptionLaunching: Launching NodeClaim: Drifted")
		wantEvent(t, r, "NodeClaim/"+first+" DisruptionWaitingReadiness: Waiting on readiness to continue disruption")
		r.Append(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: first, Node: "fresh"})
		r.Append(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: second, Reason: "insufficient_capacity"})
		r.Settle(s, 5*time.Second)
		if got := counted(metric("karpenter_voluntary_disruption_queue_failures_total")); !slices.Equal(got, []string{"consolidation_type=,decision=replace,reason=drifted 1"}) {
			t.Errorf("queue failures %v, want the one that was not ready", got)
		}
	})
}

// A replacement that is launched and never joins, and one that joins and is never ready, are waited for until
// the command is 10 minutes old. Then it is given up: the replacement goes with it, taint and condition are
// taken back, and the NodePool waits before it tries again. The rules: disruption §4 and §6.
func TestReplacementsAreNotWaitedForForEver(t *testing.T) {
	for name, joins := range map[string]bool{"it never joins": false, "it is never ready": true} {
		t.Run(name, func(t *testing.T) {
			filled(t, func(r *hosttest.Rig, s *disruptor.Service, _ func(string) []string) {
				r.See(plannertest.Pool("general", plannertest.Budgets(karpv1.Budget{Nodes: "0"}))) // or the nodes would be consolidated too
				claim := r.Kube.GetClaim("a-claim")
				rec := r.Append(ledger.KindCommandMovesStarted, &ledger.CommandStarted{Reason: "Drifted", Method: "drift",
					Candidates:   []ledger.Candidate{{Node: "a", Claim: claim.Name, ClaimUID: claim.UID, NodePool: "general"}},
					Replacements: []ledger.PlannedClaim{{NodePool: "general", InstanceTypes: []string{"m5.large"}}}})
				id, fresh := ledger.CommandID(r.Host.LogID(), rec.Seq), ledger.ClaimName(r.Host.LogID(), "general", rec.Seq, 0)
				made := plannertest.Claim(fresh, "", "general")
				made.Status.Conditions = nil
				r.Kube.Put(made)
				r.Append(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: fresh, UID: made.UID})
				r.Append(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})
				if joins {
					r.Append(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: fresh, Node: "fresh"})
				}
				r.Settle(s, 9*time.Minute)
				if n := len(r.Entries(ledger.KindCommandAbandoned)); n > 0 || !kube.IsDisrupted(r.Kube.GetNode("a")) {
					t.Fatalf("%d commands were given up after 9 minutes", n)
				}
				r.Settle(s, 2*time.Minute)
				ended := r.Entries(ledger.KindCommandAbandoned)
				if len(ended) != 1 {
					t.Fatalf("records %v", r.Kinds())
				}
				back := ended[0].Payload.(*ledger.CommandRolledBack)
				if back.Reason != "command reached timeout" || len(back.Unused) != 1 || back.Unused[0].Claim != fresh || !slices.Equal(back.Failing, []string{"general"}) {
					t.Errorf("given up as %+v", back)
				}
				if kube.IsDisrupted(r.Kube.GetNode("a")) || condition.Get(r.Kube.GetClaim("a-claim").Status.Conditions, karpv1.ConditionTypeDisruptionReason) != nil {
					t.Error("taint or condition were not taken back")
				}
			})
		})
	}
}

// What the last passes found is the affair of who leads next.
func TestADisruptorThatIsReleasedServesNoPass(t *testing.T) {
	filled(t, func(r *hosttest.Rig, s *disruptor.Service, metric func(string) []string) {
		gate := r.Host.Gate(s)
		r.Settle(gate, 10*time.Second)
		names := []string{"karpenter_voluntary_disruption_eligible_nodes", "karpenter_nodepools_allowed_disruptions",
			"karpenter_nodepools_nodes_consuming_budgets", "millwright_disruption_proposals"}
		for _, name := range names {
			if len(metric(name)) == 0 {
				t.Errorf("no %s while it leads", name)
			}
		}
		gate.(service.Releaser).Released()
		for _, name := range append(names, "millwright_disruption_rollouts_halted", "millwright_disruption_draining_out_nodes") {
			if got := metric(name); len(got) > 0 {
				t.Errorf("%s after it was released: %v", name, got)
			}
		}
	})
}

// conflicts has the first records of success lose.
type conflicts struct {
	service.Host
	left int
}

func (c *conflicts) Outcome(ctx context.Context, o service.Outcome) (store.Record, error) {
	if c.left > 0 && o.Kind == ledger.KindCommandSucceeded {
		c.left--
		return store.Record{}, store.ErrConflict
	}
	return c.Host.Outcome(ctx, o)
}

// Only what a command deleted itself counts, and once, when it is recorded.
func TestNodeClaimsThatWereGoneAreNotCountedAsDisrupted(t *testing.T) {
	filled(t, func(r *hosttest.Rig, _ *disruptor.Service, _ func(string) []string) {
		registry := prometheus.NewRegistry()
		s := disruptor.New(&conflicts{Host: r.Host, left: 1}, disruptor.Deps{Kube: r.Kube, Logger: zerolog.Nop(), Registerer: registry})
		claim := r.Kube.GetClaim("a-claim")
		rec := r.Append(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Drifted", Method: "drift", Candidates: []ledger.Candidate{
			{Node: "a", Claim: claim.Name, ClaimUID: claim.UID, NodePool: "general", Pods: []ledger.PodRef{{Namespace: "default", Name: "on-a"}}},
			{Node: "b", Claim: "b-claim", ClaimUID: "that of before", NodePool: "general", Pods: []ledger.PodRef{{Namespace: "default", Name: "on-b"}}},
			{Node: "gone", Claim: "gone-claim", ClaimUID: "gone", NodePool: "general", Pods: []ledger.PodRef{{Namespace: "default", Name: "gone"}}}}})
		r.Append(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: ledger.CommandID(r.Host.LogID(), rec.Seq)})
		r.Settle(s, 5*time.Second)
		if len(r.Entries(ledger.KindCommandSucceeded)) != 1 {
			t.Fatalf("records %v", r.Kinds())
		}
		if n := r.Kube.Called("delete a-claim"); n != 1 {
			t.Errorf("deleted %d times, want once: after the conflict it is seen being deleted", n)
		}
		for _, name := range []string{"karpenter_nodeclaims_disrupted_total", "karpenter_pods_disruption_initiated_total"} {
			if got := series(t, registry, name); !slices.Equal(got, []string{"capacity_type=,nodepool=general,reason=drifted 1"}) {
				t.Errorf("%s %v", name, got)
			}
		}
	})
}

// A budget of nothing keeps the nodes that consolidation would take: of that and nothing else people are
// told. The rules: disruption §4.
func TestBudgetsAreSaidToBlockOnlyWhatTheyKeep(t *testing.T) {
	filled(t, func(r *hosttest.Rig, s *disruptor.Service, metric func(string) []string) {
		r.See(plannertest.Pool("general", plannertest.Budgets(karpv1.Budget{Nodes: "0"})), plannertest.Pool("other", plannertest.Budgets(karpv1.Budget{Nodes: "0"})))
		r.Settle(s, 5*time.Second)
		wantEvent(t, r, "NodePool/general DisruptionBlocked: No allowed disruptions for disruption reason Underutilized due to blocking budget")
		for _, e := range r.Events {
			if strings.HasPrefix(e, "NodePool/") && !strings.Contains(e, "general DisruptionBlocked: No allowed disruptions for disruption reason Underutilized") {
				t.Errorf("event %q", e)
			}
		}
		if got := metric("millwright_disruption_nodes_held_by_budgets"); !slices.Equal(got, []string{"nodepool=general,reason=Underutilized 2"}) {
			t.Errorf("held by budgets: %v", got)
		}
	})
}

// Moves of NodePools whose policy has no score count too. The rules: disruption §9.
func TestMovesOfEveryPolicyAreCounted(t *testing.T) {
	filled(t, func(r *hosttest.Rig, s *disruptor.Service, metric func(string) []string) {
		r.See(plannertest.Pool("general", plannertest.Budgets(karpv1.Budget{Nodes: "1"}), func(p *karpv1.NodePool) {
			p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		}))
		r.Settle(s, 10*time.Second)
		if got := metric("karpenter_consolidation_moves_total"); !slices.Equal(got, []string{"decision=approved,nodepool=general,policy=WhenEmptyOrUnderutilized 1"}) {
			t.Errorf("moves %v", got)
		}
		if got := metric("karpenter_consolidation_score"); len(got) > 0 {
			t.Errorf("scores %v", got)
		}
	})
}
