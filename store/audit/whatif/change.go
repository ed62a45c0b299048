package whatif

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/world"
)

// Change is laid over each Snapshot. The zero Change changes nothing.
type Change struct {
	// Objects are NodePools, EC2NodeClasses, DisruptionPolicies and NodeOverlays, which take the place of
	// those of the same name, or are there beside the others. Nobody may change them while they are in use.
	Objects []metav1.Object
	// Prices take the place of those of the same offerings; nil: none.
	Prices *events.Prices
	// Options changes the options in force; nil: not at all.
	Options func(*planner.Options)
}

// Check refuses objects of kinds whose change would make the recorded Snapshot contradict itself.
func (c *Change) Check() error {
	for _, o := range c.Objects {
		if kindOf(o) == 0 {
			return fmt.Errorf("%T %s: only NodePools, EC2NodeClasses, DisruptionPolicies and NodeOverlays can be changed in what was recorded", o, o.GetName())
		}
		if o.GetName() == "" {
			return fmt.Errorf("%s: metadata.name: is missing", kindOf(o))
		}
	}
	return nil
}

func kindOf(o metav1.Object) events.Kind {
	switch o.(type) {
	case *karpv1.NodePool:
		return events.KindNodePool
	case *awsv1.EC2NodeClass:
		return events.KindEC2NodeClass
	case *mwv1alpha1.DisruptionPolicy:
		return events.KindDisruptionPolicy
	case *karpv1alpha1.NodeOverlay:
		return events.KindNodeOverlay
	}
	return 0
}

// Over returns the Snapshot with the change laid over it; nil for nil.
func (c *Change) Over(s *planner.Snapshot) *planner.Snapshot {
	if s == nil {
		return nil
	}
	n := planner.SnapshotAt(c.world(s), s.Ledger, s.Now)
	if c.Options != nil {
		c.Options(&n.Options)
	}
	return n
}

// world is the Snapshot's with the changed objects, shown as further messages of its epoch.
func (c *Change) world(s *planner.Snapshot) *world.World {
	if len(c.Objects) == 0 && c.Prices == nil {
		return s.World
	}
	w := world.Fork(s.World)
	show := func(o events.Observation) {
		o.Op, o.Epoch, o.Counter, o.ObservedAt = events.OpUpsert, w.Epoch(), w.Counter()+1, s.World.AsOf()
		w.Apply(w.Position().Sequence, o)
	}
	for _, o := range c.Objects {
		merged := merge(w, o)
		show(events.Observation{Kind: kindOf(o), UID: merged.GetUID(), Name: merged.GetName(), ResourceVersion: merged.GetResourceVersion(), Object: merged})
	}
	if c.Prices != nil {
		show(events.Observation{Kind: events.KindPrices, Object: c.Prices})
	}
	return w.Version()
}

// merge is the object as it would have been in the cluster: with the identity, the age and the status of the
// one whose place it takes.
func merge(w *world.World, o metav1.Object) metav1.Object {
	switch o := o.(type) {
	case *karpv1.NodePool:
		n := o.DeepCopy()
		if was := w.NodePool(o.Name); was != nil {
			inherit(&n.ObjectMeta, &was.ObjectMeta)
			n.Status = *was.Status.DeepCopy()
		}
		return identified(n)
	case *awsv1.EC2NodeClass:
		n := o.DeepCopy()
		if was := w.NodeClass(o.Name); was != nil {
			inherit(&n.ObjectMeta, &was.ObjectMeta)
			n.Status = *was.Status.DeepCopy()
		}
		return identified(n)
	case *mwv1alpha1.DisruptionPolicy:
		n := o.DeepCopy()
		for _, was := range w.DisruptionPolicies() {
			if was.Name == o.Name {
				inherit(&n.ObjectMeta, &was.ObjectMeta)
			}
		}
		return identified(n)
	case *karpv1alpha1.NodeOverlay:
		n := o.DeepCopy()
		for _, was := range w.NodeOverlays() {
			if was.Name == o.Name {
				inherit(&n.ObjectMeta, &was.ObjectMeta)
			}
		}
		return identified(n)
	}
	return o
}

// inherit what the API server and controllers have given an object; labels and annotations of the new one
// count beside those that it had.
func inherit(n, was *metav1.ObjectMeta) {
	n.UID, n.ResourceVersion, n.Generation, n.CreationTimestamp = was.UID, was.ResourceVersion, was.Generation, was.CreationTimestamp
	n.DeletionTimestamp, n.Finalizers, n.OwnerReferences = was.DeletionTimestamp, was.Finalizers, was.OwnerReferences
	n.Labels, n.Annotations = joined(was.Labels, n.Labels), joined(was.Annotations, n.Annotations)
}

func joined(was, given map[string]string) map[string]string {
	if len(was) == 0 {
		return given
	}
	all := maps.Clone(was)
	maps.Copy(all, given)
	return all
}

// identified gives an object that was not there a UID.
func identified(o metav1.Object) metav1.Object {
	if o.GetUID() == "" {
		o.SetUID(types.UID("what-if/" + o.GetName()))
	}
	return o
}
