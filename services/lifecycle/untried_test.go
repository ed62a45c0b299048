package lifecycle

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/planner/ledger"
)

// A NodeClaim that somebody made while Millwright was not there, as during an upgrade, is launched when it
// comes: nobody has tried yet.
func TestAHandMadeNodeClaimIsLaunchedThoughNobodyWasThereForLong(t *testing.T) {
	for _, age := range []time.Duration{4 * time.Minute, 6 * time.Minute} {
		t.Run(fmt.Sprint(age), func(t *testing.T) {
			r := newRig(t)
			r.kube.put(&r.kube.claims, &karpv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "byhand", Generation: 1, CreationTimestamp: metav1.NewTime(r.now.Add(-age)), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}},
				Spec:       karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}},
			})
			r.wait(2 * time.Minute)
			if r.kube.claims["byhand"] == nil || r.count(ledger.KindLaunched) != 1 {
				t.Errorf("gone: %t, launches asked for: %d, log %v", r.kube.claims["byhand"] == nil, r.count(ledger.KindLaunchRequested), r.kinds())
			}
		})
	}
}

// What was planned when an operator stopped everything is launched after that.
func TestAfterAStopWhatWasPlannedIsLaunched(t *testing.T) {
	r := newRig(t)
	made := 0
	r.recorded = map[ledger.Kind]func(){ledger.KindClaimCreated: func() {
		if made++; made == 2 {
			r.stop(ledger.StopAll)
		}
	}}
	names := []string{r.plan(), r.plan()}
	r.wait(6 * time.Minute)
	if n := r.count(ledger.KindLaunchRequested) + r.count(ledger.KindFleetRequested); n > 0 {
		t.Fatalf("%d launches under the stop", n)
	}
	r.stop(ledger.StopNone)
	r.wait(time.Minute)
	for _, name := range names {
		if c := r.led.Claim(name); c == nil || c.Instance == nil {
			t.Errorf("%s is not launched: %+v", name, c)
		}
	}
	if c := condition.Get(r.kube.pools["default"].Status.Conditions, karpv1.ConditionTypeNodeRegistrationHealthy); c != nil && c.Status == metav1.ConditionFalse {
		t.Error("the stop counts as failed registrations")
	}
}
