package provision

import (
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
)

// addWidened adds the claims that took more pods. One that cannot be made with its new content keeps the old
// one, and the pods it took are refused.
func (d *decision) addWidened() {
	d.solver.CloseReopened()
	f := place.NewFinisher(&d.solver.In.Options)
	for b, o := range d.solver.Claims() {
		if o.Earlier == nil {
			continue
		}
		p, sh, err := f.Finish(b)
		if err != nil {
			d.failed[b] = []ledger.Refusal{{NodePool: o.Template.Name, Constraint: demand.ConstraintRequirements, Message: err.Error()}}
			continue
		}
		previous := o.Earlier.Claim
		d.payload.Widened = append(d.payload.Widened, ledger.WidenedClaim{Claim: previous.Name, Content: p})
		d.explain.Widened = append(d.explain.Widened, WidenedExplanation{
			Claim: previous.Name, Added: len(b.Added) - o.Before, Before: previous.Planned.Cheapest, Chosen: p.Cheapest, InstanceTypes: len(sh.Offers),
		})
		d.touchPool(p.NodePool)
		name := ledger.ClaimAggregate(previous.Name)
		d.expects[name], d.advances[name], d.subjects["claim/"+previous.Name] = true, true, true
	}
}

// reasonUnneeded of a ClaimWithdrawn.
const reasonUnneeded = "no_pod_needs_it"

// withdrawal is the decision to give up the first planned claim, by name, that is not made yet and that no
// pod needs any more; nil if there is none. Claims of static NodePools and replacements exist without pods.
func withdrawal(s *solve.Solver, snap *planner.Snapshot) *planner.Decision {
	for _, b := range s.Bins {
		planned := b.Planned()
		if planned == nil || !planned.Uncreated || len(b.Added) > 0 {
			continue
		}
		c := planned.Claim
		name, pool := ledger.ClaimAggregate(c.Name), ledger.PoolAggregate(c.NodePool)
		return &planner.Decision{
			Kind: ledger.KindClaimWithdrawn, Payload: &ledger.ClaimWithdrawn{Claim: c.Name, Reason: reasonUnneeded}, Causation: c.ContentSeq(),
			Subjects: []string{"claim/" + c.Name, pool}, Expects: snap.Expect(name, pool), Advances: []string{name, pool},
		}
	}
	return nil
}
