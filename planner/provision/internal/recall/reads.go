package recall

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"millwright/planner/provision/internal/solve"
	"millwright/planner/provision/internal/volume"
	"millwright/planner/world"
)

// Reads are what a solver has looked up while it ran. Objects are compared by identity: those of a World are
// replaced, never changed.
type Reads struct {
	source   volume.Holders
	objects  map[object]any
	closed   map[string][]string
	reserved map[reserved]int64
	// at is the moment that they were last compared with, held what came of it.
	at   *moment
	held bool
}

// object of volume.Holders, by kind and name.
type object struct {
	kind byte
	name string
}

type reserved struct {
	id   string
	free int64
	at   time.Time
}

const (
	persistentVolumeClaim = iota
	persistentVolume
	storageClass
	csiNode
	holder
)

// Watch has what the solver looks up in the input noted until the pass ends, for all questions that it
// answers.
func (m *Memory[R]) Watch(in *solve.Input) *Reads {
	r := watch(in)
	m.watched = append(m.watched, r)
	return r
}

// watch has what the solver looks up in the input noted.
func watch(in *solve.Input) *Reads {
	r := &Reads{source: in.Volumes, objects: map[object]any{}, closed: map[string][]string{}, reserved: map[reserved]int64{}}
	zones, free := in.ClosedZones, in.FreeReserved
	in.Volumes = r
	if zones != nil {
		in.ClosedZones = func(nodeClass string) []string {
			r.closed[nodeClass] = zones(nodeClass)
			return r.closed[nodeClass]
		}
	}
	if free != nil {
		in.FreeReserved = func(id string, n int64, at time.Time) int64 {
			left := free(id, n, at)
			r.reserved[reserved{id, n, at}] = left
			return left
		}
	}
	return r
}

// hold reports that another input, which is of this moment, would say the same.
func (r *Reads) hold(in *solve.Input, now *moment) bool {
	if r.at != now {
		r.at, r.held = now, r.compare(in)
	}
	return r.held
}

func (r *Reads) compare(in *solve.Input) bool {
	for x, was := range r.objects {
		if lookUp(in.Volumes, x) != was {
			return false
		}
	}
	for class, zones := range r.closed {
		if !slices.Equal(in.ClosedZones(class), zones) {
			return false
		}
	}
	for x, left := range r.reserved {
		if in.FreeReserved(x.id, x.free, x.at) != left {
			return false
		}
	}
	return true
}

func lookUp(s volume.Holders, x object) any {
	switch x.kind {
	case persistentVolumeClaim:
		return s.PersistentVolumeClaim(x.name)
	case persistentVolume:
		return s.PersistentVolume(x.name)
	case storageClass:
		return s.StorageClass(x.name)
	case holder:
		return s.Holder(x.name)
	}
	return s.CSINode(x.name)
}

func note[T any](r *Reads, kind byte, name string, got *T) *T {
	r.objects[object{kind, name}] = got
	return got
}

// PersistentVolumeClaim and the others implement volume.Holders.
func (r *Reads) PersistentVolumeClaim(key string) *corev1.PersistentVolumeClaim {
	return note(r, persistentVolumeClaim, key, r.source.PersistentVolumeClaim(key))
}

func (r *Reads) PersistentVolume(name string) *corev1.PersistentVolume {
	return note(r, persistentVolume, name, r.source.PersistentVolume(name))
}

func (r *Reads) StorageClass(name string) *storagev1.StorageClass {
	return note(r, storageClass, name, r.source.StorageClass(name))
}

func (r *Reads) CSINode(name string) *storagev1.CSINode {
	return note(r, csiNode, name, r.source.CSINode(name))
}

func (r *Reads) Holder(claim string) *world.Pod {
	return note(r, holder, claim, r.source.Holder(claim))
}
