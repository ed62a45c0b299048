// Package payback says whether what consolidation saves pays for the pods that it evicts.
//
// Guarantees: a pure function of the Snapshot. A refusal says in words what is missing, and names the first
// moment at which time alone may change it. Not guaranteed: that pods which were moved are told from replicas
// that were made beside them; the error is to keep a node for longer.
package payback

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// AgainAfter is how long pods that a command has moved are left alone, unless what is saved in that time pays
// for them: againCost, in micro USD, for each.
const (
	AgainAfter = 30 * time.Minute
	againCost  = 10_000
)

// A pod that was moved within movedFor costs movedFactor times as much to evict again.
const (
	movedFor    = time.Hour
	movedFactor = 100
)

// For how long a saving counts.
const (
	lifeLeast, lifeMost = 5 * time.Minute, 24 * time.Hour
	// boughtIn is how far back purchases count, boughtTogether how far apart they are at least; purchasesFree
	// of them say nothing yet.
	boughtIn, boughtTogether = 3 * time.Hour, 5 * time.Minute
	purchasesFree            = 2
)

// Rule is what evictions cost, and for how long savings count, as of a Snapshot.
type Rule struct {
	s        *planner.Snapshot
	policies map[string][]*policy.Policy
	// bought is what NodePools have bought; nil until asked for.
	bought map[string]purchases
	// moved is when a command first moved pods of an owner within AgainAfter, by ledger.OwnerKey; nil until
	// asked for.
	moved map[string]time.Time
	// moves of the last movedFor by the names of Nodes and NodeClaims; nil until asked for.
	moves map[string][]ledger.Evicted
}

// New returns the rule as of a Snapshot; policies by NodePool, as policy.ByPool has them.
func New(s *planner.Snapshot, policies map[string][]*policy.Policy) *Rule {
	return &Rule{s: s, policies: policies}
}

// Refusal is why evictions do not pay.
type Refusal struct {
	Text string
	// Again: pods would be moved that were moved lately.
	Again bool
	// Until is the first time at which it may change by itself; zero if it can't.
	Until time.Time
}

// Again refuses to move pods of nodes that were moved lately, for what is saved in micro USD per hour; nil if
// that is enough. A DisruptionPolicy's pay-back counts besides.
func (r *Rule) Again(saved int64, nodes ...*planner.StateNode) *Refusal {
	pods, until := int64(0), time.Time{}
	for _, n := range nodes {
		k, at := r.MovedLately(n)
		pods, until = pods+k, planner.Latest(until, at)
	}
	if pods == 0 || saved*int64(AgainAfter/time.Minute) >= pods*againCost*60 {
		return nil
	}
	return &Refusal{Again: true, Until: until, Text: fmt.Sprintf("%d of its pods were moved within %d minutes, in which it saves %s USD; to move them again costs %s",
		pods, int64(AgainAfter/time.Minute), policy.USD(saved*int64(AgainAfter/time.Minute)/60), policy.USD(pods*againCost))}
}

// MovedLately counts the pods of a node that are there because a voluntary command moved them lately, and
// says when the last of them has been there long enough. Replicas are told apart by nobody, so every pod of
// an owner counts that was created since one of it was moved.
func (r *Rule) MovedLately(n *planner.StateNode) (pods int64, until time.Time) {
	if r.moved == nil {
		r.moved = r.s.Ledger.MovedSince(r.s.Now.Add(-AgainAfter))
	}
	if len(r.moved) == 0 {
		return 0, time.Time{}
	}
	for _, p := range n.Pods {
		at, ok := r.moved[ledger.OwnerKey(p.Namespace, p.Name)]
		created := time.Unix(0, p.Created)
		if !ok || !planner.IsReschedulable(p) || created.Before(at.Truncate(time.Second)) || !r.s.Now.Before(created.Add(AgainAfter)) {
			continue
		}
		if pods++; created.Add(AgainAfter).After(until) {
			until = created.Add(AgainAfter).UTC()
		}
	}
	return pods, until
}

// Evictions refuses to take nodes away whose pods cost more to evict than is saved, in micro USD per hour,
// while the saving lasts; nil if it pays. A pod that a command moved there within the last hour costs a
// hundred times as much. Nodes that a DisruptionPolicy asks about pay-back are left to it.
func (r *Rule) Evictions(saved int64, nodes ...*planner.StateNode) *Refusal {
	b := bill{}
	for _, n := range nodes {
		if r.s.Options.EvictionCost > 0 && !slices.ContainsFunc(r.policies[n.NodePool], (*policy.Policy).AsksForPayBack) {
			r.charge(&b, n)
		}
	}
	life := r.life(nodes)
	if b.cost == 0 || pays(saved, life, b.cost) {
		return nil
	}
	refusal := &Refusal{Again: b.again > 0, Until: earlier(b.until, r.paysAt(nodes, saved, b.cost)), Text: fmt.Sprintf("saves %s USD in %s, its %d evictions cost %s",
		policy.USD(policy.Proportion(saved, int64(life/time.Second), 3600)), life.Truncate(time.Second), b.evictions, policy.USD(b.cost))}
	if b.again > 0 {
		refusal.Text += fmt.Sprintf(", for %d of the pods were moved within %d minutes", b.again, int64(movedFor/time.Minute))
	}
	return refusal
}

// bill is what evictions cost.
type bill struct {
	evictions int
	cost      int64
	// again counts those of pods that were moved lately; until is when the first of them was not any more.
	again int
	until time.Time
}

// charge adds the pods of a node to a bill.
func (r *Rule) charge(b *bill, n *planner.StateNode) {
	if r.moves == nil {
		r.moves = r.s.Ledger.MovesTo(r.s.Now.Add(-movedFor))
	}
	moves := slices.Concat(r.moves[n.Name], r.moves[n.ClaimName()])
	for _, p := range n.Pods {
		if !planner.IsReschedulable(p) {
			continue
		}
		cost := policy.Proportion(r.s.Options.EvictionCost, policy.EvictionGrains(p), planner.EvictionCostUnit/policy.CostGrain)
		if until := time.Unix(0, p.Created).Add(movedFor).UTC(); r.s.Now.Before(until) && wasMoved(p, moves) {
			cost *= movedFactor
			b.again, b.until = b.again+1, earlier(b.until, until)
		}
		b.evictions, b.cost = b.evictions+1, b.cost+cost
	}
}

// wasMoved reports that a pod may have been made in place of one that a command moved to its node.
func wasMoved(p *world.Pod, moves []ledger.Evicted) bool {
	return slices.ContainsFunc(moves, func(x ledger.Evicted) bool {
		_, ok := slices.BinarySearch(x.Owners, ledger.OwnerKey(p.Namespace, p.Name))
		return ok && !time.Unix(0, p.Created).Before(x.At.Truncate(time.Second))
	})
}

// life is how long a saving on nodes counts: the time for which their NodePools have bought no node for pods
// that had no place, for so long they can be expected to need none; at least the horizon, which is halved for
// each purchase in boughtIn but the first few, down to lifeLeast.
func (r *Rule) life(nodes []*planner.StateNode) time.Duration {
	life := r.lifeMost(nodes)
	for _, n := range nodes {
		life = min(life, r.sincePurchase(n.NodePool))
	}
	return life
}

// sincePurchase is life by the purchases of one NodePool alone.
func (r *Rule) sincePurchase(nodePool string) time.Duration {
	horizon, b := r.s.Options.EvictionHorizon, r.purchasesOf(nodePool)
	least := horizon >> min(16, max(0, b.times-purchasesFree))
	return max(r.s.Now.Sub(b.last), least, min(lifeLeast, horizon))
}

// paysAt is the first moment at which a saving on nodes may pay for a cost that it does not pay for now; zero
// if there is none.
func (r *Rule) paysAt(nodes []*planner.StateNode, saved, cost int64) (at time.Time) {
	if !pays(saved, r.lifeMost(nodes), cost) {
		return at
	}
	for _, n := range nodes {
		at = planner.Latest(at, r.purchasesOf(n.NodePool).last.Add(needed(saved, cost)))
	}
	for _, n := range nodes {
		if b := r.purchasesOf(n.NodePool); b.times > purchasesFree {
			at = earlier(at, b.first.Add(boughtIn))
		}
	}
	return at
}

// earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// lifeMost is the longest that a saving on nodes can count: no longer than nodes of their NodePools live.
func (r *Rule) lifeMost(nodes []*planner.StateNode) time.Duration {
	most := max(lifeMost, r.s.Options.EvictionHorizon)
	for _, n := range nodes {
		if pool := r.s.World.NodePool(n.NodePool); pool != nil {
			if d := pool.Spec.Template.Spec.ExpireAfter.Duration; d != nil && *d > 0 {
				most = min(most, *d)
			}
		}
	}
	return most
}

// purchases of nodes for pods that had no place, as far as the nodes are still there.
type purchases struct {
	// last of them; zero if there was none. times counts those in boughtIn, those in quick succession once;
	// first is the first of these.
	last, first time.Time
	times       int
}

func (r *Rule) purchasesOf(nodePool string) purchases {
	if r.bought == nil {
		r.bought = r.countPurchases()
	}
	return r.bought[nodePool]
}

// countPurchases goes by the creation of NodeClaims that no command wanted as replacements.
func (r *Rule) countPurchases() map[string]purchases {
	made := map[string][]time.Time{}
	for _, n := range r.s.StateNodes() {
		if n.Claim == nil {
			continue
		}
		if known := r.s.Ledger.Claim(n.Claim.Name); known == nil || known.CommandID == "" {
			made[n.NodePool] = append(made[n.NodePool], n.Claim.CreationTimestamp.UTC())
		}
	}
	bought := make(map[string]purchases, len(made))
	for pool, times := range made {
		slices.SortFunc(times, time.Time.Compare)
		b := purchases{last: times[len(times)-1]}
		var counted time.Time
		for _, at := range times {
			if r.s.Now.Sub(at) < boughtIn && at.Sub(counted) > boughtTogether {
				b.times, counted, b.first = b.times+1, at, earlier(b.first, at)
			}
		}
		bought[pool] = b
	}
	return bought
}

// pays reports that a saving in micro USD per hour is worth a cost in micro USD after a time.
func pays(saved int64, life time.Duration, cost int64) bool {
	if saved <= 0 {
		return cost <= 0
	}
	gainHigh, gainLow := bits.Mul64(uint64(saved), uint64(life/time.Second))
	costHigh, costLow := bits.Mul64(uint64(cost), 3600)
	return gainHigh > costHigh || gainHigh == costHigh && gainLow >= costLow
}

// needed is how long it takes until a saving pays, in whole seconds.
func needed(saved, cost int64) time.Duration {
	return time.Duration(policy.Proportion(cost, 3600, saved)+1) * time.Second
}
