package remedy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// edit of a NodePool or of a pod.
type edit struct {
	text string
	pool func(*karpv1.NodePool)
	pod  func(*corev1.Pod)
	// less are smaller edits for a claim that this one made possible, the smallest first; nil: there are
	// none.
	less func(t *trial, claim *ledger.PlannedClaim) []edit
}

func (e *edit) smaller(t *trial, claim *ledger.PlannedClaim) []edit {
	if e.less == nil || claim == nil {
		return nil
	}
	return e.less(t, claim)
}

// poolEdits are what may be changed of a NodePool, one thing at a time.
func poolEdits(p *karpv1.NodePool) (edits []edit) {
	var keys []string
	for _, r := range p.Spec.Template.Spec.Requirements {
		if !slices.Contains(keys, r.Key) {
			keys = append(keys, r.Key)
		}
	}
	for _, key := range keys {
		edits = append(edits, requirementEdit(p.Name, key))
	}
	for _, key := range slices.Sorted(maps.Keys(p.Spec.Template.Labels)) {
		edits = append(edits, edit{text: fmt.Sprintf("take the label %s=%s from the template of NodePool %s", key, p.Spec.Template.Labels[key], p.Name),
			pool: func(p *karpv1.NodePool) { delete(p.Spec.Template.Labels, key) }})
	}
	for _, taint := range p.Spec.Template.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			edits = append(edits, edit{text: fmt.Sprintf("let the pod tolerate the taint %s of NodePool %s", taint.ToString(), p.Name),
				pod: func(o *corev1.Pod) {
					o.Spec.Tolerations = append(o.Spec.Tolerations, corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect})
				}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Limits)) {
		edits = append(edits, limitEdit(p, name))
	}
	return edits
}

// requirementEdit takes the requirements on a key away; smaller ones let it have the values of one type too.
func requirementEdit(pool, key string) edit {
	about := func(r *karpv1.NodeSelectorRequirementWithMinValues) bool { return r.Key == key }
	e := edit{text: fmt.Sprintf("drop what NodePool %s requires of %s", pool, key)}
	e.pool = func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = slices.DeleteFunc(p.Spec.Template.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return about(&r) })
	}
	e.less = func(t *trial, claim *ledger.PlannedClaim) (list []edit) {
		requirements := t.base.NodePool(pool).Spec.Template.Spec.Requirements
		var had []string
		minimum := false
		for i := range requirements {
			if about(&requirements[i]) {
				had = append(had, requirements[i].Values...)
				minimum = minimum || requirements[i].MinValues != nil
			}
		}
		if minimum {
			list = append(list, edit{text: fmt.Sprintf("drop minValues of %s in NodePool %s", key, pool), pool: func(p *karpv1.NodePool) {
				for i := range p.Spec.Template.Spec.Requirements {
					if r := &p.Spec.Template.Spec.Requirements[i]; about(r) {
						r.MinValues = nil
					}
				}
			}})
		}
		if value := t.valueOf(claim, key); value != "" {
			list = append(list, edit{text: allowText(pool, key, value, had), pool: func(p *karpv1.NodePool) { allow(p, key, value) }})
		}
		return list
	}
	return e
}

func allowText(pool, key, value string, had []string) string {
	const shown = 6
	if len(had) > shown {
		had = append(slices.Clone(had[:shown]), "…")
	}
	return fmt.Sprintf("let NodePool %s have %s %s too (it names %s)", pool, key, value, strings.Join(had, ", "))
}

// allow has the requirements on a key admit a value; those with other operators than In and NotIn stay.
func allow(p *karpv1.NodePool, key, value string) {
	for i := range p.Spec.Template.Spec.Requirements {
		r := &p.Spec.Template.Spec.Requirements[i]
		switch {
		case r.Key != key:
		case r.Operator == corev1.NodeSelectorOpIn && !slices.Contains(r.Values, value):
			r.Values = append(slices.Clone(r.Values), value)
		case r.Operator == corev1.NodeSelectorOpNotIn:
			r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(v string) bool { return v == value })
			if len(r.Values) == 0 {
				r.Operator = corev1.NodeSelectorOpExists
			}
		}
	}
}

// valueOf is what the cheapest offering of a claim has for a key; "" if it has no single value.
func (t *trial) valueOf(claim *ledger.PlannedClaim, key string) string {
	o := claim.Cheapest
	switch requirement.Normalize(key) {
	case corev1.LabelTopologyZone:
		return o.Zone
	case karpv1.CapacityTypeLabelKey:
		return o.CapacityType
	}
	cat := provision.Catalog(t.snapshot, claim.NodePool, claim.NodeClassRef.Name)
	if cat == nil {
		return ""
	}
	if it := cat.Type(o.InstanceType); it != nil {
		return it.Requirements.Labels()[requirement.Normalize(key)]
	}
	return ""
}

// limitEdit takes a limit away; smaller ones raise it by what the smallest type that would do needs more.
func limitEdit(p *karpv1.NodePool, name corev1.ResourceName) edit {
	e := edit{text: fmt.Sprintf("drop limits.%s of NodePool %s", name, p.Name), pool: func(p *karpv1.NodePool) { delete(p.Spec.Limits, name) }}
	had := p.Spec.Limits[name]
	e.less = func(t *trial, claim *ledger.PlannedClaim) (list []edit) {
		needs, used := t.needs(claim, name), t.used(claim.NodePool, name)
		if needs == 0 {
			return nil
		}
		limit := resource.AmountOf(name, had)
		// The second is enough whatever counts as used.
		for _, more := range []int64{needs - max(0, limit-used), needs + max(0, used-limit)} {
			if more > 0 {
				list = append(list, raise(claim.NodePool, name, had, more))
			}
		}
		return list
	}
	return e
}

func raise(pool string, name corev1.ResourceName, had apiresource.Quantity, more int64) edit {
	by, to := quantity(name, more, had.Format), had.DeepCopy()
	to.Add(by)
	return edit{text: fmt.Sprintf("raise limits.%s of NodePool %s by %s, to %s", name, pool, by.String(), to.String()), pool: func(p *karpv1.NodePool) {
		p.Spec.Limits = maps.Clone(p.Spec.Limits)
		p.Spec.Limits[name] = to
	}}
}

// quantity of millicores of CPU, else of units or bytes.
func quantity(name corev1.ResourceName, n int64, format apiresource.Format) apiresource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *apiresource.NewMilliQuantity(n, apiresource.DecimalSI)
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
		format = apiresource.BinarySI
	}
	return *apiresource.NewQuantity(n, format)
}

// needs is what the type of a claim that takes least of a resource has of it.
func (t *trial) needs(claim *ledger.PlannedClaim, name corev1.ResourceName) (least int64) {
	if name == "nodes" {
		return 1
	}
	cat := provision.Catalog(t.snapshot, claim.NodePool, claim.NodeClassRef.Name)
	if cat == nil {
		return 0
	}
	for _, n := range claim.InstanceTypes {
		if it := cat.Type(n); it != nil {
			if have := it.Capacity.Get(name); least == 0 || have < least {
				least = have
			}
		}
	}
	return least
}

// used is what the nodes of a NodePool have of a resource, those to come left out.
func (t *trial) used(pool string, name corev1.ResourceName) (sum int64) {
	for _, n := range t.snapshot.StateNodes() {
		switch {
		case n.NodePool != pool:
		case name == "nodes":
			sum++
		default:
			sum += n.Capacity.Get(name)
		}
	}
	return sum
}
