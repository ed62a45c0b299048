package shadow

import (
	"cmp"
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

// waits adds up how long pods waited.
func (s *Side) waits(list []time.Duration) {
	slices.Sort(list)
	s.Waited = len(list)
	var sum time.Duration
	for _, d := range list {
		sum += d
	}
	s.WaitedSeconds = int64(sum / time.Second)
	if len(list) > 0 {
		s.WaitedMedian, s.WaitedMost = int64(list[len(list)/2]/time.Second), int64(list[len(list)-1]/time.Second)
	}
}

// largest differences, by what they come to either way.
func largest(all []Difference) []Difference {
	list := slices.Clone(all)
	slices.SortStableFunc(list, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(max(b.SavedUSD, -b.SavedUSD), max(a.SavedUSD, -a.SavedUSD)), cmp.Compare(a.Record, b.Record))
	})
	if list = list[:min(len(list), differencesMax)]; list == nil {
		list = []Difference{}
	}
	return list
}
