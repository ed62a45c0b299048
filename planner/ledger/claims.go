package ledger

import (
	"slices"

	"millwright/planner/providerid"

	"millwright/planner/version"
)

// editClaim replaces a claim by a copy of it, which it returns; nil if it is not open.
func (l *Ledger) editClaim(name string) *Claim { return edit(l.owner, &l.claims, name) }

// foldClaim applies a record about one claim.
func (l *Ledger) foldClaim(e Entry) {
	switch p := e.Payload.(type) {
	case *ClaimWithdrawn:
		l.claims.Delete(l.owner, p.Claim)
	case *ClaimClosed:
		l.claims.Delete(l.owner, p.Claim)
		l.forgetDrainOut(p.Claim)
	case *ClaimAdopted:
		l.foldAdopted(e, p)
	case *ClaimCreated:
		if c := l.Claim(p.Claim); c != nil && c.State == ClaimPlanned {
			c = l.editClaim(p.Claim)
			c.State, c.UID = ClaimCreatedOnce, p.UID
			l.settleContent(c, p.Record)
		}
	case *LaunchRequested:
		l.foldLaunchRequested(e, p)
	case *Launched:
		l.foldLaunched(e, p)
	case *LaunchFailed:
		l.foldLaunchFailed(e, p)
	case *FleetAnswered:
		l.foldFleetAnswered(e, p)
	case *ClaimRegistered:
		if c := l.editClaim(p.Claim); c != nil {
			c.State, c.Node, c.RegisteredAt = ClaimRegisteredState, p.Node, e.Time.UTC()
		}
	case *ClaimInitialized:
		if c := l.editClaim(p.Claim); c != nil {
			c.State, c.Node, c.Planned = ClaimInitializedState, p.Node, c.Planned.ready()
		}
	case *ClaimDoomed:
		l.markFailed(e, p.Unavailable)
		if c := l.editClaim(p.Claim); c != nil {
			l.foldReturnLost(e, c, p)
			l.foldDoomed(c, p)
		}
	case *InstanceTerminated:
		if c := l.editClaim(p.Claim); c != nil {
			l.foldTerminated(e, c)
		}
	}
}

// foldDoomed keeps the reason for which a claim went first; of a notice that came since, it keeps the
// deadline. What the cause says of offerings is in their marks.
func (l *Ledger) foldDoomed(c *Claim, p *ClaimDoomed) {
	doomed := *p
	doomed.Unavailable, doomed.Failed = nil, nil
	if c.Doomed != nil {
		again := *c.Doomed
		again.Deadline = p.Deadline
		doomed = again
	}
	if !p.Deadline.IsZero() {
		c.TakenBy = "" // whatever took it voluntarily, it is EC2 that takes it now
	}
	c.Doomed = &doomed
}

// settle gives a claim the content that its NodeClaim was made of; 0 is the last one. The verdicts of
// widenings that came too late are forgotten.
func (l *Ledger) settleContent(c *Claim, record uint64) {
	earlier := c.Earlier
	c.Earlier = nil
	if record == 0 || record == c.ContentSeq() {
		return
	}
	at := slices.IndexFunc(earlier, func(x EarlierContent) bool { return x.Seq == record })
	if at < 0 {
		return
	}
	c.Planned, c.Capacity, c.WidenedSeq = earlier[at].Planned, earlier[at].Planned.Capacity, 0
	if at > 0 {
		c.WidenedSeq = record
	}
	for _, uid := range version.Keys(&l.verdicts) {
		v := l.Verdict(uid)
		if v.Claim == c.Name && v.Seq > record && !slices.ContainsFunc(c.Planned.Pods, func(p PodRef) bool { return p.UID == uid }) {
			l.verdicts.Delete(l.owner, uid)
		}
	}
}

// foldAdopted opens a claim that was made elsewhere; it counts as launched if it has an instance.
func (l *Ledger) foldAdopted(e Entry, p *ClaimAdopted) {
	c := l.editClaim(p.Claim)
	if c == nil {
		c = &Claim{Name: p.Claim, PlannedSeq: e.Seq, NodePool: p.NodePool, State: ClaimCreatedOnce}
		l.claims.Set(l.owner, p.Claim, c)
	}
	c.UID, c.Inherited = p.UID, p.Inherited
	if p.ProviderID != "" && c.Instance == nil {
		c.State = ClaimLaunched
		c.Instance = &Launched{Claim: p.Claim, UID: p.UID, ProviderID: p.ProviderID, InstanceID: providerid.InstanceID(p.ProviderID)}
	}
}

// foldLaunchRequested opens an attempt. It also opens a claim that is not known: an attempt must never be
// lost.
func (l *Ledger) foldLaunchRequested(e Entry, p *LaunchRequested) {
	l.openAttempt(e, p)
	for _, m := range p.Others {
		l.openAttempt(e, &LaunchRequested{
			Claim: m.Claim, UID: m.UID, Attempt: m.Attempt, Lead: p.Claim, LaunchTemplates: p.LaunchTemplates, Annotations: p.Annotations,
		})
	}
}

func (l *Ledger) openAttempt(e Entry, p *LaunchRequested) {
	c := l.editClaim(p.Claim)
	if c == nil {
		c = &Claim{Name: p.Claim, PlannedSeq: e.Seq}
		l.claims.Set(l.owner, p.Claim, c)
	}
	c.State, c.UID, c.Attempt = ClaimLaunching, p.UID, p.Attempt
	c.Open, c.OpenSeq, c.OpenedAt = p, e.Seq, e.Time.UTC()
}

// foldFleetAnswered marks what failed last: of an offering that had some instances and no more, the latter
// counts.
func (l *Ledger) foldFleetAnswered(e Entry, p *FleetAnswered) {
	for i := range p.Launched {
		l.foldLaunched(e, &p.Launched[i])
	}
	for i := range p.Failed {
		l.foldLaunchFailed(e, &p.Failed[i])
	}
	l.markFailed(e, p.Unavailable)
}

func (l *Ledger) foldLaunched(e Entry, p *Launched) {
	for _, key := range (OfferingKey{p.InstanceType, p.Zone, p.CapacityType, p.PlacementGroup}).Wider() {
		l.offerings.Delete(l.owner, key)
	}
	l.markFailed(e, p.Unavailable)
	if p.ReservationID != "" {
		l.changeReservation(p.ReservationID, e.Time, -1)
	}
	c := l.editClaim(p.Claim)
	if c == nil {
		return
	}
	c.State, c.Instance, c.Attempt, c.Failed = ClaimLaunched, p.kept(), p.Attempt, nil
	c.Planned = c.Planned.launched(p.InstanceType)
	c.close()
	if !p.Capacity.IsZero() {
		c.Capacity = p.Capacity
	}
}

func (l *Ledger) foldTerminated(e Entry, c *Claim) {
	if !c.Terminated && c.Instance != nil && c.Instance.ReservationID != "" {
		l.changeReservation(c.Instance.ReservationID, e.Time, 1)
	}
	c.Terminated = true
}

func (l *Ledger) foldLaunchFailed(e Entry, p *LaunchFailed) {
	l.markFailed(e, p.Unavailable)
	if c := l.editClaim(p.Claim); c != nil {
		failed := *p
		failed.Unavailable = nil
		c.State, c.Attempt, c.Failed = ClaimLaunchFailed, p.Attempt, &failed
		c.close()
	}
}

func (c *Claim) close() { c.Open, c.OpenSeq = nil, 0 }
