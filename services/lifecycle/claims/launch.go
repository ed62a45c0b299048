package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// build chooses what to ask EC2 for. The claim then waits for others that an equal request launches; see
// StepLaunches.
func (s launcher) build(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	if s.gathering.has(v.name, s.host.Now()) {
		return false, nil
	}
	cat, standing, err := s.catalogue(v)
	if err != nil {
		return false, err
	}
	built, err := s.deps.Launcher.Build(ctx, launch.Input{
		Claim: v.object, NodeClass: v.class, Types: cat.Types, Unavailable: standing.marks, FullSubnets: standing.fullSubnets, FreeReserved: standing.free,
		MinValuesBestEffort: v.options.MinValuesPolicy == "BestEffort",
	})
	if err != nil {
		if waits := awaitReserved(v, standing.awaited); waits != nil && ec2.FailureOf(err).Class == ec2.NoCapacity {
			return false, waits
		}
		return s.unbuilt(v, err)
	}
	s.mem.setFailure(v.ledger.UID, nil)
	s.gathering.add(builtLaunch{
		name: v.name, pool: v.pool(), launch: built, at: v.at, since: s.host.Now(),
		annotations: launch.Details(s.deps.Hasher, v.class, v.object, nil, ec2.Instance{}).Annotations,
	})
	return false, nil
}

// launchRequest is the request of an attempt as it is recorded.
func launchRequest(l Launcher, built launch.Built, a *attempt, logID string) ([]byte, error) {
	return launch.EncodeRequest(l.Request(built, launch.Order{
		Claims: a.names(), Token: a.open.Token, LaunchTag: ledger.LaunchTag(logID, a.open.UID, a.open.Attempt),
	}))
}

// unbuilt remembers why no request could be made. What dooms the claim is decided by the next step.
func (s launcher) unbuilt(v *claimView, err error) (bool, error) {
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
func (s launcher) resolve(ctx context.Context, a *attempt) error {
	opened := a.lead().ledger.OpenedAt
	if s.host.Now().Sub(opened) > tokenLife {
		return s.search(ctx, a)
	}
	if err := s.awaitCatalogue(a.lead(), planner.Latest(s.started, opened)); err != nil {
		return err
	}
	return s.send(ctx, a, false)
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
func (s launcher) send(ctx context.Context, a *attempt, first bool) error {
	request, err := launch.DecodeRequest(a.open.Request)
	if err != nil {
		return s.search(ctx, a) // a version that encoded it otherwise may have sent it
	}
	result, err := s.deps.EC2.CreateFleet(ctx, request)
	if err != nil {
		a.others = ec2.Refused(request, err)
		return s.refused(ctx, a, first, err)
	}
	a.others = result.Others()
	result.Reserve(a.open.LaunchTemplates)
	result.Group(a.open.LaunchTemplates)
	if result.LacksTemplate() {
		s.deps.Launcher.Forget(a.open.LaunchTemplates) // the next attempt makes it again
	}
	if len(result.Instances) == 0 {
		return s.unlaunched(ctx, a, result.Failure())
	}
	instances, err := completed(ctx, s.deps.EC2, result.Instances)
	if err != nil {
		return err
	}
	if len(a.open.Others) > 0 { // one that has ended meanwhile was its claim's as well
		return s.answerFleet(ctx, a, instances, result.Unavailable(), result.Shortfall())
	}
	i := instances[0]
	if !first {
		ending, err := isEnding(ctx, s.deps.EC2, i.ID)
		if err != nil {
			return err
		}
		if ending {
			// It was launched and has ended: another one for the same claim would be a second.
			return s.searchFor(ctx, a, &i, result.Unavailable())
		}
	}
	return s.launched(ctx, a, i, result.Unavailable())
}

// completed fills in what the answer of CreateFleet leaves out of instances. Until EC2 shows them, the
// attempt stays open, and sending the same bytes again finds them.
func completed(ctx context.Context, cloud EC2, instances []ec2.Instance) ([]ec2.Instance, error) {
	var unknown []string
	for _, i := range instances {
		if i.InstanceType == "" || i.Zone == "" {
			unknown = append(unknown, i.ID)
		}
	}
	if len(unknown) == 0 {
		return instances, nil
	}
	found, err := cloud.DescribeInstances(ctx, unknown)
	if err != nil {
		return nil, fmt.Errorf("describe instances %s: %w", strings.Join(unknown, ", "), err)
	}
	instances = slices.Clone(instances)
	for n, i := range instances {
		if !slices.Contains(unknown, i.ID) {
			continue
		}
		at := slices.IndexFunc(found, func(f ec2.Instance) bool { return f.ID == i.ID })
		if at < 0 {
			return nil, fmt.Errorf("describe instance %s: it is not visible yet: %w", i.ID, service.ErrNotReady)
		}
		instances[n].InstanceType, instances[n].Zone = found[at].InstanceType, found[at].Zone
		instances[n].SubnetID, instances[n].ImageID = cmp.Or(i.SubnetID, found[at].SubnetID), cmp.Or(i.ImageID, found[at].ImageID)
	}
	return instances, nil
}

func isEnding(ctx context.Context, cloud EC2, id string) (bool, error) {
	found, err := cloud.DescribeInstances(ctx, []string{id})
	if err != nil {
		return false, fmt.Errorf("describe instance %s: %w", id, err)
	}
	return len(found) == 1 && found[0].Ending(), nil
}

// refused sorts an error of CreateFleet.
func (s launcher) refused(ctx context.Context, a *attempt, first bool, err error) error {
	class := ec2.Classify(err)
	switch {
	case class == ec2.UnknownOutcome, ctx.Err() != nil, errors.Is(err, service.ErrStopped):
		return err // the attempt stays open; resolve sends the same bytes
	case class == ec2.ParameterMismatch:
		return s.search(ctx, a)
	case class == ec2.NotFound && first:
		s.deps.Launcher.Forget(a.open.LaunchTemplates)
	case class == ec2.Transient && !first:
		return err // says nothing about the call before
	case !first:
		// Credentials, quotas, a template that is gone meanwhile: EC2 may check these before it looks at the
		// token.
		if class != ec2.NoCapacity {
			s.deps.Launcher.Forget(a.open.LaunchTemplates)
		}
		return s.search(ctx, a)
	}
	f := *ec2.FailureOf(err)
	if f.Class == ec2.NoCapacity && len(f.Unavailable) == 0 {
		f.Class = ec2.Transient // a quota: another claim would ask for the same again, and at once
	}
	return s.unlaunched(ctx, a, &f)
}

// everyState of an instance, so that those that have ended are found as well while EC2 still shows them.
var everyState = []string{ec2.StatePending, ec2.StateRunning, ec2.StateStopping, ec2.StateStopped, ec2.StateShuttingDown, ec2.StateTerminated}

// search looks for the instances of an attempt by its tag, and closes the attempt after a minute with what it
// has found.
func (s launcher) search(ctx context.Context, a *attempt) error { return s.searchFor(ctx, a, nil, nil) }

// searchFor is search for an attempt of which an instance that has ended is known, or nil: if no other is
// found, that is what the attempt launched. failed are the offerings of which EC2 said that it has none.
func (s launcher) searchFor(ctx context.Context, a *attempt, ended *ec2.Instance, failed []ledger.FailedOffering) error {
	tag := ledger.LaunchTag(s.host.LogID(), a.open.UID, a.open.Attempt)
	members, states := a.names(), []string(nil)
	if len(members) > 1 {
		states = everyState // which instance is whose depends on all that were launched
	}
	found, err := s.deps.EC2.DescribeInstancesByTags(ctx, map[string]string{awsv1.TagLaunch: tag}, states...)
	if err != nil {
		return fmt.Errorf("describe instances of launch %s: %w", tag, err)
	}
	if len(members) == 1 {
		for _, i := range found {
			if !i.Ending() {
				return s.launched(ctx, a, i, failed)
			}
		}
	}
	since := s.mem.lookingSince(tag, s.host.Now()) // looks that failed do not count
	if now := s.host.Now(); now.Sub(since) < SearchFor && (len(members) == 1 || len(found) < len(members)) {
		for _, name := range members {
			s.effects.Hold(claimKey(name), searchEvery)
		}
		return nil
	}
	lack := &ec2.Failure{Class: ec2.Transient, Reason: "LaunchFailed", Message: fmt.Sprintf("no instance of launch attempt %d exists", a.open.Attempt)}
	switch {
	case len(members) > 1 && len(found) > 0:
		return s.answerFleet(ctx, a, found, nil, lack)
	case ended != nil:
		return s.launched(ctx, a, *ended, failed)
	}
	return s.unlaunched(ctx, a, lack)
}

// launched closes the attempt of one claim with an instance.
func (s launcher) launched(ctx context.Context, a *attempt, i ec2.Instance, failed []ledger.FailedOffering) error {
	v := a.lead()
	payload := s.launchedPayload(v, a.open, a.open.Members()[0], i)
	payload.Unavailable = failed
	s.deps.Findings.Launched(i.ID, s.host.Now())
	s.deps.Launcher.Settle(a.open.Token, i.SubnetID)
	if err := s.record(ctx, v, ledger.KindLaunched, payload, nil, false); err != nil {
		return err
	}
	s.report.logLaunched(v, payload)
	s.metrics.offeringsFailed(slices.Concat(failed, a.others), v)
	s.report.tellForbidden(v, failed)
	return nil
}

// launchedPayload is what is recorded of the instance of a claim.
func (s launcher) launchedPayload(v *claimView, open *ledger.LaunchRequested, m ledger.FleetMember, i ec2.Instance) *ledger.Launched {
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
	t := typeOf(cat, i.InstanceType)
	d := launch.Details(s.deps.Hasher, v.class, object, t, i)
	if d.Price == 0 {
		d.Price = plannedPrice(v.ledger, i)
	}
	return &ledger.Launched{
		Claim: m.Claim, UID: m.UID, Attempt: m.Attempt, InstanceID: i.ID, ProviderID: d.ProviderID,
		InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType, ReservationID: i.ReservationID, PlacementGroup: i.Group, ImageID: d.ImageID, Price: d.Price,
		OnDemandPrice: onDemandPrice(t, i), Capacity: d.CapacityVector, Allocatable: d.AllocatableVector, Labels: d.Labels,
		Annotations: merged(d.Annotations, open.Annotations),
	}
}

// plannedPrice is what the plan of a claim says that an instance costs; 0 if it says nothing of its
// offering. A process that has just started may know no prices yet.
func plannedPrice(c *ledger.Claim, i ec2.Instance) int64 {
	if c == nil || c.Planned == nil {
		return 0
	}
	if o := &c.Planned.Cheapest; o.InstanceType == i.InstanceType && o.Zone == i.Zone && o.CapacityType == i.CapacityType && o.ReservationID == i.ReservationID {
		return o.MicroUSDPerHour
	}
	return 0
}

// onDemandPrice is what a spot instance would cost on demand in its zone, in micro USD per hour; 0 if the
// catalogue does not say, and for instances that are not spot.
func onDemandPrice(t *catalog.InstanceType, i ec2.Instance) int64 {
	if t == nil || i.CapacityType != karpv1.CapacityTypeSpot {
		return 0
	}
	for _, o := range t.Offerings {
		if o.Zone == i.Zone && o.CapacityType == karpv1.CapacityTypeOnDemand && o.Price > 0 {
			return o.Price
		}
	}
	return 0
}

// unlaunched closes the attempt without an instance.
func (s launcher) unlaunched(ctx context.Context, a *attempt, f *ec2.Failure) error {
	if len(a.open.Others) > 0 {
		return s.answerFleet(ctx, a, nil, f.Unavailable, f)
	}
	v := a.lead()
	payload := &ledger.LaunchFailed{
		Claim: v.name, UID: a.open.UID, Attempt: a.open.Attempt, Class: recordClass(f.Class), Reason: f.Reason, Message: f.Message,
		Unavailable: f.Unavailable,
	}
	if err := s.record(ctx, v, ledger.KindLaunchFailed, payload, nil, false); err != nil {
		return err
	}
	s.deps.Launcher.Settle(a.open.Token)
	s.metrics.offeringsFailed(slices.Concat(f.Unavailable, a.others), v)
	s.report.tellForbidden(v, f.Unavailable)
	s.afterFailure(v, payload, f)
	return nil
}

// afterFailure says that a launch failed, and holds the next one up if there is to be one.
func (s launcher) afterFailure(v *claimView, payload *ledger.LaunchFailed, f *ec2.Failure) {
	s.report.logLaunchFailed(v, payload)
	if payload.Class == claim.ClassNoCapacity {
		s.report.tellNoCapacity(v, f)
	} else {
		s.effects.Retries.Failed(claimKey(v.name), s.host.Now())
	}
}

// standing is what the Ledger says of a catalogue's offerings: which are marked unavailable, which subnets
// are full, how many instances of each capacity reservation another launch may ask for, and of which none is
// left only because attempts are open.
type standing struct {
	marks       map[ledger.OfferingKey]bool
	fullSubnets []string
	free        map[string]int64
	awaited     []string
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
		now.free, now.awaited = freeReserved(snap.Ledger, cat, v.class, snap.Now)
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
