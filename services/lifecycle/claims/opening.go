package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
)

// create makes the NodeClaim of a planned claim. One that exists already is looked at next.
func (s *Stepper) create(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	o := provision.NodeClaim(s.host.LogID(), v.ledger.ContentSeq(), 0, *v.ledger.Planned)
	o.Name = v.name // of the record that planned it, and the index there
	made, err := s.deps.Kube.CreateNodeClaim(ctx, o)
	switch {
	case kube.IsAlreadyExists(err):
		_, err = s.deps.Kube.GetNodeClaim(ctx, v.name)
	case err == nil:
		err = s.keepRecord(ctx, v, made, o.Annotations[karpv1.RecordAnnotationKey])
	}
	pool := v.ledger.Planned.NodePool
	switch {
	case err == nil:
		s.mem.refusals.taken(v.name, pool)
	case kube.IsInvalid(err) && s.mem.refusals.refused(v.name, pool, s.generationOf(pool), s.host.Now()):
		s.report.tellRefused(v, err)
	case kube.IsWithheld(err): // it is tried again
		s.report.tellRefused(v, err)
	}
	return err == nil, err
}

// keepRecord puts the name of the record onto a NodeClaim that this process has just made, if a webhook has
// made it without: otherwise it would be another's.
func (s *Stepper) keepRecord(ctx context.Context, v *claimView, made *karpv1.NodeClaim, record string) error {
	const key = karpv1.RecordAnnotationKey
	if made.Annotations[key] == record {
		return nil
	}
	after := made.DeepCopy()
	after.Annotations = merged(made.Annotations, map[string]string{key: record})
	kept, err := s.deps.Kube.UpdateNodeClaim(ctx, made, after)
	if err == nil && kept.Annotations[key] != record {
		err = fmt.Errorf("a webhook of admission takes its annotation %s off, without which it is not known again", key)
		s.report.tellRefused(v, err)
	}
	return err
}

// generationOf a NodePool; 0 if it is not known.
func (s *Stepper) generationOf(pool string) int64 {
	if p := s.deps.Cache.NodePool(pool); p != nil {
		return p.Generation
	}
	return 0
}

func (s *Stepper) recordCreated(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	payload := &ledger.ClaimCreated{Claim: v.name, UID: v.object.UID}
	if v.ledger.WidenedSeq > 0 {
		_, payload.Record, _ = ledger.ParseRecordAnnotation(v.object.Annotations[karpv1.RecordAnnotationKey])
	}
	if err := s.record(ctx, v, ledger.KindClaimCreated, payload, v.expects, false); err != nil {
		return false, err
	}
	s.metrics.created(v, s.replaces(v))
	s.report.logCreated(v)
	return true, nil
}

// replaces is why the nodes go that a claim is to replace; "" if it replaces none.
func (s *Stepper) replaces(v *claimView) (reason karpv1.DisruptionReason) {
	_ = s.host.Ledger(func(l *ledger.Ledger) error { // only a metric asks
		if c := l.Command(v.ledger.CommandID); c != nil {
			reason = c.Started.Reason
		}
		return nil
	})
	return reason
}

// adopt opens a claim for an object that was not planned in this log.
func (s *Stepper) adopt(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	payload := &ledger.ClaimAdopted{
		Claim: v.name, UID: v.object.UID, NodePool: v.object.Labels[karpv1.NodePoolLabelKey], ProviderID: v.object.Status.ProviderID,
		Inherited: v.input.Object.Inherited,
	}
	return true, s.record(ctx, v, ledger.KindClaimAdopted, payload, v.expects, true)
}

// withdraw closes a planned claim whose NodeClaim is not made.
func (s *Stepper) withdraw(ctx context.Context, v *claimView, a claim.Action) (bool, error) {
	payload := &ledger.ClaimWithdrawn{Claim: v.name, Reason: a.Reason}
	if err := s.record(ctx, v, ledger.KindClaimWithdrawn, payload, v.expects, true); err != nil {
		return false, err
	}
	s.mem.forget(v.name, "")
	return false, nil
}

// guard puts our finalizer on an object that was made without: nothing is launched before.
func (s *Stepper) guard(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	after := v.object.DeepCopy()
	after.Finalizers = append(after.Finalizers, karpv1.TerminationFinalizer)
	_, err := s.deps.Kube.UpdateNodeClaim(ctx, v.object, after)
	return err == nil, err
}

// doom decides that the claim goes. The record holds the whole input, so that it replays by itself.
func (s *Stepper) doom(ctx context.Context, v *claimView, a claim.Action) error {
	input, err := json.Marshal(v.input)
	if err != nil {
		return fmt.Errorf("encode input of nodeclaim %s: %w", v.name, err)
	}
	payload := claim.Payload(v.input, a)
	payload.UID, payload.Input = v.uid(), input
	if s.host.Mode() != ledger.ModeActive && s.mem.isSettled("shadow/"+v.name, a.Reason) {
		return nil
	}
	pods := s.podsOf(v)
	_, err = s.host.Decide(ctx, v.basis, planner.Decision{
		Kind: ledger.KindClaimDoomed, Payload: payload,
		Explanation: claim.Explain(v.input, a),
		Subjects:    v.subjects(), Expects: v.expects, Advances: v.advances(true),
	})
	if err != nil {
		return err
	}
	s.mem.settleVersions("shadow/"+v.name, a.Reason)
	s.deps.Breaker.Doomed(a.Reason, v.input.Now)
	s.metrics.doomed(v, a.Reason, pods)
	s.report.logDoom(v, a)
	s.report.tellEndedBy(v, a)
	s.report.tellStray(v, a)
	s.report.tellClassless(v, a)
	s.noteFailedRegistration(v, a.Reason)
	return nil
}

// podsOf counts the pods that need a new place once a claim goes; 0 while the World is not up to date.
func (s *Stepper) podsOf(v *claimView) (pods int) {
	_ = s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error { // only a metric asks
		for _, n := range v.nodes {
			for _, p := range snap.World.PodsOn(n.Name) {
				if planner.IsReschedulable(p) {
					pods++
				}
			}
		}
		return nil
	})
	return pods
}

// delete carries out a doom, or follows the user who deleted the Node.
func (s *Stepper) delete(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	if err := s.deps.Kube.DeleteNodeClaim(ctx, v.name, v.object.UID); err != nil && !kube.IsNotFound(err) {
		return false, err
	}
	return s.reread(ctx, v)
}

// findNodeClaim asks the API server for an object the cache does not have.
func (s *Stepper) findNodeClaim(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	return s.reread(ctx, v)
}

// reread looks at the object itself, so that the next move need not wait for the cache.
func (s *Stepper) reread(ctx context.Context, v *claimView) (bool, error) {
	o, err := s.deps.Kube.GetNodeClaim(ctx, v.name)
	switch {
	case kube.IsNotFound(err), err == nil && o.UID != v.uid():
		s.deps.Claims.Gone(v.name, v.uid(), s.host.Now())
		return true, nil
	}
	return err == nil, err
}

// record appends an outcome about the claim, or presumes it while the log can't be reached. moves says that
// it changes what the pool has.
func (s *Stepper) record(ctx context.Context, v *claimView, kind ledger.Kind, payload any, expects []planner.Expectation, moves bool) error {
	if s.host.LogAway() && s.mem.presume(v.name, payload) {
		return nil
	}
	_, err := s.host.Outcome(ctx, service.Outcome{
		Kind: kind, Payload: payload, Subjects: v.subjects(), Causation: v.causation(), Expects: expects, Advances: v.advances(moves),
	})
	return err
}

// causation is the record that planned the claim or opened its attempt.
func (v *claimView) causation() uint64 {
	switch {
	case v.ledger == nil:
		return 0
	case v.ledger.OpenSeq > 0:
		return v.ledger.OpenSeq
	}
	return v.ledger.PlannedSeq
}

// advances: every record about a claim moves it; only some move its pool.
func (v *claimView) advances(pool bool) []string {
	list := []string{ledger.ClaimAggregate(v.name)}
	if pool {
		list = append(list, ledger.PoolAggregate(v.pool()))
	}
	return list
}

// subjects of a record about the claim.
func (v *claimView) subjects() []string {
	list := []string{"claim/" + v.name}
	if p := v.pool(); p != "" {
		list = append(list, "pool/"+p)
	}
	for _, n := range v.nodes {
		list = append(list, "node/"+n.Name)
	}
	if id := v.instanceID(); id != "" {
		list = append(list, "instance/"+id)
	}
	slices.Sort(list)
	return list
}
