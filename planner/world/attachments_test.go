package world_test

import (
	"fmt"
	"slices"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

func attachment(name, node string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	a.Spec.NodeName = node
	return a
}

func attached(w *world.World, node string) (names []string) {
	for _, a := range w.VolumeAttachmentsOf(node) {
		names = append(names, a.Name)
	}
	return names
}

// What is attached to a node follows each change, and versions keep what they had.
func TestVolumeAttachmentsByNode(t *testing.T) {
	c := pt.New(attachment("b", "n"), attachment("a", "n"), attachment("c", "m"))
	want := func(what string, w *world.World, node string, names ...string) {
		t.Helper()
		if got := attached(w, node); !slices.Equal(got, names) {
			t.Errorf("%s: %v is attached to %s, want %v", what, got, node, names)
		}
	}
	before := c.World.Version()
	want("at first", c.World, "n", "a", "b")
	c.See(attachment("c", "n"))
	want("one moves", c.World, "n", "a", "b", "c")
	want("one moves", c.World, "m")
	want("an earlier version", before, "m", "c")
	c.Gone(attachment("a", "n"))
	want("one is gone", c.World, "n", "b", "c")
	data, err := c.World.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := world.Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	want("restored", restored, "n", "b", "c")
	c.Resync(attachment("d", "n"))
	want("after a resync", c.World, "n", "d")
}

// BenchmarkVolumeAttachmentsOf asks for all of 5,000 nodes what is attached to each, after a change of one of
// 25,000 attachments.
func BenchmarkVolumeAttachmentsOf(b *testing.B) {
	const nodes, each = 5000, 5
	var all []any
	for i := range nodes * each {
		all = append(all, attachment(fmt.Sprintf("csi-%05d", i), fmt.Sprintf("node-%04d", i%nodes)))
	}
	c := pt.New(all...)
	for b.Loop() {
		c.See(all[0])
		for i := range nodes {
			if len(c.World.VolumeAttachmentsOf(fmt.Sprintf("node-%04d", i))) != each {
				b.Fatal("some are missing")
			}
		}
	}
}
