package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/ledger"
)

// plannedRounds counts the rounds of planning that planned new claims.
func (e *env) plannedRounds() []recorded[ledger.ProvisioningPlanned] {
	e.Helper()
	return slices.DeleteFunc(records[ledger.ProvisioningPlanned](e, "ProvisioningPlanned"), func(r recorded[ledger.ProvisioningPlanned]) bool {
		return len(r.Payload.Claims) == 0
	})
}

// TestPlacementHints: pods of all sizes come at once, and those that kube-scheduler does not bind too early
// get hints to the nodes they were planned for. How many get one, and how closely kube-scheduler follows the
// plan, is printed but not required: it may bind a pod before its hint is written, and then pods that were
// planned for one node run on different ones.
func TestPlacementHints(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	sizes := [][2]string{{"100m", "256Mi"}, {"500m", "1Gi"}, {"700m", "4Gi"}, {"1", "2Gi"}, {"1500m", "512Mi"}}
	const replicas = 8
	for i, s := range sizes {
		e.deploy(fmt.Sprint("web-", i), replicas, s[0], s[1], func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-cpu": "4"}
		})
	}
	for i := range sizes {
		e.running(fmt.Sprint("web-", i), replicas)
	}
	pods, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, p := range pods.Items {
		at[p.Name] = p.Spec.NodeName
	}
	planned, apart := 0, 0
	for _, r := range e.plannedRounds() {
		for _, c := range r.Payload.Claims {
			planned++
			most := map[string]int{}
			for _, p := range c.Pods {
				most[at[p.Name]]++
			}
			together := 0
			for _, n := range most {
				together = max(together, n)
			}
			apart += len(c.Pods) - together
		}
	}
	first := len(e.plannedRounds()[0].Payload.Claims)
	hints := e.metric("millwright", `millwright_provisioner_placement_hints_total{outcome="set"}`)
	t.Logf("%d nodes planned in the first round, %d bought; %d of %d pods run apart from those they were planned with; %v hints", first, planned, apart, len(at), hints)
	if hints == 0 {
		t.Error("no pod had a hint")
	}
	e.sound()
}
