package packing

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"millwright/planner/resource"
)

// siteFor looks at each site for the one with room that the parcel leaves with the least.
func siteFor(k *Model, a *Parcel, by fit) *Site {
	var best *Site
	least := int64(0)
	need := &a.pod.Class.Requests
	for _, x := range k.sites {
		k.steps--
		if x.gone || !need.Add(x.used).Fits(x.Room) || !allows(x.Node, a.pod.Class.Spec) {
			continue
		}
		if by == firstFit {
			best = x
			break
		}
		if left := x.left(need, by); best == nil || left < least {
			best, least = x, left
		}
	}
	if best != nil {
		best.used = best.used.Add(*need)
	}
	return best
}

// slowly is repack by a look at every parcel and every site for each recipe.
func slowly(k *Model) bool {
	before := make([]*Site, 0, len(k.parcels[byCPU]))
	for _, a := range k.parcels[byCPU] {
		before = append(before, a.at)
	}
	for _, r := range recipes {
		for _, x := range k.sites {
			x.used = resource.Vector{}
		}
		found := true
		for _, a := range k.parcels[r.order] {
			if !a.home.gone {
				a.at = a.home
			} else if a.at = siteFor(k, a, r.fit); a.at == nil {
				found = false
				break
			}
		}
		if found {
			return true
		}
	}
	for i, a := range k.parcels[byCPU] {
		a.at = before[i]
	}
	return false
}

// TestRepackLooksAtWhatMovesAlone: it finds what a look at all parcels finds, in as many steps, whatever
// sites have gone or come back.
func TestRepackLooksAtWhatMovesAlone(t *testing.T) {
	packed := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]nodeOf, rapid.IntRange(2, 40).Draw(t, "nodes"))
		for i := range nodes {
			n := &nodes[i]
			n.price, n.candidate = rapid.Int64Range(1, 5).Draw(t, "price")*50_000, rapid.IntRange(0, 9).Draw(t, "candidate") > 0
			n.free = resource.Vector{MilliCPU: rapid.Int64Range(0, 4000).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 8192).Draw(t, "memory") << 20, Pods: 40}
			for j := range rapid.IntRange(0, 4).Draw(t, "pods") {
				z := rapid.SampledFrom([][2]int64{{100, 1024}, {500, 256}, {500, 1024}, {1500, 512}}).Draw(t, "size")
				pod := podOf(fmt.Sprintf("%03d-%d", i, j), z[0], z[1])
				if rapid.IntRange(0, 5).Draw(t, "tolerates") == 0 {
					pod.Class.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				}
				if rapid.IntRange(0, 5).Draw(t, "needs GPU") == 0 {
					pod.Class.Requests.Set("gpu", 1)
				}
				n.pods = append(n.pods, pod)
			}
			if rapid.IntRange(0, 5).Draw(t, "has GPUs") == 0 {
				n.free.Set("gpu", 2)
			}
		}
		fast, slow := modelOf(1_000_000, nodes), modelOf(1_000_000, nodes)
		for i := range nodes {
			if rapid.IntRange(0, 5).Draw(t, "tainted") == 0 {
				fast.sites[i].Node.Taints = []corev1.Taint{{Key: "only", Effect: corev1.TaintEffectNoSchedule}}
				slow.sites[i].Node.Taints = fast.sites[i].Node.Taints
			}
		}
		fast.arrange()
		slow.arrange()
		for range rapid.IntRange(1, 12).Draw(t, "flips") {
			var a, b []*Site
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(nodes)-1), 1, 3, rapid.ID).Draw(t, "sites") {
				if fast.sites[i].Candidate {
					a, b = append(a, fast.sites[i]), append(b, slow.sites[i])
				}
			}
			turn := func(list []*Site) {
				for _, x := range list {
					x.gone = !x.gone
				}
			}
			turn(a)
			turn(b)
			got, want := fast.repack(a), slowly(slow)
			if !got {
				turn(a)
				turn(b)
			}
			packed[got]++
			for i, p := range fast.parcels[byCPU] {
				q := slow.parcels[byCPU][i]
				if got != want || fast.steps != slow.steps || p.pod.UID != q.pod.UID || p.at.index != q.at.index {
					t.Fatalf("%t instead of %t, %d steps left instead of %d, %s is on %d instead of %d", got, want, fast.steps, slow.steps, p.pod.UID, p.at.index, q.at.index)
				}
			}
		}
	})
	if packed[true] == 0 || packed[false] == 0 {
		t.Errorf("it found places %d times, and %d times none", packed[true], packed[false])
	}
}
