package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/tools/ec2sim/simclient"
)

const (
	labelCapacityType = "karpenter.sh/capacity-type"
	labelReservation  = "karpenter.k8s.aws/capacity-reservation-id"
)

// TestReservedCapacityFirst: pods run in a capacity reservation until it is full, then on capacity that is
// bought; reserved capacity that becomes free is used again.
func TestReservedCapacityFirst(t *testing.T) {
	e := start(t, nil)
	r, err := e.ec2.AddReservation(e.Context(), simclient.Reservation{InstanceType: "m5.xlarge", Zone: "us-west-2a", Count: 2, Tags: map[string]string{"team": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	e.apply(defaultClass + "  capacityReservationSelectorTerms: [{tags: {team: web}}]\n")
	e.apply(strings.Replace(defaultPool, "values: [on-demand]", "values: [on-demand, reserved]", 1))
	e.hasCondition(nodeClasses, "default", "CapacityReservationsReady", "True", "")
	// These wait until EC2 has been asked what is free in the reservation.
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
	if err := e.ec2.CancelReservation(e.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	e.eventually("instances of the ended reservation to be labelled on-demand", func() string {
		for _, n := range e.nodes() {
			if n.Labels[labelCapacityType] != "on-demand" || n.Labels[labelReservation] != "" || n.Labels["karpenter.k8s.aws/capacity-reservation-interruptible"] != "" {
				return fmt.Sprintf("node %s: %v", n.Name, n.Labels)
			}
		}
		for _, c := range e.nodeClaims() {
			if l := c.GetLabels(); l[labelCapacityType] != "on-demand" || l[labelReservation] != "" {
				return fmt.Sprintf("nodeclaim %s: %v", c.GetName(), l)
			}
		}
		return ""
	})
	for _, app := range []string{"held", "more"} {
		e.scale(app, 0)
	}
	e.clean()
	e.sound()
}

// TestACapacityBlockIsLeftBeforeItEnds: 40 minutes before a capacity block ends its nodes are replaced,
// before EC2 takes the instances.
func TestACapacityBlockIsLeftBeforeItEnds(t *testing.T) {
	e := start(t, nil)
	const accelerated = "p4d.24xlarge"
	end := time.Now().Add(24 * time.Hour)
	r, err := e.ec2.AddReservation(e.Context(), simclient.Reservation{InstanceType: accelerated, Zone: "us-west-2a", Count: 1, ReservationType: "capacity-block", EndTime: &end})
	if err != nil {
		t.Fatal(err)
	}
	e.apply(defaultClass + "  capacityReservationSelectorTerms: [{id: " + r.ID + "}]\n")
	e.apply(strings.NewReplacer("values: [on-demand]", "values: [on-demand, reserved]", "[c, m, r]", "[c, m, p, r]").Replace(defaultPool))
	e.hasCondition(nodeClasses, "default", "CapacityReservationsReady", "True", "")
	on := func(capacityType string) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: accelerated}
			if capacityType != "" {
				p.Spec.NodeSelector[labelCapacityType] = capacityType
			}
		}
	}
	e.deploy("training", 1, "3", "1Gi", on("reserved"))
	e.running("training", 1)
	block := e.nodeClaims()[0].GetName()
	for _, n := range e.nodes() {
		if n.Labels[labelReservation] != r.ID || n.Labels["karpenter.k8s.aws/capacity-reservation-type"] != "capacity-block" {
			t.Errorf("labels of the node in the block: %v", n.Labels)
		}
	}
	end = time.Now().Add(40 * time.Minute)
	if err := e.ec2.ChangeReservation(e.Context(), r.ID, simclient.ReservationChange{EndTime: &end}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the node in the block to go", func() string {
		for _, c := range e.nodeClaims() {
			if c.GetName() == block {
				return "NodeClaim " + block + " is still there"
			}
		}
		return ""
	})
	out, code := e.millctl("why", "nodeclaim", block)
	if code != 0 || !strings.Contains(out, "capacity block") {
		t.Errorf("why nodeclaim %s: exit %d\n%s", block, code, out)
	}
	if n := len(e.liveInstances()); n != 0 {
		t.Errorf("%d instances run; nothing but the block may take the pod", n)
	}
	e.deploy("bought", 1, "3", "1Gi", on(""))
	e.running("bought", 1)
	for _, n := range e.nodes() {
		if n.Labels[labelCapacityType] != "on-demand" {
			t.Errorf("%s is %s while the block is about to end", n.Name, n.Labels[labelCapacityType])
		}
	}
	for _, app := range []string{"training", "bought"} {
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

// capacityBlock reserves instances for a day; purpose is its tag.
func (e *env) capacityBlock(purpose string, count int) {
	e.Helper()
	end := time.Now().Add(24 * time.Hour)
	_, err := e.ec2.AddReservation(e.Context(), simclient.Reservation{InstanceType: "p4d.24xlarge", Zone: "us-west-2a", Count: count,
		ReservationType: "capacity-block", EndTime: &end, Tags: map[string]string{"purpose": purpose}})
	if err != nil {
		e.Fatal(err)
	}
}
