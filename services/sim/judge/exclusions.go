package judge

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// CheckExcluded: for a pod that is to wait for a node, and for which that node is excluded too early, a
// second one is bought.
const CheckExcluded = "a node is excluded for a pod only after kube-scheduler had time to use it"

// usableFor is how long a node is initialized before it is excluded for pods that do not come, and readyFor
// how long it is ready if nothing says that it is initialized (DESIGN §5).
const (
	usableFor = 15 * time.Second
	readyFor  = 5 * time.Minute
)

// Exclusions judge for which pods nodes are excluded, by what was written to Nodes and NodeClaims, and when.
type Exclusions struct {
	*Judge
	// initialized is when a NodeClaim's status said so first, by its name; unusable is when a Node was last
	// seen that takes no pods.
	initialized, unusable map[string]time.Time
}

func newExclusions(j *Judge) *Exclusions {
	return &Exclusions{Judge: j, initialized: map[string]time.Time{}, unusable: map[string]time.Time{}}
}

// wrote takes in a write of a Node or NodeClaim.
func (x *Exclusions) wrote(before, after cluster.Object) {
	if c, ok := after.(*karpv1.NodeClaim); ok && x.initialized[c.Name].IsZero() && isTrue(c.Status.Conditions, karpv1.ConditionTypeInitialized) {
		x.initialized[c.Name] = x.Clock.Now()
	}
	for _, o := range []cluster.Object{before, after} {
		if n, ok := o.(*corev1.Node); ok && n.Labels[karpv1.NodeInitializedLabelKey] == "true" && !takesPods(n) {
			x.unusable[n.Name] = x.Clock.Now()
		}
	}
}

// enter judges a plan. A node that took no pods a while ago may be excluded for that.
func (x *Exclusions) enter(e ledger.Entry) {
	p, ok := e.Payload.(*ledger.ProvisioningPlanned)
	if !ok {
		return
	}
	now := x.Clock.Now()
	for _, excluded := range p.Excluded {
		x.Stats.Excluded += len(excluded.Pods)
		n := x.Cluster.Node(excluded.Node)
		if n == nil || !takesPods(n) || now.Sub(x.unusable[n.Name]) < lookback {
			continue
		}
		for _, c := range x.Cluster.NodeClaims() {
			if at := x.initialized[c.Name]; c.Status.ProviderID == n.Spec.ProviderID && now.Before(excludable(n, at)) {
				x.Violate(CheckExcluded, "record %d excludes Node %s for %d pods, NodeClaim %s is initialized since %v, it is %v", e.Seq, n.Name, len(excluded.Pods), c.Name, at, now)
			}
		}
	}
}

// excludable is from when on a node may be excluded that its NodeClaim says to be initialized since then.
func excludable(n *corev1.Node, since time.Time) time.Time {
	after := usableFor
	if since.IsZero() {
		after = readyFor
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				since = c.LastTransitionTime.Time
			}
		}
	}
	return since.Add(after - stage.ClocksApart)
}
