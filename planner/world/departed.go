package world

import (
	"cmp"
	"slices"
	"time"
)

const (
	// DepartedFor is how long a pod that was evicted counts as departed: a controller that has not created
	// another one by then does not mean to.
	DepartedFor = 2 * time.Minute
	// departedMax bounds the departed pods.
	departedMax = 5_000
)

// departed are the pods that were evicted and whose objects are gone, in the order in which they went. Each
// stays for DepartedFor of observed time; beyond departedMax the first are dropped. What is in the list never
// changes, so that versions may share it.
type departed []departedPod

type departedPod struct {
	pod *Pod
	// at is when it was observed to be gone.
	at time.Time
}

// Departed returns the pods that were evicted, not merely deleted, within the last two minutes, and whose
// objects are gone, in the order in which they went: their owners will create others, or have. Only pods that
// ran on a node and that a ReplicaSet, StatefulSet or ReplicationController owns are among them.
func (d departed) Departed() []*Pod {
	list := make([]*Pod, len(d))
	for i := range d {
		list[i] = d[i].pod
	}
	return list
}

// classes adds those of the departed pods to a list of classes by digest.
func (d departed) classes(list []*PodClass) []*PodClass {
	for i := range d {
		list = append(list, d[i].pod.Class)
	}
	slices.SortFunc(list, func(a, b *PodClass) int { return cmp.Compare(a.Digest, b.Digest) })
	return slices.CompactFunc(list, func(a, b *PodClass) bool { return a.Digest == b.Digest })
}

// add takes in a pod whose object is gone, if its owner will create it again.
func (d *departed) add(p *Pod, at time.Time) {
	if !p.Evicted() || p.NodeName == "" || !p.Class.Replica() {
		return
	}
	if p.Terminal() && p.Deleting == 0 { // its owner has not counted it for long
		return
	}
	if n := len(*d) + 1 - departedMax; n > 0 {
		*d = (*d)[n:]
	}
	*d = append(*d, departedPod{p, at})
}

// prune drops the pods that went too long ago, and those that went later than now: clocks were set back. It
// reports whether there were any.
func (d *departed) prune(now time.Time) bool {
	var kept departed
	for _, x := range *d {
		if age := now.Sub(x.at); age < DepartedFor && age > -DepartedFor {
			kept = append(kept, x)
		}
	}
	changed := len(kept) < len(*d)
	if changed {
		*d = kept
	}
	return changed
}

// class is a class by its digest; nil if no departed pod has it.
func (d departed) class(digest uint64) *PodClass {
	for i := range d {
		if d[i].pod.Class.Digest == digest {
			return d[i].pod.Class
		}
	}
	return nil
}
