package provision_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/plannertest"
	"millwright/planner/provision"
)

func TestZonesThatPodsAskFor(t *testing.T) {
	selector := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	zones := func(op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: op, Values: values}}}
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	claimed := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "unknown"}}}}
	}
	for name, c := range map[string]struct {
		option func(*corev1.Pod)
		want   []string
	}{
		"nothing":                   {func(*corev1.Pod) {}, []string{"us-west-2a", "us-west-2b", "us-west-2c"}},
		"one":                       {selector(corev1.LabelTopologyZone, "us-west-2b"), []string{"us-west-2b"}},
		"one, by an older name":     {selector(corev1.LabelFailureDomainBetaZone, "us-west-2b"), []string{"us-west-2b"}},
		"one that is not there":     {selector(corev1.LabelTopologyZone, "eu-west-1a"), nil},
		"two terms":                 {affinity(zones("In", "us-west-2a"), zones("NotIn", "us-west-2a", "us-west-2b")), []string{"us-west-2a", "us-west-2c"}},
		"a claim that is not there": {claimed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pod("p", plannertest.Unschedulable(), c.option))...).World
			z := provision.NewZones(w)
			for range 2 { // the second answer may be remembered
				if got := z.Of(w.PendingPods()[0]); !slices.Equal(got, c.want) {
					t.Errorf("%v, want %v", got, c.want)
				}
			}
		})
	}
}
