package planner_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// statusOf shows the status of the only buffer in one line: replicas, template, conditions.
func statusOf(t *testing.T, c *pt.Cluster) string {
	t.Helper()
	s := c.Snapshot()
	s.Options.CapacityBuffers = true
	status := s.BufferStatus(s.Buffers()[0])
	var text []string
	for _, x := range status.Conditions {
		text = append(text, x.Type+"="+string(x.Status)+" "+x.Reason)
	}
	return strings.Join(text, ", ")
}

// The rules: scheduling §15, api §3.
func TestTheStatusOfABuffer(t *testing.T) {
	c := pt.New(pt.Pool("p"), pt.Buffer("b", 2))
	is := func(want string) {
		t.Helper()
		if got := statusOf(t, c); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	is("ReadyForProvisioning=False PodTemplateNotFound, Provisioning=False NotReadyForProvisioning")
	c.See(pt.PodTemplate("b", "cpu", "1"))
	is("ReadyForProvisioning=True Resolved") // nobody has looked for room yet
	pods := []ledger.PodRef{{UID: "buffer-b-0", Namespace: "default", Name: "capacity-buffer-b-0"}, {UID: "buffer-b-1", Namespace: "default", Name: "capacity-buffer-b-1"}}
	c.AddNode("n", "p")
	c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{
		Placements: []ledger.Placement{{Node: "n", Pods: pods[:1]}}, Refused: []ledger.Refused{{Pods: pods[1:], Reasons: []ledger.Refusal{{Message: "no"}}}},
	})
	is("ReadyForProvisioning=True Resolved, Provisioning=False RequiresNewCapacity")
	c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Node: "elsewhere", Pods: pods[1:]}}})
	is("ReadyForProvisioning=True Resolved, Provisioning=False RequiresNewCapacity")
	c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Claim: "n-claim", Pods: pods[1:]}}})
	is("ReadyForProvisioning=True Resolved, Provisioning=True FitsExistingCapacity")
	c.See(pt.Buffer("b", 0))
	is("ReadyForProvisioning=True Resolved, Provisioning=False BufferEmpty")
	c.Gone(pt.PodTemplate("b"))
	is("ReadyForProvisioning=False PodTemplateNotFound, Provisioning=False NotReadyForProvisioning")
}

// A transition time moves with its status only, the conditions of others stay, and nothing is left to write
// once it is written.
func TestTheStatusOfABufferSettles(t *testing.T) {
	b := pt.Buffer("b", 0)
	foreign := metav1.Condition{Type: "LimitedByQuotas", Status: metav1.ConditionFalse, Reason: "Never"}
	b.Status.Conditions = []metav1.Condition{foreign}
	c := pt.New(pt.Pool("p"), b, pt.PodTemplate("b", "cpu", "1"))
	look := func() bufferv1beta1.CapacityBufferStatus {
		s := c.Snapshot()
		s.Options.CapacityBuffers = true
		return s.BufferStatus(s.Buffers()[0])
	}
	first := look()
	if len(first.Conditions) != 3 || first.Conditions[0] != foreign {
		t.Fatalf("conditions %v", first.Conditions)
	}
	if *first.Replicas != 0 || first.PodTemplateRef.Name != "b" || *first.PodTemplateGeneration != 1 || *first.ProvisioningStrategy != bufferv1beta1.StrategyActiveCapacity {
		t.Errorf("status %+v", first)
	}
	written := pt.Buffer("b", 0)
	written.Status, written.Generation = first, 2
	c.See(written)
	c.Advance(time.Hour)
	second := look()
	for i, x := range second.Conditions[1:] {
		if x.LastTransitionTime != first.Conditions[i+1].LastTransitionTime || x.ObservedGeneration != 2 {
			t.Errorf("condition %+v, was %+v", x, first.Conditions[i+1])
		}
	}
}

func TestVirtualPodsAreBounded(t *testing.T) {
	c := pt.New(pt.PodTemplate("a", "cpu", "1"), pt.Buffer("a", 5), pt.PodTemplate("b", "cpu", "1"), pt.Buffer("b", 2_000_000_000), pt.PodTemplate("c", "cpu", "1"), pt.Buffer("c", 1))
	s := c.Snapshot()
	if n := len(s.Buffers()); n != 0 {
		t.Fatalf("%d buffers count without their gate", n)
	}
	s = c.Snapshot()
	s.Options.CapacityBuffers = true
	var got []int
	uids := map[types.UID]bool{}
	for _, b := range s.Buffers() {
		got = append(got, len(b.Pods))
		for _, p := range b.Pods {
			uids[p.UID] = true
			if !planner.IsVirtual(p.Class) || planner.BufferOf(p.Class) != b.Key() || planner.IsProvisionable(p) {
				t.Fatalf("pod %s", p.Key())
			}
		}
	}
	if got[0] != 5 || got[1] != planner.VirtualPodsMax-5 || got[2] != 0 || len(uids) != planner.VirtualPodsMax {
		t.Errorf("pods %v", got)
	}
}

// A real pod cannot pass for a virtual one.
func TestRealPodsAreNotVirtual(t *testing.T) {
	c := pt.New(pt.Pod("p", pt.Annotation(bufferv1beta1.VirtualPodAnnotation, "true")))
	if planner.IsVirtual(c.World.PendingPods()[0].Class) {
		t.Error("it does")
	}
}
