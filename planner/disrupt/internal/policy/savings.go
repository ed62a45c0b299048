package policy

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/world"
)

// CostGrain keeps products of prices and costs small; a pod without annotations costs 2^17 grains.
const CostGrain = 1 << 10

// EvictionGrains is what it costs to evict a pod.
func EvictionGrains(pod *world.Pod) int64 { return max(0, planner.EvictionCost(pod)) / CostGrain }

// Life is for how long a saving counts. Bound names what says so; "" if only horizon and expireAfter are
// asked.
type Life struct {
	Length time.Duration
	Bound  string
}

// Shortfall says in what way the policy finds that too little is saved on nodes; "" if it does not. saved and
// before in micro USD per hour, weight in grains of EvictionCostUnit. needed is how long the saving would
// have to last; 0 if that would change nothing.
func (p *Policy) Shortfall(saved, before, evictions, weight int64, life Life) (text string, needed time.Duration) {
	if text, needed = p.savings.shortfall(saved, before, evictions, weight, life); text != "" {
		text = fmt.Sprintf("DisruptionPolicy %q: %s", p.Name, text)
	}
	return text, needed
}

// AsksForPayBack reports that the policy says itself what evictions cost.
func (p *Policy) AsksForPayBack() bool {
	return p.Spec.Savings != nil && p.Spec.Savings.PayBack != nil
}

// LifeMost is the longest that a saving on a NodePool counts: the policy's horizon, at most the NodePool's
// expireAfter, if that says so.
func (p *Policy) LifeMost(pool *karpv1.NodePool) (life time.Duration, expires bool) {
	life = p.savings.horizon
	if pool != nil {
		if d := pool.Spec.Template.Spec.ExpireAfter.Duration; d != nil && *d > 0 && *d < life {
			return *d, true
		}
	}
	return life, false
}

// shortfall says what is missing to be worth it; saved and before in micro USD per hour, weight in grains of
// EvictionCostUnit.
func (s *savings) shortfall(saved, before, evictions, weight int64, life Life) (text string, needed time.Duration) {
	switch {
	case saved < s.perHour:
		return fmt.Sprintf("saves %s USD per hour, minPerHour is %s", USD(saved), USD(s.perHour)), 0
	case mul(saved, 100).Cmp(mul(before, s.percent)) < 0:
		return fmt.Sprintf("saves %s of %s USD per hour, minPercent is %d", USD(saved), USD(before), s.percent), 0
	case big.NewInt(saved).Cmp(mul(s.perEviction, evictions)) < 0:
		return fmt.Sprintf("saves %s USD per hour with %d evictions, minPerEviction is %s", USD(saved), evictions, USD(s.perEviction)), 0
	}
	if s.costPerEviction == 0 {
		return "", 0
	}
	gain := mul(saved, int64(life.Length/time.Second))             // micro USD per hour x seconds
	cost := mul(s.costPerEviction, weight)                         // micro USD x grains
	cost.Div(cost, big.NewInt(planner.EvictionCostUnit/CostGrain)) // micro USD
	if gain.Cmp(new(big.Int).Mul(cost, big.NewInt(3600))) < 0 {
		in := life.Length.String()
		if life.Bound != "" {
			in += " (" + life.Bound + ")"
		}
		text = fmt.Sprintf("saves %s USD in %s, its %d evictions cost %s", USD(new(big.Int).Div(gain, big.NewInt(3600)).Int64()), in, evictions, USD(cost.Int64()))
		return text, paysAfter(saved, cost)
	}
	return "", 0
}

// neededMost bounds how long a saving may take to pay that is ever waited for.
const neededMost = 10 * 365 * 24 * time.Hour

// paysAfter is how long a saving in micro USD per hour takes to be worth a cost, in whole minutes; 0 if it
// never is.
func paysAfter(saved int64, cost *big.Int) time.Duration {
	if saved <= 0 {
		return 0
	}
	minutes := new(big.Int).Mul(cost, big.NewInt(60))
	minutes.Add(minutes, big.NewInt(saved-1)).Div(minutes, big.NewInt(saved))
	if minutes.Cmp(big.NewInt(int64(neededMost/time.Minute))) > 0 {
		return 0
	}
	return time.Duration(minutes.Int64()) * time.Minute
}

func mul(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// USD writes micro USD as USD.
func USD(micro int64) string {
	sign, abs := "", micro
	if micro < 0 {
		sign, abs = "-", -micro
	}
	return sign + strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%06d", abs/1e6, abs%1e6), "0"), ".")
}
