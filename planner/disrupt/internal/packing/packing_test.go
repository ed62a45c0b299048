package packing

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"millwright/planner"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// nodeOf is a node with a price, room for more pods than its own, and the pods that would have to move.
type nodeOf struct {
	price     int64
	candidate bool
	free      resource.Vector
	pods      []*world.Pod
}

func podOf(uid string, cpu, memory int64) *world.Pod {
	return &world.Pod{UID: types.UID(uid), Class: &world.PodClass{Spec: &corev1.PodSpec{}, Requests: resource.Vector{MilliCPU: cpu, Memory: memory << 20, Pods: 1}}}
}

func modelOf(steps int, nodes []nodeOf) *Model {
	k := New(steps)
	for i, n := range nodes {
		all := n.free
		for _, p := range n.pods {
			all = all.Add(p.Class.Requests)
		}
		node := &planner.StateNode{Name: fmt.Sprintf("n%03d", i), Allocatable: all}
		k.Add(&Site{Node: node, Room: n.free, Price: n.price, Cost: 1 + 128*int64(len(n.pods)), Candidate: n.candidate}, n.pods)
	}
	return k
}

// Whatever is taken away, all pods have places with room for them, nothing but candidates goes, the bill does
// not grow, and the order of nodes is irrelevant.
func TestSolveKeepsAPlaceForEveryPod(t *testing.T) {
	sizes := [][2]int64{{100, 256}, {250, 512}, {500, 1024}, {1000, 2048}, {1500, 4096}}
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]nodeOf, rapid.IntRange(1, 150).Draw(t, "nodes"))
		most := rapid.IntRange(0, 8).Draw(t, "pods of a node")
		for i := range nodes {
			n := &nodes[i]
			n.price, n.candidate = rapid.Int64Range(1, 5).Draw(t, "price")*50_000, rapid.IntRange(0, 9).Draw(t, "candidate") > 0
			n.free = resource.Vector{MilliCPU: rapid.Int64Range(-100, 8000).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 16384).Draw(t, "memory") << 20, Pods: rapid.Int64Range(0, 40).Draw(t, "room")}
			for j := range rapid.IntRange(0, most).Draw(t, "pods") {
				z := rapid.SampledFrom(sizes).Draw(t, "size")
				n.pods = append(n.pods, podOf(fmt.Sprintf("%03d-%d", i, j), z[0], z[1]))
			}
		}
		steps := rapid.SampledFrom([]int{100, 10_000, 400_000}).Draw(t, "steps")
		k := modelOf(steps, nodes)
		before := k.Bill()
		k.Solve()
		if k.Bill() > before {
			t.Fatalf("the bill grew from %d to %d", before, k.Bill())
		}
		checkPlaces(t, k)
		again := modelOf(steps, nodes)
		slices.Reverse(again.sites)
		again.Solve()
		if a, b := namesOfGone(k), namesOfGone(again); !slices.Equal(a, b) {
			t.Fatalf("gone are %v, and in another order of nodes %v", a, b)
		}
	})
}

func checkPlaces(t *rapid.T, k *Model) {
	used := map[string]resource.Vector{}
	places, moved := k.Places(), 0
	for _, x := range k.sites {
		if x.gone && !x.Candidate {
			t.Fatalf("%s is no candidate and gone", x.Node.Name)
		}
		if !x.gone {
			continue
		}
		for _, a := range x.pods {
			at := places[a.pod.UID]
			used[at] = used[at].Add(a.pod.Class.Requests)
			moved++
		}
	}
	if moved != len(places) {
		t.Fatalf("%d pods move, %d have places", moved, len(places))
	}
	for _, x := range k.sites {
		need, moves := used[x.Node.Name]
		if moves && (x.gone || need.MilliCPU > x.Room.MilliCPU || need.Memory > x.Room.Memory || need.Pods > x.Room.Pods) {
			t.Fatalf("%s, gone: %v, has %+v for %+v", x.Node.Name, x.gone, x.Room, need)
		}
	}
}

func namesOfGone(k *Model) (list []string) {
	for _, x := range k.Candidates(true) {
		list = append(list, x.Node.Name)
	}
	return list
}

// Of three nodes exactly one can go: all pods fit on two of them, and not on one.
func TestSolveGivesUpANodeWhosePodsDoNotFitAtFirst(t *testing.T) {
	half := resource.Vector{MilliCPU: 4000, Memory: 8 << 30, Pods: 50}
	lopsided := resource.Vector{MilliCPU: 4000, Memory: 1 << 30, Pods: 50}
	nodes := []nodeOf{
		{price: 100_000, candidate: true, free: lopsided, pods: []*world.Pod{podOf("a", 2000, 6144)}},
		{price: 100_000, candidate: true, free: lopsided, pods: []*world.Pod{podOf("b", 2000, 6144)}},
		{price: 100_000, candidate: true, free: half, pods: []*world.Pod{podOf("c", 2000, 1024)}},
	}
	k := modelOf(100_000, nodes)
	k.Solve()
	if gone := namesOfGone(k); len(gone) != 1 {
		t.Errorf("gone are %v", gone)
	}
}
