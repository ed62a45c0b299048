package kube

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// Kind of objects in a cache.
type Kind int

const (
	// OtherKind: of no interest to readers of changes.
	OtherKind Kind = iota
	NodeKind
	NodeClaimKind
	NodePoolKind
	NodeClassKind
)

// Change says which object of a cache changed.
type Change struct {
	Kind Kind
	Name string
	// ProviderID of a Node, after the change or, if it was deleted, before.
	ProviderID string
}

// ChangeOf describes an object.
func ChangeOf(o any) Change {
	switch o := o.(type) {
	case *corev1.Node:
		return Change{NodeKind, o.Name, o.Spec.ProviderID}
	case *karpv1.NodeClaim:
		return Change{Kind: NodeClaimKind, Name: o.Name}
	case *karpv1.NodePool:
		return Change{Kind: NodePoolKind, Name: o.Name}
	case *awsv1.EC2NodeClass:
		return Change{Kind: NodeClassKind, Name: o.Name}
	}
	return Change{}
}

// changesMax is how many changes are remembered. A reader that asks for older ones has to look at everything.
const changesMax = 8192

// Changes numbers the changes of a cache and remembers the last ones, so that each of several readers can
// look at what changed since its last look. It is safe for concurrent use.
type Changes struct {
	mu sync.Mutex
	// version is the number of the last change; list holds the last ones, oldest first.
	version uint64
	list    []Change
}

// Add notes a change.
func (c *Changes) Add(change Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	if len(c.list) == 2*changesMax {
		c.list = append(make([]Change, 0, 2*changesMax), c.list[changesMax:]...)
	}
	c.list = append(c.list, change)
}

// Version is the number of the last change.
func (c *Changes) Version() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Since returns the changes after a version and the version they lead to. complete is false if some have been
// forgotten.
func (c *Changes) Since(version uint64) (changes []Change, now uint64, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := c.version - version
	if version > c.version || missing > uint64(len(c.list)) {
		return nil, c.version, false
	}
	return slices.Clone(c.list[len(c.list)-int(missing):]), c.version, true
}
