// Package cadence holds when drift began to replace the nodes of each NodePool: how often its nodes are to
// become something else, and so how long a node that is bought today can be expected to stay
// (disruption §4.1, "payBack").
//
// A Table is immutable. The Ledger folds one from the commands that replace a node because what the nodes of
// its NodePool are to be has changed; the drift of single nodes, as by a rebalance recommendation, is none of
// its concern. Not guaranteed: that a second change
// counts which comes before any node of the first one is replaced again.
package cadence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// Apart is how long after the beginning of a roll-out another one begins at the earliest: a template that
	// is corrected at once is one change.
	Apart = time.Hour
	// StartsMax bounds the roll-outs of a NodePool that are remembered; the oldest is forgotten first.
	StartsMax = 8
	// intervalsLeast is how many intervals there must be for a median: one says nothing.
	intervalsLeast = 2
	// keptFor is how long the roll-outs of a NodePool are remembered after the last one; the NodePool may be
	// gone. poolsMax bounds the NodePools.
	keptFor  = 90 * 24 * time.Hour
	poolsMax = 1000
)

// IsOfRollout reports that a reason of the condition Drifted (disruption §7) is about what all nodes of a
// NodePool are to be, and not about one node.
func IsOfRollout(reason string) bool {
	switch reason {
	case "NodePoolDrifted", "RequirementsDrifted", "NodeClassDrift", "AMIDrift", "SecurityGroupDrift", "SubnetDrift", "PlacementGroupDrift":
		return true
	}
	return false
}

// Rollouts of the drifted nodes of a NodePool.
type Rollouts struct {
	NodePool string `json:"nodePool"`
	// Seq is the record with which the last one began: nodes that were planned later are what it is to bring.
	Seq uint64 `json:"seq"`
	// Starts of the last ones, in order; there is one.
	Starts []time.Time `json:"starts"`
}

// Table of roll-outs by NodePool. It never changes; nil is an empty one.
type Table struct{ pools map[string]Rollouts }

// MarshalJSON writes what All returns: equal tables give equal bytes.
func (t *Table) MarshalJSON() ([]byte, error) { return json.Marshal(t.All()) }

// UnmarshalJSON reads that.
func (t *Table) UnmarshalJSON(data []byte) error {
	var list []Rollouts
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	t.pools = make(map[string]Rollouts, len(list))
	for _, r := range list {
		if len(r.Starts) == 0 {
			return fmt.Errorf("NodePool %q has no roll-out", r.NodePool)
		}
		t.pools[r.NodePool] = r
	}
	return nil
}

// tableOf is a table of what All returned; nil if there is nothing.
func tableOf(list []Rollouts) *Table {
	if len(list) == 0 {
		return nil
	}
	t := &Table{pools: make(map[string]Rollouts, len(list))}
	for _, r := range list {
		t.pools[r.NodePool] = r
	}
	return t
}

// All returns the roll-outs by NodePool.
func (t *Table) All() (list []Rollouts) {
	if t == nil {
		return nil
	}
	for _, pool := range slices.Sorted(maps.Keys(t.pools)) {
		list = append(list, t.pools[pool])
	}
	return list
}

// With returns the table after record seq began, at a time, to replace a drifted node that record planned (0
// if that is not known) had planned. It begins a roll-out if the node is of the last one already.
//
// Example. Record 10 replaces a node planned by record 2: the first roll-out, of all nodes that were planned
// up to 10, however many nights it takes. Record 90 replaces one planned by record 40: the second.
func (t *Table) With(pool string, planned, seq uint64, at time.Time) *Table {
	var last Rollouts
	if t != nil {
		last = t.pools[pool]
	}
	if len(last.Starts) > 0 && planned <= last.Seq {
		return t
	}
	next := Rollouts{NodePool: pool, Seq: seq, Starts: slices.Clone(last.Starts)}
	if n := len(next.Starts); n == 0 || at.Sub(next.Starts[n-1]) >= Apart {
		next.Starts = append(next.Starts[max(0, n+1-StartsMax):], at)
	}
	list := slices.DeleteFunc(t.All(), func(r Rollouts) bool { return r.NodePool == pool || at.Sub(r.latest()) > keptFor })
	if len(list) >= poolsMax {
		oldest := slices.MinFunc(list, func(a, b Rollouts) int {
			return cmp.Or(a.latest().Compare(b.latest()), cmp.Compare(a.NodePool, b.NodePool))
		})
		list = slices.DeleteFunc(list, func(r Rollouts) bool { return r.NodePool == oldest.NodePool })
	}
	return tableOf(append(list, next))
}

// AsOf returns the table with nothing later than a time, which a clock that was far ahead has recorded.
func (t *Table) AsOf(now time.Time) *Table {
	list := t.All()
	for i := range list {
		var starts []time.Time
		for _, at := range list[i].Starts {
			if at.After(now) {
				at = now
			}
			if n := len(starts); n == 0 || at.Sub(starts[n-1]) >= Apart {
				starts = append(starts, at)
			}
		}
		list[i].Starts = starts
	}
	return tableOf(list)
}

// Interval is the median of the times between the roll-outs of a NodePool, of two the shorter, and when the
// last of them began; false while too few are known.
func (t *Table) Interval(pool string) (median time.Duration, last time.Time, ok bool) {
	if t == nil {
		return 0, last, false
	}
	starts := t.pools[pool].Starts
	if len(starts) <= intervalsLeast {
		return 0, last, false
	}
	intervals := make([]time.Duration, len(starts)-1)
	for i := range intervals {
		intervals[i] = starts[i+1].Sub(starts[i])
	}
	slices.Sort(intervals)
	return intervals[(len(intervals)-1)/2], starts[len(starts)-1], true
}

func (r Rollouts) latest() time.Time { return r.Starts[len(r.Starts)-1] }
