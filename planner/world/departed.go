package world

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/version"
)

const (
	// DepartedFor is how long a pod that was evicted counts as departed once it is gone: a controller that
	// has not created another one by then does not mean to.
	DepartedFor = 2 * time.Minute
	// departedMax bounds the departed pods; while there are as many, no further one is taken in.
	departedMax = 5_000
	// successorSkew is how far the clocks of API servers may be apart: one sets the time of the eviction,
	// another that of the creation.
	successorSkew = 2 * time.Second
)

// departed holds the pods that were evicted, gone or not yet, and in place of which their owners have not
// been seen to create others since.
//
// Example. Of ReplicaSet web the pods a and b are evicted: both are in the list. The ReplicaSet creates c:
// a is dropped, and c marked as its successor, before a has ended. b goes, and counts for two minutes from
// then on. The ReplicaSet is scaled to zero and deletes c: it has all the pods that it wants, and b is
// dropped too.
type departed struct {
	// byOwner holds them by the owner's UID, in the order in which they were asked to go. A list is never
	// changed, only replaced, so that versions may share it, and never empty.
	byOwner version.Map[types.UID, []departure]
	// count of all.
	count int
}

type departure struct {
	// pod as it was when it was asked to go.
	pod *Pod
	// at is when it was observed to be gone; zero while it is there.
	at time.Time
}

func newDeparted() departed {
	return departed{byOwner: version.NewMap[types.UID, []departure](version.String[types.UID])}
}

// Departed returns, by UID, the pods that were evicted, not merely deleted, in place of which their owners
// have not created others since, and which are still there or went within the last two minutes. Only pods
// that ran on a node and that a ReplicaSet, StatefulSet or ReplicationController owns are among them.
func (d *departed) Departed() []*Pod {
	list := make([]*Pod, 0, d.count)
	for _, pods := range d.byOwner.All() {
		for _, x := range pods {
			list = append(list, x.pod)
		}
	}
	slices.SortFunc(list, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

// observe takes in a change of a pod; before has no class if it was not known.
func (d *departed) observe(o *version.Owner, before, after *Pod) {
	if before.Class == nil {
		if left := d.release(o, after); left != nil {
			after.Successor, after.Displaced = true, left.displaces()
		}
	}
	if after.Deleting == 0 || before.Deleting != 0 || before.Class != nil && before.Terminal() {
		return
	}
	if after.Evicted() {
		d.add(o, departure{pod: after})
	} else {
		d.dismiss(o, after)
	}
}

// gone takes in that the object of a pod is gone.
func (d *departed) gone(o *version.Owner, p *Pod, at time.Time) {
	if p.Evicted() && p.Active() {
		d.add(o, departure{p, at})
		return
	}
	list, _ := d.byOwner.Get(p.Class.OwnerUID)
	if i := slices.IndexFunc(list, func(x departure) bool { return x.pod.UID == p.UID }); i >= 0 {
		list = slices.Clone(list)
		list[i].at = at
		d.byOwner.Set(o, p.Class.OwnerUID, list)
	}
}

func (d *departed) add(o *version.Owner, x departure) {
	c := x.pod.Class
	if x.pod.NodeName == "" || !c.Replica() || d.count >= departedMax {
		return
	}
	list, _ := d.byOwner.Get(c.OwnerUID)
	d.set(o, c.OwnerUID, append(slices.Clip(list), x))
}

// release drops the pod that a new one has come in place of, and returns it; nil if there is none. Of a
// StatefulSet it is that of its name, else the first that was asked to go no later than the new one was
// created.
func (d *departed) release(o *version.Owner, p *Pod) *Pod {
	if d.count == 0 || !p.Class.Replica() {
		return nil
	}
	list, _ := d.byOwner.Get(p.Class.OwnerUID)
	i := slices.IndexFunc(list, func(x departure) bool {
		if p.Class.stateful() {
			return x.pod.Name == p.Name
		}
		return p.Created >= x.pod.EvictedAt-int64(successorSkew)
	})
	if i < 0 {
		return nil
	}
	left := list[i].pod
	d.set(o, p.Class.OwnerUID, slices.Delete(slices.Clone(list), i, i+1))
	return left
}

// dismiss takes in that a pod was deleted without an eviction. A ReplicaSet does so only while it has more
// pods than it wants, so it has none to create. A StatefulSet does so also to update pods.
func (d *departed) dismiss(o *version.Owner, p *Pod) {
	if d.count > 0 && p.Class.Replica() && !p.Class.stateful() {
		d.set(o, p.Class.OwnerUID, nil)
	}
}

// prune drops the pods that went too long ago, those that went later than now, for clocks were set back,
// and those that should have gone long ago. It reports whether there were any.
func (d *departed) prune(o *version.Owner, now time.Time) bool {
	if d.count == 0 {
		return false
	}
	before := d.count
	for _, owner := range version.Keys(&d.byOwner) {
		list, _ := d.byOwner.Get(owner)
		if slices.ContainsFunc(list, func(x departure) bool { return x.over(now) }) {
			d.set(o, owner, slices.DeleteFunc(slices.Clone(list), func(x departure) bool { return x.over(now) }))
		}
	}
	return d.count < before
}

func (x departure) over(now time.Time) bool {
	at := x.at
	if at.IsZero() {
		at = time.Unix(0, x.pod.Deleting)
		return now.Sub(at) >= DepartedFor
	}
	age := now.Sub(at)
	return age >= DepartedFor || age <= -DepartedFor
}

func (d *departed) set(o *version.Owner, owner types.UID, list []departure) {
	before, _ := d.byOwner.Get(owner)
	d.count += len(list) - len(before)
	if len(list) == 0 {
		d.byOwner.Delete(o, owner)
		return
	}
	d.byOwner.Set(o, owner, list)
}

// addClasses adds those of the departed pods to a list of classes by digest.
func (d *departed) addClasses(list []*PodClass) []*PodClass {
	for _, pods := range d.byOwner.All() {
		for _, x := range pods {
			list = append(list, x.pod.Class)
		}
	}
	slices.SortFunc(list, func(a, b *PodClass) int { return cmp.Compare(a.Digest, b.Digest) })
	return slices.CompactFunc(list, func(a, b *PodClass) bool { return a.Digest == b.Digest })
}

// class is that of a departed pod which equals c; nil if there is none.
func (d *departed) class(c *PodClass) *PodClass {
	list, _ := d.byOwner.Get(c.OwnerUID)
	for _, x := range list {
		if x.pod.Class.Digest == c.Digest {
			return x.pod.Class
		}
	}
	return nil
}
