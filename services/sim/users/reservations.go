package users

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// blockLead is how long before its end a capacity block is offered no more (reference: ec2 §2.5).
const blockLead = 40 * time.Minute

// reserve makes capacity reservations, as the run's own numbers draw them: one without an end, and a capacity
// block whose nodes have to go while the script is played.
func (s *Users) reserve() {
	rng := s.Own(0x7265736572766564)
	types := cloud.InstanceTypes()
	draw := func(id string) *cloud.Reservation {
		return &cloud.Reservation{ID: id, InstanceType: types[rng.IntN(len(types))], Zone: cloud.Zones[rng.IntN(len(cloud.Zones))], Total: int64(1 + rng.IntN(2))}
	}
	if rng.IntN(1000) < s.Faults.Reservations {
		s.Cloud.Reserve(draw("cr-1"))
	}
	if rng.IntN(1000) >= s.Faults.Blocks {
		return
	}
	block := draw("cr-2")
	leaves := s.Script.Length/4 + time.Duration(rng.Int64N(int64(s.Script.Length/2)))
	block.Ends = s.Clock.Now().Add(leaves).Truncate(time.Second).Add(blockLead)
	s.Cloud.Reserve(block)
	// The EC2NodeClass says so when its status is looked at again.
	s.Clock.After(leaves+time.Duration(rng.Int64N(int64(time.Minute))), s.noteBlockEnding)
	s.Clock.After(block.Ends.Add(-cloud.BlockTaken).Sub(s.Clock.Now()), func() { s.takeBlock(block) })
}

// noteBlockEnding brings the status of the EC2NodeClass up to date, if there is one.
func (s *Users) noteBlockEnding() {
	nc := s.Cluster.NodeClass(stage.NodeClassName)
	if nc == nil {
		return
	}
	s.Trace("aws: a capacity block is about to end")
	noted := nc.DeepCopy()
	noted.Status.CapacityReservations = s.reservations()
	s.Cluster.Apply(events.KindEC2NodeClass, noted)
}

// takeBlock has EC2 terminate what runs in a capacity block.
func (s *Users) takeBlock(block *cloud.Reservation) {
	for _, i := range s.Cloud.InstancesIn(block.ID) {
		if !i.Ending() {
			s.Trace("aws: %s of block %s is taken", i.ID, block.ID)
			s.BlockTaken(i)
			s.Deeds.Ended[i.ID] = true
			s.Cloud.End(i)
		}
	}
}

// reservations of the account, as the status of the EC2NodeClass shows them.
func (s *Users) reservations() (list []awsv1.CapacityReservation) {
	for n, r := range s.Cloud.Reservations() {
		x := awsv1.CapacityReservation{ID: r.ID, InstanceType: r.InstanceType, AvailabilityZone: r.Zone, InstanceMatchCriteria: "targeted",
			OwnerID: fmt.Sprintf("%012d", n+1), ReservationType: awsv1.ReservationTypeDefault, State: "active"}
		if !r.Ends.IsZero() {
			end := metav1.NewTime(r.Ends)
			x.EndTime, x.ReservationType = &end, awsv1.ReservationTypeCapacityBlock
			if !s.Clock.Now().Before(r.Ends.Add(-blockLead)) {
				x.State = "expiring"
			}
		}
		list = append(list, x)
	}
	return list
}
