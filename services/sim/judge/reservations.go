package judge

import (
	"slices"
	"time"

	"millwright/planner/ledger"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// Checks of capacity reservations, and of capacity blocks, which end.
const (
	CheckReserved   = "2: launches into a capacity reservation stay within what is free"
	CheckBlockAsked = "2: nothing is launched into a capacity block that ends"
	CheckBlockLeft  = "pods have left the instances of a capacity block before EC2 takes them, where the services had time"
)

const (
	// blockLead is how long before the end of a capacity block its nodes go (reference: ec2 §2.5).
	blockLead = 40 * time.Minute
	// countedAgain is how long after its end, or the record of that, an instance may count as free twice: by
	// EC2's count, and by the record, which comes later.
	countedAgain = 90 * time.Second
)

// Reservations judge the launches into capacity reservations by the records and the instances there are.
type Reservations struct {
	*Judge
	// asked are the reservations that open attempts name, by NodeClaim and attempt.
	asked map[attemptKey][]string
	// ended is when instances of a reservation have ended, or that was recorded, by its id and theirs.
	ended map[string]map[string]time.Time
}

type attemptKey struct {
	uid     string
	attempt int
}

func newReservations(j *Judge) *Reservations {
	return &Reservations{Judge: j, asked: map[attemptKey][]string{}, ended: map[string]map[string]time.Time{}}
}

// enter takes in a record.
func (r *Reservations) enter(e ledger.Entry) {
	if e.Mode == ledger.ModeShadow || len(r.Cloud.Reservations()) == 0 {
		return
	}
	switch p := e.Payload.(type) {
	case *ledger.LaunchRequested:
		r.open(e, p)
	case *ledger.InstanceTerminated:
		if i := r.Cloud.Instance(p.InstanceID); i != nil {
			r.Ended(i)
		}
	case *ledger.Launched:
		delete(r.asked, attemptKey{string(p.UID), p.Attempt})
	case *ledger.LaunchFailed:
		delete(r.asked, attemptKey{string(p.UID), p.Attempt})
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			delete(r.asked, attemptKey{string(p.Launched[i].UID), p.Launched[i].Attempt})
		}
		for i := range p.Failed {
			delete(r.asked, attemptKey{string(p.Failed[i].UID), p.Failed[i].Attempt})
		}
	}
}

func (r *Reservations) open(e ledger.Entry, p *ledger.LaunchRequested) {
	var ids []string
	for _, t := range p.LaunchTemplates {
		if t.ReservationID != "" {
			ids = append(ids, t.ReservationID)
		}
	}
	if len(ids) == 0 {
		return
	}
	r.Stats.Reserved++
	r.asked[attemptKey{string(p.UID), p.Attempt}] = ids
	for _, x := range r.Cloud.Reservations() {
		if slices.Contains(ids, x.ID) {
			r.judge(e, x)
		}
	}
}

// judge counts what runs in a reservation and what open attempts may still take.
func (r *Reservations) judge(e ledger.Entry, x *cloud.Reservation) {
	now := r.Clock.Now()
	if !x.Ends.IsZero() && now.After(x.Ends.Add(-blockLead).Add(stage.ClocksApart)) {
		r.Violate(CheckBlockAsked, "record %d names %s, which ends at %s", e.Seq, x.ID, x.Ends)
	}
	var used, again int64
	for _, i := range r.Cloud.InstancesIn(x.ID) {
		if !i.Ending() {
			used++
		}
	}
	for key, ids := range r.asked {
		if slices.Contains(ids, x.ID) && r.history.launched[key.uid] == "" {
			used++
		}
	}
	for _, at := range r.ended[x.ID] {
		if now.Sub(at) < countedAgain {
			again++
		}
	}
	if used > x.Total+again {
		r.Violate(CheckReserved, "record %d brings %s to %d instances, launched or asked for, of %d", e.Seq, x.ID, used, x.Total)
	}
}

// Ended notes the end of an instance, or the record of it.
func (r *Reservations) Ended(i *cloud.Instance) {
	if i.ReservationID == "" {
		return
	}
	if r.ended[i.ReservationID] == nil {
		r.ended[i.ReservationID] = map[string]time.Time{}
	}
	r.ended[i.ReservationID][i.ID] = r.Clock.Now()
}

// CheckTaken looks at an instance of a capacity block as EC2 takes it.
func (r *Reservations) CheckTaken(i *cloud.Instance) {
	since := r.Departures.ableSince
	if since.IsZero() || r.Clock.Now().Sub(since) < actingTime {
		return
	}
	if left := r.Departures.left(i, actingTime); left != "" {
		r.Violate(CheckBlockLeft, "%s as %s of block %s is taken", left, i.ID, i.ReservationID)
	}
}

// takenBy reports that an instance runs in a capacity block of which EC2 begins to take instances by a time.
func (r *Reservations) takenBy(i *cloud.Instance, at time.Time) bool {
	return slices.ContainsFunc(r.Cloud.Reservations(), func(x *cloud.Reservation) bool {
		return x.ID == i.ReservationID && !x.Ends.IsZero() && !at.Before(x.Ends.Add(-cloud.BlockTaken))
	})
}
