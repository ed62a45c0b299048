package provision

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/overlay"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// addAdopted lists the NodeClaims that were not planned in this log, made by hand or by Karpenter, and have
// no instance yet. Like planned ones they take pods that fit whatever their spec may become.
func addAdopted(in *solve.Input, s *planner.Snapshot, usage map[string]*offer.PoolInput, waiting map[string][]*world.Pod) {
	for _, c := range s.World.NodeClaims() {
		if !adopted(s, c) {
			continue
		}
		cat := s.World.Catalog(c.Spec.NodeClassRef.Name)
		if s.Options.Revision >= options.Revision8 {
			cat = overlay.Catalog(s, c.Labels[karpv1.NodePoolLabelKey], c.Spec.NodeClassRef.Name)
		}
		if cat == nil {
			continue
		}
		plan := plannedFromSpec(c, cat)
		claim := &ledger.Claim{Name: c.Name, Planned: plan, NodePool: plan.NodePool, UID: c.UID, State: ledger.ClaimCreatedOnce, Capacity: plan.Capacity}
		if p := usage[plan.NodePool]; p != nil {
			p.Used = p.Used.Add(plan.Capacity)
			if s.Ledger.Claim(c.Name) == nil {
				p.Nodes++ // those in the Ledger are counted with what is in flight
			}
		}
		in.Planned = append(in.Planned, place.PlannedInput{Claim: claim, Catalog: cat, Pods: waiting[c.Name]})
	}
}

// adopted reports a NodeClaim that is still to be launched and whose plan is not in the Ledger.
func adopted(s *planner.Snapshot, c *karpv1.NodeClaim) bool {
	ref := c.Spec.NodeClassRef
	if c.Status.ProviderID != "" || c.DeletionTimestamp != nil || ref == nil || ref.Group != awsv1.Group {
		return false
	}
	l := s.Ledger.Claim(c.Name)
	return l == nil || l.Planned == nil && l.Doomed == nil && !l.Terminated && l.Instance == nil
}

// plannedFromSpec reads a NodeClaim as the plan it would have come from. Its types are those that its spec
// names, that have an offering for it and that hold what it requests.
func plannedFromSpec(c *karpv1.NodeClaim, cat *catalog.Catalog) *ledger.PlannedClaim {
	plan := &ledger.PlannedClaim{
		NodePool: c.Labels[karpv1.NodePoolLabelKey], NodeClassRef: *c.Spec.NodeClassRef, Labels: c.Labels, Taints: c.Spec.Taints,
		StartupTaints: c.Spec.StartupTaints, Requirements: slices.Clone(c.Spec.Requirements), Requests: resource.From(c.Spec.Resources.Requests),
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		plan.Requirements = append(plan.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: k, Operator: corev1.NodeSelectorOpIn, Values: []string{c.Labels[k]}})
	}
	set, _ := requirement.FromClaim(plan.Requirements)
	fit := offer.Launchable(cat, set)
	cat.Narrow(fit, &plan.Requests)
	for i := range fit.Members() {
		plan.InstanceTypes = append(plan.InstanceTypes, cat.Types[i].Name)
	}
	plan.Capacity = offer.CapacityMax(cat, fit)
	return plan
}

// waitingFor sorts the pods by the claim their last verdict puts them on.
func waitingFor(in *solve.Input) map[string][]*world.Pod {
	waiting := map[string][]*world.Pod{}
	for _, p := range in.Pods {
		if to := in.Prior(p.UID); to.Claim != "" && !planner.IsVirtual(p.Class) { // these get what real pods leave
			waiting[to.Claim] = append(waiting[to.Claim], p)
		}
	}
	return waiting
}
