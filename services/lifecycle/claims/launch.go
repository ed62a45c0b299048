package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/launch"
)

const (
	// tokenLife is how long EC2's memory of a client token is relied on; DESIGN §5.
	tokenLife = 12 * time.Hour
	// SearchFor is how long an instance is searched by its tag before the attempt is closed without one.
	SearchFor   = 60 * time.Second
	searchEvery = 5 * time.Second
	// catalogPatience is how long after the start, or after it was opened, an attempt waits for the
	// catalogue.
	catalogPatience = 30 * time.Second
)

// launch opens an attempt: build the request, record it, send what was recorded.
func (s *Stepper) launch(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	cat, standing, err := s.catalogue(v)
	if err != nil {
		return false, err
	}
	attempt := v.ledger.Attempt + 1
	token := ledger.ClientToken(s.host.LogID(), v.ledger.UID, attempt)
	built, err := s.deps.Launcher.Build(ctx, launch.Input{
		Claim: v.object, NodeClass: v.class, Types: cat.Types, Unavailable: standing.marks, FullSubnets: standing.fullSubnets, FreeReserved: standing.free, Token: token,
		LaunchTag: ledger.LaunchTag(s.host.LogID(), v.ledger.UID, attempt), MinValuesBestEffort: v.options.MinValuesPolicy == "BestEffort",
	})
	if err != nil {
		return s.unbuilt(v, err)
	}
	s.mem.setFailure(v.ledger.UID, nil)
	request, err := launch.EncodeRequest(built.Request)
	if err != nil {
		s.deps.Launcher.Settle(token, "")
		return false, err
	}
	open := &ledger.LaunchRequested{
		Claim: v.name, UID: v.ledger.UID, Attempt: attempt, Token: token, Request: request,
		LaunchTemplates: built.Templates, Annotations: launch.Details(s.deps.Hasher, v.class, v.object, nil, ec2.Instance{}).Annotations,
	}
	if err := s.record(ctx, v, ledger.KindLaunchRequested, open, v.expects, false); err != nil {
		s.deps.Launcher.Settle(token, "")
		return false, err
	}
	return s.send(ctx, v, open, true)
}

// unbuilt remembers why no request could be made. What dooms the claim is decided by the next step.
func (s *Stepper) unbuilt(v *claimView, err error) (bool, error) {
	if ec2.IsTemplateLimit(err) {
		s.deps.TemplatesScarce()
	}
	f := ec2.FailureOf(err)
	s.mem.setFailure(v.ledger.UID, &claim.Failure{Class: recordClass(f.Class), Reason: f.Reason, Message: f.Message})
	if f.Class == ec2.NoCapacity || f.Class == ec2.NotReady {
		s.report.tellNoCapacity(v, f)
		return false, nil
	}
	return false, fmt.Errorf("build request: %w", err)
}

// resolve closes an attempt of unknown outcome: by the same bytes with the same token, while EC2 remembers
// them.
func (s *Stepper) resolve(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	if s.host.Now().Sub(v.ledger.OpenedAt) > tokenLife {
		return s.search(ctx, v, v.ledger.Open)
	}
	if err := s.awaitCatalogue(v, planner.Latest(s.started, v.ledger.OpenedAt)); err != nil {
		return false, err
	}
	return s.send(ctx, v, v.ledger.Open, false)
}

// awaitCatalogue is ErrNotReady while the catalogue that completes a NodeClaim may still come, counted from a
// time.
func (s *Stepper) awaitCatalogue(v *claimView, since time.Time) error {
	_, _, err := s.catalogue(v)
	if errors.Is(err, service.ErrNotReady) && s.mem.catalogue(refOf(v)) == nil && s.host.Now().Sub(since) < catalogPatience {
		return err
	}
	return nil
}

// send makes the call the record holds. first says that nothing was sent for this attempt before: only then
// does a refusal prove that nothing was launched.
func (s *Stepper) send(ctx context.Context, v *claimView, open *ledger.LaunchRequested, first bool) (bool, error) {
	request, err := launch.DecodeRequest(open.Request)
	if err != nil {
		return s.search(ctx, v, open) // a version that encoded it otherwise may have sent it
	}
	result, err := s.deps.EC2.CreateFleet(ctx, request)
	if err != nil {
		return s.refused(ctx, v, open, first, err)
	}
	result.Reserve(open.LaunchTemplates)
	result.Group(open.LaunchTemplates)
	if len(result.Instances) == 0 {
		return s.unlaunched(ctx, v, open, result.Failure())
	}
	i, err := completed(ctx, s.deps.EC2, result.Instances[0])
	if err != nil {
		return false, err
	}
	if !first {
		ending, err := isEnding(ctx, s.deps.EC2, i.ID)
		if err != nil {
			return false, err
		}
		if ending {
			// It was launched and has ended: another one for the same claim would be a second.
			return s.searchFor(ctx, v, open, &i)
		}
	}
	return s.launched(ctx, v, open, i, result.Unavailable())
}

// completed fills in what the answer of CreateFleet leaves out of an instance. Until EC2 shows the instance,
// the attempt stays open, and sending the same bytes again finds it.
func completed(ctx context.Context, cloud EC2, i ec2.Instance) (ec2.Instance, error) {
	if i.InstanceType != "" && i.Zone != "" {
		return i, nil
	}
	found, err := cloud.DescribeInstances(ctx, []string{i.ID})
	if err != nil {
		return i, fmt.Errorf("describe instance %s: %w", i.ID, err)
	}
	if len(found) != 1 {
		return i, fmt.Errorf("describe instance %s: it is not visible yet: %w", i.ID, service.ErrNotReady)
	}
	i.InstanceType, i.Zone = found[0].InstanceType, found[0].Zone
	i.SubnetID, i.ImageID = cmp.Or(i.SubnetID, found[0].SubnetID), cmp.Or(i.ImageID, found[0].ImageID)
	return i, nil
}

func isEnding(ctx context.Context, cloud EC2, id string) (bool, error) {
	found, err := cloud.DescribeInstances(ctx, []string{id})
	if err != nil {
		return false, fmt.Errorf("describe instance %s: %w", id, err)
	}
	return len(found) == 1 && found[0].Ending(), nil
}

// refused sorts an error of CreateFleet.
func (s *Stepper) refused(ctx context.Context, v *claimView, open *ledger.LaunchRequested, first bool, err error) (bool, error) {
	class := ec2.Classify(err)
	switch {
	case class == ec2.UnknownOutcome, ctx.Err() != nil, errors.Is(err, service.ErrStopped):
		return false, err // the attempt stays open; resolve sends the same bytes
	case class == ec2.ParameterMismatch:
		return s.search(ctx, v, open)
	case class == ec2.NotFound && first:
		s.deps.Launcher.Forget(open.LaunchTemplates)
	case class == ec2.Transient && !first:
		return false, err // says nothing about the call before
	case !first:
		// Credentials, quotas, a template that is gone meanwhile: EC2 may check these before it looks at the
		// token.
		if class != ec2.NoCapacity {
			s.deps.Launcher.Forget(open.LaunchTemplates)
		}
		return s.search(ctx, v, open)
	}
	return s.unlaunched(ctx, v, open, ec2.FailureOf(err))
}

// search looks for the instance of an attempt by its tag, and closes the attempt without one after a minute.
func (s *Stepper) search(ctx context.Context, v *claimView, open *ledger.LaunchRequested) (bool, error) {
	return s.searchFor(ctx, v, open, nil)
}

// searchFor is search for an attempt of which an instance that has ended is known, or nil: if no other is
// found, that is what the attempt launched.
func (s *Stepper) searchFor(ctx context.Context, v *claimView, open *ledger.LaunchRequested, ended *ec2.Instance) (bool, error) {
	tag := ledger.LaunchTag(s.host.LogID(), open.UID, open.Attempt)
	found, err := s.deps.EC2.DescribeInstancesByTags(ctx, map[string]string{awsv1.TagLaunch: tag})
	if err != nil {
		return false, fmt.Errorf("describe instances of launch %s: %w", tag, err)
	}
	for _, i := range found {
		if !i.Ending() {
			return s.launched(ctx, v, open, i, nil)
		}
	}
	since := s.mem.lookingSince(tag, s.host.Now()) // looks that failed do not count
	if now := s.host.Now(); now.Sub(since) < SearchFor {
		s.effects.Hold(claimKey(v.name), searchEvery)
		return false, nil
	}
	if ended != nil {
		return s.launched(ctx, v, open, *ended, nil)
	}
	return s.unlaunched(ctx, v, open, &ec2.Failure{
		Class: ec2.Transient, Reason: "LaunchFailed", Message: fmt.Sprintf("no instance of launch attempt %d exists", open.Attempt),
	})
}

// launched closes the attempt with an instance.
func (s *Stepper) launched(ctx context.Context, v *claimView, open *ledger.LaunchRequested, i ec2.Instance, failed []ledger.FailedOffering) (bool, error) {
	cat, _, err := s.catalogue(v)
	if err != nil {
		cat = s.mem.catalogue(refOf(v)) // the World is young; the one it was launched from says the same
	}
	if cat == nil {
		cat = &catalog.Catalog{} // the NodeClaim will lack what only the catalogue knows
	}
	object := v.own()
	if object == nil {
		object = &karpv1.NodeClaim{}
	}
	d := launch.Details(s.deps.Hasher, v.class, object, typeOf(cat, i.InstanceType), i)
	payload := &ledger.Launched{
		Claim: v.name, UID: open.UID, Attempt: open.Attempt, InstanceID: i.ID, ProviderID: d.ProviderID,
		InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType, ReservationID: i.ReservationID, PlacementGroup: i.Group, ImageID: d.ImageID, Price: d.Price,
		Capacity: d.CapacityVector, Allocatable: d.AllocatableVector, Labels: d.Labels,
		Annotations: merged(d.Annotations, open.Annotations), Unavailable: failed,
	}
	s.deps.Findings.Launched(i.ID, s.host.Now())
	s.deps.Launcher.Settle(open.Token, i.SubnetID)
	if err := s.record(ctx, v, ledger.KindLaunched, payload, nil, false); err != nil {
		return false, err
	}
	s.report.logLaunched(v, payload)
	s.metrics.offeringsFailed(failed)
	return true, nil
}

// unlaunched closes the attempt without an instance.
func (s *Stepper) unlaunched(ctx context.Context, v *claimView, open *ledger.LaunchRequested, f *ec2.Failure) (bool, error) {
	payload := &ledger.LaunchFailed{
		Claim: v.name, UID: open.UID, Attempt: open.Attempt, Class: recordClass(f.Class), Reason: f.Reason, Message: f.Message,
		Unavailable: f.Unavailable,
	}
	if err := s.record(ctx, v, ledger.KindLaunchFailed, payload, nil, false); err != nil {
		return false, err
	}
	s.deps.Launcher.Settle(open.Token, "")
	s.metrics.offeringsFailed(f.Unavailable)
	s.report.logLaunchFailed(v, payload)
	if payload.Class == claim.ClassNoCapacity {
		s.report.tellNoCapacity(v, f)
	} else {
		s.effects.Retries.Failed(claimKey(v.name), s.host.Now())
	}
	return false, nil
}

// standing is what the Ledger says of a catalogue's offerings: which are marked unavailable, which subnets
// are full, and how many instances of each capacity reservation are free.
type standing struct {
	marks       map[ledger.OfferingKey]bool
	fullSubnets []string
	free        map[string]int64
}

// catalogue returns what EC2 offers to the claim's NodeClass, and how that stands.
func (s *Stepper) catalogue(v *claimView) (*catalog.Catalog, standing, error) {
	ref := refOf(v)
	if ref == nil {
		return nil, standing{}, fmt.Errorf("find catalogue: no NodeClass: %w", service.ErrNotReady)
	}
	var cat *catalog.Catalog
	var now standing
	err := s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		if cat = provision.Catalog(snap, v.pool(), ref.Name); cat == nil {
			return fmt.Errorf("find catalogue of NodeClass %s: %w", ref.Name, service.ErrNotReady)
		}
		now.marks = launch.Marks(cat.Types, func(k ledger.OfferingKey) bool { return snap.Ledger.Unavailable(k, snap.Now) })
		now.fullSubnets = snap.Ledger.UnavailableSubnets(snap.Now)
		now.free = launch.FreeReserved(cat, snap.Ledger.ReservationFree)
		s.mem.rememberCatalogue(ref, cat)
		return nil
	})
	return cat, now, err
}

func typeOf(cat *catalog.Catalog, name string) *catalog.InstanceType {
	for _, t := range cat.Types {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// merged returns b over a.
func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// recordClass maps to the classes of LaunchFailed: what is none of the first three is worth another try.
func recordClass(c ec2.Class) string {
	switch c {
	case ec2.NoCapacity:
		return claim.ClassNoCapacity
	case ec2.NotReady:
		return claim.ClassNotReady
	case ec2.Permanent:
		return claim.ClassPermanent
	}
	return claim.ClassTransient
}
