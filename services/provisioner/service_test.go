package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/service"
	"millwright/services/provisioner"
	"millwright/store"
)

func run(t *testing.T, mode ledger.Mode, test func(r *hosttest.Rig, s *provisioner.Service)) {
	t.Helper()
	hosttest.Run(t, ledger.ServiceProvisioner, mode, func(r *hosttest.Rig) {
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general"))
		test(r, provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop()}))
	})
}

func pending(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	return plannertest.Pod(name, append([]func(*corev1.Pod){plannertest.Unschedulable()}, options...)...)
}

// rounds are the decisions about pods.
func rounds(r *hosttest.Rig) []*ledger.ProvisioningPlanned {
	var list []*ledger.ProvisioningPlanned
	for _, e := range r.Entries(ledger.KindProvisioningPlanned) {
		list = append(list, e.Payload.(*ledger.ProvisioningPlanned))
	}
	return list
}

func TestPodsThatComeTogetherAreOneDecision(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		for i := range 20 {
			r.See(pending(fmt.Sprint("p", i)))
			r.Settle(s, 100*time.Millisecond)
		}
		if n := len(rounds(r)); n != 0 {
			t.Fatalf("%d decisions before the batch was over", n)
		}
		r.Settle(s, time.Second)
		list := rounds(r)
		if len(list) != 1 {
			t.Fatalf("%d decisions, want one", len(list))
		}
		pods := 0
		for _, c := range list[0].Claims {
			pods += len(c.Pods)
		}
		if pods != 20 {
			t.Errorf("claims for %d pods, want 20: %+v", pods, list[0].Claims)
		}
	})
}

func TestABatchEndsThoughPodsKeepComing(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		for i := range 110 {
			r.See(pending(fmt.Sprint("p", i)))
			r.Settle(s, 100*time.Millisecond)
		}
		if n := len(rounds(r)); n != 1 {
			t.Errorf("%d decisions in 11 s of arrivals, want 1 after 10 s", n)
		}
	})
}

func TestARoundThatChangesNothingIsNotRecorded(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("fits"), pending("huge", plannertest.Requests("cpu", "1000")))
		r.Settle(s, 30*time.Second)
		if n := len(rounds(r)); n != 1 {
			t.Errorf("%d decisions, want 1", n)
		}
	})
}

func TestEventsTellTheVerdicts(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("fits"), pending("huge", plannertest.Requests("cpu", "1000")))
		r.Settle(s, time.Second)
		seq := r.Entries(ledger.KindProvisioningPlanned)[0].Seq
		want := "Pod/fits Nominated: Pod should schedule on: nodeclaim/" + ledger.ClaimName(r.Host.LogID(), "general", seq, 0)
		if !slices.Contains(r.Events, want) {
			t.Errorf("no event %q in %q", want, r.Events)
		}
		refused := func(e string) bool {
			return strings.HasPrefix(e, `Pod/huge FailedScheduling: Failed to schedule pod, incompatible with nodepool "general", `)
		}
		if !slices.ContainsFunc(r.Events, refused) {
			t.Errorf("no event about the pod that fits nowhere in %q", r.Events)
		}
	})
}

// A new NodePool is not ready, and its instance types are not seen, for some seconds: that is no reason to
// warn anybody.
func TestPodsAreNotWarnedOfWhatPasses(t *testing.T) {
	notReady := func(p *karpv1.NodePool) { p.Status.Conditions = nil }
	for name, c := range map[string]struct {
		before []any
		after  []any
		want   string
	}{
		"the catalogue was not seen":    {[]any{plannertest.Pool("general")}, plannertest.WithCatalogue(), "instance types of EC2NodeClass"},
		"the NodePool is not ready yet": {append(plannertest.WithCatalogue(), plannertest.Pool("general", notReady)), []any{plannertest.Pool("general")}, "not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
				s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop()})
				warned := func(e string) bool {
					return strings.Contains(e, "FailedScheduling") || strings.Contains(e, "NoCompatibleInstanceTypes")
				}
				r.See(c.before...)
				r.See(pending("first"))
				r.Settle(s, 14*time.Second)
				if slices.ContainsFunc(r.Events, warned) {
					t.Errorf("warned at once: %q", r.Events)
				}
				r.Settle(s, 20*time.Second)
				if !slices.ContainsFunc(r.Events, func(e string) bool { return warned(e) && strings.Contains(e, c.want) }) {
					t.Errorf("not warned of what lasts: %q", r.Events)
				}
				r.See(c.after...)
				r.Settle(s, 10*time.Second)
				if len(rounds(r)) < 2 || len(rounds(r)[1].Claims) != 1 {
					t.Errorf("no claim once the problem has passed: %+v", rounds(r))
				}
			})
		})
	}
}

// TestZonalShiftsAreToldOnNodePools: once when a zone is not offered any more, and once when it is again.
func TestZonalShiftsAreToldOnNodePools(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		catalogue := plannertest.WithCatalogue()
		say := func(shifts ...events.ZonalShift) {
			for _, o := range catalogue {
				if ref, ok := o.(*events.CatalogRef); ok {
					changed := *ref
					changed.ZonalShifts = shifts
					r.See(&changed)
				}
			}
			r.Settle(s, 2*time.Second)
		}
		told := func() (n int) {
			for _, e := range r.Events {
				if strings.Contains(e, "ZonalShift") {
					n++
				}
			}
			return n
		}
		a, b := events.ZonalShift{ZoneID: "usw2-aza", Zone: "us-west-2a"}, events.ZonalShift{ZoneID: "usw2-azb", Zone: "us-west-2b"}
		say(a)
		say(a)
		say(a, b)
		say(b)
		for _, want := range []string{
			"NodePool/general ZonalShiftActive: Zonal shift detected: offerings in zone us-west-2a (usw2-aza) are unavailable for this NodePool",
			"NodePool/general ZonalShiftActive: Zonal shift detected: offerings in zone us-west-2b (usw2-azb) are unavailable for this NodePool",
			"NodePool/general ZonalShiftCleared: Zonal shift ended: offerings in zone us-west-2a (usw2-aza) are available again for this NodePool",
		} {
			if !slices.Contains(r.Events, want) {
				t.Errorf("no event %q in %q", want, r.Events)
			}
		}
		if told() != 3 {
			t.Errorf("%d KubeEvents about zonal shifts, want 3: %q", told(), r.Events)
		}
	})
}

func TestANodePoolWithoutInstanceTypesIsTold(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		many := 50
		r.See(plannertest.Pool("picky", func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: "Exists", MinValues: &many}}
		}), plannertest.Pool("nowhere", func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"mars"}}}
		}), pending("fits"))
		r.Settle(s, time.Second)
		for _, want := range []string{
			"NodePool/nowhere NoCompatibleInstanceTypes: NodePool requirements filtered out all compatible available instance types",
			"NodePool/picky NoCompatibleInstanceTypes: NodePool requirements filtered out all compatible available instance types due to minValues incompatibility",
		} {
			if !slices.Contains(r.Events, want) {
				t.Errorf("no event %q in %q", want, r.Events)
			}
		}
	})
}

func TestAWithdrawnClaimIsPlannedAnewSoon(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("p"))
		r.Settle(s, time.Second)
		first := r.Entries(ledger.KindProvisioningPlanned)[0]
		name := ledger.ClaimName(r.Host.LogID(), "general", first.Seq, 0)
		r.Append(ledger.KindClaimWithdrawn, &ledger.ClaimWithdrawn{Claim: name, Reason: "test"}, ledger.PoolAggregate("general"))
		r.Settle(s, 300*time.Millisecond)
		if n := len(rounds(r)); n != 2 {
			t.Errorf("%d decisions, want a second one for the pod that lost its claim", n)
		}
	})
}

func TestALostRoundIsPlannedAnewAtOnce(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("p"))
		r.Settle(s, 150*time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		// Another writer moves the pool between the plan and the append: the step has no chance to see it
		// before.
		interfere := &interfering{Host: r.Host, before: func() {
			r.Append(ledger.KindClaimWithdrawn, &ledger.ClaimWithdrawn{Claim: "other"}, ledger.PoolAggregate("general"))
		}}
		again := provisioner.New(interfere, provisioner.Deps{Logger: zerolog.Nop()})
		_, _ = r.Step(again)
		time.Sleep(250 * time.Millisecond)
		if _, err := r.Step(again); err != nil {
			t.Fatal(err)
		}
		if interfere.conflicts != 1 || len(rounds(r)) != 1 {
			t.Errorf("%d conflicts and %d decisions, want one each", interfere.conflicts, len(rounds(r)))
		}
	})
}

func TestShadowRecordsOnceAndTellsNobody(t *testing.T) {
	run(t, ledger.ModeShadow, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("p"))
		r.Settle(s, 20*time.Second)
		list := r.Entries(ledger.KindProvisioningPlanned)
		if len(list) != 1 || list[0].Mode != ledger.ModeShadow {
			t.Errorf("%d decisions of mode %v, want one shadow decision", len(list), list)
		}
		if len(r.Events) > 0 {
			t.Errorf("events %q", r.Events)
		}
		r.Ledger(func(l *ledger.Ledger) {
			if n := len(l.Claims()); n != 0 {
				t.Errorf("%d claims are planned", n)
			}
		})
	})
}

func TestWithoutHeartbeatsNothingIsPlanned(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		time.Sleep(11 * time.Second)
		r.See(pending("p"))
		for range 10 {
			if _, err := r.Step(s); !errors.Is(err, service.ErrNotReady) {
				t.Fatalf("got %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(rounds(r)); n != 0 {
			t.Errorf("%d decisions on a stale world", n)
		}
	})
}

func TestNodesAndPoolsAreGauges(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry})
		r.AddNode("n", "general")
		r.See(plannertest.Pod("p", plannertest.On("n"), plannertest.Requests("cpu", "1500m")), plannertest.DaemonPod("d", "n"), plannertest.Pool("general"),
			&events.Prices{Entries: []events.Price{{InstanceType: "m5.xlarge", CapacityType: "on-demand", MicroUSDPerHour: 192000}}})
		value := func(name, kind string) (v float64, found bool) {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					for _, l := range m.GetLabel() {
						if f.GetName() == name && l.GetName() == "resource_type" && l.GetValue() == kind {
							return m.GetGauge().GetValue(), true
						}
					}
				}
			}
			return 0, false
		}
		first := func(name string) float64 {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == name {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			return -1
		}
		if _, found := value("karpenter_nodes_allocatable", "cpu"); found {
			t.Error("a standby has series of nodes")
		}
		_, _ = r.Step(s)
		for name, want := range map[string]float64{"karpenter_nodes_allocatable": 3.92, "karpenter_nodes_total_pod_requests": 1.6,
			"karpenter_nodes_total_daemon_requests": 0.1, "karpenter_nodes_system_overhead": 0.08,
			"karpenter_cluster_utilization_percent": 100 * 1.6 / 3.92} {
			if got, _ := value(name, "cpu"); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if got := first("karpenter_nodes_current_lifetime_seconds"); got < 0 {
			t.Errorf("the node's age is %v", got)
		}
		for name, want := range map[string]float64{"karpenter_nodepools_cost_total": 0.192, "operator_nodepool_status_condition_count": 1} {
			if got := first(name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

// Series of pods are there only if they are asked for, and only from the leader.
func TestPodsAreSeriesIfAskedFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
			registry := prometheus.NewRegistry()
			s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry, PodMetrics: asked})
			r.AddNode("n", "general")
			r.See(plannertest.Pool("general"), plannertest.Pod("p", plannertest.On("n"), plannertest.OwnedBy("apps/v1", "ReplicaSet", "web")), pending("w"))
			series := func() (list []string) {
				families, err := registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range families {
					if f.GetName() != "karpenter_pods_state" {
						continue
					}
					for _, m := range f.GetMetric() {
						text := ""
						for _, l := range m.GetLabel() {
							text += l.GetName() + "=" + l.GetValue() + " "
						}
						list = append(list, text)
					}
				}
				return list
			}
			if list := series(); len(list) != 0 {
				t.Errorf("a standby has %v", list)
			}
			_, _ = r.Step(s)
			var want []string
			if asked {
				want = []string{
					"arch=amd64 capacity_type=on-demand instance_type=m5.xlarge managed=true name=p namespace=default node=n nodepool=general owner=replicaset/web phase=Running ready=true scheduled=true zone=us-west-2a ",
					"arch= capacity_type= instance_type= managed=false name=w namespace=default node= nodepool= owner= phase=Pending ready=false scheduled=false zone= "}
			}
			list := series()
			slices.Sort(list)
			slices.Sort(want)
			if !slices.Equal(list, want) {
				t.Errorf("asked for: %t\n%s", asked, strings.Join(list, "\n"))
			}
		})
	}
}

func TestAStopOfAllHoldsPlanning(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.Stop(ledger.StopVoluntary)
		r.See(pending("early"))
		r.Settle(s, 2*time.Second)
		if n := len(rounds(r)); n != 1 {
			t.Fatalf("%d decisions under a voluntary stop, want 1", n)
		}
		r.Stop(ledger.StopAll)
		r.See(pending("late"))
		r.Settle(s, 20*time.Second)
		if n := len(rounds(r)); n != 1 {
			t.Errorf("%d decisions although all is stopped", n)
		}
		r.Stop(ledger.StopNone)
		r.Settle(s, 2*time.Second)
		if n := len(rounds(r)); n != 2 {
			t.Errorf("%d decisions after the stop, want 2", n)
		}
	})
}

// TestABurstIsOneRound: 300 pods in uneven groups over five seconds are planned together, as with an idle
// time of 1 s.
func TestABurstIsOneRound(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		pods := 0
		for i, gap := range []time.Duration{50, 150, 350, 500, 700, 900, 200, 600, 800, 400} {
			for range 12 + 4*i {
				r.See(pending(fmt.Sprint("p", pods)))
				pods++
			}
			r.Settle(s, gap*time.Millisecond)
		}
		r.Settle(s, 2*time.Second)
		list := rounds(r)
		if len(list) != 1 {
			t.Fatalf("%d decisions, want one", len(list))
		}
		planned := 0
		for _, c := range list[0].Claims {
			planned += len(c.Pods)
		}
		if planned != pods {
			t.Errorf("%d pods planned, want %d", planned, pods)
		}
	})
}

func TestALonePodIsPlannedSoon(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("p"))
		r.Settle(s, 290*time.Millisecond)
		if n := len(rounds(r)); n != 1 {
			t.Errorf("%d decisions 290 ms after the pod came, want one", n)
		}
	})
}

// widened are the decisions that widen a claim.
func widened(r *hosttest.Rig) []*ledger.ProvisioningPlanned {
	var list []*ledger.ProvisioningPlanned
	for _, e := range r.Entries(ledger.KindProvisioningWidened) {
		list = append(list, e.Payload.(*ledger.ProvisioningPlanned))
	}
	return list
}

// seeLate has pods come that do not fit whatever the claim of an early one becomes.
func seeLate(r *hosttest.Rig) {
	for i := range 3 {
		r.See(pending(fmt.Sprint("late", i), plannertest.Requests("cpu", "1", "memory", "2Gi")))
	}
}

func TestAClaimThatIsNotMadeYetTakesLaterPods(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("early", plannertest.Requests("cpu", "500m", "memory", "2Gi")))
		r.Settle(s, time.Second)
		seeLate(r)
		r.Settle(s, 5*time.Second)
		if len(rounds(r)) != 1 || len(widened(r)) != 1 {
			t.Fatalf("records %v", r.Kinds())
		}
		w := widened(r)[0].Widened
		name := ledger.ClaimName(r.Host.LogID(), "general", r.Entries(ledger.KindProvisioningPlanned)[0].Seq, 0)
		if len(w) != 1 || w[0].Claim != name || len(w[0].Content.Pods) != 4 {
			t.Errorf("widened %+v", w)
		}
		if want := "Pod/late0 Nominated: Pod should schedule on: nodeclaim/" + name; !slices.Contains(r.Events, want) {
			t.Errorf("no event %q in %q", want, r.Events)
		}
	})
}

// older is a host in a cluster where some service does not know of widening.
type older struct {
	service.Host
	refused int
}

func (o *older) Decide(ctx context.Context, b planner.Basis, d planner.Decision) (store.Record, error) {
	if d.Kind == ledger.KindProvisioningWidened {
		o.refused++
		return store.Record{}, fmt.Errorf("append: %w", service.ErrHeldBack)
	}
	return o.Host.Decide(ctx, b, d)
}

func TestNothingIsWidenedWhileAServiceDoesNotKnowOfIt(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, _ *provisioner.Service) {
		host := &older{Host: r.Host}
		s := provisioner.New(host, provisioner.Deps{Logger: zerolog.Nop()})
		r.See(pending("early", plannertest.Requests("cpu", "500m", "memory", "2Gi")))
		r.Settle(s, time.Second)
		seeLate(r)
		r.Settle(s, 5*time.Second)
		list := rounds(r)
		if host.refused != 1 || len(list) != 2 || !list[1].Plain || len(list[1].Claims) == 0 {
			t.Errorf("%d held back, records %v", host.refused, r.Kinds())
		}
	})
}

func TestAPlannedClaimThatNoPodNeedsIsWithdrawn(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *provisioner.Service) {
		r.See(pending("p"))
		r.Settle(s, time.Second)
		r.Gone(pending("p"))
		r.Settle(s, 3*time.Second)
		if n := len(r.Entries(ledger.KindClaimWithdrawn)); n != 1 {
			t.Fatalf("records %v", r.Kinds())
		}
		r.Ledger(func(l *ledger.Ledger) {
			if n := len(l.Claims()); n != 0 {
				t.Errorf("%d claims are planned", n)
			}
		})
		r.Settle(s, 30*time.Second)
		if n := len(r.Kinds()); n != 2 {
			t.Errorf("records %v", r.Kinds())
		}
	})
}

// TestALongSearchIsConfirmed: what changes between a plan and its record counts, and the record names both
// Snapshots.
func TestALongSearchIsConfirmed(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, _ *provisioner.Service) {
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), SearchMax: -1})
		r.See(pending("stays"), pending("goes"))
		searched := false
		for range 20 {
			next, err := r.Step(s)
			if err != nil {
				t.Fatal(err)
			}
			if len(rounds(r)) > 0 {
				break
			}
			if searched = next > 0 && next < 20*time.Millisecond; searched {
				r.Gone(pending("goes"))
			}
			time.Sleep(next)
		}
		list := r.Entries(ledger.KindProvisioningPlanned)
		if len(list) != 1 || !searched {
			t.Fatalf("records %v, searched %v", r.Kinds(), searched)
		}
		p := list[0].Payload.(*ledger.ProvisioningPlanned)
		if p.Search == nil || p.Search.Position.Sequence >= list[0].Position.Sequence {
			t.Errorf("searched at %+v, confirmed at %+v", p.Search, list[0].Position)
		}
		if len(p.Claims) != 1 || len(p.Claims[0].Pods) != 1 || p.Claims[0].Pods[0].Name != "stays" {
			t.Errorf("claims %+v", p.Claims)
		}
	})
}

// TestWhatComesDuringALongSearchIsPlanned: the NodePool becomes ready between the search and its record.
func TestWhatComesDuringALongSearchIsPlanned(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		r.See(plannertest.WithCatalogue()...)
		notReady := plannertest.Pool("general", func(p *karpv1.NodePool) {
			p.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionTypeNodeClassReady, Status: metav1.ConditionFalse}, {Type: "Ready", Status: metav1.ConditionFalse}}
		})
		r.See(notReady, pending("p"))
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), SearchMax: -1})
		for len(rounds(r)) == 0 {
			next, err := r.Step(s)
			if err != nil {
				t.Fatal(err)
			}
			if next > 0 && next < 20*time.Millisecond {
				r.See(plannertest.Pool("general"))
			}
			time.Sleep(next)
		}
		r.Settle(s, 3*time.Second)
		if list := rounds(r); len(list[len(list)-1].Claims) != 1 {
			t.Errorf("%d rounds, the last is %+v", len(list), list[len(list)-1])
		}
	})
}

// TestTimeAloneBringsARound: marks of offerings end without any event.
func TestTimeAloneBringsARound(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry})
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general"), pending("p"))
		r.Settle(s, 5*time.Second)
		unchanged := func() (n float64) {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == "millwright_provisioner_rounds_total" {
					for _, m := range f.Metric {
						if m.Label[0].GetValue() == "unchanged" {
							n = m.Counter.GetValue()
						}
					}
				}
			}
			return n
		}
		before := unchanged()
		r.Settle(s, 35*time.Second)
		if n := unchanged() - before; n < 3 || n > 4 {
			t.Errorf("%v rounds in 35 s in which nothing happened, want one each 10 s", n)
		}
	})
}

// What the last round found is the affair of who leads next.
func TestAProvisionerThatIsReleasedServesNoRound(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		s := r.Host.Gate(provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry}))
		r.See(plannertest.WithCatalogue()...)
		r.See(pending("p")) // there is no NodePool
		names := []string{"karpenter_scheduler_unschedulable_pods_count", "karpenter_scheduler_queue_depth"}
		served := func() int {
			n, err := testutil.GatherAndCount(registry, names...)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		r.Settle(s, 15*time.Second)
		if n := served(); n != 2 {
			t.Fatalf("%d series of %v while it leads", n, names)
		}
		s.(service.Releaser).Released()
		if n := served(); n != 0 {
			t.Errorf("%d series of %v after it was released", n, names)
		}
	})
}
