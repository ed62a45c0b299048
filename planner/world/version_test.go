package world_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

// TestAVersionPer1000Changes is the aim: at 5,000 nodes and 150,000 pods, each version kept costs at most 2 %
// of the World's memory if 1,000 pods and nodes have changed since the one before.
func TestAVersionPer1000Changes(t *testing.T) {
	const pods, nodes, versions, changes, percentMax = 150_000, 5000, 5, 1000, 2
	before := heap()
	w := grown(pods, 500, nodes, t)
	counter := uint64(pods + 1)
	apply := func(object any, version string) {
		counter++
		o := pt.Observe(object)
		o.Epoch, o.Counter, o.ResourceVersion = 1, counter, version
		w.Apply(counter, o)
	}
	for i := range nodes {
		apply(nodeNumber(i), "1")
	}
	w.Nodes()
	base := heap() - before
	var kept []*world.World
	for v := range versions {
		kept = append(kept, w.Version())
		kept[v].Nodes()
		for i := range changes {
			n := (v*changes + i) * 7919
			if i%20 == 0 {
				apply(nodeNumber(n%nodes), fmt.Sprint(v+2))
				continue
			}
			p := replica(n%pods, 500, nodes)
			p.Status.Phase = corev1.PodRunning
			apply(decoded(t, p), fmt.Sprint(v+2))
		}
	}
	// What replaces a changed row would be there without versions too: it is not counted as the cost of one.
	each := (int64(heap()) - int64(before) - int64(base)) / versions
	t.Logf("the World takes %d MiB, each version %d KiB more", base>>20, each>>10)
	if each*100 > int64(base)*percentMax {
		t.Errorf("a version takes %d bytes of %d, at most %d %% wanted", each, base, percentMax)
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(w)
}

func nodeNumber(i int) *corev1.Node {
	return pt.Node(fmt.Sprintf("ip-10-0-%d-%d.us-west-2.compute.internal", i/250, i%250), pt.InPool("default"))
}

func decoded(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	b, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d := &corev1.Pod{}
	if err := d.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	return d
}

// BenchmarkApplyPodWithAVersionEach takes a version after each pod, as if a service looked at every change.
func BenchmarkApplyPodWithAVersionEach(b *testing.B) {
	list := observations(b, 20_000, 500, 1000)
	w := world.New()
	w.Apply(1, events.Observation{Epoch: 1, Counter: 1, Op: events.OpResyncBegin})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		o := list[i%len(list)]
		o.Counter = uint64(i + 2)
		w.Apply(uint64(i+2), o)
		w.Version()
	}
}
