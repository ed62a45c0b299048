package world_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"millwright/events"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

// unpacked is a file of testdata.
func unpacked(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := r.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCheckpointsOfEarlierProgramsAreRead: the files are checkpoints of one World, each written by a program
// of its time. None of them holds earlier spot prices: those are known only from then on.
func TestCheckpointsOfEarlierProgramsAreRead(t *testing.T) {
	last, err := world.Restore(unpacked(t, "checkpoint-v4.zst"))
	if err != nil {
		t.Fatal(err)
	}
	now := checkpoint(t, last)
	for _, name := range []string{"checkpoint-v2.zst", "checkpoint-v3.zst", "checkpoint-v4.zst"} {
		w, err := world.Restore(unpacked(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(checkpoint(t, w), now) {
			t.Errorf("%s holds another World", name)
		}
		if w.PodCount() != 4 || len(w.Nodes()) != 2 || len(w.Instances()) != 1 || len(w.Unreadable()) != 1 ||
			!w.HasCatalog("default") || w.HasCatalog("lost") || w.CatalogHash("lost") != "h" || w.Catalog("default").Type("m5.large") == nil {
			t.Errorf("%s: %d pods, %d nodes, %d instances, catalogues %v", name, w.PodCount(), len(w.Nodes()), len(w.Instances()), w.CatalogNames())
		}
	}
}

// TestCutCheckpointsAreRefused, at whatever byte they end.
func TestCutCheckpointsAreRefused(t *testing.T) {
	whole := unpacked(t, "checkpoint-v4.zst")
	for n := range whole {
		if _, err := world.Restore(whole[:n]); !errors.Is(err, world.ErrCheckpoint) {
			t.Fatalf("restored from %d of %d bytes: %v", n, len(whole), err)
		}
	}
	broken := errors.New("connection lost")
	for _, n := range []int{0, 5, 9, 1000, len(whole)} {
		in := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken))
		if _, err := world.ReadCheckpoint(in); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// TestTextsThatAreNoUTF8 reach a checkpoint and leave it as they came: clients of the API server may write
// them.
func TestTextsThatAreNoUTF8(t *testing.T) {
	p := pt.Pod("x", pt.Unschedulable(), pt.Annotation("controller.kubernetes.io/pod-deletion-cost", "\xff1"))
	p.Status.Conditions[0].Message = "0/1 nodes: \xc3"
	w := pt.New(p).World
	restored, err := world.Restore(checkpoint(t, w))
	if err != nil {
		t.Fatal(err)
	}
	got, want := restored.Pod(p.UID), w.Pod(p.UID)
	if got.UnschedulableMessage != want.UnschedulableMessage || got.Class.Annotations["controller.kubernetes.io/pod-deletion-cost"] != "\xff1" {
		t.Errorf("restored %q, %q", got.UnschedulableMessage, got.Class.Annotations)
	}
}

// TestARestoredWorldIsOneOfItsOwn: what is folded later does not reach the checkpoint's bytes or another
// restored World.
func TestARestoredWorldIsOneOfItsOwn(t *testing.T) {
	data := unpacked(t, "checkpoint-v4.zst")
	one, err := world.Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	two, err := world.Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	before := checkpoint(t, two)
	one.Apply(one.Position().Sequence+1, events.Observation{Epoch: one.Epoch(), Counter: one.Counter() + 1, Kind: events.KindNode, Op: events.OpDelete, Name: "a"})
	if !bytes.Equal(checkpoint(t, two), before) || bytes.Equal(checkpoint(t, one), before) {
		t.Error("two Worlds restored from one checkpoint are not apart")
	}
}
