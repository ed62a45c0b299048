package provisioner_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/provisioner"
)

func limited(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = plannertest.Resources(pairs...) }
}

// What the pods of a node are limited to is added up, and follows them.
func TestLimitsOfPodsAreAddedUp(t *testing.T) {
	measured(t, func(r *hosttest.Rig, s *provisioner.Service, registry *prometheus.Registry) {
		limits := func(want map[string]string) {
			t.Helper()
			_, _ = r.Step(s)
			got := map[string]string{}
			for _, of := range []string{"pod", "daemon"} {
				for key, value := range served(t, registry, "karpenter_nodes_total_"+of+"_limits") {
					words := strings.Fields(key)
					got[of+" "+words[len(words)-2]] = value // only the zone comes after it
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
		daemon := plannertest.DaemonPod("d", "n", limited("memory", "1Gi"))
		r.See(plannertest.Pod("a", plannertest.On("n"), limited("cpu", "2", "memory", "1Gi")), plannertest.Pod("b", plannertest.On("n")), daemon)
		first := map[string]string{"pod cpu": "2", "pod memory": "2.147483648e+09", "pod pods": "3", "daemon memory": "1.073741824e+09", "daemon pods": "1"}
		limits(first)
		limits(first) // from what is remembered
		r.See(plannertest.Pod("c", plannertest.On("n"), limited("cpu", "4")))
		r.Gone(daemon)
		limits(map[string]string{"pod cpu": "6", "pod memory": "1.073741824e+09", "pod pods": "3"})
		r.Gone(plannertest.Pod("a"), plannertest.Pod("b"), plannertest.Pod("c"))
		limits(map[string]string{})
	})
}
