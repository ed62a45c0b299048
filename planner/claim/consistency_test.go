package claim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
)

// The rules: lifecycle §9.
func TestShortfalls(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l["cpu"] = resource.MustParse(cpu)
		}
		if memory != "" {
			l["memory"] = resource.MustParse(memory)
		}
		return l
	}
	for sentence, c := range map[string]struct {
		requests, expected, found corev1.ResourceList
		want                      []string
	}{
		"all is there":                     {list("1", "1Gi"), list("2", "8Gi"), list("2", "8Gi"), nil},
		"nine tenths are enough":           {list("1", "1Gi"), list("2", "10Gi"), list("1800m", "9Gi"), nil},
		"less is not":                      {list("1", "1Gi"), list("2", "8Gi"), list("1799m", "4Gi"), []string{"expected 2 of resource cpu, but found 1799m (89.9% of expected)", "expected 8Gi of resource memory, but found 4Gi (50.0% of expected)"}},
		"nothing at all":                   {list("1", ""), list("2", ""), list("", ""), []string{"expected 2 of resource cpu, but found 0 (0.0% of expected)"}},
		"what nobody requested":            {list("1", ""), list("2", "8Gi"), list("2", "1Gi"), nil},
		"what nobody expected":             {list("1", "1Gi"), list("2", ""), list("2", "1Gi"), nil},
		"more than int64 holds":            {list("", "1Gi"), list("", "10E"), list("", "1Ei"), nil},
		"more than can be multiplied by k": {list("", "1Gi"), list("", "1000Pi"), list("", "500Pi"), []string{"expected 1000Pi of resource memory, but found 500Pi (50.0% of expected)"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, n := &karpv1.NodeClaim{}, &corev1.Node{}
			o.Spec.Resources.Requests, o.Status.Capacity, n.Status.Capacity = c.requests, c.expected, c.found
			if d := cmp.Diff(c.want, claim.Shortfalls(o, n)); d != "" {
				t.Error(d)
			}
		})
	}
}
