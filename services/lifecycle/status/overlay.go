package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	"millwright/planner"
	"millwright/planner/provision"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// overlaysEvery is how often the conditions of NodeOverlays are looked at.
const overlaysEvery = time.Second

// StepOverlays writes to the status of each NodeOverlay whether it is applied, as the planner of this very
// World sees it.
func (k *Keeper) StepOverlays(now time.Time) time.Time {
	if at := k.effects.Retries.At("overlays", now); now.Before(at) {
		return at
	}
	k.effects.Hold("overlays", overlaysEvery)
	var overlays []*karpv1alpha1.NodeOverlay
	problems := map[string]provision.OverlayProblem{}
	_ = k.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error { // without a World it is written later
		if !snap.Options.NodeOverlays {
			return nil // whatever their conditions say is not ours
		}
		overlays = snap.World.NodeOverlays()
		for _, p := range provision.OverlayProblems(snap) {
			problems[p.NodeOverlay] = p
		}
		return nil
	})
	for _, o := range overlays {
		key := "nodeoverlay/" + o.Name
		if k.effects.Waits(key) || k.deps.Outdated.Has(o, now) {
			continue
		}
		want := overlayConditions(o, problems[o.Name], now)
		if condition.Equal(o.Status.Conditions, want) {
			continue
		}
		k.effects.Start(key, lane.Converge, func(ctx context.Context) error { return k.writeOverlay(ctx, key, o, want) })
	}
	return now.Add(overlaysEvery)
}

// overlayConditions are those the NodeOverlay should have; problem is zero if it is applied.
func overlayConditions(o *karpv1alpha1.NodeOverlay, problem provision.OverlayProblem, now time.Time) []metav1.Condition {
	c := &condition.List{
		Generation: o.Generation, Created: o.CreationTimestamp.Time, Now: now, Deleting: !o.DeletionTimestamp.IsZero(),
		Root: karpv1.ConditionTypeReady, Dependents: []string{karpv1.ConditionTypeValidationSucceeded}, Conditions: slices.Clone(o.Status.Conditions),
	}
	if problem.Reason != "" {
		c.Set(karpv1.ConditionTypeValidationSucceeded, metav1.ConditionFalse, problem.Reason, problem.Message)
	} else {
		c.True(karpv1.ConditionTypeValidationSucceeded)
	}
	return c.Finish()
}

func (k *Keeper) writeOverlay(ctx context.Context, key string, o *karpv1alpha1.NodeOverlay, want []metav1.Condition) error {
	after := o.DeepCopy()
	after.Status.Conditions = want
	if _, err := k.deps.Kube.UpdateNodeOverlayStatus(ctx, o, after); err != nil {
		return k.effects.PutOff(key, fmt.Errorf("write status of nodeoverlay %s: %w", o.Name, err))
	}
	k.effects.Retries.Succeeded(key)
	if c := condition.Get(want, karpv1.ConditionTypeValidationSucceeded); c.Status == metav1.ConditionFalse {
		k.host.Event(service.KubeEvent{
			Object: corev1.ObjectReference{APIVersion: karpv1alpha1.SchemeGroupVersion.String(), Kind: "NodeOverlay", Name: o.Name, UID: o.UID},
			Type:   corev1.EventTypeWarning, Reason: c.Reason, Message: fmt.Sprintf("NodeOverlay %s is not applied: %s", o.Name, c.Message),
		})
	}
	return nil
}
