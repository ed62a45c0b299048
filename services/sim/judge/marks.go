package judge

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"millwright/planner/ledger"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// CheckMarked is of invariant 2, as far as it is about what EC2 has none of.
const CheckMarked = "2: no request names what its lifecycle had seen marked as unavailable"

// Marks are the offerings of which records say that EC2 has none, by the rules of the records alone: a
// failure marks for a time that doubles with each that follows after the mark, and a launch ends the mark.
type Marks struct {
	*Judge
	of map[cloud.Offering]mark
	// last is the time of the record before; forgotten is when marks were, as of which failures in a row are
	// counted anew here, though not in the log.
	last, forgotten time.Time
}

// mark of an offering, as the record seq has it.
type mark struct {
	seq      uint64
	failures int
	until    time.Time
	// longer: it may stand for longer than until, because of failures that are forgotten here.
	longer bool
}

func newMarks(j *Judge) *Marks { return &Marks{Judge: j, of: map[cloud.Offering]mark{}} }

// enter takes in a record.
func (m *Marks) enter(e ledger.Entry) {
	if m.last.Sub(e.Time) >= ledger.ClockTolerance {
		clear(m.of) // a clock was far off: how long they stand cannot be told
		m.forgotten = e.Time
	}
	if m.last = e.Time; e.Mode == ledger.ModeShadow {
		return
	}
	switch p := e.Payload.(type) {
	case *ledger.Launched:
		m.launched(p)
		m.fail(e, p.Unavailable)
	case *ledger.LaunchFailed:
		m.fail(e, p.Unavailable)
	case *ledger.ClaimDoomed:
		m.fail(e, p.Unavailable)
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			m.launched(&p.Launched[i])
			m.fail(e, p.Launched[i].Unavailable)
		}
		for i := range p.Failed {
			m.fail(e, p.Failed[i].Unavailable)
		}
		m.fail(e, p.Unavailable)
	}
}

func (m *Marks) launched(p *ledger.Launched) {
	delete(m.of, cloud.Offering{InstanceType: p.InstanceType, Zone: p.Zone, CapacityType: p.CapacityType})
	delete(m.of, cloud.Offering{CapacityType: p.CapacityType})
}

// fail marks what failed. A record is not believed to be later than it is.
func (m *Marks) fail(e ledger.Entry, failed []ledger.FailedOffering) {
	at, most := e.Time, m.Options.OfferingBackoffMax
	if now := m.Clock.Now(); at.After(now) {
		at = now
	}
	for _, f := range failed {
		if f.ReservationID != "" || f.SubnetID != "" {
			continue
		}
		key := cloud.Offering{InstanceType: f.InstanceType, Zone: f.Zone, CapacityType: f.CapacityType}
		x := m.of[key]
		switch {
		case x.failures == 0 || at.After(x.until.Add(most)):
			x = mark{failures: 1, longer: x.longer || !m.forgotten.IsZero() && at.Before(m.forgotten.Add(2*most))}
		case !at.Before(x.until):
			x.failures++
		}
		lasts := m.Options.OfferingBackoff
		for n := 1; n < x.failures && lasts < most; n++ {
			lasts *= 2
		}
		x.seq = e.Seq
		if until := at.Add(min(lasts, most)); until.After(x.until) {
			x.until = until
		}
		m.of[key] = x
	}
}

// CheckOutcome looks at what a process is about to record of what it has done, or will do.
func (m *Marks) CheckOutcome(by Process, payload any) {
	if p, ok := payload.(*ledger.LaunchRequested); ok {
		m.judgeRequest(by, p)
	}
}

// judgeRequest demands that nothing is asked for that was marked when the process last read the log, unless
// the mark ends about now.
func (m *Marks) judgeRequest(by Process, p *ledger.LaunchRequested) {
	_, through := by.Folded()
	list := Requested(p)
	for _, o := range list {
		list = append(list, cloud.Offering{CapacityType: o.CapacityType})
	}
	for _, o := range list {
		x, marked := m.of[o]
		if marked && x.seq <= through && m.Clock.Now().Add(stage.ClocksApart).Before(x.until) {
			m.Violate(CheckMarked, "%s asks for %v for %s, which record %d has marked until %s", by, o, p.Claim, x.seq, x.until.Sub(stage.Start))
		}
	}
}

// Requested are the offerings that a request names, but those of reservations.
func Requested(p *ledger.LaunchRequested) (list []cloud.Offering) {
	var in awsec2.CreateFleetInput
	if err := json.Unmarshal(p.Request, &in); err != nil {
		panic(fmt.Sprintf("the request of %s cannot be read: %v", p.Claim, err))
	}
	for n, config := range in.LaunchTemplateConfigs {
		if n < len(p.LaunchTemplates) && p.LaunchTemplates[n].ReservationID != "" {
			continue
		}
		for _, o := range config.Overrides {
			list = append(list, cloud.Offering{InstanceType: string(o.InstanceType), Zone: aws.ToString(o.AvailabilityZone),
				CapacityType: string(in.TargetCapacitySpecification.DefaultTargetCapacityType)})
		}
	}
	return list
}
