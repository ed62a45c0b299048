package sim

import (
	"fmt"
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
)

// editPool has a user change what may be disrupted and made of a NodePool, or the labels of its nodes.
func (s *Sim) editPool() {
	p := s.cluster.NodePool(s.script.pools[s.rng.IntN(len(s.script.pools))].Name)
	if p == nil || p.DeletionTimestamp != nil {
		return
	}
	o := p.DeepCopy()
	switch s.rng.IntN(4) {
	case 0:
		o.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: s.oneOf("0", "1", "2", "50%", "100%")}}
	case 1:
		o.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(s.millis(0, 20_000).Truncate(time.Second))
	case 2:
		if len(o.Spec.Limits) == 0 {
			return // without a limit every pod must find a node in the end
		}
		o.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse(s.oneOf("0", "8", "16", "40"))}
	case 3:
		s.history.reshaped = true
		o.Spec.Template.Labels = map[string]string{"team": p.Name, "revision": s.oneOf("1", "2", "3")}
	}
	s.trace("user: edits NodePool %s: %v, %v, %v, %v", o.Name, o.Spec.Disruption.Budgets[0].Nodes, o.Spec.Disruption.ConsolidateAfter, o.Spec.Limits, o.Spec.Template.Labels)
	s.cluster.Apply(events.KindNodePool, o)
}

// protect has a user put do-not-disrupt on a pod or Node for a while.
func (s *Sim) protect() {
	kind := []events.Kind{events.KindPod, events.KindNode}[s.rng.IntN(2)]
	var objects []cluster.Object
	for _, c := range s.cluster.Present() {
		if o := c.Object; c.Kind == kind && o.GetAnnotations()[karpv1.DoNotDisruptAnnotationKey] == "" {
			objects = append(objects, o)
		}
	}
	if len(objects) == 0 {
		return
	}
	o := objects[s.rng.IntN(len(objects))]
	key := fmt.Sprintf("%d/%s", kind, o.GetUID())
	s.trace("user: protects %s %s", kind, o.GetName())
	s.history.protected[string(o.GetUID())] = s.clock.Now()
	s.history.edited[key] = true
	s.annotate(kind, o, "true")
	s.clock.After(s.millis(1000, 60_000), func() { s.unprotect(kind, key) })
}

// anyOf returns one object of a kind; nil if there is none.
func (s *Sim) anyOf(kind events.Kind) cluster.Object {
	var objects []cluster.Object
	for _, c := range s.cluster.Present() {
		if c.Kind == kind {
			objects = append(objects, c.Object)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	return objects[s.rng.IntN(len(objects))]
}

// noteKey is a label or annotation that means nothing to us.
const noteKey = "example.com/note"

// editNode has a user label a Node, cordon it for a while, or take Millwright's taint off it.
func (s *Sim) editNode() {
	o, ok := s.anyOf(events.KindNode).(*corev1.Node)
	if !ok {
		return
	}
	n := o.DeepCopy()
	switch s.rng.IntN(3) {
	case 0:
		s.trace("user: labels Node %s", n.Name)
		n.Labels[noteKey] = s.oneOf("a", "b")
	case 1:
		s.trace("user: cordons Node %s", n.Name)
		n.Spec.Unschedulable = true
		s.clock.After(s.millis(1000, 30_000), func() { s.uncordon(n.Name) })
	case 2:
		if !kube.IsDisrupted(n) {
			return
		}
		s.trace("user: takes the taint off Node %s", n.Name)
		s.history.untainted[n.Name] = s.clock.Now()
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
	}
	s.cluster.Apply(events.KindNode, n)
}

func (s *Sim) uncordon(node string) {
	if have := s.cluster.Node(node); have != nil && have.Spec.Unschedulable {
		n := have.DeepCopy()
		n.Spec.Unschedulable = false
		s.cluster.Apply(events.KindNode, n)
	}
}

// editClaim has a user annotate a NodeClaim, or remove an annotation or label of it that is not its identity.
func (s *Sim) editClaim() {
	o, ok := s.anyOf(events.KindNodeClaim).(*karpv1.NodeClaim)
	if !ok {
		return
	}
	c := o.DeepCopy()
	switch s.rng.IntN(3) {
	case 0:
		s.trace("user: annotates NodeClaim %s", c.Name)
		c.Annotations[noteKey] = s.oneOf("a", "b")
	case 1:
		keys := slices.DeleteFunc(sortedKeys(c.Annotations), func(key string) bool { return key == karpv1.RecordAnnotationKey })
		if len(keys) > 0 {
			key := keys[s.rng.IntN(len(keys))]
			s.history.reshaped = true
			s.trace("user: removes annotation %s of NodeClaim %s", key, c.Name)
			delete(c.Annotations, key)
		}
	case 2:
		keys := slices.DeleteFunc(sortedKeys(c.Labels), func(key string) bool { return key == karpv1.NodePoolLabelKey })
		if len(keys) > 0 {
			key := keys[s.rng.IntN(len(keys))]
			s.history.reshaped = true
			s.trace("user: removes label %s of NodeClaim %s", key, c.Name)
			delete(c.Labels, key)
		}
	}
	s.cluster.Apply(events.KindNodeClaim, c)
}

// editBudget has a user let more or fewer pods be unavailable for a while.
func (s *Sim) editBudget() {
	if len(s.script.budgets) == 0 {
		return
	}
	names := sortedKeys(s.script.budgets)
	name := names[s.rng.IntN(len(names))]
	s.setBudget(name, intstr.FromInt32(int32(s.rng.IntN(4))))
	s.clock.After(s.millis(1000, 30_000), func() { s.setBudget(name, s.script.budgets[name]) })
}

func (s *Sim) setBudget(name string, most intstr.IntOrString) {
	have, ok := s.cluster.Object(events.KindPodDisruptionBudget, "default/"+name).(*policyv1.PodDisruptionBudget)
	if !ok || *have.Spec.MaxUnavailable == most {
		return
	}
	s.trace("user: lets %s pods of %s be unavailable", most.String(), name)
	o := have.DeepCopy()
	o.Spec.MaxUnavailable = &most
	s.cluster.Apply(events.KindPodDisruptionBudget, o)
}

// stripFinalizers has a user remove the finalizers of a Node or NodeClaim, which then goes at once if it is being deleted.
func (s *Sim) stripFinalizers() {
	kind := []events.Kind{events.KindNode, events.KindNodeClaim}[s.rng.IntN(2)]
	o := s.anyOf(kind)
	if o == nil || len(o.GetFinalizers()) == 0 {
		return
	}
	s.trace("user: strips the finalizers of %s %s", kind, o.GetName())
	s.history.stripped[string(o.GetUID())] = true
	bare := o.DeepCopyObject().(cluster.Object)
	bare.SetFinalizers(nil)
	s.cluster.Apply(kind, bare)
}

// unprotect takes back what protect did.
func (s *Sim) unprotect(kind events.Kind, key string) {
	if !s.history.edited[key] || !strings.HasPrefix(key, fmt.Sprintf("%d/", kind)) {
		return
	}
	delete(s.history.edited, key)
	for _, c := range s.cluster.Present() {
		if c.Kind == kind && fmt.Sprintf("%d/%s", kind, c.Object.GetUID()) == key {
			s.annotate(kind, c.Object, "")
		}
	}
}

func (s *Sim) annotate(kind events.Kind, o cluster.Object, value string) {
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
	s.cluster.Apply(kind, changed)
}

// undoEdits has NodePools, the EC2NodeClass, budgets, cordons and protection as the script has them.
func (s *Sim) undoEdits() {
	s.restoreClass()
	for _, name := range sortedKeys(s.script.budgets) {
		s.setBudget(name, s.script.budgets[name])
	}
	for _, n := range s.cluster.Nodes() {
		s.uncordon(n.Name)
	}
	for _, kind := range []events.Kind{events.KindPod, events.KindNode} {
		for _, key := range sortedKeys(s.history.edited) {
			s.unprotect(kind, key)
		}
	}
	for _, p := range s.script.pools {
		if have := s.cluster.NodePool(p.Name); have != nil && have.DeletionTimestamp == nil {
			o := have.DeepCopy()
			o.Spec = *p.Spec.DeepCopy()
			s.cluster.Apply(events.KindNodePool, o)
		}
	}
}
