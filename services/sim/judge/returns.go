package judge

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// CheckReturns is of commands by returnToPreferred of the DisruptionPolicies.
const CheckReturns = "4: DisruptionPolicies: nodes return only to what is preferred and has been there for a time"

// returns judges commands that return nodes to what is preferred.
type returns struct{ *Judge }

// standing is how much a node is preferred: by the weight of its NodePool, and by its capacity type.
type standing struct {
	weight   int32
	capacity int
}

// judge looks at each node of a command by each policy about it. through is up to which record who decided
// knew the log.
func (s *returns) judge(v *seen, through uint64, c *ledger.CommandStarted) {
	if c.Reason != mwv1alpha1.ReasonPreferredAvailable {
		return
	}
	for i := range c.Candidates {
		x, wanted := &c.Candidates[i], false
		for _, p := range v.policiesOf(x.NodePool) {
			if p.Spec.ReturnToPreferred != nil {
				wanted = true
				s.judgeAge(v, p, x)
				s.judgeTargets(v, p, c, x)
				s.judgeOfferings(through, p, c)
			}
		}
		if !wanted {
			s.Violate(CheckReturns, "node %s of NodePool %s goes for %s, which no policy wants", x.Node, x.NodePool, c.Reason)
		}
	}
}

func (s *returns) judgeAge(v *seen, policy *mwv1alpha1.DisruptionPolicy, x *ledger.Candidate) {
	want := policy.Spec.ReturnToPreferred.AvailableFor.Duration
	if o := v.claim(x.Claim); o != nil {
		if age := s.Clock.Now().Add(stage.ClocksApart).Sub(o.CreationTimestamp.Time); age < want {
			s.Violate(CheckReturns, "node %s is %s old, %s wants %s", x.Node, age, policy.Name, want)
		}
	}
}

// judgeTargets demands that whatever the pods of a node may come to is preferred to it.
func (s *returns) judgeTargets(v *seen, policy *mwv1alpha1.DisruptionPolicy, c *ledger.CommandStarted, x *ledger.Candidate) {
	from, known := v.standingOf(x.Node)
	if !known {
		return
	}
	var to []standing
	for i := range c.Replacements {
		for _, t := range allowed(&c.Replacements[i], karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot) {
			to = append(to, standing{v.weightOf(c.Replacements[i].NodePool), capacityRank(t)})
		}
	}
	for _, t := range c.Placements {
		if at, known := v.standingOf(t.Node); known {
			to = append(to, at)
		}
	}
	of := policy.Spec.ReturnToPreferred.Preferences
	byType := len(of) == 0 || slices.Contains(of, mwv1alpha1.PreferCapacityType)
	byWeight := len(of) == 0 || slices.Contains(of, mwv1alpha1.PreferNodePoolWeight)
	for _, t := range to {
		if !(byWeight && t.weight > from.weight || byType && t.weight >= from.weight && t.capacity > from.capacity) {
			s.Violate(CheckReturns, "pods of node %s (%+v) may come to %+v, which is not preferred by %v of %s", x.Node, from, t, of, policy.Name)
		}
	}
}

// judgeOfferings demands that EC2 has not lacked lately what the replacements may be launched as. What is
// marked at the moment they may not: the instance type is there in another zone.
func (s *returns) judgeOfferings(through uint64, policy *mwv1alpha1.DisruptionPolicy, c *ledger.CommandStarted) {
	now, want := s.Clock.Now(), policy.Spec.ReturnToPreferred.AvailableFor.Duration
	for i := range c.Replacements {
		p := &c.Replacements[i]
		for _, name := range p.InstanceTypes {
			for _, zone := range allowed(p, corev1.LabelTopologyZone, cloud.Zones...) {
				for _, ct := range allowed(p, karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot) {
					o := cloud.Offering{InstanceType: name, Zone: zone, CapacityType: ct}
					x, was := s.Marks.of[o]
					if over := now.Sub(x.until); was && !x.longer && x.seq <= through && over > stage.ClocksApart && over+stage.ClocksApart < want {
						s.Violate(CheckReturns, "a node goes for %v, which record %d has marked; that ended %s ago, %s wants %s", o, x.seq, over, policy.Name, want)
					}
				}
			}
		}
	}
}

// allowed are the values of a label, of all there are, that the requirements of a claim allow.
func allowed(p *ledger.PlannedClaim, key string, values ...string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(value string) bool {
		return slices.ContainsFunc(p.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool {
			return r.Key == key && (r.Operator == corev1.NodeSelectorOpIn) != slices.Contains(r.Values, value)
		})
	})
}

func capacityRank(capacityType string) int {
	return slices.Index([]string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved}, capacityType)
}

func (v *seen) standingOf(node string) (standing, bool) {
	n, _ := v.objects[events.KindNode][node].(*corev1.Node)
	if n == nil {
		return standing{}, false
	}
	return standing{v.weightOf(n.Labels[karpv1.NodePoolLabelKey]), capacityRank(n.Labels[karpv1.CapacityTypeLabelKey])}, true
}

func (v *seen) weightOf(nodePool string) int32 {
	if p, _ := v.objects[events.KindNodePool][nodePool].(*karpv1.NodePool); p != nil && p.Spec.Weight != nil {
		return *p.Spec.Weight
	}
	return 0
}
