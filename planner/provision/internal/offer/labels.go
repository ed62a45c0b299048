package offer

import (
	"maps"
	"slices"
	"strconv"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/nodepool"
	"millwright/planner/requirement"
)

// poolHash is a hash with its version, as a claim has it.
type poolHash struct{ hash, version string }

// hashAnnotations of the template that claims are made of now: the pool's own annotation may still be of an
// earlier one.
func (t *Template) hashAnnotations() map[string]string {
	if t.hash == nil {
		t.hash = nodepool.HashAnnotations(t.Pool)
	}
	return t.hash
}

// HasMade reports whether a claim with these annotations was made of the pool's present template.
func (t *Template) HasMade(annotations map[string]string) bool {
	h := poolHash{annotations[karpv1.NodePoolHashAnnotationKey], annotations[karpv1.NodePoolHashVersionAnnotationKey]}
	same, asked := t.made[h]
	if !asked {
		same, _ = nodepool.SameHash(t.Pool, h.hash, h.version)
		if t.made == nil {
			t.made = map[poolHash]bool{}
		}
		t.made[h] = same
	}
	return same
}

// OverlayAnnotations says of a claim's types whether overlays have changed them.
func (t *Template) OverlayAnnotations(a map[string]string, names []string) {
	overlaid := func(changed map[string]bool) bool {
		return slices.ContainsFunc(names, func(n string) bool { return changed[n] })
	}
	if overlaid(t.priceOverlaid) {
		a[karpv1.PriceOverlayAnnotationKey] = "true"
	}
	if overlaid(t.capacityOverlaid) {
		a[karpv1.CapacityOverlayAnnotationKey] = "true"
	}
}

// Labels are the template's, and one value for each requirement key of the user's own (scheduling §10).
func (t *Template) Labels(set requirement.Set) map[string]string {
	labels := maps.Clone(t.Pool.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[karpv1.NodePoolLabelKey] = t.Name
	labels[awsv1.LabelEC2NodeClass] = t.Pool.Spec.Template.Spec.NodeClassRef.Name
	for _, r := range set.Requirements() {
		if requirement.AllKnown.Has(r.Key()) || requirement.Restricted(r.Key()) || !t.Base.Has(r.Key()) {
			continue
		}
		if _, given := labels[r.Key()]; given {
			continue
		}
		if v, ok := concrete(r); ok {
			labels[r.Key()] = v
		}
	}
	return labels
}

// concrete picks a value r allows: the first listed, or the least integer from the bound or 0 on.
func concrete(r requirement.Requirement) (string, bool) {
	if !r.Complement() {
		if len(r.Values()) == 0 {
			return "", false
		}
		return r.Values()[0], true
	}
	gte, lte, _ := r.Bounds()
	n := max(gte, 0)
	if n > lte {
		n = gte
	}
	for range len(r.Values()) + 1 {
		if v := strconv.FormatInt(n, 10); r.Has(v) {
			return v, true
		}
		n++
	}
	return "", false
}

// Annotations are the template's, the pool's hash and, if the pool has minima, whether they were relaxed.
func (t *Template) Annotations(relaxed bool) map[string]string {
	a := maps.Clone(t.Pool.Spec.Template.Annotations)
	if a == nil {
		a = map[string]string{}
	}
	maps.Copy(a, t.hashAnnotations())
	if len(t.Minima) > 0 {
		a[karpv1.MinValuesRelaxedAnnotationKey] = strconv.FormatBool(relaxed)
	}
	return a
}
