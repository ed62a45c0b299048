package condition_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/condition"
)

var made = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// list is of an object of generation 2, made at noon, a minute later.
func list(have ...metav1.Condition) *condition.List {
	return &condition.List{Generation: 2, Created: made, Now: made.Add(time.Minute), Root: "Ready", Dependents: []string{"Launched", "Adopted"}, Conditions: have}
}

func is(kind string, status metav1.ConditionStatus, generation int64, since time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: kind, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(made.Add(since))}
}

func text(conditions []metav1.Condition) string {
	var parts []string
	for _, c := range conditions {
		part := c.Type + "=" + string(c.Status)
		if c.Type == "Ready" && c.Message != "" {
			part += "(" + c.Reason + ": " + c.Message + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// The rules: api §3.
func TestFinish(t *testing.T) {
	for name, c := range map[string]struct {
		have []metav1.Condition
		set  func(*condition.List)
		want string
	}{
		"nothing said yet": {nil, func(*condition.List) {}, "Launched=Unknown Adopted=Unknown Ready=Unknown(ReconcilingDependents: Adopted=Unknown, Launched=Unknown)"},
		"some True":        {nil, func(l *condition.List) { l.True("Launched") }, "Adopted=Unknown Launched=True Ready=Unknown(ReconcilingDependents: Adopted=Unknown)"},
		"all True":         {nil, func(l *condition.List) { l.True("Adopted"); l.True("Launched") }, "Launched=True Adopted=True Ready=True"},
		"one False":        {nil, func(l *condition.List) { l.False("Adopted", "No", ""); l.True("Launched") }, "Launched=True Adopted=False Ready=False(UnhealthyDependents: Adopted=False)"},
		"others do not count, and come last within a second": {nil, func(l *condition.List) { l.False("Extra", "No", ""); l.True("Adopted"); l.True("Launched") },
			"Launched=True Adopted=True Extra=False Ready=True"},
		"one of an older spec": {[]metav1.Condition{is("Launched", "True", 1, 0), is("Adopted", "True", 2, 0)}, func(*condition.List) {},
			"Launched=True Adopted=True Ready=Unknown(ReconcilingDependents: Launched=True)"},
		"the newest that is not True is named first": {[]metav1.Condition{is("Adopted", "Unknown", 2, 0), is("Launched", "False", 2, time.Second)}, func(*condition.List) {},
			"Adopted=Unknown Launched=False Ready=False(UnhealthyDependents: Launched=False, Adopted=Unknown)"},
		"a dependent is not removed": {[]metav1.Condition{is("Launched", "True", 2, 0), is("Extra", "True", 2, 0)}, func(l *condition.List) { l.Remove("Launched"); l.Remove("Extra") },
			"Launched=True Adopted=Unknown Ready=Unknown(ReconcilingDependents: Adopted=Unknown)"},
	} {
		t.Run(name, func(t *testing.T) {
			l := list(c.have...)
			c.set(l)
			if got := text(l.Finish()); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestATransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	l := list(is("Launched", "True", 1, time.Second), is("Adopted", "False", 1, time.Second))
	l.Set("Launched", "True", "Other", "said anew")
	l.True("Adopted")
	l.Unknown("Extra", "Asked", "")
	for kind, want := range map[string]time.Duration{"Launched": time.Second, "Adopted": time.Minute, "Extra": time.Minute} {
		if c := condition.Get(l.Conditions, kind); !c.LastTransitionTime.Equal(new(metav1.NewTime(made.Add(want)))) || c.ObservedGeneration != 2 {
			t.Errorf("%s since %s of generation %d", kind, c.LastTransitionTime, c.ObservedGeneration)
		}
	}
	l.Await()
	if c := condition.Get(l.Conditions, "Ready"); !c.LastTransitionTime.Time.Equal(made) {
		t.Errorf("Ready is Unknown since %s, want since creation", c.LastTransitionTime)
	}
	for kind, want := range map[string]metav1.ConditionStatus{"Adopted": "True", "Missing": "Unknown"} {
		if got := l.StatusOf(kind); got != want {
			t.Errorf("status of %s is %s", kind, got)
		}
	}
	if stale := list(is("Launched", "True", 1, 0)); stale.StatusOf("Launched") != "Unknown" {
		t.Error("a condition of an older spec counts")
	}
}

// The API server refuses the whole status for one message that is too long, and stores another text than one
// that is no UTF-8.
func TestMessagesAreSuchAsTheAPIServerStores(t *testing.T) {
	for sentence, c := range map[string]struct{ message, want string }{
		"short":          {"x", "x"},
		"just right":     {strings.Repeat("ü", 32768), strings.Repeat("ü", 32768)},
		"too long":       {strings.Repeat("ü", 32769), strings.Repeat("ü", 32765) + "..."},
		"no UTF-8":       {"a\xff\xfeb", "a\uFFFD\uFFFDb"},
		"long, no UTF-8": {strings.Repeat("\xff", 40000), strings.Repeat("\uFFFD", 32765) + "..."},
	} {
		l := list()
		l.False("Launched", "No", c.message)
		if got := condition.Get(l.Conditions, "Launched").Message; got != c.want {
			t.Errorf("%s: %d bytes, want %d", sentence, len(got), len(c.want))
		}
	}
}

// Whoever sets a condition beside the root, on an object that somebody else keeps, leaves the root alone.
func TestSortedLeavesTheRootAlone(t *testing.T) {
	l := list(is("Ready", "True", 0, 0), is("Launched", "True", 0, 0))
	l.True("Drained")
	if got := text(l.Sorted()); got != "Launched=True Drained=True Ready=True" {
		t.Error(got)
	}
	l.Deleting = true
	for _, c := range l.Sorted() {
		if c.ObservedGeneration != 2 {
			t.Errorf("%s is of generation %d, the deletion is of 2", c.Type, c.ObservedGeneration)
		}
	}
	if !condition.Equal(l.Conditions, list(l.Conditions...).Sorted()) || condition.Equal(l.Conditions, nil) {
		t.Error("equal lists differ")
	}
}
