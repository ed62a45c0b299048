package judge

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/ledger"
)

// CheckPayBack is of commands by savings.payBack of the DisruptionPolicies.
const CheckPayBack = "4: DisruptionPolicies: evictions pay back within the horizon"

// payBack judges by the pods and prices that who decided had seen. No pod of a simulated cluster says that
// its eviction costs more or less than others'.
type payBack struct{ *Judge }

// judge measures a node that goes without a replacement by itself, and else the whole command.
func (s *payBack) judge(v *seen, policy *mwv1alpha1.DisruptionPolicy, c *ledger.CommandStarted, x *ledger.Candidate) {
	rule := policy.Spec.Savings.PayBack
	if rule == nil {
		return
	}
	nodes := c.Candidates
	if len(c.Replacements) == 0 {
		nodes = []ledger.Candidate{*x}
	}
	saved, evictions := int64(0), int64(0)
	for i := range nodes {
		price, known := v.priceOfNode(nodes[i].Node)
		if !known {
			return
		}
		saved, evictions = saved+price, evictions+v.evictionsFrom(nodes[i].Node)
	}
	for i := range c.Replacements {
		o := &c.Replacements[i].Cheapest
		price, known := v.priceOf(o.InstanceType, o.Zone, o.CapacityType)
		if !known {
			return
		}
		saved -= price
	}
	life := rule.Horizon.Duration
	if pool, _ := v.objects[events.KindNodePool][x.NodePool].(*karpv1.NodePool); pool != nil {
		if d := pool.Spec.Template.Spec.ExpireAfter.Duration; d != nil {
			life = min(life, *d)
		}
	}
	// Of prices per hour, so both sides are times 3600 s.
	if gain, cost := saved*int64(life/time.Second), evictions*microDollars(rule.CostPerEviction)*3600; gain < cost {
		s.Violate(CheckPayBack, "node %s goes with %d evictions at %s dollars each, and %d micro-dollars an hour saved for %s pay %d of them", x.Node, evictions,
			rule.CostPerEviction, saved, life, gain/(microDollars(rule.CostPerEviction)*3600))
	}
}

// evictionsFrom counts the pods that have to leave a node if it goes.
func (v *seen) evictionsFrom(node string) (n int64) {
	for _, p := range all[*corev1.Pod](v, events.KindPod) {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Spec.NodeName == node && !ended && p.DeletionTimestamp == nil && !isDaemonPod(p) {
			n++
		}
	}
	return n
}

// priceOfNode is what a node costs in micro-dollars an hour, by its labels; false if that is not seen.
func (v *seen) priceOfNode(name string) (price int64, known bool) {
	n, _ := v.objects[events.KindNode][name].(*corev1.Node)
	if n == nil {
		return 0, false
	}
	return v.priceOf(n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone], n.Labels[karpv1.CapacityTypeLabelKey])
}

// priceOf an offering in micro-dollars an hour; false if it is not seen.
func (v *seen) priceOf(instanceType, zone, capacityType string) (price int64, known bool) {
	for _, prices := range all[*events.Prices](v, events.KindPrices) {
		for _, e := range prices.Entries {
			if e.InstanceType == instanceType && e.CapacityType == capacityType && (e.Zone == zone || e.Zone == "") {
				return e.MicroUSDPerHour, true
			}
		}
	}
	return 0, false
}
