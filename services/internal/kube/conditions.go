package kube

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/condition"
)

// SetClaimCondition sets one status condition of the NodeClaim with this UID, keeping the others, unless it
// stands so already. An empty status removes it. A Conflict means that the object changed meanwhile: retry.
func (c *Client) SetClaimCondition(ctx context.Context, name string, uid types.UID, want metav1.Condition, now time.Time) error {
	o, err := c.NodeClaims.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("get nodeclaim %s: %w", name, err)
	}
	if uid != "" && o.UID != uid {
		return nil // another object of the same name is none of ours
	}
	conditions, changed := withCondition(o, want, now)
	if !changed {
		return nil
	}
	_, err = c.NodeClaims.PatchStatus(ctx, name, Patch{
		UID: o.UID, ResourceVersion: o.ResourceVersion,
		Body: map[string]any{"status": map[string]any{"conditions": conditions}},
	})
	if err != nil {
		return fmt.Errorf("set condition %s of nodeclaim %s: %w", want.Type, name, err)
	}
	return nil
}

// withCondition returns the claim's conditions with one set or removed, and whether that is a change. Ready
// stays as it is: it depends on none of those that are set so.
func withCondition(o *karpv1.NodeClaim, want metav1.Condition, now time.Time) ([]metav1.Condition, bool) {
	have, conditions := condition.Get(o.Status.Conditions, want.Type), claim.ConditionsOf(o, now)
	if want.Status == "" {
		conditions.Remove(want.Type)
		return conditions.Sorted(), have != nil
	}
	want.Reason = cmp.Or(want.Reason, want.Type)
	if have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return nil, false
	}
	conditions.Set(want.Type, want.Status, want.Reason, want.Message)
	return conditions.Sorted(), true
}
