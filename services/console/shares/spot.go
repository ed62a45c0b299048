package shares

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/console/history"
)

// sharesMax bounds the shares of a record, but for one that holds the smallest of each NodePool.
const sharesMax = 500

// ownersMax bounds the owners of an hour; those of a NodePool that are met later are one.
const ownersMax = 20_000

// others is the name of what is summed up because there is too much of it; no namespace can have it.
const others = "(others)"

// owner of a part of an instance; without a namespace it is nobody's.
type owner struct{ pool, namespace, team string }

// amounts of an owner, in USD.
type amounts struct{ onDemand, cost float64 }

// spot adds up for whom the spot instances run, and has what an ended hour came to noted.
func (o *Observer) spot(h *history.History, s *planner.Snapshot, now time.Time) {
	if hour := now.UTC().Truncate(time.Hour); !hour.Equal(o.hour) {
		if p := o.record(); len(p.Spot) > 0 && !h.Told(p.Hour) {
			o.enqueue(p)
		}
		o.hour, o.sums = hour, map[owner]*amounts{}
	}
	passed := every
	if !o.last.IsZero() { // what was not seen for long is no more than any other look
		passed = min(max(now.Sub(o.last), 0), 2*every)
	}
	o.last = now
	if running := h.SpotRunning(); len(running) > 0 {
		for _, n := range s.StateNodes() {
			if n.Claim == nil {
				continue
			}
			if p, found := running[n.Claim.Name]; found {
				o.add(p, n, passed)
			}
		}
	}
	h.Observe(o.record())
}

// add what an instance cost in a span to those for whom it ran.
func (o *Observer) add(p history.SpotPrices, n *planner.StateNode, passed time.Duration) {
	for of, part := range parts(n, o.cfg.Label) {
		of.pool = p.NodePool
		if o.sums[of] == nil && len(o.sums) >= ownersMax && of.namespace != "" {
			of.namespace, of.team = others, others
		}
		x := o.sums[of]
		if x == nil {
			x = &amounts{}
			o.sums[of] = x
		}
		x.onDemand += part * passed.Hours() * float64(p.OnDemand) / 1e6
		x.cost += part * passed.Hours() * float64(p.Cost) / 1e6
	}
}

// parts of a node by whose pods it is for, which add up to 1: half of a node is its CPU and half its memory,
// and of each half a pod has what it requests of what can be allocated. The rest is nobody's.
func parts(n *planner.StateNode, label string) map[owner]float64 {
	cpu, memory := n.Allocatable.MilliCPU, n.Allocatable.Memory
	var usedCPU, usedMemory int64
	for _, p := range n.Pods {
		if !p.Terminal() {
			usedCPU, usedMemory = usedCPU+p.Class.Requests.MilliCPU, usedMemory+p.Class.Requests.Memory
		}
	}
	cpu, memory = max(cpu, usedCPU, 1), max(memory, usedMemory, 1)
	list := map[owner]float64{}
	for _, p := range n.Pods {
		if p.Terminal() {
			continue
		}
		of := owner{namespace: p.Namespace}
		if label != "" {
			of.team = p.Class.Labels[label]
		}
		list[of] += float64(p.Class.Requests.MilliCPU)/float64(cpu)/2 + float64(p.Class.Requests.Memory)/float64(memory)/2
	}
	list[owner{}] += float64(cpu-usedCPU)/float64(cpu)/2 + float64(memory-usedMemory)/float64(memory)/2
	return list
}

// record of the hour so far.
func (o *Observer) record() *ledger.SharesObserved {
	p := &ledger.SharesObserved{Label: o.cfg.Label, Hour: o.hour}
	largest := slices.SortedFunc(maps.Keys(o.sums), func(a, b owner) int {
		return cmp.Or(cmp.Compare(o.sums[b].onDemand, o.sums[a].onDemand), cmp.Compare(a.pool, b.pool), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.team, b.team))
	})
	kept := map[owner]amounts{}
	for i, of := range largest {
		x := o.sums[of]
		if i >= sharesMax && of.namespace != "" {
			of.namespace, of.team = others, others
		}
		sum := kept[of]
		kept[of] = amounts{sum.onDemand + x.onDemand, sum.cost + x.cost}
	}
	for of, x := range kept {
		if onDemand, cost := nano(x.onDemand), nano(x.cost); onDemand > 0 {
			p.Spot = append(p.Spot, ledger.SpotShare{NodePool: of.pool, Namespace: of.namespace, Team: of.team, OnDemand: onDemand, Cost: cost})
		}
	}
	slices.SortFunc(p.Spot, func(a, b ledger.SpotShare) int {
		return cmp.Or(cmp.Compare(a.NodePool, b.NodePool), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Team, b.Team))
	})
	return p
}

// nano USD of an amount.
func nano(usd float64) int64 { return int64(usd*1e9 + 0.5) }
