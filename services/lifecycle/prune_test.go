package lifecycle

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/lifecycle/claims"
	"millwright/services/lifecycle/garbage"
)

func TestNothingIsRememberedOfObjectsThatAreGone(t *testing.T) {
	r := newRig(t)
	r.wait(garbage.ScanEvery)
	before := r.svc.claims.Len() + r.svc.found.Len() + r.svc.status.Len()
	for i := range 50 {
		name := r.plan()
		r.run("ready", r.ready(name))
		r.kube.deleteClaim(name)
		r.run("closed", r.closed(name))
		pool := poolNamed(fmt.Sprint("pool-", i), fmt.Sprint("pool-uid-", i))
		r.kube.put(&r.kube.pools, pool)
		class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("class-", i)}}
		r.kube.put(&r.kube.classes, class)
		r.svc.registrations.Succeeded(pool.UID)
		delete(r.kube.pools, pool.Name)
		delete(r.kube.classes, class.Name)
		r.kube.version++
	}
	r.wait(claims.SearchedFor/5 + 2*time.Minute)
	r.now = r.now.Add(claims.SearchedFor)
	r.wait(2 * garbage.ScanEvery)
	if after := r.svc.claims.Len() + r.svc.found.Len() + r.svc.status.Len(); after > before+10 {
		t.Errorf("%d things are remembered, %d before", after, before)
	}
}
