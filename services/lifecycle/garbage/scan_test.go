package garbage

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

type classCache struct{ Cache }

func (classCache) NodeClasses() []*awsv1.EC2NodeClass {
	return []*awsv1.EC2NodeClass{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
}

// What is remembered of a NodeClass is forgotten once neither the class nor a NodeClaim of it is there.
func TestNodeClassesInUse(t *testing.T) {
	claim := &karpv1.NodeClaim{}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "deleted-under-a-claim"}
	g := &Collector{deps: Deps{Cache: classCache{}}}
	p := g.presentBy(&listing{claims: []*karpv1.NodeClaim{claim}})
	if want := map[string]bool{"default": true, "deleted-under-a-claim": true}; !maps.Equal(p.ClassesInUse, want) {
		t.Errorf("in use: %v", p.ClassesInUse)
	}
	if want := map[string]bool{"default": true}; !maps.Equal(p.Classes, want) {
		t.Errorf("there: %v", p.Classes)
	}
}
