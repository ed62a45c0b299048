package nodepool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/requirement"
)

// Validate checks what the CRD cannot (reference: api §1.6), and that the schedules of budgets can be read
// (one that cannot would silently stop all disruption). Every error names its field.
func Validate(p *karpv1.NodePool) error {
	if p.Unreadable != "" {
		return errors.New(p.Unreadable)
	}
	errs := append(templateErrors(p), budgetErrors(p.Spec.Disruption.Budgets)...)
	if len(errs) == 0 {
		return nil
	}
	return requirement.Errors(errs)
}

// Usable reports that nodes can be made of the NodePool. A budget that cannot be read stops voluntary
// disruption of its nodes and nothing else.
func Usable(p *karpv1.NodePool) bool { return p.Unreadable == "" && len(templateErrors(p)) == 0 }

func templateErrors(p *karpv1.NodePool) []error {
	t := p.Spec.Template
	return slices.Concat(
		nameErrors(p), expiryErrors(t.Spec.ExpireAfter), labelErrors(t.Labels), annotationErrors(t.Annotations), taintErrors(t.Spec.Taints, t.Spec.StartupTaints), requirementErrors(t.Labels, t.Spec.Requirements),
	)
}

// nameErrors are about the labels that name the NodePool and its NodeClass: an object may have a longer name
// than a label may have a value.
func nameErrors(p *karpv1.NodePool) []error {
	errs := labelValueErrors(karpv1.NodePoolLabelKey, p.Name)
	if Supported(p) {
		errs = append(errs, labelValueErrors(awsv1.LabelEC2NodeClass, p.Spec.Template.Spec.NodeClassRef.Name)...)
	}
	return errs
}

// expiryErrors: NodeClaims that expire as soon as they are made would follow one another for ever.
func expiryErrors(after karpv1.NillableDuration) []error {
	if after.Duration != nil && *after.Duration <= 0 {
		return []error{fmt.Errorf("invalid value: expireAfter must be more than 0, or %s, got %s", karpv1.Never, after.Raw)}
	}
	return nil
}

func labelValueErrors(key, value string) (errs []error) {
	for _, text := range validation.IsValidLabelValue(value) {
		errs = append(errs, fmt.Errorf("invalid value: %s for label[%s], %s", value, key, text))
	}
	return errs
}

// annotationBytesMax is what the annotations of an object may have together, names and values.
const annotationBytesMax = 256 << 10

func annotationErrors(annotations map[string]string) (errs []error) {
	size := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		size += len(key) + len(annotations[key])
		for _, text := range validation.IsQualifiedName(strings.ToLower(key)) {
			errs = append(errs, fmt.Errorf("invalid key name %q in annotations, %s", key, text))
		}
	}
	if size > annotationBytesMax {
		errs = append(errs, fmt.Errorf("annotations size %d is larger than limit %d", size, annotationBytesMax))
	}
	return errs
}

func labelErrors(labels map[string]string) []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if key == karpv1.NodePoolLabelKey {
			errs = append(errs, fmt.Errorf("invalid key name %q in labels, restricted", key))
			continue
		}
		for _, text := range validation.IsQualifiedName(key) {
			errs = append(errs, fmt.Errorf("invalid key name %q in labels, %s", key, text))
		}
		errs = append(errs, labelValueErrors(key, labels[key])...)
		if err := requirement.CheckRestricted(key); err != nil {
			errs = append(errs, fmt.Errorf("invalid key name %q in labels, %w", key, err))
		}
	}
	return errs
}

var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute, ""}

// taintErrors checks both lists; a pair of key and effect may occur once in them together.
func taintErrors(taints, startup []corev1.Taint) []error {
	var errs []error
	seen := map[string]bool{}
	for i, t := range slices.Concat(taints, startup) {
		field := "taints"
		if i >= len(taints) {
			field = "startupTaints"
		}
		for _, text := range validation.IsQualifiedName(t.Key) {
			errs = append(errs, fmt.Errorf("invalid value: %s in %s, %s", t.Key, field, text))
		}
		for _, text := range validation.IsValidLabelValue(t.Value) { // nodes take no other
			errs = append(errs, fmt.Errorf("invalid value: %s in %s, %s", t.Value, field, text))
		}
		if !slices.Contains(taintEffects, t.Effect) {
			errs = append(errs, fmt.Errorf("invalid value: %s in %s, unknown effect", t.Effect, field))
		}
		pair := fmt.Sprintf("%s=%s", t.Key, t.Effect)
		if seen[pair] {
			errs = append(errs, fmt.Errorf("duplicate taint Key/Effect pair %s", pair))
		}
		seen[pair] = true
	}
	return errs
}

func requirementErrors(labels map[string]string, list []karpv1.NodeSelectorRequirementWithMinValues) []error {
	var errs []error
	for _, r := range list {
		if requirement.Normalize(r.Key) == karpv1.NodePoolLabelKey {
			errs = append(errs, fmt.Errorf("invalid key: %q in requirements, restricted", r.Key))
			continue
		}
		if err := requirement.Validate(r); err != nil {
			errs = append(errs, fmt.Errorf("invalid value: %w in requirements, restricted", err))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return contradictions(labels, list)
}

// contradictions are keys whose requirements leave no value at all, or not the one of the template's label:
// no node can ever be made.
func contradictions(labels map[string]string, list []karpv1.NodeSelectorRequirementWithMinValues) []error {
	var errs []error
	byKey, absent := map[string]requirement.Requirement{}, map[string]bool{} // absent: a node without the label meets all
	for _, r := range list {
		next := requirement.New(r.Key, r.Operator, r.Values...)
		optional := r.Operator == corev1.NodeSelectorOpNotIn || r.Operator == corev1.NodeSelectorOpDoesNotExist
		have, ok := byKey[next.Key()]
		if !ok {
			byKey[next.Key()], absent[next.Key()] = next, optional
			continue
		}
		absent[next.Key()] = absent[next.Key()] && optional
		if !absent[next.Key()] && !have.HasIntersection(next) {
			errs = append(errs, fmt.Errorf("invalid value: requirements on key %s contradict each other in requirements", next.Key()))
		}
		byKey[next.Key()] = have.Intersection(next)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		label := requirement.In(key, labels[key])
		if have, ok := byKey[label.Key()]; ok && !have.HasIntersection(label) {
			errs = append(errs, fmt.Errorf("invalid value: %s for label[%s] in labels, contradicts requirements on key %s", labels[key], key, label.Key()))
		}
	}
	return errs
}

func budgetErrors(budgets []karpv1.Budget) []error {
	var errs []error
	for i, b := range budgets {
		for _, err := range CheckBudget(b) {
			errs = append(errs, fmt.Errorf("invalid value: disruption.budgets[%d].%w", i, err))
		}
	}
	return errs
}
