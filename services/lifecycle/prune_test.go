package lifecycle

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/services/lifecycle/garbage"
)

// remembered counts what the service keeps in memory of objects.
func (m *memory) remembered() int {
	return len(m.settled) + len(m.marks) + len(m.failures) + len(m.sought) + len(m.catalogues) +
		len(m.lookups) + len(m.registering)
}

func TestNothingIsRememberedOfObjectsThatAreGone(t *testing.T) {
	r := newRig(t)
	r.wait(garbage.ScanEvery)
	before := r.svc.mem.remembered() + r.svc.found.Len() + r.svc.status.Len()
	for i := range 50 {
		name := r.plan()
		r.run("ready", r.ready(name))
		r.kube.deleteClaim(name)
		r.run("closed", r.closed(name))
		pool := poolNamed(fmt.Sprint("pool-", i), fmt.Sprint("pool-uid-", i))
		r.kube.put(&r.kube.pools, pool)
		class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("class-", i)}}
		r.kube.put(&r.kube.classes, class)
		m := r.svc.mem
		m.learn(&karpv1.NodeClassReference{Name: class.Name}, &catalog.Catalog{})
		r.svc.registrations.Succeeded(pool.UID)
		m.setFailure(uidOf(fmt.Sprint("gone-", i)), &claim.Failure{})
		m.setSought(uidOf(fmt.Sprint("gone-", i)))
		m.lookingSince(fmt.Sprint("tag-", i), r.now)
		m.settle(fmt.Sprint("shadow/gone-", i), "v")
		delete(r.kube.pools, pool.Name)
		delete(r.kube.classes, class.Name)
		r.kube.version++
	}
	r.wait(searchedFor/5 + 2*time.Minute)
	r.now = r.now.Add(searchedFor)
	r.wait(2 * garbage.ScanEvery)
	if after := r.svc.mem.remembered() + r.svc.found.Len() + r.svc.status.Len(); after > before+10 {
		t.Errorf("%d things are remembered, %d before", after, before)
	}
}
