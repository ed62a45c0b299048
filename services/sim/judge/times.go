package judge

import (
	"time"

	"millwright/planner/ledger"
	"millwright/services/sim/stage"
)

// checkTime demands that nothing is doomed by time before its time.
func (s *Judge) checkTime(d *ledger.ClaimDoomed) {
	o := s.Cluster.NodeClaim(d.Claim)
	if o == nil || o.UID != d.UID {
		return
	}
	var life time.Duration
	switch d.Reason {
	case "expired":
		if o.Spec.ExpireAfter.Duration == nil {
			s.Violate(CheckTime, "NodeClaim %s never expires", d.Claim)
			return
		}
		life = *o.Spec.ExpireAfter.Duration
	case "launch_timeout":
		life = s.Options.LaunchTimeout
	case "registration_timeout":
		life = s.Options.RegistrationTimeout
	}
	if at := o.CreationTimestamp.Add(life); life > 0 && s.Clock.Now().Add(stage.ClocksApart).Before(at) {
		s.Violate(CheckTime, "NodeClaim %s is doomed by %s, %s before its time", d.Claim, d.Reason, at.Sub(s.Clock.Now()))
	}
}

// checkNoticed demands that nothing is doomed by a notice that EC2 did not send.
func (s *Judge) checkNoticed(d *ledger.ClaimDoomed) {
	if d.Reason != "spot_interrupted" {
		return
	}
	id := s.history.launched[string(d.UID)]
	end, noticed := s.Deeds.Noticed[id]
	if !noticed {
		s.Violate(CheckForged, "NodeClaim %s is doomed, and %s is not taken back", d.Claim, id)
	}
	if early := end.Sub(d.Deadline); !d.Deadline.IsZero() && early > stage.ClocksApart+s.slack() {
		s.Violate(CheckForged, "NodeClaim %s has the deadline %s, %s is taken back %s later", d.Claim, d.Deadline, id, early)
	}
}
