package offer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// daemonGroup is a set of instance types on which the same DaemonSets run.
type daemonGroup struct {
	Types    bitset.Set
	Overhead resource.Vector
	Ports    []demand.HostPort
}

// daemonGroups divides the pool's types by which DaemonSets run on them. DaemonSets tolerate
// PreferNoSchedule, and see the labels of a finished node.
func daemonGroups(daemons []DaemonSet, t *Template) []daemonGroup {
	groups := []daemonGroup{{Types: t.Catalog.All()}}
	set := FinishedLabels(t.Base)
	for i := range daemons {
		on := DaemonTypes(&daemons[i], set, t.Taints(), t.Catalog)
		if !on.Any() {
			continue
		}
		var split []daemonGroup
		for _, g := range groups {
			with, without := g.Types.Clone(), g.Types.Clone()
			with.And(on)
			for j := range on.Members() {
				without.Remove(j)
			}
			if with.Any() {
				split = append(split, daemonGroup{with, g.Overhead.Add(daemons[i].Requests), slices.Concat(g.Ports, daemons[i].Ports)})
			}
			if without.Any() {
				split = append(split, daemonGroup{without, g.Overhead, g.Ports})
			}
		}
		groups = split
	}
	return groups
}

// FinishedLabels adds the labels that nodes get once they are registered and initialized.
func FinishedLabels(s requirement.Set) requirement.Set {
	return s.Without(karpv1.NodeRegisteredLabelKey, karpv1.NodeInitializedLabelKey).Add(
		requirement.In(karpv1.NodeRegisteredLabelKey, "true"), requirement.In(karpv1.NodeInitializedLabelKey, "true"))
}

// DaemonTypes returns the types on which a DaemonSet's pods run, of a claim with these requirements.
func DaemonTypes(d *DaemonSet, set requirement.Set, taints []corev1.Taint, c *catalog.Catalog) bitset.Set {
	on := bitset.New(len(c.Types))
	if demand.Untolerated(taints, d.Spec.Tolerations, false) != nil {
		return on
	}
	for _, terms := range demand.PodTerms(d.Spec) {
		if set.CompatibleSet(terms, requirement.AllKnown) {
			on.Or(c.MatchingSet(terms))
		}
	}
	return on
}

// RunsOn reports that the DaemonSet has a pod on a node.
func (d *DaemonSet) RunsOn(taints []corev1.Taint, labels map[string]string) bool {
	if demand.Untolerated(taints, d.Spec.Tolerations, false) != nil {
		return false
	}
	for _, terms := range demand.PodTerms(d.Spec) {
		if terms.MatchesLabels(labels) {
			return true
		}
	}
	return false
}

// OverheadOf is the DaemonSets' share, the least over the groups still possible.
func (t *Template) OverheadOf(types bitset.Set) resource.Vector {
	var v resource.Vector
	first := true
	for i := range t.Groups {
		g := &t.Groups[i]
		if !g.Types.Meets(types) {
			continue
		}
		if first {
			v, first = g.Overhead, false
		} else {
			v = v.Min(g.Overhead)
		}
	}
	return v
}

// DaemonSet is a DaemonSet whose pods take up room on each node it matches.
type DaemonSet struct {
	Spec     *corev1.PodSpec
	Requests resource.Vector
	// Ports of the host that its pods take.
	Ports []demand.HostPort
}
