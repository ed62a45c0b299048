package requirement

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// ValidatePod checks the keys in a pod's nodeSelector and required node affinity (scheduling §2.2). The error
// for a pod that refuses our nodes altogether comes first and alone.
func ValidatePod(spec *corev1.PodSpec) error {
	var e Errors
	for _, k := range FromLabels(spec.NodeSelector).Keys() {
		if err := CheckRestricted(k); err != nil {
			e = append(e, err)
		}
	}
	if notOurs(spec) {
		return ErrNotOurs
	}
	for _, term := range RequiredTerms(spec) {
		if len(term.MatchFields) > 0 {
			e = append(e, errors.New("node selector term with matchFields is not supported"))
		}
		for _, x := range term.MatchExpressions {
			err := Validate(karpv1.NodeSelectorRequirementWithMinValues{Key: x.Key, Operator: x.Operator, Values: x.Values})
			if err != nil {
				e = append(e, err)
			}
		}
	}
	return e.orNil()
}

// notOurs reports that every term of the required node affinity refuses our nodes.
func notOurs(spec *corev1.PodSpec) bool {
	terms := RequiredTerms(spec)
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(x corev1.NodeSelectorRequirement) bool {
			return x.Key == karpv1.NodePoolLabelKey && x.Operator == corev1.NodeSelectorOpDoesNotExist
		})
	})
}

// ErrNotOurs: the pod asked not to run on nodes Millwright makes. It gets no event.
var ErrNotOurs = errors.New("configured to not run on a Karpenter provisioned node (requirement=" + karpv1.NodePoolLabelKey + " DoesNotExist)")

// RequiredTerms are the ORed terms of the required node affinity; nil if there is none.
func RequiredTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

// PreferredTerms of the node affinity, heaviest first; equal weights stay in the pod's order.
func PreferredTerms(spec *corev1.PodSpec) []corev1.PreferredSchedulingTerm {
	a := spec.Affinity
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	terms := slices.Clone(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	slices.SortStableFunc(terms, func(x, y corev1.PreferredSchedulingTerm) int { return int(y.Weight) - int(x.Weight) })
	return terms
}
