package claim

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// Reasons of the condition engine (reference: api §3).
const (
	ReasonAwaiting    = "AwaitingReconciliation"
	ReasonUnhealthy   = "UnhealthyDependents"
	ReasonReconciling = "ReconcilingDependents"
	messageAwaiting   = "object is awaiting reconciliation"
)

// Conditions edits the list of one object by the rules of api §3. The list it was made of is not changed.
type Conditions struct {
	// Generation and Created are of the object; Now is when a changed status changed.
	Generation   int64
	Created, Now time.Time
	// Deleting: any write raises observedGeneration of all, or Ready would flap.
	Deleting bool
	// Root summarises Dependents.
	Root       string
	Dependents []string
	// List is the result.
	List []metav1.Condition
}

// ConditionsOf starts from the conditions of a NodeClaim.
func ConditionsOf(o *karpv1.NodeClaim, now time.Time) *Conditions {
	return &Conditions{
		Generation: o.Generation, Created: o.CreationTimestamp.Time, Now: now, Deleting: !o.DeletionTimestamp.IsZero(),
		Root:       karpv1.ConditionTypeReady,
		Dependents: []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized},
		List:       slices.Clone(o.Status.Conditions),
	}
}

// Get returns the condition of the type, or nil.
func Get(list []metav1.Condition, kind string) *metav1.Condition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// IsTrue reports that the condition is there and True.
func IsTrue(list []metav1.Condition, kind string) bool {
	c := Get(list, kind)
	return c != nil && c.Status == metav1.ConditionTrue
}

// True sets a condition with its type as reason and no message.
func (c *Conditions) True(kind string) { c.Set(kind, metav1.ConditionTrue, kind, "") }

// Remove takes a condition away; those the root depends on stay.
func (c *Conditions) Remove(kind string) {
	if !slices.Contains(c.Dependents, kind) {
		c.List = slices.DeleteFunc(c.List, func(x metav1.Condition) bool { return x.Type == kind })
	}
}

// Set sets a condition; its transition time moves only with its status. The root and what it depends on are Unknown from the object's
// creation on, also where nobody has said so yet.
func (c *Conditions) Set(kind string, status metav1.ConditionStatus, reason, message string) {
	want := metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: c.Generation,
		LastTransitionTime: metav1.NewTime(c.Now.Truncate(time.Second)),
	}
	have := Get(c.List, kind)
	if have == nil {
		if status == metav1.ConditionUnknown && (kind == c.Root || slices.Contains(c.Dependents, kind)) {
			want.LastTransitionTime = metav1.NewTime(c.Created.Truncate(time.Second)) // it was never anything else
		}
		c.List = append(c.List, want)
		return
	}
	if have.Status == status && !have.LastTransitionTime.IsZero() {
		want.LastTransitionTime = have.LastTransitionTime
	}
	*have = want
}

// Finish adds what is missing as Unknown since creation, computes the root and orders the list by
// transition, root last.
func (c *Conditions) Finish() []metav1.Condition {
	for _, kind := range append(slices.Clone(c.Dependents), c.Root) {
		if Get(c.List, kind) == nil {
			c.Set(kind, metav1.ConditionUnknown, ReasonAwaiting, messageAwaiting)
		}
	}
	if c.Deleting {
		for i := range c.List {
			c.List[i].ObservedGeneration = c.Generation
		}
	}
	status, reason, message := c.root()
	c.Set(c.Root, status, reason, message)
	slices.SortStableFunc(c.List, c.compare)
	return c.List
}

func (c *Conditions) compare(a, b metav1.Condition) int {
	if (a.Type == c.Root) != (b.Type == c.Root) {
		if a.Type == c.Root {
			return 1
		}
		return -1
	}
	if n := a.LastTransitionTime.Compare(b.LastTransitionTime.Time); n != 0 {
		return n
	}
	if n := c.rank(a.Type) - c.rank(b.Type); n != 0 {
		return n
	}
	return strings.Compare(a.Type, b.Type)
}

// rank orders conditions of one second as they happen: dependents in their order, then the others.
func (c *Conditions) rank(kind string) int {
	if i := slices.Index(c.Dependents, kind); i >= 0 {
		return i
	}
	return len(c.Dependents)
}

// root judges the dependents: none bad is True; one False at the current generation is False; else Unknown.
func (c *Conditions) root() (metav1.ConditionStatus, string, string) {
	var bad []metav1.Condition
	refused := false
	for _, kind := range c.Dependents {
		d := *Get(c.List, kind)
		stale := d.ObservedGeneration != c.Generation
		if d.Status == metav1.ConditionTrue && !stale {
			continue
		}
		refused = refused || d.Status == metav1.ConditionFalse && !stale
		bad = append(bad, d)
	}
	if len(bad) == 0 {
		return metav1.ConditionTrue, c.Root, ""
	}
	slices.SortStableFunc(bad, func(a, b metav1.Condition) int { return c.compare(b, a) })
	parts := make([]string, len(bad))
	for i, d := range bad {
		parts[i] = d.Type + "=" + string(d.Status)
	}
	if refused {
		return metav1.ConditionFalse, ReasonUnhealthy, strings.Join(parts, ", ")
	}
	return metav1.ConditionUnknown, ReasonReconciling, strings.Join(parts, ", ")
}

// Equal compares two lists as the API server stores them: transition times by second.
func Equal(a, b []metav1.Condition) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.Condition) bool {
		same := x.LastTransitionTime.Truncate(time.Second).Equal(y.LastTransitionTime.Truncate(time.Second))
		x.LastTransitionTime, y.LastTransitionTime = metav1.Time{}, metav1.Time{}
		return same && x == y
	})
}
