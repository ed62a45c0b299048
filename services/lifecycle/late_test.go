package lifecycle

import (
	"testing"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/lifecycle/garbage"
)

// An attempt may launch long after it was recorded, when its request is sent again. The time that EC2 is
// given to show the instance counts from then, for the leader that sent it and for the next.
func TestAnInstanceThatWasLaunchedLateIsNotTakenForGone(t *testing.T) {
	for name, restarts := range map[string]bool{"one leader": false, "two": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			claimName := r.plan()
			for range 7 {
				r.ec2.refuse = append(r.ec2.refuse, lostFleet)
			}
			r.ec2.lag = 10 * time.Second
			r.run("attempt open", func() bool { c := r.led.Claim(claimName); return c != nil && c.Open != nil })
			opened := r.now
			r.run("launched", func() bool { return r.count(ledger.KindLaunched) == 1 })
			if r.now.Sub(opened) < garbage.VisibleAfter {
				t.Fatalf("launched after %s", r.now.Sub(opened))
			}
			r.kube.deleteClaim(claimName)
			if restarts {
				r.restart()
			}
			r.run("claim closed", func() bool {
				if r.count(ledger.KindInstanceTerminated) > 0 && r.ec2.running() > 0 {
					t.Fatalf("taken for gone: %v", r.ec2.describe())
				}
				return r.closed(claimName)()
			})
		})
	}
}

// Pods come to a Node as soon as its registration is written. Until the cache shows what came of that write,
// its NodeClaim is not taken for one that never had a Node in use.
func TestANodeThatHasJustRegisteredIsDrained(t *testing.T) {
	for name, lost := range map[string]bool{"the write is answered": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.noDrain = true
			claimName := r.plan()
			if lost {
				r.at, r.fault = actOf(t, r, "update node"), loseAnswer
			}
			r.noKubelet = true
			r.run("running", func() bool {
				i := r.ec2.instances["i-0001"]
				return i != nil && i.State == "running" && r.count(ledger.KindLaunched) == 1
			})
			r.noKubelet = false
			r.kubelet()
			node := func() *corev1.Node { return r.kube.nodes["node-i-0001"] }
			r.kube.stale[node().Name] = node()
			for !claim.IsRegistered(node()) { // a turn would come too late
				if _, err := r.svc.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
				for len(r.queue) > 0 && !claim.IsRegistered(node()) {
					r.carryOut()
				}
			}
			r.kube.deleteClaim(claimName)
			r.wait(10 * time.Second)
			if r.ec2.running() != 1 {
				t.Fatalf("ended with pods on its Node: %v", r.ec2.describe())
			}
			clear(r.kube.stale)
			r.kube.indexed = 0
			r.run("drain", func() bool { return node() != nil && !node().DeletionTimestamp.IsZero() })
			if r.noDrain = false; r.ec2.running() != 1 {
				t.Fatalf("ended before the drain: %v", r.ec2.describe())
			}
			r.run("claim closed", r.closed(claimName))
		})
	}
}

// TestANodeThatTheCacheLacksIsDrained: a leader whose cache of Nodes is far behind the log must not take the
// claim of a registered Node for one without a Node, or for one whose Node never registered.
func TestANodeThatTheCacheLacksIsDrained(t *testing.T) {
	for name, earlier := range map[string]func(*corev1.Node){
		"as it was when kubelet had just made it": func(n *corev1.Node) { n.Spec.ProviderID = "" },
		"as it was before it registered": func(n *corev1.Node) {
			n.Finalizers = nil
			delete(n.Labels, karpv1.NodeRegisteredLabelKey)
			n.Spec.Taints = append(n.Spec.Taints, karpv1.UnregisteredTaint())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			name := r.plan()
			r.run("node ready", r.ready(name))
			r.noDrain = true
			node := r.kube.nodes["node-i-0001"]
			before := node.DeepCopy()
			earlier(before)
			r.kube.stale[node.Name], r.kube.indexed = before, 0
			r.kube.deleteClaim(name)
			r.wait(30 * time.Second)
			if r.ec2.running() != 1 {
				t.Fatalf("ended with pods on its Node: %v", r.ec2.describe())
			}
			clear(r.kube.stale)
			r.kube.indexed = 0
			r.run("drain", func() bool {
				n := r.kube.nodes[node.Name]
				return n != nil && !n.DeletionTimestamp.IsZero()
			})
			r.noDrain = false
			r.run("claim closed", r.closed(name))
		})
	}
}

// The slow write of a deposed leader can register a Node whose claim its successor has just closed. What
// protects the pods that come to it does not hold it forever: its machine is gone.
func TestANodeThatRegistersAfterItsClaimIsClosedIsLetGo(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	late := r.kube.nodes["node-i-0001"].DeepCopy()
	r.kube.deleteClaim(name)
	r.run("claim closed", r.closed(name))
	r.noDrain = true
	r.wait(time.Minute)
	late.UID, late.DeletionTimestamp = uidOf("late"), &metav1.Time{Time: r.now} // no object ever comes back
	late.Status.Conditions[0].Status = corev1.ConditionUnknown
	r.kube.put(&r.kube.nodes, late)
	r.wait(time.Minute)
	if r.kube.nodes[late.Name] != nil {
		t.Error("it waits for the drain")
	}
}

// A Node can register while the log is away and be gone when it is back: the record of its registration is
// never made then.
func TestAClaimWhoseNodeVanishedBeforeItWasRecordedIsReplaced(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.noKubelet = true
	r.run("launched", func() bool { return r.count(ledger.KindLaunched) == 1 })
	r.noKubelet, r.logAway = false, true
	r.run("registered", func() bool {
		o := r.kube.claims[name]
		return o != nil && condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeRegistered) && o.Status.NodeName != ""
	})
	bare := r.kube.nodes["node-i-0001"].DeepCopy()
	bare.Finalizers = nil
	r.kube.put(&r.kube.nodes, bare)
	r.kube.deleteNode(bare.Name)
	r.logAway = false
	if c := r.led.Claim(name); c.State != ledger.ClaimLaunched {
		t.Fatalf("the claim is %s", c.State)
	}
	r.run("claim closed", r.closed(name))
}

// A NodeClaim is made right after a scan, and by the API server's clock, which is a little behind, before it:
// that the scan has not listed it says nothing.
func TestAScanDoesNotHideWhatIsMadeAfterItByASlowClock(t *testing.T) {
	r := newRig(t)
	r.kube.slow = 4 * time.Second
	r.wait(fullEvery + 5*time.Second)
	last := r.svc.found.Scanned()
	r.run("scanned", func() bool { return r.svc.found.Scanned().After(last) })
	r.plan()
	planned, creations := r.now, func() (n int) {
		for _, act := range r.trail {
			if act == "create nodeclaim" {
				n++
			}
		}
		return n
	}
	r.run("launched", func() bool { return r.count(ledger.KindLaunched) == 1 })
	if took := r.now.Sub(planned); took > 5*time.Second || creations() != 1 {
		t.Errorf("launched after %s, with %d calls to make the NodeClaim", took, creations())
	}
}
