package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/version"
)

func replicaOf(owner string, i int) *Pod {
	return &Pod{UID: types.UID(fmt.Sprintf("%s-%05d", owner, i)), Name: fmt.Sprint(owner, i), NodeName: "n", EvictedAt: 1e18, Phase: corev1.PodRunning,
		Class: &PodClass{OwnerKind: "ReplicaSet", OwnerAPIVersion: "apps/v1", OwnerUID: types.UID(owner)}}
}

// TestDepartedPodsAreBounded: by number, by time, and by time of a clock that was set back; a version keeps
// what it had.
func TestDepartedPodsAreBounded(t *testing.T) {
	d, o := newDeparted(), new(version.Owner)
	at := time.Unix(1e9, 0)
	for i := range departedMax + 10 {
		d.gone(o, replicaOf(fmt.Sprint("web-", i%7), i), at.Add(time.Duration(i)*time.Millisecond))
	}
	if n := len(d.Departed()); n != departedMax {
		t.Fatalf("%d pods have departed, want the first %d", n, departedMax)
	}
	earlier := d
	o = new(version.Owner)
	if d.prune(o, at.Add(DepartedFor-time.Millisecond)) {
		t.Error("a pod was dropped too early")
	}
	if !d.prune(o, at.Add(DepartedFor+11*time.Millisecond)) || len(d.Departed()) != departedMax-12 {
		t.Errorf("%d pods are still there, want all but those that went two minutes ago", len(d.Departed()))
	}
	d.gone(o, replicaOf("web-0", 9_999), at)
	if got := earlier.Departed(); len(got) != departedMax || slices.ContainsFunc(got, func(p *Pod) bool { return p.UID == "web-0-09999" }) {
		t.Error("an earlier version has changed")
	}
	if d.prune(o, at.Add(-time.Hour)); d.count != 0 || d.byOwner.Len() != 0 {
		t.Errorf("%d pods of %d owners went in the future", d.count, d.byOwner.Len())
	}
}

// TestAPodThatNeverEndsIsDropped: one whose object stays is held for two minutes after it should have gone.
func TestAPodThatNeverEndsIsDropped(t *testing.T) {
	d, o := newDeparted(), new(version.Owner)
	p := replicaOf("web", 0)
	p.Deleting = time.Unix(1e9, 0).UnixNano()
	d.observe(o, replicaOf("web", 0), p)
	if d.prune(o, time.Unix(1e9, 0).Add(DepartedFor-1)) || len(d.Departed()) != 1 {
		t.Error("it was dropped too early, or never taken in")
	}
	if !d.prune(o, time.Unix(1e9, 0).Add(DepartedFor)) || len(d.Departed()) != 0 {
		t.Error("it is held for ever")
	}
}

// TestEachSuccessorReleasesOnePod: whatever the order in which pods of several owners are evicted, go and are
// created again, each owner has as many departed pods as it had evictions without a new pod since.
func TestEachSuccessorReleasesOnePod(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		d, o := newDeparted(), new(version.Owner)
		owed, running := map[string]int{}, map[string][]*Pod{}
		for i := range 400 {
			owner := fmt.Sprint("web", random.IntN(3))
			switch list := running[owner]; {
			case len(list) == 0 || random.IntN(2) == 0:
				p := replicaOf(owner, i)
				p.EvictedAt, p.Created = 0, 1e18
				d.observe(o, &Pod{}, p)
				if p.Successor != (owed[owner] > 0) {
					t.Fatalf("seed %d: pod %d is a successor: %t, of %d pods to create", seed, i, p.Successor, owed[owner])
				}
				owed[owner] = max(0, owed[owner]-1)
				running[owner] = append(list, p)
			default:
				at := random.IntN(len(list))
				before, after := list[at], *list[at]
				running[owner] = slices.Delete(list, at, at+1)
				after.EvictedAt, after.Deleting = 1e18, 1e18
				owed[owner]++
				switch random.IntN(3) {
				case 0: // it goes at once
					after.Deleting = 0
					d.gone(o, &after, time.Unix(1e9, 0))
				case 1:
					d.observe(o, before, &after)
				case 2:
					d.observe(o, before, &after)
					d.gone(o, &after, time.Unix(1e9, 0))
				}
			}
			for owner, n := range owed {
				if list, _ := d.byOwner.Get(types.UID(owner)); len(list) != n {
					t.Fatalf("seed %d, step %d: %d pods of %s have departed, want %d", seed, i, len(list), owner, n)
				}
			}
		}
	}
}

// TestAPodThatAnEarlierProgramSawGoIsNotDeparted: its checkpoints do not say that pods were evicted, nor in
// place of which others came.
func TestAPodThatAnEarlierProgramSawGoIsNotDeparted(t *testing.T) {
	d, o := newDeparted(), new(version.Owner)
	before, after := replicaOf("web", 0), replicaOf("web", 0)
	before.EvictedAt, before.Deleting, after.Deleting = 0, 1e18, 1e18
	d.observe(o, before, after)
	d.gone(o, after, time.Unix(1e9, 0))
	if d.count != 0 {
		t.Error("it counts, though another pod may have come in its place before")
	}
}
