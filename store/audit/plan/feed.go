package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/world"
)

// feeder shows objects to a World as the watcher does: in one resync of one epoch.
type feeder struct {
	world *world.World
	now   time.Time
	// epoch, counter and sequence are of the last message shown.
	epoch, counter, sequence uint64
	seen                     map[seenKey]place
	// namespaces that objects are in; true once the Namespace itself was seen.
	namespaces map[string]bool
	// nodeClasses that NodePools refer to.
	nodeClasses map[string]bool
	// buffers: the feature gate of CapacityBuffers is on.
	buffers bool
	// workloads that stand for pods; nil: none do.
	workloads *workloads
}

type seenKey struct{ kind, field, value string }

// place is where an object was read.
type place struct {
	file   string
	number int
}

// stream is the incarnation of the stream the objects come on.
const stream = "offline"

func newFeeder(now time.Time) *feeder {
	f := &feeder{world: world.New(), now: now.UTC(), epoch: 1, seen: map[seenKey]place{}, namespaces: map[string]bool{}, nodeClasses: map[string]bool{}}
	f.world.SetIncarnation(stream)
	f.send(events.Observation{Op: events.OpResyncBegin})
	return f
}

func (f *feeder) send(o events.Observation) {
	f.counter++
	f.sequence++
	o.Epoch, o.Counter, o.ObservedAt = f.epoch, f.counter, f.now
	f.world.Apply(f.sequence, o)
}

func (f *feeder) document(d *document) error {
	d.buffers, d.workloads = f.buffers, f.workloads != nil
	return d.each(func(o *object) error {
		if err := f.once(d, o); err != nil {
			return err
		}
		if f.workloads != nil {
			if err := f.expand(d, o); err != nil {
				return err
			}
		}
		if o.event == 0 || !f.buffers && isBuffer(o.event) { // it stands for its pods only
			return nil
		}
		f.show(o)
		return nil
	})
}

// show an object as it would be in the cluster.
func (f *feeder) show(o *object) {
	f.complete(o)
	f.send(events.Observation{
		Op: events.OpUpsert, Kind: o.event, UID: o.meta.GetUID(), Name: o.name,
		ResourceVersion: o.meta.GetResourceVersion(), Object: o.meta,
	})
}

// once refuses an object with the name or UID of another of its kind: one would be silently lost.
func (f *feeder) once(d *document, o *object) error {
	here := place{d.file, d.number}
	for _, id := range []seenKey{{o.typeName, "metadata.name", o.name}, {o.typeName, "metadata.uid", string(o.meta.GetUID())}} {
		if id.value == "" {
			continue
		}
		if at, taken := f.seen[id]; taken {
			return d.fail(o.label, id.field, fmt.Errorf("%s is that of an object in %s, document %d", id.value, at.file, at.number))
		}
		f.seen[id] = here
	}
	return nil
}

// complete adds what the API server or a controller would have added, and drops what nobody reads.
func (f *feeder) complete(o *object) {
	o.meta.SetManagedFields(nil)
	if o.meta.GetUID() == "" {
		o.meta.SetUID(types.UID(o.event.String() + "/" + o.name))
	}
	if ns := o.meta.GetNamespace(); o.namespaced && !f.namespaces[ns] {
		f.namespaces[ns] = false // there, but not seen yet
	}
	if spec, _ := podSpecOf(o.meta); spec != nil {
		completeSpec(spec)
	}
	switch x := o.meta.(type) {
	case *corev1.Pod:
		completePod(x)
	case *corev1.Node:
		completeNode(x)
	case *corev1.Namespace:
		f.namespaces[x.Name] = true
		nameNamespace(x)
	case *karpv1.NodePool:
		if class := completePool(x); class != "" {
			f.nodeClasses[class] = true
		}
	case *awsv1.EC2NodeClass:
		// What EC2 reported about a class fills in for what the file leaves out.
		if known := f.world.NodeClass(x.Name); known != nil && len(x.Status.Conditions)+len(x.Status.AMIs) == 0 {
			x.Status = *known.Status.DeepCopy()
		} else if known != nil && len(x.Status.Conditions) == 0 {
			amis := x.Status.AMIs
			x.Status = *known.Status.DeepCopy()
			x.Status.AMIs = amis
		}
	case *karpv1.NodeClaim:
		completeClaim(x)
	}
}

// completeClaim sets when something last happened on the claim's node, since no pod was seen coming or going:
// the time in its status, or that of its initialization. A Consolidatable one has been quiet long enough.
func completeClaim(c *karpv1.NodeClaim) {
	quiet := false
	var initialized *metav1.Condition
	for i := range c.Status.Conditions {
		switch x := &c.Status.Conditions[i]; {
		case x.Type == karpv1.ConditionTypeConsolidatable && x.Status == metav1.ConditionTrue:
			quiet = true
		case x.Type == karpv1.ConditionTypeInitialized:
			initialized = x
		}
	}
	switch long := metav1.NewTime(time.Unix(1, 0).UTC()); {
	case initialized == nil:
	case quiet:
		initialized.LastTransitionTime, c.Status.LastPodEventTime = long, long
	case c.Status.LastPodEventTime.IsZero():
		c.Status.LastPodEventTime = metav1.NewTime(maxTime(initialized.LastTransitionTime.Time, long.Time))
	}
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// completeNode gives a Node the allocatable amounts and the taint that a cluster gives it: without its own,
// the capacity can be had; and a node that is cordoned has the taint that says so.
func completeNode(n *corev1.Node) {
	n.Status.Images = nil
	if len(n.Status.Allocatable) == 0 {
		n.Status.Allocatable = n.Status.Capacity
	}
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&cordoned) }) {
		n.Spec.Taints = append(n.Spec.Taints, cordoned)
	}
}

// completePod marks a pod that has no status, and that nothing holds back, as one for which kube-scheduler
// found no node.
func completePod(p *corev1.Pod) {
	if p.Spec.NodeName != "" || len(p.Spec.SchedulingGates) > 0 || !emptyStatus(&p.Status) {
		return
	}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		LastTransitionTime: p.CreationTimestamp,
	}}
}

func emptyStatus(s *corev1.PodStatus) bool {
	return s.Phase == "" && len(s.Conditions) == 0 && s.NominatedNodeName == "" && s.StartTime == nil &&
		s.Reason == "" && s.Message == "" && len(s.ContainerStatuses) == 0 && len(s.InitContainerStatuses) == 0
}

// completeSpec gives pods on the host's network their host ports, as the API server does.
func completeSpec(s *corev1.PodSpec) {
	if !s.HostNetwork {
		return
	}
	for i := range s.Containers {
		for j := range s.Containers[i].Ports {
			p := &s.Containers[i].Ports[j]
			p.HostPort = cmp.Or(p.HostPort, p.ContainerPort)
		}
	}
}

// completePool makes a pool without conditions ready, and returns the name of its EC2NodeClass; "" if it
// refers to another kind. All pools share one catalogue here, so what a reference leaves out is filled in;
// what it contains stays as it is.
func completePool(p *karpv1.NodePool) string {
	spec := &p.Spec.Template.Spec
	ref := karpv1.NodeClassReference{}
	if spec.NodeClassRef != nil {
		ref = *spec.NodeClassRef
	}
	ref.Group, ref.Kind, ref.Name = cmp.Or(ref.Group, awsv1.Group), cmp.Or(ref.Kind, "EC2NodeClass"), cmp.Or(ref.Name, "default")
	spec.NodeClassRef = &ref
	if len(p.Status.Conditions) == 0 {
		p.Status.Conditions = []metav1.Condition{{
			Type: karpv1.ConditionTypeReady, Status: metav1.ConditionTrue, Reason: karpv1.ConditionTypeReady,
			LastTransitionTime: p.CreationTimestamp,
		}}
	}
	if ref.Group != awsv1.Group || ref.Kind != "EC2NodeClass" {
		return ""
	}
	return ref.Name
}

func nameNamespace(n *corev1.Namespace) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// addNamespaces adds those that objects are in but that were not given.
func (f *feeder) addNamespaces() {
	for _, name := range slices.Sorted(maps.Keys(f.namespaces)) {
		if f.namespaces[name] {
			continue
		}
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("Namespace/" + name)}}
		nameNamespace(n)
		f.send(events.Observation{Op: events.OpUpsert, Kind: events.KindNamespace, UID: n.UID, Name: name, Object: n})
	}
}

// finish adds what must exist but was not given, shows the catalogue to every NodeClass, and ends the resync.
func (f *feeder) finish(c *catalogFile) *world.World {
	f.addNamespaces()
	f.addCatalog(c)
	f.send(events.Observation{Op: events.OpResyncEnd})
	f.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
	return f.world
}
