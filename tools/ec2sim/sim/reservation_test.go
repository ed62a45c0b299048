package sim_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/tools/ec2sim/simclient"
)

// reservedTemplate makes a launch template that targets a reservation.
func (w *world) reservedTemplate(name, id string) {
	w.t.Helper()
	_, err := w.ec2.CreateLaunchTemplate(ctxb(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String(w.image("x86_64")),
			CapacityReservationSpecification: &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
				CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
				CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: aws.String(id)},
			},
		},
	})
	w.must(err)
}

// free is what EC2 reports as free in a reservation.
func (w *world) free(id string) int32 {
	w.t.Helper()
	out, err := w.ec2.DescribeCapacityReservations(ctxb(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}})
	w.must(err)
	return aws.ToInt32(out.CapacityReservations[0].AvailableInstanceCount)
}

func TestLaunchesIntoAReservationCountUntilItIsFull(t *testing.T) {
	w := newWorld(t)
	// Rules about on-demand capacity do not affect reserved capacity.
	w.must(w.control.SetCapacity(ctxb(), simclient.Capacity{Limit: 0}))
	r, err := w.control.AddReservation(ctxb(), simclient.Reservation{InstanceType: "m5.large", Zone: "us-west-2a", Count: 2})
	w.must(err)
	w.reservedTemplate("held", r.ID)
	in := w.fleetInput("held", a, "m5.large")
	in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(3)
	out, err := w.ec2.CreateFleet(ctxb(), in)
	w.must(err)
	if len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 2 || len(out.Errors) != 1 || aws.ToString(out.Errors[0].ErrorCode) != "ReservationCapacityExceeded" {
		t.Fatalf("got %+v, errors %+v; want two instances and one refusal", out.Instances, out.Errors)
	}
	id := out.Instances[0].InstanceIds[0]
	got, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	i := got.Reservations[0].Instances[0]
	if aws.ToString(i.CapacityReservationId) != r.ID || i.CapacityReservationSpecification.CapacityReservationPreference != "capacity-reservations-only" || w.free(r.ID) != 0 {
		t.Fatalf("instance in %q, preference %+v, %d free", aws.ToString(i.CapacityReservationId), i.CapacityReservationSpecification, w.free(r.ID))
	}
	_, err = w.ec2.TerminateInstances(ctxb(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	w.clock.Advance(time.Minute)
	if n := w.free(r.ID); n != 1 {
		t.Fatalf("%d free after the end of one instance, want 1", n)
	}
}

func TestAReservationTakesOnlyItsTypeAndZoneWhileItIsActive(t *testing.T) {
	w := newWorld(t)
	r, err := w.control.AddReservation(ctxb(), simclient.Reservation{ID: "cr-1", InstanceType: "m5.large", Zone: "us-west-2a", Count: 9, Tags: map[string]string{"team": "red"}})
	w.must(err)
	w.reservedTemplate("held", r.ID)
	refused := func(token string, in *ec2.CreateFleetInput) {
		t.Helper()
		in.ClientToken = aws.String(token)
		out, err := w.ec2.CreateFleet(ctxb(), in)
		w.must(err)
		if len(out.Instances) != 0 || len(out.Errors) != 1 || aws.ToString(out.Errors[0].ErrorCode) != "ReservationCapacityExceeded" {
			t.Fatalf("%s: got %+v, errors %+v", token, out.Instances, out.Errors)
		}
	}
	refused("type", w.fleetInput("held", a, "c5.large"))
	refused("zone", w.fleetInput("held", []string{"us-west-2b"}, "m5.large"))
	in := w.fleetInput("held", a, "m5.large")
	in.ClientToken = aws.String("fits")
	id := w.launch(in)
	found := func(state string) int {
		out, err := w.ec2.DescribeCapacityReservations(ctxb(), &ec2.DescribeCapacityReservationsInput{Filters: []ec2types.Filter{
			{Name: aws.String("state"), Values: []string{state}}, {Name: aws.String("tag:team"), Values: []string{"red"}},
		}})
		w.must(err)
		return len(out.CapacityReservations)
	}
	if found("active") != 1 {
		t.Fatal("the reservation is not found by state and tag")
	}
	w.must(w.control.CancelReservation(ctxb(), r.ID))
	refused("ended", w.fleetInput("held", a, "m5.large"))
	got, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	if i := got.Reservations[0].Instances[0]; found("active") != 0 || i.CapacityReservationId != nil {
		t.Fatalf("after its end the reservation is active, or an instance runs in %q", aws.ToString(i.CapacityReservationId))
	}
}
