package world_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"millwright/events"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

func fold(w *world.World, messages []events.Observation, from uint64) *world.World {
	for i, o := range messages {
		w.Apply(from+uint64(i)+1, o)
	}
	return w
}

func checkpoint(t rapid.TB, w *world.World) []byte {
	t.Helper()
	b, err := w.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFoldFromCheckpointEqualsFoldFromZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := pt.History(t)
		cut := rapid.IntRange(0, len(messages)).Draw(t, "cut")
		whole := fold(world.New(), messages, 0)
		restored, err := world.Restore(checkpoint(t, fold(world.New(), messages[:cut], 0)))
		if err != nil {
			t.Fatal(err)
		}
		fold(restored, messages[cut:], uint64(cut))
		if !bytes.Equal(checkpoint(t, whole), checkpoint(t, restored)) {
			t.Fatal("checkpoints differ")
		}
		if a, b := view(whole), view(restored); a != b {
			t.Fatalf("views differ:\n%s\n%s", a, b)
		}
	})
}

// TestVersionsStayAsTheyWereTaken: whatever is folded later, whoever has read them meanwhile, and however the
// live World is read.
func TestVersionsStayAsTheyWereTaken(t *testing.T) {
	type taken struct {
		*world.World
		view       string
		checkpoint []byte
	}
	rapid.Check(t, func(t *rapid.T) {
		live := world.New()
		var versions []taken
		for i, o := range pt.History(t) {
			live.Apply(uint64(i)+1, o)
			switch rapid.IntRange(0, 5).Draw(t, "then") {
			case 0: // read only at the end
				v := live.Version()
				versions = append(versions, taken{v, view(live), checkpoint(t, live)})
			case 1:
				v := live.Version()
				versions = append(versions, taken{v, view(v), checkpoint(t, v)})
			case 2:
				if v := live.Version(); v != live.Version() || v != v.Version() {
					t.Fatal("two versions of one World")
				}
			}
		}
		for i, v := range versions {
			if !bytes.Equal(checkpoint(t, v.World), v.checkpoint) {
				t.Fatalf("version %d has another checkpoint than when it was taken", i)
			}
			if got := view(v.World); got != v.view {
				t.Fatalf("version %d was\n%s\nis\n%s", i, v.view, got)
			}
		}
	})
}

func TestVersionsCannotBeChanged(t *testing.T) {
	v := pt.New().World.Version()
	defer func() {
		if recover() == nil {
			t.Error("a version was changed")
		}
	}()
	v.Apply(v.Position().Sequence+1, events.Observation{Epoch: 9, Counter: 1, Op: events.OpResyncBegin})
}

// view is what planners see, as text: all that does not depend on how the World came to be.
func view(w *world.World) string {
	v := map[string]any{"claims": w.NodeClaims(), "pools": w.NodePools(), "unreadable": w.Unreadable(), "price": w.Price("m5.large", "on-demand", "x"), "classes": w.ClassCount()}
	var nodes []any
	for _, n := range w.Nodes() {
		nodes = append(nodes, n, podNames(w.PodsOn(n.Object.Name)))
	}
	var pods []any
	for _, p := range w.Pods() {
		pods = append(pods, p)
	}
	v["nodes"], v["pods"], v["pending"] = nodes, pods, podNames(w.PendingPods())
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestSumsEqualThePods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := fold(world.New(), pt.History(t), 0)
		refs := 0
		for _, n := range w.Nodes() {
			var cpu, daemon int64
			for _, p := range w.PodsOn(n.Object.Name) {
				if p.Terminal() {
					continue
				}
				cpu += p.Class.Requests.MilliCPU
				if p.Class.DaemonSetOwned() {
					daemon += p.Class.Requests.MilliCPU
				}
			}
			if n.Used.MilliCPU != cpu || n.DaemonUsed.MilliCPU != daemon {
				t.Fatalf("node %s: sums %d and %d, pods say %d and %d", n.Object.Name, n.Used.MilliCPU, n.DaemonUsed.MilliCPU, cpu, daemon)
			}
		}
		for _, c := range w.Classes() {
			refs += w.PodsOfClass(c.Digest)
		}
		if refs != w.PodCount() {
			t.Fatalf("%d references to classes, %d pods", refs, w.PodCount())
		}
	})
}

// A bus that loses, repeats and reorders messages costs time, never truth: after one whole resync the World
// is what it would have been without faults.
func TestResyncAfterFaultsGivesTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := pt.History(t)
		last := 0
		for i, o := range messages {
			if o.Op == events.OpResyncBegin {
				last = i
			}
		}
		faulty := world.New()
		sequence := uint64(0)
		for _, o := range messages[:last] {
			for range rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(t, "copies") {
				sequence++
				faulty.Apply(sequence, o)
			}
			if rapid.IntRange(0, 5).Draw(t, "late") == 0 {
				sequence++
				faulty.Apply(sequence, messages[rapid.IntRange(0, last-1).Draw(t, "which")])
			}
		}
		fold(faulty, messages[last:], sequence)
		clean := fold(world.New(), messages, 0)
		if a, b := view(clean), view(faulty); a != b {
			t.Fatalf("views differ:\n%s\n%s", a, b)
		}
		if faulty.Torn() || !faulty.Synced() {
			t.Fatalf("torn %v, synced %v after a whole resync", faulty.Torn(), faulty.Synced())
		}
	})
}

func TestAnyOrderOfMessagesIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.Permutation(pt.History(t)).Draw(t, "order")
		w := fold(world.New(), messages, 0)
		if _, err := world.Restore(checkpoint(t, w)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzRestoreNeverPanics(f *testing.F) {
	c := pt.New(append(pt.WithCatalogue(), pt.Node("a", pt.InPool("p")), pt.Pod("x", pt.On("a")), pt.Pool("p"), pt.Claim("c", "a", "p"))...)
	data, err := c.World.Checkpoint()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := world.Restore(data)
		if err == nil {
			w.Nodes()
			w.PendingPods()
		}
	})
}

func TestRestoreRefusesWhatItCannotRead(t *testing.T) {
	c := pt.New(pt.Node("a"))
	data := checkpoint(t, c.World)
	for name, bad := range map[string][]byte{
		"nothing": nil, "noise": []byte("noise and more of it"), "half": data[:len(data)-3], "more": append(bytes.Clone(data), 0),
		"another version": append(append([]byte{}, data[:7]...), append([]byte{9}, data[8:]...)...),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := world.Restore(bad); err == nil {
				t.Error("restored")
			}
		})
	}
}

func TestRestoreSurvivesBitFlips(t *testing.T) {
	c := pt.New(pt.Node("a", pt.InPool("p")), pt.Pod("x", pt.On("a")), pt.Pod("y", pt.Unschedulable()), pt.Pool("p"), pt.Claim("c", "a", "p"))
	data := checkpoint(t, c.World)
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(data)
		for range rapid.IntRange(1, 4).Draw(t, "flips") {
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "with"))
		}
		if w, err := world.Restore(bad); err == nil {
			w.Nodes()
			w.PendingPods()
			w.NamedRecords("log").Highest()
		}
	})
}
