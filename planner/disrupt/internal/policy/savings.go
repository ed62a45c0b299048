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

// Shortfall says in what way the policy finds that too little is saved on nodes of a NodePool; "" if it does
// not. saved and before in micro USD per hour, weight in grains of EvictionCostUnit.
func (p *Policy) Shortfall(saved, before, evictions, weight int64, pool *karpv1.NodePool) string {
	if text := p.savings.shortfall(saved, before, evictions, weight, p.lifeOf(pool)); text != "" {
		return fmt.Sprintf("DisruptionPolicy %q: %s", p.Name, text)
	}
	return ""
}

// AsksForPayBack reports that the policy says itself what evictions cost.
func (p *Policy) AsksForPayBack() bool {
	return p.Spec.Savings != nil && p.Spec.Savings.PayBack != nil
}

// lifeOf is for how long a saving on a NodePool counts: the policy's horizon, at most the NodePool's
// expireAfter.
func (p *Policy) lifeOf(pool *karpv1.NodePool) time.Duration {
	life := p.savings.horizon
	if pool != nil {
		if d := pool.Spec.Template.Spec.ExpireAfter.Duration; d != nil && *d > 0 {
			life = min(life, *d)
		}
	}
	return life
}

// shortfall says what is missing to be worth it; saved and before in micro USD per hour, weight in grains of
// EvictionCostUnit.
func (s *savings) shortfall(saved, before, evictions, weight int64, life time.Duration) string {
	switch {
	case saved < s.perHour:
		return fmt.Sprintf("saves %s USD per hour, minPerHour is %s", USD(saved), USD(s.perHour))
	case mul(saved, 100).Cmp(mul(before, s.percent)) < 0:
		return fmt.Sprintf("saves %s of %s USD per hour, minPercent is %d", USD(saved), USD(before), s.percent)
	case big.NewInt(saved).Cmp(mul(s.perEviction, evictions)) < 0:
		return fmt.Sprintf("saves %s USD per hour with %d evictions, minPerEviction is %s", USD(saved), evictions, USD(s.perEviction))
	}
	if s.costPerEviction == 0 {
		return ""
	}
	gain := mul(saved, int64(life/time.Second))                    // micro USD per hour x seconds
	cost := mul(s.costPerEviction, weight)                         // micro USD x grains
	cost.Div(cost, big.NewInt(planner.EvictionCostUnit/CostGrain)) // micro USD
	if gain.Cmp(new(big.Int).Mul(cost, big.NewInt(3600))) < 0 {
		return fmt.Sprintf("saves %s USD in %s, its %d evictions cost %s", USD(new(big.Int).Div(gain, big.NewInt(3600)).Int64()), life, evictions, USD(cost.Int64()))
	}
	return ""
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
