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

// usableFor is how long a node is initialized before it is excluded for pods that do not come (DESIGN §5), by
// the clocks of who initialized it and who excludes it.
const usableFor = 15*time.Second - ledger.ClockTolerance - stage.ClocksApart

// CheckTried: kube-scheduler that stands still, or has other pods to bind first, says nothing against a node.
const CheckTried = "a node is excluded for a pod only after kube-scheduler has tried the pod since the node was ready"

// untriedFor is how long a node is initialized before it is excluded for pods that were not tried.
const untriedFor = 5*time.Minute - ledger.ClockTolerance - stage.ClocksApart

// Exclusions judge for which pods nodes are excluded, by what was written to Nodes, and when.
type Exclusions struct {
	*Judge
	// initialized is when a Node's label said so first, by its name; unusable is when it was last seen to
	// take no pods after that.
	initialized, unusable map[string]time.Time
}

func newExclusions(j *Judge) *Exclusions {
	return &Exclusions{Judge: j, initialized: map[string]time.Time{}, unusable: map[string]time.Time{}}
}

// wrote takes in a write of a Node.
func (x *Exclusions) wrote(before, after cluster.Object) {
	for _, o := range []cluster.Object{before, after} {
		n, ok := o.(*corev1.Node)
		if !ok || n.Labels[karpv1.NodeInitializedLabelKey] != "true" {
			continue
		}
		if x.initialized[n.Name].IsZero() {
			x.initialized[n.Name] = x.Clock.Now()
		}
		if !takesPods(n) {
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
		at := x.initialized[n.Name]
		if now.Sub(at) < usableFor {
			x.Violate(CheckExcluded, "record %d excludes Node %s for %d pods, it is initialized since %v, it is %v", e.Seq, n.Name, len(excluded.Pods), at, now)
		}
		for _, p := range excluded.Pods {
			if tried := x.Cluster.Tried(p.UID); tried.Before(at) && now.Sub(at) < untriedFor {
				x.Violate(CheckTried, "record %d excludes Node %s, initialized since %v, for pod %s/%s, which was last tried at %v, it is %v", e.Seq, n.Name, at, p.Namespace, p.Name, tried, now)
			}
		}
	}
}
