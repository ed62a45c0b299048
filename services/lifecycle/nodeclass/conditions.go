package nodeclass

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// dependents of Ready.
var dependents = []string{
	awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady,
	awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeCapacityReservationsReady, karpv1.ConditionTypeValidationSucceeded,
}

// conditions of one class while it is reconciled (api §3).
type conditions struct {
	generation int64
	now        metav1.Time
	before     []metav1.Condition
	list       []metav1.Condition
}

// newConditions starts from what the status has; what is missing is Unknown since the object was made.
func newConditions(nc *awsv1.EC2NodeClass, now time.Time) *conditions {
	c := &conditions{
		generation: nc.Generation, now: metav1.NewTime(now.Truncate(time.Second)),
		before: nc.Status.Conditions, list: slices.Clone(nc.Status.Conditions),
	}
	for _, t := range append(slices.Clone(dependents), karpv1.ConditionTypeReady) {
		if c.find(t) == nil {
			c.list = append(c.list, metav1.Condition{
				Type: t, Status: metav1.ConditionUnknown, Reason: "AwaitingReconciliation",
				Message: "object is awaiting reconciliation", LastTransitionTime: nc.CreationTimestamp, ObservedGeneration: nc.Generation,
			})
		}
	}
	return c
}

func (c *conditions) find(kind string) *metav1.Condition {
	i := slices.IndexFunc(c.list, func(x metav1.Condition) bool { return x.Type == kind })
	if i < 0 {
		return nil
	}
	return &c.list[i]
}

func (c *conditions) setTrue(kind string) { c.put(kind, metav1.ConditionTrue, kind, "") }

func (c *conditions) setFalse(kind, reason, message string) {
	c.put(kind, metav1.ConditionFalse, reason, message)
}

func (c *conditions) setUnknown(kind, reason, message string) {
	c.put(kind, metav1.ConditionUnknown, reason, message)
}

func (c *conditions) put(kind string, status metav1.ConditionStatus, reason, message string) {
	x := c.find(kind)
	if x.Status != status {
		x.LastTransitionTime = c.now
	}
	x.Status, x.Reason, x.Message, x.ObservedGeneration = status, reason, message, c.generation
}

// finish derives Ready and returns the list ordered by transition, Ready last.
func (c *conditions) finish() []metav1.Condition {
	c.putRoot()
	slices.SortStableFunc(c.list, func(a, b metav1.Condition) int {
		return cmp.Or(rootLast(a, b), a.LastTransitionTime.Compare(b.LastTransitionTime.Time), strings.Compare(a.Type, b.Type))
	})
	return c.list
}

func rootLast(a, b metav1.Condition) int {
	rank := func(x metav1.Condition) int {
		if x.Type == karpv1.ConditionTypeReady {
			return 1
		}
		return 0
	}
	return rank(a) - rank(b)
}

func (c *conditions) putRoot() {
	var bad []metav1.Condition
	failed := false
	for _, t := range dependents {
		x := *c.find(t)
		stale := x.ObservedGeneration != c.generation
		if x.Status != metav1.ConditionTrue || stale {
			bad = append(bad, x)
		}
		failed = failed || x.Status == metav1.ConditionFalse && !stale
	}
	slices.SortStableFunc(bad, func(a, b metav1.Condition) int { return b.LastTransitionTime.Compare(a.LastTransitionTime.Time) })
	var texts []string
	for _, x := range bad {
		texts = append(texts, fmt.Sprintf("%s=%s", x.Type, x.Status))
	}
	message := strings.Join(texts, ", ")
	switch {
	case len(bad) == 0:
		c.setTrue(karpv1.ConditionTypeReady)
	case failed:
		c.put(karpv1.ConditionTypeReady, metav1.ConditionFalse, "UnhealthyDependents", message)
	default:
		c.put(karpv1.ConditionTypeReady, metav1.ConditionUnknown, "ReconcilingDependents", message)
	}
}

// status of a condition at the current generation; Unknown if it is older.
func (c *conditions) status(kind string) metav1.ConditionStatus {
	x := c.find(kind)
	if x.ObservedGeneration != c.generation {
		return metav1.ConditionUnknown
	}
	return x.Status
}

// newlyFalse lists the conditions that are False now and were not, or not for this reason; without those that only say that
// others are False.
func (c *conditions) newlyFalse() []metav1.Condition {
	var out []metav1.Condition
	for _, x := range c.list {
		same := slices.ContainsFunc(c.before, func(b metav1.Condition) bool {
			return b.Type == x.Type && b.Status == x.Status && b.Reason == x.Reason && b.Message == x.Message
		})
		if x.Status == metav1.ConditionFalse && x.Reason != "UnhealthyDependents" && x.Reason != "DependenciesNotReady" && !same {
			out = append(out, x)
		}
	}
	return out
}
