package lifecycle

import (
	"strings"
	"testing"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
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

// A Node that was deleted without our finalizer comes again, bare, when kubelet starts anew: it gets what
// registration and initialization put on it, whatever fails on the way, so that pods may run on it and are
// drained.
func TestANodeThatIsMadeAnewRegistersAgain(t *testing.T) {
	for name, taints := range map[string][]corev1.Taint{"with the unregistered taint": {karpv1.UnregisteredTaint()}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			for at := range 6 {
				for _, f := range []fault{crashBefore, crashAfter, errorBefore, loseAnswer} {
					r, claimName := registeredAnew(t, taints, func(r *rig) { r.at, r.fault = r.acts+1+at, f })
					r.noDrain = true
					r.kube.deleteClaim(claimName)
					r.wait(2 * time.Minute)
					if r.ec2.running() != 1 {
						t.Fatalf("%s at act %d: the instance is ended with its pods", f, at)
					}
				}
			}
		})
	}
}

// registeredAnew makes the Node of a claim anew, with these taints, and waits until it can be used.
func registeredAnew(t *testing.T, taints []corev1.Taint, before func(*rig)) (*rig, string) {
	t.Helper()
	r := newRig(t)
	claimName := r.readyClaims(1)[0]
	r.wait(time.Minute)
	old := r.kube.nodes[r.led.Claim(claimName).Node].DeepCopy()
	old.Finalizers = nil
	r.kube.put(&r.kube.nodes, old)
	r.kube.deleteNode(old.Name)
	r.wait(time.Minute)
	anew := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "renamed", UID: "anew", CreationTimestamp: metav1.NewTime(r.now)},
		Spec: corev1.NodeSpec{ProviderID: old.Spec.ProviderID, Taints: taints}, Status: *old.Status.DeepCopy()}
	anew.Status.Conditions[0].Status = corev1.ConditionFalse
	before(r)
	r.kube.put(&r.kube.nodes, anew)
	r.wait(10 * time.Second)
	n := r.kube.nodes["renamed"].DeepCopy()
	if n.Labels[karpv1.NodeRegisteredLabelKey] != "true" || n.Labels[karpv1.NodeInitializedLabelKey] != "" {
		t.Fatalf("the Node is not ready yet, and has labels %v", n.Labels)
	}
	n.Status.Conditions[0].Status = corev1.ConditionTrue
	r.kube.put(&r.kube.nodes, n)
	r.wait(10 * time.Second)
	n = r.kube.nodes["renamed"]
	if n.Labels[karpv1.NodeInitializedLabelKey] != "true" || !claim.IsHeld(n) || !claim.IsRegistered(n) || r.kube.claims[claimName].Status.NodeName != "renamed" {
		t.Fatalf("labels %v, taints %v, finalizers %v; the NodeClaim names %s", n.Labels, n.Spec.Taints, n.Finalizers, r.kube.claims[claimName].Status.NodeName)
	}
	records := r.count(ledger.KindClaimRegistered)
	r.wait(5 * time.Minute)
	if got := r.count(ledger.KindClaimRegistered); got != records || r.led.Claim(claimName).State != ledger.ClaimInitializedState {
		t.Fatalf("it goes on: %d records of its registration, now %d, state %s", records, got, r.led.Claim(claimName).State)
	}
	return r, claimName
}
