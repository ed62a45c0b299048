package ec2

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/tools/ec2sim/simclient"
)

// shiftRig asks about zonal shifts; what was known before is known.
func shiftRig(t *testing.T, known func() ([]events.ZonalShift, bool)) *rig {
	t.Helper()
	// The configuration of the SDK is made by newRig, so the clients follow.
	shifts := &ShiftConfig{Known: known}
	r := newRig(t, func(c *Config) { c.Shifts = shifts })
	made := ShiftClients(r.sdk)
	shifts.ARC, shifts.EKS = made.ARC, made.EKS
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", nil)}
	return r
}

func nothingKnown() ([]events.ZonalShift, bool) { return nil, true }

// ref takes the one reference that was emitted, with the zones in which m5.large is available.
func (r *rig) ref() (*events.CatalogRef, []string) {
	r.t.Helper()
	got := r.out.take(events.KindCatalog)
	if len(got) != 1 {
		r.t.Fatalf("emitted %d catalogues, want one", len(got))
	}
	ref := got[0].Object.(*events.CatalogRef)
	var list []string
	for _, o := range typeOf(r.t, r.resolved(ref), "m5.large").Offerings {
		if o.Available && !slices.Contains(list, o.Zone) {
			list = append(list, o.Zone)
		}
	}
	slices.Sort(list)
	return ref, list
}

// TestNothingIsAvailableInAShiftedZone follows ARC's answers: what counts is what is applied now, and not
// ended. The rules: ec2 §2.6.
func TestNothingIsAvailableInAShiftedZone(t *testing.T) {
	const a, b = "us-west-2a", "us-west-2b" // usw2-az2, usw2-az1
	r := shiftRig(t, nothingKnown)
	now := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	r.cfg.Clock = func() time.Time { return now }
	r.poll("instance_types")
	if err := r.task("nodeclasses").poll(context.Background()); !errors.Is(err, errNotYet) {
		t.Fatalf("before ARC has answered: %v", err)
	}
	soon, later := time.Now().Add(time.Hour).Truncate(time.Second).UTC(), time.Now().Add(2*time.Hour).Truncate(time.Second).UTC()
	now = time.Now()
	steps := []struct {
		what   string
		shifts []simclient.ZonalShift
		zones  []string
		said   []events.ZonalShift
	}{
		{what: "none", zones: []string{a, b}},
		{what: "one", shifts: []simclient.ZonalShift{{AwayFrom: "usw2-az2", Until: soon}}, zones: []string{b},
			said: []events.ZonalShift{{ZoneID: "usw2-az2", Zone: a, Until: soon}}},
		{what: "renewed", shifts: []simclient.ZonalShift{{AwayFrom: "usw2-az2", Until: later}}, zones: []string{b},
			said: []events.ZonalShift{{ZoneID: "usw2-az2", Zone: a, Until: later}}},
		{what: "another besides, that is not applied", shifts: []simclient.ZonalShift{{AwayFrom: "usw2-az1", Until: soon}, {AwayFrom: "usw2-az2", Autoshift: true, NotApplied: true}},
			zones: []string{a}, said: []events.ZonalShift{{ZoneID: "usw2-az1", Zone: b, Until: soon}}},
		{what: "the first of two cancelled", shifts: []simclient.ZonalShift{{AwayFrom: "usw2-az2", Autoshift: true}}, zones: []string{b},
			said: []events.ZonalShift{{ZoneID: "usw2-az2", Zone: a}}},
		{what: "a zone without subnets, and back", shifts: []simclient.ZonalShift{{AwayFrom: "usw2-az4", Until: soon}}, zones: []string{a, b}},
	}
	for _, step := range steps {
		r.control("PUT", "zonalshifts", simclient.ZonalShifts{Shifts: step.shifts})
		r.poll("zonal_shifts", "nodeclasses")
		ref, zones := r.ref()
		if !slices.Equal(zones, step.zones) || !slices.Equal(ref.ZonalShifts, step.said) {
			t.Errorf("%s: available in %v, want %v; said %v, want %v", step.what, zones, step.zones, ref.ZonalShifts, step.said)
		}
	}
	r.control("PUT", "zonalshifts", simclient.ZonalShifts{Shifts: []simclient.ZonalShift{{AwayFrom: "usw2-az2", Until: soon}}})
	r.poll("zonal_shifts", "nodeclasses")
	r.ref()
	r.control("POST", "faults", simclient.Fault{Action: "GetManagedResource", Code: "InternalServerException", Status: http.StatusInternalServerError})
	if err := r.task("zonal_shifts").poll(context.Background()); err == nil {
		t.Fatal("ARC answered")
	}
	r.poll("nodeclasses")
	if got := r.out.take(events.KindCatalog); len(got) > 0 {
		t.Errorf("an error of ARC changed the catalogue: %+v", got)
	}
	now = soon
	r.poll("nodeclasses")
	if ref, zones := r.ref(); !slices.Equal(zones, []string{a, b}) || len(ref.ZonalShifts) > 0 {
		t.Errorf("the shift has ended: available in %v, said %v", zones, ref.ZonalShifts)
	}
}

// TestReservedCapacityOfAShiftedZoneIsNotAvailable either.
func TestReservedCapacityOfAShiftedZoneIsNotAvailable(t *testing.T) {
	r := shiftRig(t, nothingKnown)
	r.control("POST", "reservations", simclient.Reservation{ID: "cr-1", InstanceType: "m5.large", Zone: "us-west-2a", Count: 2})
	r.control("PUT", "zonalshifts", simclient.ZonalShifts{Shifts: []simclient.ZonalShift{{AwayFrom: "usw2-az2", Autoshift: true}}})
	r.classes[0].Status.CapacityReservations = []karpawsv1.CapacityReservation{{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-west-2a", ReservationType: "default", State: "active"}}
	r.poll("instance_types", "capacity_reservations", "zonal_shifts", "nodeclasses")
	for _, o := range typeOf(t, r.catalog(), "m5.large").Offerings {
		if o.Available != (o.Zone == "us-west-2b") {
			t.Errorf("%s in %s: available %v", o.CapacityType, o.Zone, o.Available)
		}
	}
}

// TestShiftsKnownBeforeCountWhileARCIsSilent: a process that starts while ARC does not answer goes by what
// was published before, until it ends; one that finds nothing known offers all zones.
func TestShiftsKnownBeforeCountWhileARCIsSilent(t *testing.T) {
	for title, c := range map[string]struct {
		known []events.ZonalShift
		// ready: the World is known after so long; never with a negative one.
		ready time.Duration
		zones []string
	}{
		"a shift that goes on":         {[]events.ZonalShift{{ZoneID: "usw2-az2", Zone: "us-west-2a"}}, 0, []string{"us-west-2b"}},
		"it is read late":              {[]events.ZonalShift{{ZoneID: "usw2-az2"}}, 10 * time.Second, []string{"us-west-2b"}},
		"a shift that has ended since": {[]events.ZonalShift{{ZoneID: "usw2-az2", Until: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}}, 0, []string{"us-west-2a", "us-west-2b"}},
		"nothing":                      {nil, 0, []string{"us-west-2a", "us-west-2b"}},
		"no World at all":              {nil, -1, []string{"us-west-2a", "us-west-2b"}},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r := shiftRig(t, func() ([]events.ZonalShift, bool) { return c.known, c.ready >= 0 && time.Since(began) >= c.ready })
				r.control("POST", "faults", simclient.Fault{Action: "GetManagedResource", Code: "InternalServerException", Status: http.StatusInternalServerError})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { _ = r.Run(ctx); close(done) }()
				time.Sleep(max(c.ready, 0) + 5*time.Second)
				if c.ready < 0 {
					time.Sleep(recallWithin)
				}
				synctest.Wait()
				if _, zones := r.ref(); !slices.Equal(zones, c.zones) || !r.Synced() {
					t.Errorf("available in %v, want %v; synced: %v", zones, c.zones, r.Synced())
				}
				cancel()
				<-done
			})
		})
	}
}

// A process that was made while the clock was ahead waits no longer for what was known.
func TestShiftsAreNotWaitedForLongerAfterTheClockWasSetBack(t *testing.T) {
	r := shiftRig(t, func() ([]events.ZonalShift, bool) { return nil, false })
	r.began = r.began.Add(30 * 24 * time.Hour)
	if err := r.recallShifts(); err != nil {
		t.Error(err)
	}
}

// TestAClusterThatARCDoesNotKnow is told so, and offered all zones.
func TestAClusterThatARCDoesNotKnow(t *testing.T) {
	r := shiftRig(t, nothingKnown)
	r.control("PUT", "zonalshifts", simclient.ZonalShifts{Disabled: true})
	err := r.task("zonal_shifts").pollPatiently(context.Background())
	if err == nil || !strings.Contains(err.Error(), "zonal shift is not enabled for the cluster") {
		t.Fatal(err)
	}
	r.poll("instance_types", "nodeclasses")
	if _, zones := r.ref(); len(zones) != 2 {
		t.Errorf("available in %v", zones)
	}
}
