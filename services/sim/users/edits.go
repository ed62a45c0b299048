package users

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/services/internal/kube"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// EditPool lets a user change what may be disrupted and made of a NodePool, or the labels of its nodes.
func (s *Users) EditPool() {
	p := s.Cluster.NodePool(s.Script.Pools[s.Rng.IntN(len(s.Script.Pools))].Name)
	if p == nil || p.DeletionTimestamp != nil {
		return
	}
	o := p.DeepCopy()
	switch s.Rng.IntN(4) {
	case 0:
		o.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: s.OneOf("0", "1", "2", "50%", "100%")}}
	case 1:
		o.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(s.Millis(0, 20_000).Truncate(time.Second))
	case 2:
		if len(o.Spec.Limits) == 0 {
			return // without a limit every pod must find a node in the end
		}
		o.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse(s.OneOf("0", "8", "16", "40"))}
	case 3:
		s.Deeds.Reshaped = true
		o.Spec.Template.Labels = map[string]string{"team": p.Name, "revision": s.OneOf("1", "2", "3")}
	}
	s.Trace("user: edits NodePool %s: %v, %v, %v, %v", o.Name, o.Spec.Disruption.Budgets[0].Nodes, o.Spec.Disruption.ConsolidateAfter, o.Spec.Limits, o.Spec.Template.Labels)
	s.Cluster.Apply(events.KindNodePool, o)
}

// Protect lets a user put do-not-disrupt on a pod or Node for a while.
func (s *Users) Protect() {
	kind := []events.Kind{events.KindPod, events.KindNode}[s.Rng.IntN(2)]
	var objects []cluster.Object
	for _, c := range s.Cluster.Present() {
		if o := c.Object; c.Kind == kind && o.GetAnnotations()[karpv1.DoNotDisruptAnnotationKey] == "" {
			objects = append(objects, o)
		}
	}
	if len(objects) == 0 {
		return
	}
	o := objects[s.Rng.IntN(len(objects))]
	key := fmt.Sprintf("%d/%s", kind, o.GetUID())
	s.Trace("user: protects %s %s", kind, o.GetName())
	s.Deeds.Protected[string(o.GetUID())] = s.Clock.Now()
	s.Deeds.Edited[key] = true
	s.annotate(kind, o, "true")
	s.Clock.After(s.Millis(1000, 60_000), func() { s.unprotect(kind, key) })
}

// anyOf returns one object of a kind; nil if there is none.
func (s *Users) anyOf(kind events.Kind) cluster.Object {
	var objects []cluster.Object
	for _, c := range s.Cluster.Present() {
		if c.Kind == kind {
			objects = append(objects, c.Object)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	return objects[s.Rng.IntN(len(objects))]
}

// EditNode lets a user label a Node, cordon it for a while, or remove Millwright's taint from it.
func (s *Users) EditNode() {
	o, ok := s.anyOf(events.KindNode).(*corev1.Node)
	if !ok {
		return
	}
	n := o.DeepCopy()
	switch s.Rng.IntN(3) {
	case 0:
		s.Trace("user: labels Node %s", n.Name)
		n.Labels[stage.NoteKey] = s.OneOf("a", "b")
	case 1:
		s.Trace("user: cordons Node %s", n.Name)
		n.Spec.Unschedulable = true
		s.Clock.After(s.Millis(1000, 30_000), func() { s.uncordon(n.Name) })
	case 2:
		if !kube.IsDisrupted(n) {
			return
		}
		s.Trace("user: takes the taint off Node %s", n.Name)
		s.Deeds.Untainted[n.Name] = s.Clock.Now()
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
	}
	s.Cluster.Apply(events.KindNode, n)
}

func (s *Users) uncordon(node string) {
	if have := s.Cluster.Node(node); have != nil && have.Spec.Unschedulable {
		n := have.DeepCopy()
		n.Spec.Unschedulable = false
		s.Cluster.Apply(events.KindNode, n)
	}
}

// EditClaim lets a user annotate a NodeClaim, or remove an annotation or label of it that is not its
// identity.
func (s *Users) EditClaim() {
	o, ok := s.anyOf(events.KindNodeClaim).(*karpv1.NodeClaim)
	if !ok {
		return
	}
	c := o.DeepCopy()
	switch s.Rng.IntN(3) {
	case 0:
		s.Trace("user: annotates NodeClaim %s", c.Name)
		c.Annotations[stage.NoteKey] = s.OneOf("a", "b")
	case 1:
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Annotations)), func(key string) bool { return key == karpv1.RecordAnnotationKey })
		if len(keys) > 0 {
			key := keys[s.Rng.IntN(len(keys))]
			s.Deeds.Reshaped = true
			s.Trace("user: removes annotation %s of NodeClaim %s", key, c.Name)
			delete(c.Annotations, key)
		}
	case 2:
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Labels)), func(key string) bool { return key == karpv1.NodePoolLabelKey })
		if len(keys) > 0 {
			key := keys[s.Rng.IntN(len(keys))]
			s.Deeds.Reshaped = true
			s.Trace("user: removes label %s of NodeClaim %s", key, c.Name)
			delete(c.Labels, key)
		}
	}
	s.Cluster.Apply(events.KindNodeClaim, c)
}

// EditBudget lets a user allow more or fewer unavailable pods for a while.
func (s *Users) EditBudget() {
	if len(s.Script.Budgets) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(s.Script.Budgets))
	name := names[s.Rng.IntN(len(names))]
	s.setBudget(name, intstr.FromInt32(int32(s.Rng.IntN(4))))
	s.Clock.After(s.Millis(1000, 30_000), func() { s.setBudget(name, s.Script.Budgets[name]) })
}

func (s *Users) setBudget(name string, most intstr.IntOrString) {
	have, ok := s.Cluster.Object(events.KindPodDisruptionBudget, "default/"+name).(*policyv1.PodDisruptionBudget)
	if !ok || *have.Spec.MaxUnavailable == most {
		return
	}
	s.Trace("user: lets %s pods of %s be unavailable", most.String(), name)
	o := have.DeepCopy()
	o.Spec.MaxUnavailable = &most
	s.Cluster.Apply(events.KindPodDisruptionBudget, o)
}

// StripFinalizers lets a user remove the finalizers of a Node or NodeClaim, which is then removed at once if
// it is being deleted.
func (s *Users) StripFinalizers() {
	kind := []events.Kind{events.KindNode, events.KindNodeClaim}[s.Rng.IntN(2)]
	o := s.anyOf(kind)
	if o == nil || len(o.GetFinalizers()) == 0 {
		return
	}
	s.Trace("user: strips the finalizers of %s %s", kind, o.GetName())
	s.Deeds.Stripped[string(o.GetUID())] = true
	bare := o.DeepCopyObject().(cluster.Object)
	bare.SetFinalizers(nil)
	s.Cluster.Apply(kind, bare)
	if kind == events.KindNode && o.GetDeletionTimestamp().IsZero() { // it gets it again before it is deleted
		delete(s.Deeds.Stripped, string(o.GetUID()))
	}
}

// unprotect undoes Protect.
func (s *Users) unprotect(kind events.Kind, key string) {
	if !s.Deeds.Edited[key] || !strings.HasPrefix(key, fmt.Sprintf("%d/", kind)) {
		return
	}
	delete(s.Deeds.Edited, key)
	for _, c := range s.Cluster.Present() {
		if c.Kind == kind && fmt.Sprintf("%d/%s", kind, c.Object.GetUID()) == key {
			s.annotate(kind, c.Object, "")
		}
	}
}

func (s *Users) annotate(kind events.Kind, o cluster.Object, value string) {
	changed := o.DeepCopyObject().(cluster.Object)
	annotations := changed.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[karpv1.DoNotDisruptAnnotationKey] = value
	if value == "" {
		delete(annotations, karpv1.DoNotDisruptAnnotationKey)
	}
	changed.SetAnnotations(annotations)
	s.Cluster.Apply(kind, changed)
}

// UndoEdits restores NodePools, the EC2NodeClass, budgets, cordons and protection to what the script says.
func (s *Users) UndoEdits() {
	s.restoreClass()
	if s.Drawn.Ailing > 0 {
		s.Heal()
	}
	for _, name := range slices.Sorted(maps.Keys(s.Script.Budgets)) {
		s.setBudget(name, s.Script.Budgets[name])
	}
	for _, n := range s.Cluster.Nodes() {
		s.uncordon(n.Name)
	}
	for _, kind := range []events.Kind{events.KindPod, events.KindNode} {
		for _, key := range slices.Sorted(maps.Keys(s.Deeds.Edited)) {
			s.unprotect(kind, key)
		}
	}
	for _, p := range s.Script.Pools {
		if have := s.Cluster.NodePool(p.Name); have != nil && have.DeletionTimestamp == nil {
			o := have.DeepCopy()
			o.Spec = *p.Spec.DeepCopy()
			s.Cluster.Apply(events.KindNodePool, o)
		}
	}
}
