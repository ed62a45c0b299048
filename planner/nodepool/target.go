package nodepool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
)

// Target identifies what new nodes of a NodePool are: by the hash of its template, its requirements, the
// hash of its class, and the images, subnets and security groups that the class has found. class is nil if
// there is none. Roll-outs in waves are told apart by it.
func Target(p *karpv1.NodePool, class *awsv1.EC2NodeClass) string {
	target := struct {
		Template     string
		Requirements []karpv1.NodeSelectorRequirementWithMinValues
		Class        string
		Found        []string
	}{Template: Hash(p), Requirements: p.Spec.Template.Spec.Requirements}
	if class != nil {
		target.Class = class.Annotations[awsv1.NodeClassHashAnnotationKey]
		for _, x := range class.Status.AMIs {
			target.Found = append(target.Found, x.ID)
		}
		for _, x := range class.Status.Subnets {
			target.Found = append(target.Found, x.ID)
		}
		for _, x := range class.Status.SecurityGroups {
			target.Found = append(target.Found, x.ID)
		}
		slices.Sort(target.Found)
	}
	text, err := json.Marshal(target)
	if err != nil {
		return "unencodable: " + err.Error()
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Resolved reports that it is known what new nodes of a class are: it is Ready, so that the images, subnets
// and security groups that it selects were found. While it is not, Target may change from one moment to the
// next. class is nil if there is none.
func Resolved(class *awsv1.EC2NodeClass) bool {
	return class != nil && condition.IsTrue(class.Status.Conditions, karpv1.ConditionTypeReady)
}
