package provisioner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/provisioner"
)

// operatorSeries are those of status conditions, as Prometheus writes them, without the buckets and without
// those of nodes.
func operatorSeries(t *testing.T, registry *prometheus.Registry) (list []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "operator_") || strings.HasPrefix(f.GetName(), "operator_node_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			value := ""
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				value = fmt.Sprintf("%d of %v", m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum())
			case dto.MetricType_COUNTER:
				value = fmt.Sprint(m.GetCounter().GetValue())
			default:
				value = fmt.Sprint(m.GetGauge().GetValue())
			}
			list = append(list, strings.TrimPrefix(f.GetName(), "operator_")+" "+strings.Join(labels, " ")+": "+value)
		}
	}
	slices.Sort(list)
	return list
}

// hasSeries reports those that are missing, and those that begin like one of them but are another.
func hasSeries(t *testing.T, about string, got []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s: there is no\n%s\namong\n%s", about, w, strings.Join(got, "\n"))
		}
	}
}

func withCondition(kind string, status metav1.ConditionStatus, since time.Time) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(slices.DeleteFunc(slices.Clone(c.Status.Conditions), func(x metav1.Condition) bool { return x.Type == kind }),
			metav1.Condition{Type: kind, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(since)})
	}
}

// Conditions that are as they are to be are one series for all NodeClaims alike, the others one for each; if
// asked for, so are all.
func TestConditionsThatNeedALookHaveSeries(t *testing.T) {
	for _, each := range []bool{false, true} {
		hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
			registry := prometheus.NewRegistry()
			s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry, ObjectMetrics: each})
			pool := plannertest.Pool("general")
			r.See(pool)
			since := r.Now().Add(-time.Minute)
			for _, name := range []string{"a", "b", "c"} {
				r.See(plannertest.Claim(name, "", "general", withCondition("Ready", metav1.ConditionTrue, since)))
			}
			r.See(plannertest.Claim("bad", "", "general", withCondition("Ready", metav1.ConditionFalse, since), withCondition("Drifted", metav1.ConditionTrue, since)))
			if list := operatorSeries(t, registry); len(list) != 0 {
				t.Errorf("a standby has %v", list)
			}
			_, _ = r.Step(s)
			got := operatorSeries(t, registry)
			class := "karpenter_k8s_aws_ec2nodeclass=default karpenter_sh_nodepool=general"
			hasSeries(t, "what needs a look", got,
				"nodepool_status_condition_count name=general reason=Ready status=True type=Ready: 1",
				"nodeclaim_status_condition_count "+class+" name=bad reason=R status=False type=Ready: 1",
				"nodeclaim_status_condition_current_status_seconds "+class+" name=bad reason=R status=True type=Drifted: 60",
				"status_condition_count group=karpenter.sh kind=NodeClaim name=bad reason=R status=False type=Ready: 1",
				"status_condition_count group=karpenter.sh kind=NodePool name=general reason=Ready status=True type=Ready: 1")
			if each {
				hasSeries(t, "each", got, "nodeclaim_status_condition_count "+class+" name=a reason=R status=True type=Ready: 1",
					"status_condition_count group=karpenter.sh kind=NodeClaim name=a reason=R status=True type=Ready: 1")
				return
			}
			hasSeries(t, "together", got, "nodeclaim_status_condition_count "+class+" reason=R status=True type=Ready: 3",
				"status_condition_count group=karpenter.sh kind=NodeClaim reason=R status=True type=Ready: 3")
			if text := strings.Join(got, "\n"); strings.Contains(text, "name=a ") {
				t.Errorf("a NodeClaim of which there is nothing to say has series\n%s", text)
			}
		})
	}
}

// Transitions count from when the service leads on: a new NodeClaim's conditions, and how long they lasted;
// the end of one that was being deleted.
func TestTransitionsOfConditionsAreCounted(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry})
		r.See(plannertest.Pool("general"), plannertest.Claim("old", "", "general"))
		_, _ = r.Step(s)
		for _, line := range operatorSeries(t, registry) {
			if strings.Contains(line, "transition") {
				t.Errorf("before anything has changed: %s", line)
			}
		}
		began := r.Now()
		settle := func() {
			t.Helper()
			r.Settle(s, 2*observeEvery)
		}
		r.See(plannertest.Claim("new", "", "general", withCondition("Registered", metav1.ConditionUnknown, began)))
		settle()
		r.See(plannertest.Claim("new", "", "general", withCondition("Registered", metav1.ConditionTrue, began.Add(30*time.Second))))
		settle()
		class := "karpenter_k8s_aws_ec2nodeclass=default karpenter_sh_nodepool=general"
		hasSeries(t, "registered", operatorSeries(t, registry),
			"nodeclaim_status_condition_transitions_total "+class+" reason=R status=Unknown type=Registered: 1",
			"nodeclaim_status_condition_transitions_total "+class+" reason=R status=True type=Registered: 1",
			"nodeclaim_status_condition_transitions_total "+class+" reason=Launched status=True type=Launched: 1", // and not again
			"nodeclaim_status_condition_transition_seconds "+class+" status=Unknown type=Registered: 1 of 30",
			"status_condition_transitions_total group=karpenter.sh kind=NodeClaim reason=R status=True type=Registered: 1",
			"status_condition_transition_seconds group=karpenter.sh kind=NodeClaim status=Unknown type=Registered: 1 of 30")
		going := plannertest.Claim("new", "", "general")
		deleted := metav1.NewTime(r.Now())
		going.DeletionTimestamp = &deleted
		r.See(going)
		settle()
		hasSeries(t, "being deleted", operatorSeries(t, registry), fmt.Sprintf("nodeclaim_termination_current_time_seconds "+class+" name=new: %v", r.Now().Sub(deleted.Time).Seconds()))
		r.Gone(going)
		settle()
		got := strings.Join(operatorSeries(t, registry), "\n")
		if !strings.Contains(got, "nodeclaim_termination_duration_seconds "+class+": 1 of ") || strings.Contains(got, "termination_current_time_seconds") {
			t.Errorf("when it is gone\n%s", got)
		}
		for _, line := range strings.Split(got, "\n") {
			if strings.Contains(line, "transitions_total") && strings.Contains(line, "NodePool") {
				t.Errorf("nothing of the NodePool has changed: %s", line)
			}
		}
	})
}

const observeEvery = time.Second
