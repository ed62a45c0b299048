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

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

// attempt is an open launch attempt: one request, for one claim or for several, that one record has opened
// and one record closes. Whatever becomes of a process or a leadership in between, the attempt is open as a
// whole or closed as a whole, so that the same bytes are never sent for some of its claims only.
type attempt struct {
	open *ledger.LaunchRequested
	// views of the claims, in the order of the record; nil for one whose attempt is closed already.
	views []*claimView
	// seq of the record, if this process has just written it; else 0.
	seq uint64
	// others are what EC2 refused for another reason than want of capacity, to be counted.
	others []ledger.FailedOffering
}

// launcher is the Stepper's part that launches.
type launcher struct{ *Stepper }

func (a *attempt) names() (names []string) {
	for _, m := range a.open.Members() {
		names = append(names, m.Claim)
	}
	return names
}

// lead is the view of the claim that names the attempt.
func (a *attempt) lead() *claimView { return a.views[0] }

// launchKey excludes two effects that send the same request.
func launchKey(lead string) string { return "launch/" + lead }

// StepLaunches launches the claims whose requests are built and that need not wait for others. It returns
// when to call it again, at the latest.
func (s *Stepper) StepLaunches(now time.Time) time.Time {
	if !s.gathering.waits() {
		return time.Time{}
	}
	l := launcher{s}
	due, wake := s.gathering.groups(now, l.coming(now))
	for _, names := range due {
		l.startLaunch(names, now)
	}
	return wake
}

func (s launcher) startLaunch(names []string, now time.Time) {
	built := s.gathering.take(names, now)
	then := func() {
		s.gathering.done(names)
		for _, name := range names {
			s.deps.Agenda.LookAt(name)
		}
	}
	started := s.effects.StartThen(launchKey(names[0]), lane.Create, func(ctx context.Context) error {
		return s.launchTogether(ctx, built)
	}, then)
	if !started { // nothing may be created now, or the attempt before is still being sent
		s.gathering.done(names)
		for _, b := range built {
			s.gathering.add(b)
		}
	}
}

// launchTogether opens an attempt for claims of which equal things are asked, and sends it. Those for which
// something has changed since are looked at anew.
func (s launcher) launchTogether(ctx context.Context, list []builtLaunch) error {
	views, built, err := s.stillWanted(ctx, list)
	if len(views) == 0 {
		return err
	}
	if len(views) > 1 {
		n := s.deps.Launcher.Room(built[0].launch, len(views))
		for _, b := range built[n:] {
			s.gathering.add(b) // the next step launches it, where there is room
		}
		views, built = views[:n], built[:n]
	}
	names := namesOf(views)
	views, expects, err := s.current(views, built)
	if len(views) == 0 {
		return s.putOff(err, names)
	}
	a, err := s.openAttempt(ctx, views, built, expects)
	if errors.Is(err, service.ErrHeldBack) {
		s.gathering.apart(s.host.Now().Add(apartFor))
		return nil // they are built again
	}
	if err == nil {
		s.metrics.launched(len(views), earliest(built), s.host.Now())
		err = s.send(ctx, a, true)
	}
	return s.putOff(err, namesOf(views))
}

// stillWanted returns those claims of which nothing has changed since what they ask for was built. One that
// cannot be looked at is put off; but while nothing can be read of the Ledger, since a record of another
// effect is not folded yet, all of them wait as they are.
func (s launcher) stillWanted(ctx context.Context, list []builtLaunch) (views []*claimView, built []builtLaunch, err error) {
	for _, b := range list {
		v, lookErr := s.lookAnew(ctx, b.name)
		switch {
		case errors.Is(lookErr, service.ErrNotReady):
			s.wait(list)
			return nil, nil, nil
		case lookErr != nil:
			err = s.putOff(lookErr, []string{b.name})
			continue
		}
		if a, _ := next(v.input); a.Move == claim.Launch && v.at == b.at {
			views, built = append(views, v), append(built, b)
		}
	}
	return views, built, err
}

func namesOf(views []*claimView) (names []string) {
	for _, v := range views {
		names = append(names, v.name)
	}
	return names
}

// putOff decides when the effect of these claims is tried again; nil if nothing failed.
func (s launcher) putOff(err error, names []string) error {
	if err == nil {
		return nil
	}
	shown := fmt.Errorf("launch nodeclaims %s: %w", strings.Join(names[:min(len(names), 3)], ", "), err)
	var last error
	for _, name := range names {
		last = s.effects.PutOff(claimKey(name), shown)
	}
	return last
}

// openAttempt records what will be sent, for all claims at once. more is what that relies on beside them.
func (s launcher) openAttempt(ctx context.Context, views []*claimView, built []builtLaunch, more []planner.Expectation) (*attempt, error) {
	lead := views[0]
	number := lead.ledger.Attempt + 1
	open := &ledger.LaunchRequested{
		Claim: lead.name, UID: lead.ledger.UID, Attempt: number, Token: ledger.ClientToken(s.host.LogID(), lead.ledger.UID, number),
		LaunchTemplates: built[0].launch.Templates, Annotations: built[0].annotations,
	}
	for _, v := range views[1:] {
		open.Others = append(open.Others, ledger.FleetMember{Claim: v.name, UID: v.ledger.UID, Attempt: v.ledger.Attempt + 1})
	}
	a := &attempt{open: open, views: views}
	request, err := launchRequest(s.deps.Launcher, built[0].launch, a, s.host.LogID())
	if err != nil {
		s.deps.Launcher.Settle(open.Token)
		return nil, err
	}
	open.Request = request
	kind := ledger.KindLaunchRequested
	if len(open.Others) > 0 {
		kind = ledger.KindFleetRequested
	}
	expects := map[string]planner.Expectation{}
	for _, v := range views {
		more = append(more, v.expects...)
	}
	for _, x := range more {
		expects[x.Aggregate] = x
	}
	rec, err := s.recordOf(ctx, a, kind, open, slices.Collect(maps.Values(expects)))
	if err != nil {
		s.deps.Launcher.Settle(open.Token)
		return nil, err
	}
	a.seq = rec.Seq
	return a, nil
}

// recordOf appends a record about all claims of an attempt.
func (s launcher) recordOf(ctx context.Context, a *attempt, kind ledger.Kind, payload any, expects []planner.Expectation) (store.Record, error) {
	slices.SortFunc(expects, func(x, y planner.Expectation) int { return cmp.Compare(x.Aggregate, y.Aggregate) })
	o := service.Outcome{Kind: kind, Payload: payload, Causation: a.lead().causation(), Expects: expects}
	for _, v := range a.views {
		if v == nil {
			continue
		}
		o.Subjects, o.Advances = append(o.Subjects, v.subjects()...), append(o.Advances, v.advances(false)...)
	}
	if p, ok := payload.(*ledger.LaunchRequested); ok {
		o.Advances = append(o.Advances, reservationAggregates(p.LaunchTemplates)...)
	}
	slices.Sort(o.Subjects)
	o.Subjects = slices.Compact(o.Subjects)
	return s.host.Outcome(ctx, o)
}

// stepResolve starts to close an attempt of unknown outcome, for all of its claims.
func (s launcher) stepResolve(v *claimView) {
	lead := cmp.Or(v.ledger.Open.Lead, v.name)
	members := []string{v.name}
	s.effects.StartThen(launchKey(lead), lane.Create, func(ctx context.Context) error {
		a, err := s.openedBy(ctx, lead, v.name)
		if a == nil {
			return s.putOff(err, members)
		}
		members = a.names()
		return s.putOff(s.resolve(ctx, a), members)
	}, func() {
		for _, name := range members {
			s.deps.Agenda.LookAt(name)
		}
	})
}

// openedBy gathers the facts about the attempt that a claim named; nil if it is closed by now,
// service.ErrNotReady if any of its claims must not be carried on at present.
func (s launcher) openedBy(ctx context.Context, lead, member string) (*attempt, error) {
	v, err := s.lookAnew(ctx, lead)
	if err != nil {
		return nil, err
	}
	if v.ledger == nil || v.ledger.Open == nil || v.ledger.Open.Lead != "" {
		return nil, s.closeStray(ctx, member)
	}
	a := &attempt{open: v.ledger.Open}
	for _, m := range a.open.Members() {
		v, err := s.lookAnew(ctx, m.Claim)
		if err != nil {
			return nil, err
		}
		if !isOpen(v.ledger, m) {
			a.views = append(a.views, nil)
			continue
		}
		in := v.input
		in.RetryAt = time.Time{} // the claim that is due carries on all of them
		if action, _ := next(in); action.Move != claim.Resolve {
			return nil, fmt.Errorf("%w: nodeclaim %s is to %s first", service.ErrNotReady, m.Claim, action.Move)
		}
		a.views = append(a.views, v)
	}
	return a, nil
}

// isOpen reports that the claim's present attempt is that of the member.
func isOpen(c *ledger.Claim, m ledger.FleetMember) bool {
	return c != nil && c.Open != nil && c.UID == m.UID && c.Attempt == m.Attempt
}

// closeStray closes the attempt of a claim whose lead the Ledger has no more: what was sent is not known. If
// it launched something nobody owns that, and garbage collection finds it by its tag.
func (s launcher) closeStray(ctx context.Context, name string) error {
	v, err := s.lookAnew(ctx, name)
	if err != nil || v.ledger == nil || v.ledger.Open == nil || v.ledger.Open.Lead == "" {
		return err
	}
	return s.unlaunched(ctx, &attempt{open: v.ledger.Open, views: []*claimView{v}}, &ec2.Failure{
		Class: ec2.Transient, Reason: "LaunchFailed", Message: fmt.Sprintf("the request for NodeClaim %s, which was for this one too, is not known any more", v.ledger.Open.Lead),
	})
}

// answerFleet closes the attempts of several claims with one record. Instances are dealt out in the order of
// their ids to the claims in the order of the request: EC2 answers a repeated request with the same
// instances, so everybody who deals them out again deals them out equally.
func (s launcher) answerFleet(ctx context.Context, a *attempt, instances []ec2.Instance, failed []ledger.FailedOffering, lack *ec2.Failure) error {
	slices.SortFunc(instances, func(x, y ec2.Instance) int { return cmp.Compare(x.ID, y.ID) })
	answer := &ledger.FleetAnswered{Claim: a.open.Claim, Unavailable: failed}
	views := map[string]*claimView{}
	var subnets []string
	for i, m := range a.open.Members() {
		if i < len(instances) {
			s.deps.Findings.Launched(instances[i].ID, s.host.Now())
			subnets = append(subnets, instances[i].SubnetID)
		}
		v := a.views[i]
		if views[m.Claim] = v; v == nil {
			continue
		}
		if i < len(instances) {
			answer.Launched = append(answer.Launched, *s.launchedPayload(v, a.open, m, instances[i]))
			continue
		}
		answer.Failed = append(answer.Failed, ledger.LaunchFailed{
			Claim: m.Claim, UID: m.UID, Attempt: m.Attempt, Class: recordClass(lack.Class), Reason: lack.Reason, Message: lack.Message,
		})
	}
	if err := s.recordAnswer(ctx, a, answer); err != nil {
		return err
	}
	s.deps.Launcher.Settle(a.open.Token, subnets...)
	s.metrics.offeringsFailed(slices.Concat(failed, a.others), a.views...)
	for _, v := range a.views {
		s.report.tellForbidden(v, failed)
	}
	for i := range answer.Launched {
		l := &answer.Launched[i]
		s.report.logLaunched(views[l.Claim], l)
		s.mem.setUnnamed(l.Claim, l.InstanceID)
	}
	for i := range answer.Failed {
		s.afterFailure(views[answer.Failed[i].Claim], &answer.Failed[i], lack)
	}
	return nil
}

// recordAnswer appends the answer, or while a service that came since does not know the kind, what it holds
// one by one. The lead's is the last then: the others' attempts are nothing without it.
func (s launcher) recordAnswer(ctx context.Context, a *attempt, answer *ledger.FleetAnswered) error {
	expects, err := s.stillOpen(a)
	if err != nil {
		return err
	}
	_, err = s.recordOf(ctx, a, ledger.KindFleetAnswered, answer, expects)
	if !errors.Is(err, service.ErrHeldBack) {
		return err
	}
	launched, failed := map[string]*ledger.Launched{}, map[string]*ledger.LaunchFailed{}
	for i := range answer.Launched {
		launched[answer.Launched[i].Claim] = &answer.Launched[i]
	}
	for i := range answer.Failed {
		failed[answer.Failed[i].Claim] = &answer.Failed[i]
		failed[answer.Failed[i].Claim].Unavailable = answer.Unavailable
	}
	for _, v := range slices.Backward(a.views) {
		switch {
		case v == nil:
		case launched[v.name] != nil:
			err = s.record(ctx, v, ledger.KindLaunched, launched[v.name], nil, false)
		default:
			err = s.record(ctx, v, ledger.KindLaunchFailed, failed[v.name], nil, false)
		}
		if err != nil && v != nil {
			return err
		}
	}
	return nil
}

// stillOpen is what a record that closes the attempt expects; store.ErrConflict if it is closed already.
// While the Ledger cannot be read, since a record of another effect is not folded yet, that is the record
// that this process opened it with: the answer need not be asked for again.
func (s launcher) stillOpen(a *attempt) (expects []planner.Expectation, err error) {
	err = s.host.Ledger(func(l *ledger.Ledger) error {
		var names []string
		for i, m := range a.open.Members() {
			if a.views[i] == nil {
				continue
			}
			if !isOpen(l.Claim(m.Claim), m) {
				return fmt.Errorf("close attempt %d of nodeclaim %s: %w", m.Attempt, m.Claim, store.ErrConflict)
			}
			names = append(names, ledger.ClaimAggregate(m.Claim))
		}
		expects = planner.Expect(l, names...)
		return nil
	})
	if errors.Is(err, service.ErrNotReady) && a.seq > 0 {
		for _, m := range a.open.Members() {
			expects = append(expects, planner.Expectation{Aggregate: ledger.ClaimAggregate(m.Claim), Seq: a.seq})
		}
		return expects, nil
	}
	return expects, err
}

// stepUnnamed starts to write the claim's name on its instance, which was launched with others. What is not
// written by the time the Node has a name is written with that.
func (s launcher) stepUnnamed(v *claimView) {
	id := s.mem.unnamedOf(v.name)
	key := tagKey(v.name)
	if id == "" || !s.effects.Retries.Due(key, s.host.Now()) {
		return
	}
	if v.instanceID() != id || v.object != nil && v.object.Status.NodeName != "" {
		s.mem.setUnnamed(v.name, "")
		return
	}
	s.claimEffect(v.name, key, lane.Tag, func(ctx context.Context) error {
		if err := s.deps.EC2.CreateTags(ctx, id, map[string]string{awsv1.TagNodeClaim: v.name}); err != nil {
			return s.effects.PutOff(key, fmt.Errorf("tag instance %s of nodeclaim %s: %w", id, v.name, err))
		}
		s.effects.Retries.Succeeded(key)
		s.mem.setUnnamed(v.name, "")
		return nil
	})
}
