package lifecycle

import (
	"strings"
	"testing"
	"time"

	"millwright/planner/condition"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

func (r *rig) health() *metav1.Condition {
	r.wait(3 * time.Second)
	return condition.Get(r.kube.pools["default"].Status.Conditions, karpv1.ConditionTypeNodeRegistrationHealthy)
}

// loseNode lets one claim of the pool run into the registration timeout.
func (r *rig) loseNode() {
	r.noKubelet = true
	name := r.plan()
	r.wait(time.Minute)
	r.now = r.now.Add(15 * time.Minute)
	r.run("claim closed", func() bool { return r.led.Claim(name) == nil })
	r.noKubelet = false
}

func TestRegistrationHealthOfAPool(t *testing.T) {
	r := newRig(t)
	if c := r.health(); c.Status != "Unknown" || c.Reason != condition.ReasonAwaiting {
		t.Fatalf("at start: %+v", c)
	}
	if got := r.kube.pools["default"].Status.NodeClassObservedGeneration; got != 1 {
		t.Errorf("nodeClassObservedGeneration = %d", got)
	}
	r.loseNode()
	if c := r.health(); c.Status != "Unknown" {
		t.Errorf("after one failure: %+v", c)
	}
	r.loseNode()
	c := r.health()
	if c.Status != "False" || c.Reason != "RegistrationFailed" {
		t.Errorf("after two failures: %+v", c)
	}
	if !condition.IsTrue(r.kube.pools["default"].Status.Conditions, "Ready") {
		t.Error("Ready depends on it")
	}
	told := false
	for _, e := range r.events {
		told = told || e.Reason == karpv1.ConditionTypeNodeRegistrationHealthy && strings.Contains(e.Message, "Unknown -> False")
	}
	if !told {
		t.Error("no event tells of it")
	}
	r.restart()
	if c := r.health(); c.Status != "False" || c.Reason != "RegistrationFailed" {
		t.Errorf("a new leader forgets: %+v", c)
	}
	r.run("node ready", r.ready(r.plan()))
	if c := r.health(); c.Status != "False" {
		t.Errorf("one success of three: %+v", c)
	}
	class := r.kube.classes["default"].DeepCopy()
	class.Generation, class.Status.Conditions[0].ObservedGeneration = 2, 2
	r.kube.put(&r.kube.classes, class)
	if c := r.health(); c.Status != "Unknown" || r.kube.pools["default"].Status.NodeClassObservedGeneration != 2 {
		t.Errorf("a new NodeClass starts anew: %+v", c)
	}
	r.run("node ready", r.ready(r.plan()))
	if c := r.health(); c.Status != "True" || c.Reason != karpv1.ConditionTypeNodeRegistrationHealthy || c.Message != "" {
		t.Errorf("after a success: %+v", c)
	}
	pool := r.kube.pools["default"].DeepCopy()
	pool.Generation = 2
	r.kube.put(&r.kube.pools, pool)
	if c := r.health(); c.Status != "Unknown" || c.ObservedGeneration != 2 {
		t.Errorf("a new NodePool starts anew: %+v", c)
	}
}
