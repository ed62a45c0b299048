package requirement

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	karpv1 "millwright/api/karpenter/v1"
)

// Operators accepted in NodePools and NodeClaims, sorted. For pods the API server allows fewer.
var operators = sorted(
	string(corev1.NodeSelectorOpIn), string(corev1.NodeSelectorOpNotIn), string(corev1.NodeSelectorOpExists),
	string(corev1.NodeSelectorOpDoesNotExist), string(corev1.NodeSelectorOpGt), string(corev1.NodeSelectorOpLt),
	string(OpGte), string(OpLte),
)

// knownValues of keys whose values are a closed set.
var knownValues = map[string][]string{
	karpv1.CapacityTypeLabelKey:          {karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot},
	"karpenter.k8s.aws/instance-tenancy": {"dedicated", "default"},
}

// CheckRestricted returns the error users see for a key they may not use (scheduling §2.2).
func CheckRestricted(key string) error {
	if !Restricted(key) {
		return nil
	}
	return fmt.Errorf("using label %s is not allowed as it might interfere with the internal provisioning logic; "+
		"specify a well known label: %s, or a custom label that does not use a restricted domain: %s",
		Normalize(key), []string(AllKnown), []string(RestrictedDomains))
}

// Validate checks a requirement of a NodePool, NodeClaim or pod; errors join with "; " (api §1.6). The
// karpenter.sh/nodepool key, which only NodePools must not use, passes.
func Validate(r karpv1.NodeSelectorRequirementWithMinValues) error {
	key := Normalize(r.Key)
	var e Errors
	if !operators.Has(string(r.Operator)) {
		e = append(e, fmt.Errorf("key %s has an unsupported operator %s not in %s", key, r.Operator, []string(operators)))
	}
	if err := CheckRestricted(key); err != nil {
		e = append(e, err)
	}
	for _, msg := range validation.IsQualifiedName(key) {
		e = append(e, fmt.Errorf("key %s is not a qualified name, %s", key, msg))
	}
	for _, v := range r.Values {
		for _, msg := range validation.IsValidLabelValue(v) {
			e = append(e, fmt.Errorf("invalid value %s for key %s, %s", v, key, msg))
		}
	}
	return append(e, checkOperand(key, r)...).orNil()
}

func checkOperand(key string, r karpv1.NodeSelectorRequirementWithMinValues) Errors {
	var e Errors
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		if len(r.Values) == 0 {
			e = append(e, fmt.Errorf("key %s with operator %s must have a value defined", key, r.Operator))
		}
		if r.MinValues != nil && len(distinct(r.Values)) < *r.MinValues {
			e = append(e, fmt.Errorf("key %s with operator %s must have at least minimum number of values defined in 'values' field", key, r.Operator))
		}
		e = append(e, checkKnown(key, r)...)
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, OpGte, OpLte:
		if !singleNatural(r.Values) {
			e = append(e, fmt.Errorf("key %s with operator %s must have a single positive integer value", key, r.Operator))
		}
	}
	return e
}

// checkKnown refuses an In without a single known value, or with too few of them for minValues.
func checkKnown(key string, r karpv1.NodeSelectorRequirementWithMinValues) Errors {
	known := knownValues[key]
	if known == nil {
		return nil
	}
	valid := slices.DeleteFunc(distinct(r.Values), func(v string) bool { return !slices.Contains(known, v) })
	switch {
	case len(valid) == 0:
		return Errors{fmt.Errorf("no valid values found in %s for %s, expected one of: %s", r.Values, key, known)}
	case r.MinValues != nil && len(valid) < *r.MinValues:
		return Errors{fmt.Errorf("not enough valid values found in %s for %s, expected at least %d valid values from: %s",
			r.Values, key, *r.MinValues, known)}
	}
	return nil
}

func singleNatural(values []string) bool {
	if len(values) != 1 {
		return false
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	return err == nil && n >= 0
}

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
