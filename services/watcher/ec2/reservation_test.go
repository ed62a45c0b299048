package ec2

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/catalog"
	"millwright/tools/ec2sim/simclient"
)

// TestReservedCapacityIsPublishedWithItsCount: a NodeClass's reservations become offerings, counted each time
// EC2 is asked. The rules: ec2 §2.5.
func TestReservedCapacityIsPublishedWithItsCount(t *testing.T) {
	r := newRig(t, nil)
	now := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	r.cfg.Clock = func() time.Time { return now }
	reservation := simclient.Reservation{ID: "cr-1", InstanceType: "m5.large", Zone: "us-west-2a", Count: 2}
	r.control("POST", "reservations", reservation)
	nc := nodeClass("default", func(nc *karpawsv1.EC2NodeClass) {
		status := karpawsv1.CapacityReservation{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-west-2a", ReservationType: "default", State: "active"}
		block, elsewhere := status, status
		block.ID, block.ReservationType, block.State = "cr-2", "capacity-block", "expiring"
		elsewhere.ID, elsewhere.AvailabilityZone = "cr-3", "us-west-2d" // without a subnet
		nc.Status.CapacityReservations = []karpawsv1.CapacityReservation{block, elsewhere, status}
	})
	r.classes = []*karpawsv1.EC2NodeClass{nc, nodeClass("plain", nil)}
	r.control("POST", "faults", simclient.Fault{Action: "DescribeCapacityReservations", Code: "RequestLimitExceeded", Status: http.StatusServiceUnavailable})
	r.poll("instance_types", "nodeclasses")
	r.control("DELETE", "faults", nil)
	refs := func() map[string]*events.CatalogRef {
		out := map[string]*events.CatalogRef{}
		for _, e := range r.out.take(events.KindCatalog) {
			out[e.Name] = e.Object.(*events.CatalogRef)
		}
		return out
	}
	free := func(ref *events.CatalogRef) (n int64, offered bool) {
		c := catalog.New(r.resolved(ref), nil)
		n, offered = c.Reservations()["cr-1"]
		return n, offered
	}
	first := refs()
	if _, offered := free(first["default"]); offered || len(first) != 2 {
		t.Fatalf("%d catalogues; reserved capacity is offered before EC2 has said what is free", len(first))
	}
	r.poll("capacity_reservations", "nodeclasses")
	second := refs()
	if n, _ := free(second["default"]); n != 2 || len(second) != 1 || !second["default"].ReservationsAt.Equal(now) {
		t.Fatalf("%d free in %d catalogues, want 2 in that of the class alone", n, len(second))
	}
	now = now.Add(time.Minute)
	r.poll("capacity_reservations", "nodeclasses")
	third := refs()["default"]
	if third == nil || third.Hash != second["default"].Hash || !third.ReservationsAt.Equal(now) {
		t.Fatalf("counted again with the same result: %+v, want the same content at a new time", third)
	}
	r.control("PATCH", "reservations/cr-1", map[string]int{"count": 5})
	now = now.Add(time.Minute)
	r.poll("capacity_reservations", "nodeclasses")
	fourth := refs()["default"]
	if n, _ := free(fourth); n != 5 || fourth.Hash == third.Hash {
		t.Fatalf("%d free after the reservation grew to 5", n)
	}
	m5 := catalog.New(r.resolved(fourth), nil).Type("m5.large")
	for key, want := range map[string]string{"karpenter.sh/capacity-type": "reserved", karpawsv1.LabelCapacityReservationID: "cr-1", karpawsv1.LabelCapacityReservationType: "default"} {
		if !m5.Requirements.Get(key).Has(want) {
			t.Errorf("%s of m5.large is %s, want %s among it", key, m5.Requirements.Get(key), want)
		}
	}
	for _, o := range m5.Offerings {
		if o.ReservationID != "" && o.ReservationID != "cr-1" {
			t.Errorf("reservation %s is offered", o.ReservationID)
		}
	}
	r.control("DELETE", "reservations/cr-1", nil)
	now = now.Add(time.Minute)
	r.poll("capacity_reservations", "nodeclasses")
	if _, offered := free(refs()["default"]); offered {
		t.Error("an ended reservation is offered")
	}
}

// TestReservedCapacityIsCountedBeforeItIsPublished: pods that wait for a NodeClass get what is reserved, not
// what is bought beside it.
func TestReservedCapacityIsCountedBeforeItIsPublished(t *testing.T) {
	r := newRig(t, nil)
	r.control("POST", "reservations", simclient.Reservation{ID: "cr-1", InstanceType: "m5.large", Zone: "us-west-2a", Count: 2})
	r.control("POST", "reservations", simclient.Reservation{ID: "cr-2", InstanceType: "m5.large", Zone: "us-west-2a", Count: 3})
	reserved := []karpawsv1.CapacityReservation{
		{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-west-2a", State: "active"},
		{ID: "cr-2", InstanceType: "m5.large", AvailabilityZone: "us-west-2a", State: "active"},
	}
	want := map[string]int64{}
	r.poll("instance_types")
	for i, count := range []int64{2, 3} {
		want[reserved[i].ID] = count
		r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", func(nc *karpawsv1.EC2NodeClass) { nc.Status.CapacityReservations = reserved[:i+1] })}
		r.poll("nodeclasses")
		if got := catalog.New(r.catalog(), nil).Reservations(); !maps.Equal(got, want) {
			t.Errorf("free are %v, want %v", got, want)
		}
	}
}

// TestNodeClassesWaitForReservationsTogether: EC2 that does not answer holds up the catalogues of many
// NodeClasses no longer than that of one.
func TestNodeClassesWaitForReservationsTogether(t *testing.T) {
	r := newRig(t, nil)
	r.poll("instance_types")
	r.control("POST", "faults", simclient.Fault{Action: "DescribeCapacityReservations", Code: "InternalError", Status: http.StatusInternalServerError})
	for i := range 5 {
		r.classes = append(r.classes, nodeClass(fmt.Sprint("class-", i), func(nc *karpawsv1.EC2NodeClass) {
			nc.Status.CapacityReservations = []karpawsv1.CapacityReservation{{ID: fmt.Sprint("cr-", i), InstanceType: "m5.large", AvailabilityZone: "us-west-2a", State: "active"}}
		}))
	}
	r.poll("nodeclasses")
	if n := len(r.out.take(events.KindCatalog)); n != 5 {
		t.Errorf("%d catalogues are published, want 5", n)
	}
	if calls := r.sim.Calls()["DescribeCapacityReservations"]; !maps.Equal(calls, map[string]int{"InternalError": 1}) {
		t.Errorf("EC2 is asked %v what is free, want once", calls)
	}
}

// TestEachKindOfReservationIsOffered with its own labels. The rules: ec2 §2.5.
func TestEachKindOfReservationIsOffered(t *testing.T) {
	r := newRig(t, nil)
	var status []karpawsv1.CapacityReservation
	for id, kind := range map[string]simclient.Reservation{
		"cr-1": {}, "cr-2": {ReservationType: "capacity-block"}, "cr-3": {Interruptible: true},
	} {
		kind.ID, kind.InstanceType, kind.Zone, kind.Count = id, "m5.large", "us-west-2a", 3
		r.control("POST", "reservations", kind)
		status = append(status, karpawsv1.CapacityReservation{ID: id, InstanceType: "m5.large", AvailabilityZone: "us-west-2a",
			ReservationType: kind.ReservationType, Interruptible: kind.Interruptible, State: "active"})
	}
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", func(nc *karpawsv1.EC2NodeClass) { nc.Status.CapacityReservations = status })}
	r.poll("instance_types", "capacity_reservations", "nodeclasses")
	published := r.out.take(events.KindCatalog)
	m5 := catalog.New(r.resolved(published[len(published)-1].Object.(*events.CatalogRef)), nil).Type("m5.large")
	got := map[string]string{}
	for _, o := range m5.Offerings {
		if o.ReservationID != "" {
			got[o.ReservationID] = fmt.Sprint(o.Requirements.Get(karpawsv1.LabelCapacityReservationType).Values(),
				o.Requirements.Get(karpawsv1.LabelCapacityReservationInterruptible).Values(), o.Free, o.Available)
		}
	}
	want := map[string]string{"cr-1": "[default] [false] 3 true", "cr-2": "[capacity-block] [false] 3 true", "cr-3": "[default] [true] 3 true"}
	if !maps.Equal(got, want) {
		t.Errorf("offered %v, want %v", got, want)
	}
	for key, values := range map[string][]string{
		karpawsv1.LabelCapacityReservationType: {"capacity-block", "default"}, karpawsv1.LabelCapacityReservationInterruptible: {"false", "true"},
	} {
		if got := m5.Requirements.Get(key).Values(); !slices.Equal(got, values) {
			t.Errorf("%s of the type: %v, want %v", key, got, values)
		}
	}
}

// TestReservationsAreAskedForOnlyIfSomeClassHasThem spares roles that may not ask.
func TestReservationsAreAskedForOnlyIfSomeClassHasThem(t *testing.T) {
	r := newRig(t, nil)
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", nil)}
	r.poll("capacity_reservations")
	if calls := r.sim.Calls(); calls["DescribeCapacityReservations"] != nil {
		t.Errorf("calls: %v", calls)
	}
}
