package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Report of a span.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Actual is what happened, Millwright what would have been.
	Actual     Side `json:"actual"`
	Millwright Side `json:"millwright"`
	// Curve in equal steps, oldest first.
	Curve []Point `json:"curve"`
	// Differences with the largest sums, at most ten, largest first.
	Differences []Difference `json:"differences"`
	// Decisions are the shadow decisions that were counted, Repeated those that were not, because what
	// they are about was decided before and is still there.
	Decisions int `json:"decisions"`
	Repeated  int `json:"repeated"`
	// BootTime is how long nodes took from launch to ready, in the middle; it is taken for all that never
	// were.
	BootSeconds int64 `json:"bootSeconds"`
	// Caveats, in words.
	Caveats []string `json:"caveats"`
}

// Side of the comparison.
type Side struct {
	// NodesMost at a time, and NodeHours over the span.
	NodesMost int     `json:"nodesMost"`
	NodeHours float64 `json:"nodeHours"`
	// USD that the nodes cost in the span, without what has no known price.
	USD float64 `json:"usd"`
	// Launched and Removed nodes; Evictions of pods that had to leave their node with it or for it.
	Launched  int `json:"launched"`
	Removed   int `json:"removed"`
	Evictions int `json:"evictions"`
	// Waited counts pods for which kube-scheduler found no node at first; the seconds are how long they
	// waited: in all, in the middle, and at most.
	Waited        int   `json:"waited"`
	WaitedSeconds int64 `json:"waitedSeconds"`
	WaitedMedian  int64 `json:"waitedMedianSeconds"`
	WaitedMost    int64 `json:"waitedMostSeconds"`
	// StillWaiting at the end.
	StillWaiting int `json:"stillWaiting"`
}

// Point of the curve.
type Point struct {
	At time.Time `json:"at"`
	// Nodes and what they cost per hour, in micro USD.
	ActualNodes     int   `json:"actualNodes"`
	ActualPrice     int64 `json:"actualMicroUSDPerHour"`
	MillwrightNodes int   `json:"millwrightNodes"`
	MillwrightPrice int64 `json:"millwrightMicroUSDPerHour"`
}

// Difference that one decision makes, or would have made.
type Difference struct {
	// Record is the shadow decision.
	Record uint64    `json:"record"`
	At     time.Time `json:"at"`
	// Until is when the last real node that it is about was gone; zero: not yet.
	Until time.Time `json:"until,omitzero"`
	// SavedUSD in the span; negative: Millwright would have been dearer.
	SavedUSD float64 `json:"savedUSD"`
	// Instead is what really was there, Decided what Millwright decided, Why its reasons.
	Decided string   `json:"decided"`
	Instead string   `json:"instead"`
	Why     []string `json:"why,omitempty"`
}

const (
	// curvePoints of a Report, at least pointSeconds apart.
	curvePoints    = 96
	differencesMax = 10
)

// caveats hold for every report.
var caveats = []string{
	"Every shadow decision was taken on what was really there, so differences end with the real nodes that they are about, and do not pile up; what would have followed from them is not followed.",
	"A node that never was boots in the time that real ones took in the middle, and is never interrupted.",
	"A pod that Millwright would have placed by the same decision as others counts as running when that node would have been ready.",
	"What removals would have done to the pods is counted as the evictions of the command; whether they would have found the promised room at once is not known.",
	"Nodes whose price is not known cost nothing on either side.",
}

// Row of the comparison: what it is about, and both sides of it, for people.
type Row struct{ Name, Actual, Millwright string }

// Rows are both sides side by side.
func (r *Report) Rows() []Row {
	a, m := &r.Actual, &r.Millwright
	row := func(name, format string, of func(*Side) any) Row {
		return Row{name, fmt.Sprintf(format, of(a)), fmt.Sprintf(format, of(m))}
	}
	return []Row{
		row("cost", "$%.2f", func(s *Side) any { return s.USD }),
		row("node hours", "%.1f", func(s *Side) any { return s.NodeHours }),
		row("nodes, at most", "%d", func(s *Side) any { return s.NodesMost }),
		row("launched", "%d", func(s *Side) any { return s.Launched }),
		row("removed", "%d", func(s *Side) any { return s.Removed }),
		row("evictions", "%d", func(s *Side) any { return s.Evictions }),
		row("pods that waited", "%d", func(s *Side) any { return s.Waited }),
		row("in the middle for", "%s", func(s *Side) any { return Seconds(s.WaitedMedian) }),
		row("at most for", "%s", func(s *Side) any { return Seconds(s.WaitedMost) }),
		row("waiting still", "%d", func(s *Side) any { return s.StillWaiting }),
	}
}

// Seconds as a span.
func Seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// waits are how long pods waited, to the second.
type waits struct {
	count int
	sum   time.Duration
	// seconds counts the waits by their length.
	seconds map[int64]int
}

func (w *waits) add(d time.Duration) { w.addSome(int64(d/time.Second), 1, d) }

func (w *waits) addSome(seconds int64, count int, sum time.Duration) {
	if w.seconds == nil {
		w.seconds = map[int64]int{}
	}
	w.count, w.sum = w.count+count, w.sum+sum
	w.seconds[seconds] += count
}

// addAll adds others, each of which was so much longer.
func (w *waits) addAll(others *waits, longer time.Duration) {
	for seconds, n := range others.seconds {
		w.addSome(seconds+int64(longer/time.Second), n, 0)
	}
	w.sum += others.sum + time.Duration(others.count)*longer
}

// waits says how long pods waited.
func (s *Side) waits(w *waits) {
	s.Waited, s.WaitedSeconds = w.count, int64(w.sum/time.Second)
	seen, median := 0, false
	for _, seconds := range slices.Sorted(maps.Keys(w.seconds)) {
		if seen += w.seconds[seconds]; !median && seen > w.count/2 {
			s.WaitedMedian, median = seconds, true
		}
		s.WaitedMost = seconds
	}
}

// differences keep the largest ones.
type differences struct{ all []ranked }

type ranked struct {
	Difference
	// order of the decision, for those that come to the same.
	order int
}

func (l *differences) add(order int, d Difference) {
	if l.all = append(l.all, ranked{d, order}); len(l.all) >= 4*differencesMax {
		l.cut()
	}
}

// cut leaves the largest, by what they come to either way.
func (l *differences) cut() {
	slices.SortFunc(l.all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(max(b.SavedUSD, -b.SavedUSD), max(a.SavedUSD, -a.SavedUSD)), cmp.Compare(a.order, b.order))
	})
	l.all = slices.Clone(l.all[:min(len(l.all), differencesMax)])
}

// list of the largest; it is never nil.
func (l *differences) list() []Difference {
	l.cut()
	list := []Difference{}
	for i := range l.all {
		list = append(list, l.all[i].Difference)
	}
	return list
}
