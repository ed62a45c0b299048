package world

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	wire "millwright/proto/checkpoint"

	"millwright/planner/intern"
)

// typeListsMax bounds the lists of instance types that are compared with a new one.
const typeListsMax = 64

// sharing returns the NodeClaim with texts and lists that many NodeClaims have alike held once. Each is made
// of a plan with up to 600 instance types, and claims planned for the same pods have the same.
func (w *World) sharing(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	kept := *c
	kept.Labels, kept.Annotations = intern.Map(c.Labels), intern.Map(c.Annotations)
	kept.Spec.Requirements = slices.Clone(c.Spec.Requirements)
	for i := range kept.Spec.Requirements {
		if r := &kept.Spec.Requirements[i]; r.Key == corev1.LabelInstanceTypeStable && len(r.Values) > 1 {
			r.Values = w.typeLists.shared(r.Values)
		}
	}
	return &kept
}

// typeLists are the lists of instance types that were folded last.
type typeLists [][]string

// shared returns an equal list that was folded before, or a copy of the list.
func (l *typeLists) shared(types []string) []string {
	if i := slices.IndexFunc(*l, func(known []string) bool { return slices.Equal(known, types) }); i >= 0 {
		return (*l)[i]
	}
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = intern.String(t)
	}
	from := max(0, len(*l)+1-typeListsMax)
	*l = append(slices.Clone((*l)[from:]), list) // versions keep what they have
	return list
}

// shareRestored does the same with a NodeClaim that was just restored.
func (w *World) shareRestored(o *wire.Object) {
	r, ok := w.claims.rows.Get(o.Name)
	if !ok {
		return
	}
	shared := *r
	shared.value = w.sharing(r.value)
	w.claims.rows.Set(w.owner, o.Name, &shared)
}
