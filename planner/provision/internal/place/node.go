package place

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/bitset"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/volume"
	"millwright/planner/resource"
	"millwright/planner/topology"
)

// Node is a node, or a claim that has an instance.
type Node struct {
	State *planner.StateNode
	// Free is what it still holds; once prepared, expected DaemonSet pods are subtracted.
	Free     resource.Vector
	prepared bool
	// Shut: it takes no pods that move.
	Shut bool
	// allLabels are those with the hostname; set when first asked for.
	allLabels map[string]string
	volumes   *volume.Use
}

func (n *Node) accept(l *Layout, b *Bin, lv *demand.Level, keeping bool) Outcome {
	c := lv.Class
	if n.Shut {
		return Never
	}
	if !c.Requests.Fits(n.Free) {
		return Full
	}
	if demand.Untolerated(n.State.Taints, c.Pod.Spec.Tolerations, lv.StrictTaints) != nil {
		return Never
	}
	if !n.prepared {
		n.prepare(l, b)
		if !c.Requests.Fits(n.Free) {
			return Full
		}
	}
	if !matchesAny(lv.Alternatives, n.labels()) {
		return Never
	}
	if len(c.Ports) > 0 && demand.Clash(c.Ports, b.Ports) {
		return Never
	}
	volumes := c.Volumes != nil && len(c.Volumes.Claims) > 0
	if volumes {
		if n.volumes == nil {
			n.volumes = volume.UseOf(l.in.Volumes, n.State.Name, n.State.Pods, &l.in.Options)
		}
		if n.volumes.Exceeds(c.Volumes) != "" {
			return Never
		}
	}
	if !keeping {
		if o := l.fixedAllows(n, lv); o != Accepted {
			return o
		}
	}
	l.touch(b)
	if volumes {
		n.volumes.Add(c.Volumes)
	}
	n.Free = n.Free.Sub(c.Requests)
	b.Ports = append(b.Ports, c.Ports...)
	return Accepted
}

// prepare completes a node when it is first tried for a pod: ports in use, room for DaemonSet pods and, from
// Revision1 on, the ports that these will take, also if they come once it is initialized.
func (n *Node) prepare(l *Layout, b *Bin) {
	n.prepared = true
	for _, p := range n.State.Pods {
		if !p.Terminal() {
			b.Ports = append(b.Ports, demand.HostPortsOf(p.Class.Spec, &l.in.Options)...)
		}
	}
	var daemons resource.Vector
	labels, expects := n.labels(), l.in.Options.Revision >= options.Revision1
	if expects && !n.State.Initialized {
		labels = maps.Clone(labels)
		labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	}
	for i := range l.in.Daemons {
		d := &l.in.Daemons[i]
		if !d.RunsOn(n.State.Taints, labels) {
			continue
		}
		daemons = daemons.Add(d.Requests)
		if expects {
			b.Ports = append(b.Ports, d.Ports...)
		}
	}
	if n.State.Node != nil {
		daemons = daemons.Sub(n.State.Node.DaemonUsed).FloorZero()
	}
	n.Free = n.Free.Sub(daemons)
}

// Refuses reports that the node has come, is not going, and keeps pods like that away by its taints or
// labels, whatever else is on it.
func (n *Node) Refuses(lv *demand.Level) bool {
	if n.Shut || n.State.Node == nil || n.State.Initialized && !n.State.Ready() {
		return false
	}
	if t := demand.Untolerated(n.State.Taints, lv.Class.Pod.Spec.Tolerations, lv.StrictTaints); t != nil {
		return t.Key != karpv1.DisruptedTaintKey
	}
	return n.State.Initialized && !matchesAny(lv.Alternatives, n.labels())
}

// labels of the node, its hostname included.
func (n *Node) labels() map[string]string {
	if n.allLabels == nil {
		n.allLabels = labelsOf(n.State)
	}
	return n.allLabels
}

func (n *Node) domains(d *topology.Domains) bitset.Set {
	m := d.NewMask()
	if i := d.Index(n.labels()[d.Key]); i >= 0 {
		m.Add(i)
	}
	return m
}

func (n *Node) mayLack(*topology.Domains) bool { return false }

func (n *Node) certain(key string, f *demand.NodeFilter) []string {
	if v, ok := n.labels()[key]; ok && n.passes(f) {
		return []string{v}
	}
	return nil
}

func (n *Node) passes(f *demand.NodeFilter) bool { return f.Node(n.labels(), n.State.Taints) }

func (n *Node) Target() Target {
	if n.State.Node != nil {
		return Target{Node: n.State.Name}
	}
	return Target{Claim: n.State.Claim.Name}
}

func (n *Node) saved() Place {
	old := *n
	old.volumes = n.volumes.Clone()
	return &old
}

func matchesAny(alternatives []*demand.Alternative, labels map[string]string) bool {
	for _, a := range alternatives {
		if a.Set.MatchesLabels(labels) {
			return true
		}
	}
	return false
}

// labelsOf completes a node's labels: the hostname, and until it is registered what its launch made certain.
func labelsOf(n *planner.StateNode) map[string]string {
	_, named := n.Labels[corev1.LabelHostname]
	launched := launchedOf(n)
	if launched == nil && (named || n.Node == nil) {
		return n.Labels
	}
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if !named && n.Node != nil {
		labels[corev1.LabelHostname] = n.Name
	}
	if launched != nil {
		maps.Copy(labels, launchedRequirements(launched).Labels())
	}
	return labels
}

// launchedOf is the record of a launch whose node has not registered yet; nil otherwise. The NodeClaim may
// not have all of it yet.
func launchedOf(n *planner.StateNode) *ledger.Launched {
	if n.Registered || n.Ledger == nil {
		return nil
	}
	return n.Ledger.Instance
}

// roomOf is what a node offers. Until the NodeClaim has its amounts, they come from the record of its launch.
func roomOf(n *planner.StateNode) resource.Vector {
	if l := launchedOf(n); l != nil && n.Allocatable.IsZero() {
		return l.Allocatable
	}
	return n.Available
}
