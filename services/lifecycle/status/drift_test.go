package status

import (
	"testing"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/lifecycle/nodeclass"
)

// Hashes are compared within one version, and only if it can be computed: a class of another is stamped soon, its claims before it.
func TestClassHashesOfOtherAlgorithmsSayNothing(t *testing.T) {
	stamp := func(hash, version string) map[string]string {
		return map[string]string{awsv1.NodeClassHashAnnotationKey: hash, awsv1.NodeClassHashVersionAnnotationKey: version}
	}
	for name, c := range map[string]struct {
		class, claim map[string]string
		want         verdict
	}{
		"both of one that cannot be computed":          {stamp("1", "v3"), stamp("1", "v3"), inSync},
		"both of one, and unequal: stamping says that": {stamp("1", "v3"), stamp("2", "v3"), inSync},
		"the class is stamped, the claim is not":       {stamp("1", "v5"), stamp("1", "v3"), inSync},
		"the claim is stamped, the class is not":       {stamp("1", "v3"), stamp("1", "v5"), inSync},
		"no annotations":                               {nil, nil, inSync},
		"ours, of another spec":                        {stamp("1", "v5"), stamp("1", "v5"), drifted},
		"of Karpenter 1.1, of another spec":            {stamp("1", "v4"), stamp("1", "v4"), drifted},
		"mw1, of another spec":                         {stamp("1", "mw1"), stamp("1", "mw1"), drifted},
	} {
		nc, o := &awsv1.EC2NodeClass{}, &karpv1.NodeClaim{}
		nc.Annotations, o.Annotations = c.class, c.claim
		y := newClassReference(nodeclass.Hasher{}, nc, nil)
		if got := (&comparison{o: o, class: y}).classHash(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
