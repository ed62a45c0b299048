package lifecycle

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
)

// TestCataloguesOfNodeClassesThatAreGoneAreForgotten, and none that a NodeClass or a NodeClaim stands for.
func TestCataloguesOfNodeClassesThatAreGoneAreForgotten(t *testing.T) {
	r := newRig(t)
	learn := func(name string) *karpv1.NodeClassReference {
		ref := &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: name}
		r.svc.mem.learn(ref, &catalog.Catalog{NodeClass: name})
		return ref
	}
	learn("default")
	for i := range 200 {
		name := fmt.Sprint("gone-", i)
		r.kube.put(&r.kube.classes, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
		learn(name)
		delete(r.kube.classes, name)
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "launching", UID: "u", CreationTimestamp: metav1.NewTime(r.now)}}
	claim.Spec.NodeClassRef = learn("deleted-under-a-claim")
	r.kube.put(&r.kube.claims, claim)
	r.now = r.now.Add(time.Second)
	if err := r.svc.garbage.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := r.svc.mem.catalogues
	if len(left) != 2 || left["default"] == nil || left["deleted-under-a-claim"] == nil {
		t.Errorf("%d catalogues are left: %v", len(left), left)
	}
}
