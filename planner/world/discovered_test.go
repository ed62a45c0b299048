package world

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/memory"
)

// A NodeClass's catalogue says how much memory nodes with its images were found to have, and so what pods
// can have of it; those of classes with other images, and the World that was observed, are as they were
// (ec2 §1.2).
func TestCataloguesSayWhatMemoryWasFound(t *testing.T) {
	w, counter := New(), uint64(0)
	apply := func(o events.Observation) {
		counter++
		o.Epoch, o.Counter = 1, counter
		w.Apply(counter, o)
	}
	class := func(name string, images ...string) *awsv1.EC2NodeClass {
		c := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"}}
		for _, id := range images {
			c.Status.AMIs = append(c.Status.AMIs, awsv1.AMI{ID: id})
		}
		return c
	}
	const gib = int64(1) << 30
	see := func(c *awsv1.EC2NodeClass) {
		apply(events.Observation{Kind: events.KindEC2NodeClass, Op: events.OpUpsert, UID: c.UID, Name: c.Name, ResourceVersion: c.ResourceVersion, Object: c})
	}
	for _, name := range []string{"a", "b"} {
		apply(events.Observation{Kind: events.KindCatalog, Op: events.OpUpsert, UID: types.UID(name), Name: name, Object: &events.CatalogRef{NodeClass: name, Hash: "h",
			Catalog: &events.Catalog{NodeClass: name, InstanceTypes: []events.CatalogInstanceType{
				{Name: "m5.large", Capacity: map[string]int64{"memory": 8 * gib}, Overhead: map[string]int64{"memory": gib}},
				{Name: "m5.xlarge", Capacity: map[string]int64{"memory": 16 * gib}},
			}}}})
	}
	see(class("a", "ami-1", "ami-2"))
	see(class("b", "ami-3"))
	says := func(w *World, class string, want int64) {
		t.Helper()
		m5 := w.Catalog(class).Type("m5.large")
		if m5.Capacity.Memory != want || m5.Allocatable.Memory != want-gib {
			t.Errorf("of class %s an m5.large has %d, pods %d; want %d", class, m5.Capacity.Memory, m5.Allocatable.Memory, want)
		}
		if xl := w.Catalog(class).Type("m5.xlarge"); xl.Capacity.Memory != 16*gib {
			t.Errorf("an m5.xlarge has %d", xl.Capacity.Memory)
		}
	}
	table := memory.Restore([]memory.Amount{{Key: memory.Key{InstanceType: "m5.large", Images: memory.Images([]string{"ami-2", "ami-1"})}, Bytes: 7 * gib}, {Key: memory.Key{InstanceType: "gone", Images: "x"}}})
	with := WithMemory(w, table)
	says(with, "a", 7*gib)
	says(with, "b", 8*gib)
	says(w, "a", 8*gib)
	if WithMemory(w, table).Catalog("a") != with.Catalog("a") {
		t.Error("the same catalogue is built again")
	}
	if WithMemory(w, nil) != w {
		t.Error("without anything found there is another World")
	}
	with.Overlaid(0, func() *OverlaidPools {
		return &OverlaidPools{Problems: []OverlayProblem{{Reason: with.Catalog("a").NodeClass}}}
	})
	if again := w.Overlaid(0, func() *OverlaidPools { return &OverlaidPools{} }); len(again.Problems) != 0 {
		t.Error("pools made with what was found are those of the World that was observed")
	}
	next := class("a", "ami-4") // a new release
	next.ResourceVersion = "2"
	see(next)
	says(WithMemory(w, table), "a", 8*gib)
	says(with, "a", 7*gib)
}
