package policy

import (
	"fmt"
	"slices"
	"strings"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// reasons that policies may name.
var reasons = []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized, karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonDrifted,
	mwv1alpha1.ReasonPreferredAvailable}

// unknownValue says what of a policy the API server would have refused, because it would mean nothing: a
// policy from a file, or from before there was such a rule, may have it. "" if there is nothing.
func unknownValue(spec *mwv1alpha1.DisruptionPolicySpec) string {
	for i, w := range spec.Windows {
		field := fmt.Sprintf("spec.windows[%d].", i)
		if fault := oneOf(field+"action", w.Action, mwv1alpha1.WindowAllow, mwv1alpha1.WindowDeny); fault != "" {
			return fault
		}
		if fault := unknownReason(field+"reasons", w.Reasons); fault != "" {
			return fault
		}
	}
	if a := spec.Approval; a != nil {
		if fault := unknownReason("spec.approval.reasons", a.Reasons); fault != "" {
			return fault
		}
	}
	if s := spec.Savings; s != nil && s.PayBack != nil && s.PayBack.CostPerEviction == "" {
		return "spec.savings.payBack.costPerEviction: is missing"
	}
	return oneOf("spec.destination", spec.Destination, "", mwv1alpha1.DestinationCost, mwv1alpha1.DestinationBan)
}

func unknownReason(field string, list []karpv1.DisruptionReason) string {
	for _, r := range list {
		if fault := oneOf(field, r, reasons...); fault != "" {
			return fault
		}
	}
	return ""
}

func oneOf[T ~string](field string, value T, known ...T) string {
	if slices.Contains(known, value) {
		return ""
	}
	var names []string
	for _, k := range known {
		if k != "" {
			names = append(names, string(k))
		}
	}
	return fmt.Sprintf("%s: %q must be one of %s", field, value, strings.Join(names, ", "))
}
