package sim

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/services/sim/cluster"
)

// editPool has a user change what may be disrupted and made of a NodePool; what nodes look like stays.
func (s *Sim) editPool() {
	p := s.cluster.NodePool(s.script.pools[s.rng.IntN(len(s.script.pools))].Name)
	if p == nil || p.DeletionTimestamp != nil {
		return
	}
	o := p.DeepCopy()
	switch s.rng.IntN(3) {
	case 0:
		o.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: s.oneOf("0", "1", "2", "50%", "100%")}}
	case 1:
		o.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(s.millis(0, 20_000).Truncate(time.Second))
	case 2:
		if len(o.Spec.Limits) == 0 {
			return // without a limit every pod must find a node in the end
		}
		o.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse(s.oneOf("0", "8", "16", "40"))}
	}
	s.trace("user: edits NodePool %s: %v, %v, %v", o.Name, o.Spec.Disruption.Budgets[0].Nodes, o.Spec.Disruption.ConsolidateAfter, o.Spec.Limits)
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

// undoEdits has NodePools and protection as the script has them.
func (s *Sim) undoEdits() {
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
