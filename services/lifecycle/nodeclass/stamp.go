package nodeclass

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

const (
	hashKey    = awsv1.NodeClassHashAnnotationKey
	versionKey = awsv1.NodeClassHashVersionAnnotationKey
)

// stamp gives nc its hash and version, and returns the NodeClaims that have to get the new version first (api §4). When nc's
// version changes, a claim gets nc's hash, unless it is known to have drifted: by condition, or because its hash
// differed from nc's under the version both had.
func stamp(nc *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) []ClaimStamp {
	hash, oldHash, oldVersion := Hash(nc), nc.Annotations[hashKey], nc.Annotations[versionKey]
	var stamps []ClaimStamp
	if oldVersion != HashVersion {
		for _, c := range claims {
			if c.Annotations[versionKey] == HashVersion {
				continue
			}
			after := c.DeepCopy()
			metav1.SetMetaDataAnnotation(&after.ObjectMeta, versionKey, HashVersion)
			knownDrift := oldVersion != "" && c.Annotations[versionKey] == oldVersion &&
				oldHash != "" && c.Annotations[hashKey] != "" && c.Annotations[hashKey] != oldHash
			if !knownDrift && !meta.IsStatusConditionTrue(c.Status.Conditions, karpv1.ConditionTypeDrifted) {
				metav1.SetMetaDataAnnotation(&after.ObjectMeta, hashKey, hash)
			}
			stamps = append(stamps, ClaimStamp{Before: c, After: after})
		}
	}
	metav1.SetMetaDataAnnotation(&nc.ObjectMeta, hashKey, hash)
	metav1.SetMetaDataAnnotation(&nc.ObjectMeta, versionKey, HashVersion)
	slices.SortFunc(stamps, func(a, b ClaimStamp) int { return cmp.Compare(a.Before.Name, b.Before.Name) })
	return stamps
}
