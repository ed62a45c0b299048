package provisioner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/provisioner"
)

// nodeSeries are the lines of a metric, each with its labels.
func nodeSeries(t *testing.T, registry *prometheus.Registry, name string) (list []string) {
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
			list = append(list, strings.Join(labels, " "))
		}
	}
	return list
}

func conditionOf(kind, reason string, status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
}

// The API server checks neither that the text of a Node's conditions is UTF-8, nor that a type is there
// once, nor of resources that their names differ in more than what their series leave out.
func TestAnyTextOfANodeCanBeScraped(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry, PodMetrics: true})
		node := plannertest.Node("n")
		r.See(plannertest.Pool("general"), node)
		r.Settle(s, 2*observeEvery)
		node = node.DeepCopy()
		node.Status.Conditions = []corev1.NodeCondition{conditionOf("Ready", "a\xffb", "False"), conditionOf("Odd\xff", "a", "True\xff"),
			conditionOf("Ready", "a\xffb", "False"), conditionOf("Odd\xfe", "b", "True\xff")}
		for _, name := range []corev1.ResourceName{"example.com/a-b", "example.com/a_b"} {
			node.Status.Allocatable[name] = resource.MustParse("2")
		}
		pod := plannertest.Pod("p", plannertest.On("n"))
		controls := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Set\xff", Name: "s", UID: "s", Controller: &controls}}
		r.See(node, pod)
		r.Settle(s, 2*observeEvery)
		counts := strings.Join(nodeSeries(t, registry, "operator_node_status_condition_count"), "\n")
		for _, want := range []string{"reason=a\uFFFDb status=False type=Ready", "reason=a status=True\uFFFD type=Odd\uFFFD"} {
			if strings.Count(counts, want) != 1 {
				t.Errorf("not once %q among\n%s", want, counts)
			}
		}
		if got := strings.Join(nodeSeries(t, registry, "operator_node_status_condition_transitions_total"), "\n"); !strings.Contains(got, "reason=a status=other type=Odd\uFFFD") {
			t.Errorf("transitions counted:\n%s", got)
		}
		if got := strings.Join(nodeSeries(t, registry, "karpenter_pods_state"), "\n"); !strings.Contains(got, "owner=set\uFFFD/s") {
			t.Errorf("pods:\n%s", got)
		}
	})
}

// Counters are kept as long as the process: whoever writes conditions cannot make ever more of them.
func TestTransitionsOfManyReasonsAreCountedTogether(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry})
		r.See(plannertest.Pool("general"), plannertest.Node("n"))
		r.Settle(s, 2*observeEvery)
		const many = 150
		for i := range many {
			node := plannertest.Node("n")
			status := corev1.ConditionStatus([]string{"True", "False"}[i%2])
			node.Status.Conditions = []corev1.NodeCondition{conditionOf("Odd", fmt.Sprint("reason-", i), status),
				conditionOf(fmt.Sprint("type-", i), strings.Repeat("x", 1000), "True"), conditionOf("DiskPressure", "Known", status)}
			r.See(node)
			time.Sleep(2 * observeEvery)
			_, _ = r.Step(s)
		}
		got := nodeSeries(t, registry, "operator_node_status_condition_transitions_total")
		text := strings.Join(got, "\n")
		if len(got) > 2*64+20 {
			t.Errorf("%d series", len(got))
		}
		for _, want := range []string{"reason=other status=True type=Odd", "reason=other status=True type=other", "reason=Known status=False type=DiskPressure"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s among\n%s", want, text)
			}
		}
	})
}
