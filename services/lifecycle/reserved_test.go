package lifecycle

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/lifecycle/launch"
	"millwright/store/audit"
)

const reservationID = "cr-1"

// newReservedRig is a rig whose catalogue offers r5.large only in a capacity reservation that has so many
// free instances.
func newReservedRig(t *testing.T, free int64) *rig {
	t.Helper()
	r := newRig(t)
	c := catalogOf("r5.large", "m5.large", "c5.large")
	c.InstanceTypes[0].Offerings[0].CapacityType = karpv1.CapacityTypeReserved
	c.InstanceTypes[0].Offerings[0].Reservation = &events.CatalogReservation{ID: reservationID, Type: "default", Free: &free}
	r.observe(r.messages+1, events.Observation{Kind: events.KindCatalog, Op: events.OpUpsert, Name: "default", UID: "default",
		Object: &events.CatalogRef{NodeClass: "default", Hash: "reserved", Catalog: c, ReservationsAt: r.now}})
	r.ec2.reserved = map[string]string{"r5.large": reservationID}
	return r
}

var onlyReserved = karpv1.NodeSelectorRequirementWithMinValues{
	Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeReserved}}

// intoReservation are the claims whose open attempts, or whose instances, the records have in the
// reservation; most is how many of them there ever were at once.
func (r *rig) intoReservation() (names []string, most int) {
	for _, rec := range r.records {
		e, err := audit.Decode(rec)
		if err != nil {
			r.t.Fatal(err)
		}
		switch p := e.Payload.(type) {
		case *ledger.LaunchRequested:
			if p.LaunchTemplates[0].ReservationID == reservationID {
				names = append(names, p.Claim)
			}
		case *ledger.LaunchFailed:
			names = slices.DeleteFunc(names, func(name string) bool { return name == p.Claim })
		}
		most = max(most, len(names))
	}
	return names, most
}

// Nothing is launched into a capacity block whose nodes go already, though the catalogue may offer it for a
// while: its end is known from the NodeClass.
func TestNothingIsLaunchedIntoACapacityBlockThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		left time.Duration
		want string
	}{
		"its nodes go":      {40 * time.Minute, "c5.large"},
		"its nodes go soon": {41 * time.Minute, "r5.large"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReservedRig(t, 1)
			end := metav1.NewTime(r.now.Add(c.left))
			r.resolve(func(nc *awsv1.EC2NodeClass) {
				nc.Status.CapacityReservations = []awsv1.CapacityReservation{{ID: reservationID, ReservationType: awsv1.ReservationTypeCapacityBlock, EndTime: &end}}
			})
			claim := r.plan()
			r.run("launched", func() bool { return len(r.ec2.instances) > 0 })
			if i := r.ec2.instances["i-0001"]; i.InstanceType != c.want {
				t.Errorf("%s is launched for %s", i.InstanceType, claim)
			}
		})
	}
}

// While the answer to a launch into a reservation is not known, its instance is not asked for by another
// launch: that takes the next offering.
func TestAnOpenAttemptHoldsItsReservedInstance(t *testing.T) {
	r := newReservedRig(t, 1)
	first, second := r.plan(), r.plan()
	for range 3 {
		r.ec2.refuse = append(r.ec2.refuse, lostFleet)
	}
	r.run("both ready", func() bool { return r.ready(first)() && r.ready(second)() })
	if names, most := r.intoReservation(); len(names) != 1 || most != 1 {
		t.Errorf("into the reservation of one free instance: %v, at most %d at once: %v", names, most, r.kinds())
	}
	if n := r.count(ledger.KindLaunchRequested); n != 2 || len(r.ec2.instances) != 2 {
		t.Errorf("%d requests: %v, %v", n, r.kinds(), r.ec2.describe())
	}
}

// A claim that may have nothing else waits for the answer to the other launch, and is not given up: the other
// may leave the instance after all.
func TestAClaimWaitsForAReservedInstanceThatAnotherMayTake(t *testing.T) {
	r := newReservedRig(t, 1)
	r.ec2.refuse = []error{lostFleet, lostFleet, lostFleet}
	r.ec2.mismatch = true // EC2 does not know the token any more: the instance is searched for, and not found
	first := r.plan(onlyReserved)
	r.run("attempt open", func() bool { c := r.led.Claim(first); return c != nil && c.Open != nil })
	second := r.plan(onlyReserved)
	r.run("the first attempt closed", func() bool { return r.count(ledger.KindLaunchFailed) == 1 })
	r.ec2.mismatch = false
	if r.led.Claim(second) == nil || r.count(ledger.KindClaimDoomed) > 0 {
		t.Fatalf("the second claim did not wait: %v", r.kinds())
	}
	r.run("one of them ready", func() bool { return r.ready(first)() || r.ready(second)() })
	if _, most := r.intoReservation(); most != 1 {
		t.Errorf("%d at once: %v", most, r.kinds())
	}
}

// Two launches that see the same free instance: another leader's is recorded between the look of ours and its
// record, which is refused then.
func TestOfTwoLaunchesThatSeeOneReservedInstanceOneIsRecorded(t *testing.T) {
	r := newReservedRig(t, 1)
	ours, others := r.plan(), r.plan()
	r.requested = func(built launch.Built, o launch.Order) {
		if built.Templates[0].ReservationID == "" {
			return
		}
		r.requested = nil
		if o.Claims[0] == others {
			ours, others = others, ours
		}
		r.other(ledger.ServiceLifecycle, ledger.KindLaunchRequested, &ledger.LaunchRequested{
			Claim: others, UID: r.led.Claim(others).UID, Attempt: 1, Token: "other", Request: []byte("{}"), LaunchTemplates: built.Templates,
		}, ledger.ClaimAggregate(others), ledger.ReservationAggregate(reservationID))
	}
	r.run("ours ready", r.ready(ours))
	names, most := r.intoReservation()
	if most != 1 || slices.Contains(names, ours) {
		t.Errorf("into the reservation: %v, %d at once: %v", names, most, r.kinds())
	}
}
