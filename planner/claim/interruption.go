package claim

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
)

// noticed are the states in which an instance can be interrupted: also one that is going, for it may have to
// go sooner.
var noticed = []State{Launched, Registered, Initialized, Deleting}

// interruptions are the transitions by messages that end a claim, by kind (reference: disruption §8). A
// rebalance recommendation ends none.
func interruptions() []Transition {
	var list []Transition
	for _, kind := range events.InterruptionKinds {
		if kind == events.RebalanceRecommendation {
			continue
		}
		list = append(list, Transition{Move: Doom, From: noticed, To: Deleting, Reason: kind,
			When: func(v view) bool { return v.interruptedBy(kind) },
			Text: func(v view) string { return v.interruption(kind).text() },
		})
	}
	return list
}

func (v view) interruption(kind string) *Interruption {
	i := slices.IndexFunc(v.Interruptions, func(i Interruption) bool { return i.Kind == kind })
	if i < 0 {
		return nil
	}
	return &v.Interruptions[i]
}

// interruptedBy: a message ends the claim, or names the deadline of one that is going.
func (v view) interruptedBy(kind string) bool {
	i := v.interruption(kind)
	if i == nil || v.unsought() || v.misdirected(kind) || kind == events.EventStatus && !passed(v.certain(), v.eventBegins()) {
		return false
	}
	return v.doomable() || !i.Deadline.IsZero() && undated(v)
}

// eventLead is how long before a scheduled event begins a node goes by force, if it was not replaced within
// the budgets by then.
const eventLead = time.Hour

// eventBegins is when a scheduled event ends the claim; zero: none does.
func (v view) eventBegins() time.Time {
	i := v.interruption(events.EventStatus)
	switch {
	case i == nil:
		return time.Time{}
	case i.NotBefore.IsZero():
		return i.At
	}
	return i.NotBefore.Add(-eventLead)
}

// misdirected: EC2 takes no instance back by a notice for capacity that the instance does not run on. Such a
// message is about something else, or forged.
func (v view) misdirected(kind string) bool {
	if v.Offering == nil || v.Offering.CapacityType == "" {
		return false
	}
	return kind == events.SpotInterrupted && v.Offering.CapacityType != karpv1.CapacityTypeSpot ||
		kind == events.CapacityReservationInterrupted && v.Offering.CapacityType != karpv1.CapacityTypeReserved
}

var interruptionTexts = map[string]string{
	events.SpotInterrupted:                "EC2 takes the spot instance back",
	events.CapacityReservationInterrupted: "the capacity reservation's owner takes the instance back",
	events.InstanceTerminated:             "the instance is terminated",
	events.InstanceStopped:                "the instance is stopped",
	events.ScheduledChange:                "AWS Health announces a change of the instance",
	events.InstanceStatus:                 "the instance does not pass EC2's check of its status",
	events.SystemStatus:                   "the host of the instance does not pass EC2's check of its status",
	events.EventStatus:                    "EC2 has scheduled an event for the instance",
}

func (i *Interruption) text() string {
	text := interruptionTexts[i.Kind]
	if i.Detail != "" {
		text += " (" + i.Detail + ")"
	}
	if i.MessageID != "" {
		text += ", message " + i.MessageID + " of " + i.At.UTC().Format(time.RFC3339)
	}
	if !i.NotBefore.IsZero() {
		text += ", not before " + i.NotBefore.UTC().Format(time.RFC3339)
	}
	if !i.Deadline.IsZero() {
		text += ": gone by " + i.Deadline.UTC().Format(time.RFC3339)
	}
	return cut(text)
}

// failing are the reasons that are a fault of the instance, or of what it runs.
func failing(reason string) bool {
	switch reason {
	case ReasonUnhealthy, ReasonRegistrationTimeout, events.InstanceStatus, events.SystemStatus:
		return true
	}
	return false
}

// Payload is what the record of a Doom says beside the input.
func Payload(in Input, a Action) *ledger.ClaimDoomed {
	p := &ledger.ClaimDoomed{Claim: in.Name, Reason: a.Reason, Message: a.Message}
	v := viewOf(in)
	if failing(a.Reason) && in.Offering != nil && in.Ledger != nil {
		o := in.Offering
		p.Failed = &ledger.FailedInstance{InstanceID: in.Ledger.InstanceID, ImageID: o.ImageID, InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType}
	}
	if a.Reason == ReasonUnhealthy { // at once, whatever terminationGracePeriod says
		p.Deadline = in.Now
		if p.Failed != nil {
			p.Failed.Cause = in.Unhealthy.Condition
		}
	}
	if a.Reason == ReasonBlockEnding {
		p.Deadline = in.BlockEnds.Add(-blockTaken)
	}
	i := v.interruption(a.Reason)
	if i == nil {
		return p
	}
	p.Deadline = i.Deadline
	switch o := in.Offering; {
	case o == nil:
	case i.Kind == events.SpotInterrupted && o.InstanceType != "" && o.Zone != "":
		p.Unavailable = []ledger.FailedOffering{{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: karpv1.CapacityTypeSpot, Code: "SpotInterrupted"}}
	case i.Kind == events.CapacityReservationInterrupted && o.ReservationID != "":
		p.Unavailable = []ledger.FailedOffering{{Zone: o.Zone, ReservationID: o.ReservationID, Code: "CapacityReservationInterrupted"}}
	}
	return p
}
