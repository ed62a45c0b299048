// Package compact writes payloads of records in fewer bytes.
package compact

import (
	"bytes"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

// Payload returns a payload without what Expand restores, to be written where all readers can do that: a
// planned claim does not repeat its instance types as values of its requirement, and a request is stored as
// it is instead of in base64. The argument is not changed.
func Payload(payload any) any {
	switch p := payload.(type) {
	case *ledger.ProvisioningPlanned:
		c := *p
		c.Claims = compactClaims(p.Claims)
		c.Widened = slices.Clone(p.Widened)
		for i := range c.Widened {
			c.Widened[i].Content = compactClaim(c.Widened[i].Content)
		}
		return &c
	case *ledger.CommandStarted:
		c := *p
		c.Replacements = compactClaims(p.Replacements)
		return &c
	case *ledger.LaunchRequested:
		if again, err := json.Marshal(json.RawMessage(p.Request)); err != nil || len(p.Call) > 0 || !bytes.Equal(again, p.Request) {
			return p
		}
		c := *p
		c.Request, c.Call = nil, p.Request
		return &c
	}
	return payload
}

// Expand reverses Payload. The payload was just decoded and is changed.
func Expand(payload any) any {
	switch p := payload.(type) {
	case *ledger.ProvisioningPlanned:
		expandClaims(p.Claims)
		for i := range p.Widened {
			expandClaim(&p.Widened[i].Content)
		}
	case *ledger.CommandStarted:
		expandClaims(p.Replacements)
	case *ledger.LaunchRequested:
		if len(p.Call) > 0 {
			p.Request, p.Call = p.Call, nil
		}
	}
	return payload
}

func compactClaims(claims []ledger.PlannedClaim) []ledger.PlannedClaim {
	list := slices.Clone(claims)
	for i := range list {
		list[i] = compactClaim(list[i])
	}
	return list
}

func expandClaims(claims []ledger.PlannedClaim) {
	for i := range claims {
		expandClaim(&claims[i])
	}
}

// compactClaim omits the values of the requirement on instance types if they are those of InstanceTypes,
// sorted.
func compactClaim(c ledger.PlannedClaim) ledger.PlannedClaim {
	for i, r := range c.Requirements {
		if !namesTypes(r) || len(c.InstanceTypes) == 0 || !slices.Equal(r.Values, slices.Sorted(slices.Values(c.InstanceTypes))) {
			continue
		}
		c.Requirements = slices.Clone(c.Requirements)
		c.Requirements[i].Values = nil
	}
	return c
}

func expandClaim(c *ledger.PlannedClaim) {
	for i := range c.Requirements {
		if r := &c.Requirements[i]; namesTypes(*r) && len(r.Values) == 0 && len(c.InstanceTypes) > 0 {
			r.Values = slices.Sorted(slices.Values(c.InstanceTypes))
		}
	}
}

func namesTypes(r karpv1.NodeSelectorRequirementWithMinValues) bool {
	return r.Key == corev1.LabelInstanceTypeStable && r.Operator == corev1.NodeSelectorOpIn
}
