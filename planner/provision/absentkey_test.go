package provision

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// TestTypesWithoutTheKeyAreLeftOut: only m5 has the label that a pod must be near another by, so a claim for
// both must not become a c5, on which the two would share no domain.
func TestTypesWithoutTheKeyAreLeftOut(t *testing.T) {
	c := newCluster()
	c.catalogue()
	cat := *c.world.RawCatalog("default")
	cat.InstanceTypes = slices.Clone(cat.InstanceTypes)
	for i := range cat.InstanceTypes {
		if it := &cat.InstanceTypes[i]; strings.HasPrefix(it.Name, "m5") {
			it.Requirements = map[string][]string{awsv1.LabelInstanceGPUCount: {"1"}, corev1.LabelInstanceTypeStable: {it.Name}}
		}
	}
	c.putCatalog(&cat, &events.Prices{})
	target := newPod("target", map[string]string{"cpu": "1"})
	target.Labels = map[string]string{"app": "target"}
	near := newPod("near", map[string]string{"cpu": "100m"})
	near.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: awsv1.LabelInstanceGPUCount, LabelSelector: &metav1.LabelSelector{MatchLabels: target.Labels}}}}}
	c.put(newPool("default"), target, near)
	p, _ := c.plan(t)
	for _, claim := range p.Claims {
		if len(claim.Pods) != 2 || slices.ContainsFunc(claim.InstanceTypes, func(n string) bool { return !strings.HasPrefix(n, "m5") }) {
			t.Errorf("claim of %v for %v", claim.InstanceTypes, claim.Pods)
		}
	}
	if len(p.Claims) != 1 || len(p.Refused) > 0 {
		t.Errorf("%d claims, refused: %+v", len(p.Claims), p.Refused)
	}
}
