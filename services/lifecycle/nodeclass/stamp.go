package nodeclass

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
)

const (
	hashKey    = awsv1.NodeClassHashAnnotationKey
	versionKey = awsv1.NodeClassHashVersionAnnotationKey
)

// stamp gives nc its hash and version, and returns the NodeClaims that have to get the new version first (api
// §4): those with another version, if nc's version changes or their own can be computed. Nothing drifts by
// that, and what had drifted stays so.
func stamp(h Hasher, nc *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) []ClaimStamp {
	hash, version := h.Current(nc)
	moves := nc.Annotations[versionKey] != version
	var stamps []ClaimStamp
	for _, c := range claims {
		if c.Annotations[versionKey] == version {
			continue
		}
		same, known := h.Same(nc, c.Annotations[hashKey], c.Annotations[versionKey])
		if !moves && !known {
			continue
		}
		after := c.DeepCopy()
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, versionKey, version)
		drifted := known && !same || !known && differed(c, nc)
		if !drifted && !condition.IsTrue(c.Status.Conditions, karpv1.ConditionTypeDrifted) {
			metav1.SetMetaDataAnnotation(&after.ObjectMeta, hashKey, hash)
		}
		stamps = append(stamps, ClaimStamp{Before: c, After: after})
	}
	metav1.SetMetaDataAnnotation(&nc.ObjectMeta, hashKey, hash)
	metav1.SetMetaDataAnnotation(&nc.ObjectMeta, versionKey, version)
	slices.SortFunc(stamps, func(a, b ClaimStamp) int { return cmp.Compare(a.Before.Name, b.Before.Name) })
	return stamps
}

// differed: claim and class have unequal hashes of the same version.
func differed(c *karpv1.NodeClaim, nc *awsv1.EC2NodeClass) bool {
	version, hash, ofClass := c.Annotations[versionKey], c.Annotations[hashKey], nc.Annotations[hashKey]
	return version != "" && version == nc.Annotations[versionKey] && hash != "" && ofClass != "" && hash != ofClass
}
