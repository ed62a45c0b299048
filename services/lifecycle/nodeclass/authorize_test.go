package nodeclass

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// The rules: ec2 §3.5.
func TestValidationAsksWhetherLaunchesAreAllowed(t *testing.T) {
	w := newWorld(t)
	asked := 0
	var answer error
	w.cfg.Authorize = func(_ context.Context, nc *awsv1.EC2NodeClass) error {
		if asked++; len(nc.Status.Subnets) == 0 || len(nc.Status.AMIs) == 0 || nc.Status.InstanceProfile == "" {
			t.Errorf("asked for a class that is not resolved: %+v", nc.Status)
		}
		return answer
	}
	nc := class()
	var again time.Duration
	pass := func() (string, error) {
		c, next, err := w.Reconcile(context.Background(), nc, nil)
		nc, again = c.Object, next
		x := meta.FindStatusCondition(nc.Status.Conditions, karpv1.ConditionTypeValidationSucceeded)
		return string(x.Status) + "/" + x.Reason + "/" + x.Message, err
	}
	expect := func(step, want string, calls int) {
		t.Helper()
		got, err := pass()
		if got != want || err != nil || asked != calls {
			t.Errorf("%s: %s, error %v, asked %d times; want %s, %d times", step, got, err, asked, want, calls)
		}
	}

	answer = errors.New("connection reset")
	if got, err := pass(); got != "Unknown/AwaitingReconciliation/object is awaiting reconciliation" || err == nil {
		t.Errorf("no answer: %s, error %v", got, err)
	}
	answer = &Refusal{Reason: "CreateFleetAuthCheckFailed", Message: "Controller isn't authorized to call ec2:CreateFleet"}
	const refused = "False/CreateFleetAuthCheckFailed/Controller isn't authorized to call ec2:CreateFleet"
	expect("refused", refused, 2)
	if again > time.Minute || Ready(nc) == nil {
		t.Errorf("again in %v, ready %v", again, Ready(nc))
	}
	expect("refused, remembered", refused, 2)
	answer = nil
	w.now = w.now.Add(time.Minute)
	expect("allowed after a minute", "True/ValidationSucceeded/", 3)
	w.subnets[0], w.subnets[1] = w.subnets[1], w.subnets[0] // more free addresses now
	w.now = w.now.Add(10 * time.Minute)
	expect("allowed, remembered", "True/ValidationSucceeded/", 3)
	answer = errors.New("throttled")
	w.now = w.now.Add(time.Hour)
	if got, err := pass(); got != "True/ValidationSucceeded/" || err == nil {
		t.Errorf("without an answer the condition stays: %s, error %v", got, err)
	}
	answer = nil
	nc.Generation++
	expect("a new spec is asked about", "True/ValidationSucceeded/", 5)
	nc.Spec.SubnetSelectorTerms = nil
	nc.Generation++
	if got, _ := pass(); asked != 5 || got[:5] != "False" {
		t.Errorf("a spec with faults is not asked about: %s, asked %d times", got, asked)
	}
}

func TestUnreadableClassKeepsWhatWasResolved(t *testing.T) {
	w := newWorld(t)
	sound := w.reconcile(t, class()).Object
	broken := sound.DeepCopy()
	broken.Generation++
	broken.Spec, broken.Unreadable = awsv1.EC2NodeClassSpec{}, "spec.blockDeviceMappings[0].ebs.volumeSize: odd"
	c, _, err := w.Reconcile(context.Background(), broken, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := meta.FindStatusCondition(c.Object.Status.Conditions, karpv1.ConditionTypeValidationSucceeded)
	if x.Status != "False" || x.Message != broken.Unreadable || Ready(c.Object) == nil {
		t.Errorf("conditions = %+v", c.Object.Status.Conditions)
	}
	if len(c.Object.Status.Subnets) != 2 || c.Object.Annotations[hashKey] != sound.Annotations[hashKey] || len(c.Claims) > 0 {
		t.Errorf("status or hash changed: %+v", c.Object)
	}
	if len(c.Events) != 2 || c.Events[0].Reason != x.Type || c.Events[1].Reason != karpv1.ConditionTypeReady {
		t.Errorf("events = %+v", c.Events)
	}
}
