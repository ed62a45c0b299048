package lifecycle

import (
	"strings"
	"testing"
	"time"

	"millwright/planner/condition"

	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "millwright/api/karpenter/v1"
)

func TestANodeWithLessThanExpectedIsTold(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.wait(3 * time.Second)
	conditionText := func() string {
		c := condition.Get(r.kube.claims[name].Status.Conditions, karpv1.ConditionTypeConsistentStateFound)
		return string(c.Status) + "/" + c.Reason
	}
	if got := conditionText(); got != "True/ConsistentStateFound" {
		t.Fatalf("condition = %s", got)
	}
	n := r.kube.nodes["node-i-0001"].DeepCopy()
	n.Status.Capacity["cpu"] = resource.MustParse("1500m")
	r.kube.put(&r.kube.nodes, n)
	r.wait(3 * time.Second)
	if got := conditionText(); got != "False/ConsistencyCheckFailed" || !condition.IsTrue(r.kube.claims[name].Status.Conditions, "Ready") {
		t.Errorf("conditions = %+v", r.kube.claims[name].Status.Conditions)
	}
	for _, e := range r.events {
		if e.Reason == "FailedConsistencyCheck" && strings.Contains(e.Message, "expected 2 of resource cpu, but found 1500m (75.0% of expected)") {
			return
		}
	}
	t.Errorf("no event tells of it")
}
