package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
)

// SetClaimCondition sets one status condition of the NodeClaim with this UID, keeping the others, unless it
// stands so already. An empty status removes it. A Conflict means that the object changed meanwhile: retry.
func (c *Client) SetClaimCondition(ctx context.Context, name string, uid types.UID, want metav1.Condition, now time.Time) error {
	claim, err := c.NodeClaims.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("get nodeclaim %s: %w", name, err)
	}
	if uid != "" && claim.UID != uid {
		return nil // another object of the same name is none of ours
	}
	conditions, changed := withCondition(claim, want, now)
	if !changed {
		return nil
	}
	_, err = c.NodeClaims.PatchStatus(ctx, name, Patch{
		UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		Body: map[string]any{"status": map[string]any{"conditions": conditions}},
	})
	if err != nil {
		return fmt.Errorf("set condition %s of nodeclaim %s: %w", want.Type, name, err)
	}
	return nil
}

// withCondition returns the claim's conditions with one set or removed, ordered by transition with Ready
// last, and whether that is a change.
func withCondition(claim *karpv1.NodeClaim, want metav1.Condition, now time.Time) ([]metav1.Condition, bool) {
	conditions := slices.Clone(claim.Status.Conditions)
	if claim.DeletionTimestamp != nil { // its deletion was a new generation, at which nothing changes any more
		for i := range conditions {
			conditions[i].ObservedGeneration = claim.Generation
		}
	}
	at := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == want.Type })
	if want.Status == "" {
		if at < 0 {
			return conditions, false
		}
		return slices.Delete(conditions, at, at+1), true
	}
	want.ObservedGeneration = claim.Generation
	want.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if want.Reason == "" {
		want.Reason = want.Type
	}
	if at >= 0 {
		have := conditions[at]
		if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
			return conditions, false
		}
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
		conditions = slices.Delete(conditions, at, at+1)
	}
	conditions = append(conditions, want)
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int {
		return cmp.Or(isReady(a)-isReady(b), a.LastTransitionTime.Compare(b.LastTransitionTime.Time))
	})
	return conditions, true
}

// isReady is 1 for the condition that sums up the others, which comes last.
func isReady(c metav1.Condition) int {
	if c.Type == karpv1.ConditionTypeReady {
		return 1
	}
	return 0
}
