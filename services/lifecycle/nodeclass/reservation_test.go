package nodeclass

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
)

func reservedClass() *awsv1.EC2NodeClass {
	nc := class()
	nc.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{InstanceMatchCriteria: "open"}}
	return nc
}

// TestReservationsInTheStatus: what ended is left out, what is not known is skipped and said, a block near
// its end expires (ec2 §2.5).
func TestReservationsInTheStatus(t *testing.T) {
	w := newWorld(t)
	end := w.now.Add(30 * time.Second)
	plain := ec2.CapacityReservation{ID: "cr-1", OwnerID: "111122223333", InstanceType: "m5.large", Zone: "a", MatchCriteria: "open", Type: "default"}
	with := func(id string, change func(*ec2.CapacityReservation)) ec2.CapacityReservation {
		r := plain
		r.ID = id
		change(&r)
		return r
	}
	w.reservations = []ec2.CapacityReservation{
		plain,
		with("cr-2", func(r *ec2.CapacityReservation) { r.Type, r.End = "capacity-block", w.now.Add(40*time.Minute) }),
		with("cr-3", func(r *ec2.CapacityReservation) { r.Type, r.End = "capacity-block", w.now.Add(41*time.Minute) }),
		with("cr-4", func(r *ec2.CapacityReservation) { r.End = w.now }),
		with("cr-5", func(r *ec2.CapacityReservation) { r.End = end }),
		with("cr-6", func(r *ec2.CapacityReservation) { r.Type = "future" }),
		with("cr-7", func(r *ec2.CapacityReservation) { r.Interruptible = true }),
	}
	change, again, err := w.Reconcile(t.Context(), reservedClass(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range change.Object.Status.CapacityReservations {
		text := r.ID + " " + r.ReservationType + " " + r.State
		if r.Interruptible {
			text += " interruptible"
		}
		got = append(got, text)
	}
	want := []string{"cr-1 default active", "cr-2 capacity-block expiring", "cr-3 capacity-block active", "cr-5 default active", "cr-7 default active interruptible"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if again != 30*time.Second {
		t.Errorf("looked at again in %v, want at the end of cr-5", again)
	}
	if !slices.ContainsFunc(change.Events, func(e service.KubeEvent) bool { return e.Reason == "ResolutionIncomplete" }) {
		t.Errorf("cr-6 is skipped without a word: %v", change.Events)
	}
}

func TestReservationsKeepTheirStatusWhileEC2CannotBeAsked(t *testing.T) {
	w := newWorld(t)
	w.reservations = []ec2.CapacityReservation{{ID: "cr-1", MatchCriteria: "open", Type: "default"}}
	first := w.reconcile(t, reservedClass())
	w.now = w.now.Add(2 * time.Minute)
	w.fail = map[string]error{"reservations": errors.New("away")}
	change, _, err := w.Reconcile(t.Context(), first.Object, nil)
	if err == nil || len(change.Object.Status.CapacityReservations) != 1 || Ready(change.Object) != nil {
		t.Errorf("error %v, status %v, ready %v", err, change.Object.Status.CapacityReservations, Ready(change.Object))
	}
	// Without terms EC2 is not asked.
	if c := w.reconcile(t, class()); len(c.Object.Status.CapacityReservations) != 0 || Ready(c.Object) != nil {
		t.Errorf("no terms: %v, ready %v", c.Object.Status.CapacityReservations, Ready(c.Object))
	}
}
