// Package condition holds the rules for the status conditions of Karpenter's objects (reference: api §3): who
// sets one keeps the others, a transition time moves only with the status, and the root condition follows
// from those it depends on.
//
// There is one order, or two writers would rewrite each other's list forever: by transition time; within one
// second as the dependents are listed, then by type; the root comes last.
//
//	l := &condition.List{Generation: 2, Created: made, Now: now, Root: "Ready", Dependents: []string{"Launched", "Registered"}}
//	l.True("Launched")
//	l.Finish()  // Registered=Unknown since it was made, Launched=True, Ready=Unknown "Registered=Unknown"
package condition

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that follow from the rules rather than from a writer.
const (
	ReasonAwaiting    = "AwaitingReconciliation"
	ReasonUnhealthy   = "UnhealthyDependents"
	ReasonReconciling = "ReconcilingDependents"
	MessageAwaiting   = "object is awaiting reconciliation"
)

// List edits the conditions of one object. Whoever makes it hands over a copy of the object's list.
type List struct {
	// Generation and Created are of the object; Now is when a changed status changed.
	Generation   int64
	Created, Now time.Time
	// Deleting: any write raises observedGeneration of all, or Ready would flap.
	Deleting bool
	// Root summarises Dependents.
	Root       string
	Dependents []string
	// Conditions is the result.
	Conditions []metav1.Condition
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

// StatusOf a condition at the object's generation; Unknown if it is older or not there.
func (l *List) StatusOf(kind string) metav1.ConditionStatus {
	c := Get(l.Conditions, kind)
	if c == nil || c.ObservedGeneration != l.Generation {
		return metav1.ConditionUnknown
	}
	return c.Status
}

// True sets a condition with its type as reason and no message.
func (l *List) True(kind string) { l.Set(kind, metav1.ConditionTrue, kind, "") }

// False and Unknown set a condition with a reason.
func (l *List) False(kind, reason, message string) {
	l.Set(kind, metav1.ConditionFalse, reason, message)
}

func (l *List) Unknown(kind, reason, message string) {
	l.Set(kind, metav1.ConditionUnknown, reason, message)
}

// Remove takes a condition away; those the root depends on stay.
func (l *List) Remove(kind string) {
	if !slices.Contains(l.Dependents, kind) {
		l.Conditions = slices.DeleteFunc(l.Conditions, func(x metav1.Condition) bool { return x.Type == kind })
	}
}

// Set sets a condition; its transition time moves only with its status. The root and what it depends on are
// Unknown from the object's creation on, even if nobody has said so yet.
func (l *List) Set(kind string, status metav1.ConditionStatus, reason, message string) {
	want := metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: storable(message), ObservedGeneration: l.Generation,
		LastTransitionTime: metav1.NewTime(l.Now.Truncate(time.Second)),
	}
	have := Get(l.Conditions, kind)
	if have == nil {
		if status == metav1.ConditionUnknown && (kind == l.Root || slices.Contains(l.Dependents, kind)) {
			want.LastTransitionTime = metav1.NewTime(l.Created.Truncate(time.Second)) // it was never anything else
		}
		l.Conditions = append(l.Conditions, want)
		return
	}
	if have.Status == status && !have.LastTransitionTime.IsZero() {
		want.LastTransitionTime = have.LastTransitionTime
	}
	*have = want
}

// messageMax is how many characters the schema of conditions allows a message. One too many, and the API
// server refuses the whole status.
const messageMax = 32768

// storable is the message as the API server would give it back.
func storable(message string) string {
	if len(message) <= messageMax && utf8.ValidString(message) {
		return message
	}
	r := []rune(message)
	if len(r) > messageMax {
		r = append(r[:messageMax-3], '.', '.', '.')
	}
	return string(r)
}

// Await adds what is missing of the root and what it depends on, as Unknown since creation.
func (l *List) Await() {
	for _, kind := range append(slices.Clone(l.Dependents), l.Root) {
		if Get(l.Conditions, kind) == nil {
			l.Set(kind, metav1.ConditionUnknown, ReasonAwaiting, MessageAwaiting)
		}
	}
}

// Finish adds what is missing as Unknown since creation, computes the root and orders the list by transition,
// root last.
func (l *List) Finish() []metav1.Condition {
	l.Await()
	l.raiseGenerations()
	status, reason, message := l.root()
	l.Set(l.Root, status, reason, message)
	return l.sorted()
}

// Sorted is Finish for who sets conditions that the root does not depend on: it adds nothing and leaves the
// root as it is.
func (l *List) Sorted() []metav1.Condition {
	l.raiseGenerations()
	return l.sorted()
}

// raise: the deletion was a new generation, at which nothing changes any more.
func (l *List) raiseGenerations() {
	if !l.Deleting {
		return
	}
	for i := range l.Conditions {
		l.Conditions[i].ObservedGeneration = l.Generation
	}
}

func (l *List) sorted() []metav1.Condition {
	slices.SortStableFunc(l.Conditions, l.compare)
	return l.Conditions
}

func (l *List) compare(a, b metav1.Condition) int {
	if (a.Type == l.Root) != (b.Type == l.Root) {
		if a.Type == l.Root {
			return 1
		}
		return -1
	}
	if n := a.LastTransitionTime.Compare(b.LastTransitionTime.Time); n != 0 {
		return n
	}
	if n := l.rank(a.Type) - l.rank(b.Type); n != 0 {
		return n
	}
	return strings.Compare(a.Type, b.Type)
}

// rank orders conditions of one second as they happen: dependents in their order, then the others.
func (l *List) rank(kind string) int {
	if i := slices.Index(l.Dependents, kind); i >= 0 {
		return i
	}
	return len(l.Dependents)
}

// root judges the dependents: none bad is True; one False at the current generation is False; else Unknown.
func (l *List) root() (metav1.ConditionStatus, string, string) {
	var bad []metav1.Condition
	refused := false
	for _, kind := range l.Dependents {
		d := *Get(l.Conditions, kind)
		stale := d.ObservedGeneration != l.Generation
		if d.Status == metav1.ConditionTrue && !stale {
			continue
		}
		refused = refused || d.Status == metav1.ConditionFalse && !stale
		bad = append(bad, d)
	}
	if len(bad) == 0 {
		return metav1.ConditionTrue, l.Root, ""
	}
	slices.SortStableFunc(bad, func(a, b metav1.Condition) int { return l.compare(b, a) })
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
