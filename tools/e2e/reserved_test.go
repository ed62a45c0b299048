package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/tools/ec2sim/simclient"
)

const (
	labelCapacityType = "karpenter.sh/capacity-type"
	labelReservation  = "karpenter.k8s.aws/capacity-reservation-id"
)

// TestReservedCapacityFirst: pods run in a capacity reservation until it is full, then on bought
// capacity; what is given back is used again.
func TestReservedCapacityFirst(t *testing.T) {
	e := start(t, nil)
	r, err := e.ec2.AddReservation(e.Context(), simclient.Reservation{InstanceType: "m5.xlarge", Zone: "us-west-2a", Count: 2, Tags: map[string]string{"team": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	e.apply(defaultClass + "  capacityReservationSelectorTerms: [{tags: {team: web}}]\n")
	e.apply(strings.Replace(defaultPool, "values: [on-demand]", "values: [on-demand, reserved]", 1))
	e.hasCondition(nodeClasses, "default", "CapacityReservationsReady", "True", "")
	// These wait until EC2 has been asked what is free.
	held := func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{labelCapacityType: "reserved"}
	}
	e.deploy("held", 2, "3", "1Gi", held)
	e.running("held", 2)
	e.reserved(r.ID, 2)
	e.deploy("more", 1, "3", "1Gi")
	e.running("more", 1)
	for _, n := range e.nodes() {
		if n.Labels[labelCapacityType] == "on-demand" && n.Labels[labelReservation] == "" {
			out, code := e.millctl("why", "node", n.Name)
			if code != 0 || !strings.Contains(out, "capacity reservation "+r.ID+": 0 free") {
				t.Errorf("why node %s: exit %d, nothing of the full reservation\n%s", n.Name, code, out)
			}
		}
	}
	for _, c := range e.nodeClaims() {
		if c.GetLabels()[labelReservation] != "" {
			out, code := e.millctl("why", "nodeclaim", c.GetName())
			if code != 0 || !strings.Contains(out, "reservation "+r.ID) {
				t.Errorf("why nodeclaim %s: exit %d, nothing of its reservation\n%s", c.GetName(), code, out)
			}
		}
	}
	e.scale("held", 1)
	e.reserved(r.ID, 1)
	e.scale("held", 2)
	e.running("held", 2)
	e.reserved(r.ID, 2)
	e.matched()
	for _, app := range []string{"held", "more"} {
		e.scale(app, 0)
	}
	e.clean()
	e.sound()
}

// reserved waits until n nodes, their NodeClaims and their instances are in a capacity reservation.
func (e *env) reserved(id string, n int) {
	e.Helper()
	e.eventually("nodes in the capacity reservation", func() string {
		nodes, claims, instances := 0, 0, 0
		for _, x := range e.nodes() {
			if x.Labels[labelCapacityType] == "reserved" && x.Labels[labelReservation] == id && x.Labels["karpenter.k8s.aws/capacity-reservation-type"] == "default" {
				nodes++
			}
		}
		for _, x := range e.nodeClaims() {
			if l := x.GetLabels(); l[labelCapacityType] == "reserved" && l[labelReservation] == id {
				claims++
			}
		}
		for _, i := range e.liveInstances() {
			if i.ReservationID == id {
				instances++
			}
		}
		if nodes != n || claims != n || instances != n {
			return fmt.Sprintf("%d nodes, %d NodeClaims, %d instances, want %d of each", nodes, claims, instances, n)
		}
		return ""
	})
}
