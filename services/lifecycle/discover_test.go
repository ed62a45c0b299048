package lifecycle

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
)

// newMemoryRig has a NodeClass with an image, and Nodes that have less memory than was estimated.
func newMemoryRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.setImages("ami-1")
	r.nodeMemory = resource.MustParse("7900Mi")
	return r
}

// setImages gives the NodeClass images, in cluster and World.
func (r *rig) setImages(ids ...string) {
	class := r.kube.classes["default"].DeepCopy()
	class.Status.AMIs = nil
	for _, id := range ids {
		class.Status.AMIs = append(class.Status.AMIs, awsv1.AMI{ID: id})
	}
	r.kube.put(&r.kube.classes, class)
	r.observe(r.messages+1, events.Observation{Kind: events.KindEC2NodeClass, Op: events.OpUpsert, UID: class.UID, Name: class.Name, ResourceVersion: class.ResourceVersion, Object: class})
}

// memoryOf is what planners think a type has, in MiB.
func (r *rig) memoryOf(name string) int64 {
	return planner.NewSnapshot(r.w, r.led, r.now).World.Catalog("default").Type(name).Capacity.Memory >> 20
}

// The memory that a Node has when it registers is recorded once, and planners and launches go by it from
// then on, also under the next leader; with other images it is estimated again (ec2 §1.2).
func TestTheMemoryThatNodesHaveIsRemembered(t *testing.T) {
	r := newMemoryRig(t)
	if got := r.memoryOf("c5.large"); got != 8192 {
		t.Fatalf("%d MiB are estimated", got)
	}
	first := r.plan()
	r.run("first ready", r.ready(first))
	second := r.plan()
	r.run("second ready", r.ready(second))
	if n := r.count(ledger.KindMemoryDiscovered); n != 1 {
		t.Errorf("it is recorded %d times: %v", n, r.kinds())
	}
	if got := r.memoryOf("c5.large"); got != 7900 {
		t.Errorf("planners go by %d MiB", got)
	}
	if got := r.memoryOf("m5.large"); got != 8192 {
		t.Errorf("of the other type planners go by %d MiB", got)
	}
	r.restart()
	third := r.plan()
	r.run("third ready", r.ready(third))
	if got := r.kube.claims[third].Status.Capacity.Memory().Value() >> 20; got != 7900 {
		t.Errorf("the next leader's claim expects %d MiB", got)
	}
	if got := r.kube.claims[first].Status.Capacity.Memory().Value() >> 20; got != 8192 {
		t.Errorf("the first claim expected %d MiB", got)
	}
	r.setImages("ami-2", "ami-1")
	if got := r.memoryOf("c5.large"); got != 8192 {
		t.Errorf("with other images planners go by %d MiB", got)
	}
	r.run("fourth ready", r.ready(r.plan()))
	if n := r.count(ledger.KindMemoryDiscovered); n != 1 {
		t.Errorf("a Node with an image that its class would not choose now was recorded: %v", r.kinds())
	}
}

// A Node with less says more, one with more says nothing, and after a day it is worth saying that it is
// still so.
func TestTheLeastMemoryIsRemembered(t *testing.T) {
	r := newMemoryRig(t)
	ready := func(memory string, records int, want int64) {
		t.Helper()
		r.nodeMemory = resource.MustParse(memory)
		r.run("ready", r.ready(r.plan()))
		if n := r.count(ledger.KindMemoryDiscovered); n != records || r.memoryOf("c5.large") != want {
			t.Errorf("with %s: %d records, %d MiB; want %d, %d", memory, n, r.memoryOf("c5.large"), records, want)
		}
	}
	ready("7900Mi", 1, 7900)
	ready("8000Mi", 1, 7900)
	ready("7800Mi", 2, 7800)
	r.now = r.now.Add(25 * time.Hour)
	ready("7800Mi", 3, 7800)
	r.now = r.now.Add(59 * 24 * time.Hour)
	ready("7850Mi", 3, 7800)
}
