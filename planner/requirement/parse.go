package requirement

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	karpv1 "millwright/api/karpenter/v1"
)

// aliases are older names of keys (reference: api §2.3).
var aliases = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
	"topology.ebs.csi.aws.com/zone":     corev1.LabelTopologyZone,
}

// Normalize returns the present name of a key.
func Normalize(key string) string {
	if k, ok := aliases[key]; ok {
		return k
	}
	return key
}

// Exists allows every value of key.
func Exists(key string) Requirement {
	return Requirement{key: Normalize(key), complement: true, gte: math.MinInt64, lte: math.MaxInt64, required: true}
}

// DoesNotExist allows no value of key.
func DoesNotExist(key string) Requirement { return concrete(Normalize(key), nil) }

// In allows the given values of key.
func In(key string, values ...string) Requirement { return concrete(Normalize(key), distinct(values)) }

func concrete(key string, values []string) Requirement {
	return Requirement{key: key, values: values, gte: math.MinInt64, lte: math.MaxInt64, required: len(values) > 0}
}

// impossible is what no node can meet: the label must be there and may have no value.
func impossible(key string) Requirement {
	r := DoesNotExist(key)
	r.required = true
	return r
}

func distinct(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	v := slices.Clone(values)
	slices.Sort(v)
	return slices.Compact(v)
}

// New builds a requirement from API terms. Older key names are replaced. It accepts everything: what
// Validate would refuse (unknown operator, operand that is no integer) allows no value.
func New(key string, op corev1.NodeSelectorOperator, values ...string) Requirement {
	switch op {
	case corev1.NodeSelectorOpIn:
		return In(key, values...)
	case corev1.NodeSelectorOpNotIn:
		r := Exists(key)
		r.values, r.required = distinct(values), len(values) == 0
		return r
	case corev1.NodeSelectorOpExists:
		return Exists(key)
	case corev1.NodeSelectorOpDoesNotExist:
		return DoesNotExist(key)
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, OpGte, OpLte:
		return bounded(key, op, values)
	}
	return impossible(key)
}

// Operators of NodePool and NodeClaim requirements beyond those of node selectors.
const (
	OpGte corev1.NodeSelectorOperator = "Gte"
	OpLte corev1.NodeSelectorOperator = "Lte"
)

func bounded(key string, op corev1.NodeSelectorOperator, values []string) Requirement {
	if len(values) != 1 {
		return impossible(key)
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return impossible(key)
	}
	r := Exists(key)
	switch {
	case op == OpGte:
		r.gte = n
	case op == OpLte:
		r.lte = n
	case op == corev1.NodeSelectorOpGt && n < math.MaxInt64:
		r.gte = n + 1
	case op == corev1.NodeSelectorOpLt && n > math.MinInt64:
		r.lte = n - 1
	default:
		return impossible(key)
	}
	return r
}

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
