package planner

import (
	"fmt"
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// VirtualPodsMax bounds the virtual pods of all CapacityBuffers together, so that a slip of the pen does not
// stop all planning. Buffers get theirs by namespace and name.
const VirtualPodsMax = 20_000

// VirtualPodPrefix begins the names of virtual pods; the buffer's name and a number follow.
const VirtualPodPrefix = "capacity-buffer-"

// Buffer is a CapacityBuffer as it counts now (reference: scheduling §15).
type Buffer struct {
	Object *bufferv1beta1.CapacityBuffer
	// Reason and Message of its condition ReadyForProvisioning; it is ready if the Reason is Resolved.
	Reason, Message string
	// Template is the PodTemplate that counts; nil if there is none, or if it is a ScalableRef's.
	Template *corev1.PodTemplate
	// Replicas is for how many pods room is to be kept; 0 unless it is ready. Pods are the virtual ones: that
	// many, unless they would be more than VirtualPodsMax. They are bound to no node and nobody knows them
	// but planners.
	Replicas int32
	Pods     []*world.Pod
}

// Key is "namespace/name".
func (b *Buffer) Key() string { return b.Object.Namespace + "/" + b.Object.Name }

// IsVirtual reports that pods of the class stand for a CapacityBuffer: no such pod exists. Annotations of
// that name on real pods do not get into their classes.
func IsVirtual(c *world.PodClass) bool {
	return c.Annotations[bufferv1beta1.VirtualPodAnnotation] == "true"
}

// BufferOf is the "namespace/name" of the CapacityBuffer that virtual pods of the class stand for; "" for
// real pods.
func BufferOf(c *world.PodClass) string {
	if !IsVirtual(c) {
		return ""
	}
	return c.Annotations[bufferv1beta1.BufferNamespaceAnnotation] + "/" + c.Annotations[bufferv1beta1.BufferNameAnnotation]
}

// Buffers returns the CapacityBuffers that are to be followed, by namespace and name: none while their
// feature gate is off, and none of another provisioner's strategy. It is computed once per Snapshot.
func (s *Snapshot) Buffers() []*Buffer {
	if s.cache.buffers != nil || !s.Options.CapacityBuffers {
		return s.cache.buffers
	}
	s.cache.buffers = []*Buffer{}
	left := int32(VirtualPodsMax)
	for _, o := range s.World.CapacityBuffers() {
		if !IsOurBuffer(o) {
			continue
		}
		b := resolveBuffer(s.World, o)
		b.addPods(left)
		left -= int32(len(b.Pods))
		s.cache.buffers = append(s.cache.buffers, b.Buffer)
	}
	return s.cache.buffers
}

// HasVirtualPods reports that some CapacityBuffer holds room.
func (s *Snapshot) HasVirtualPods() bool {
	for _, b := range s.Buffers() {
		if len(b.Pods) > 0 {
			return true
		}
	}
	return false
}

// IsOurBuffer reports that the buffer asks for nodes that are kept ready, and is not being deleted.
func IsOurBuffer(o *bufferv1beta1.CapacityBuffer) bool {
	strategy := o.Spec.ProvisioningStrategy
	return o.DeletionTimestamp == nil && (strategy == nil || *strategy == "" || *strategy == bufferv1beta1.StrategyActiveCapacity)
}

// resolved is a Buffer with what its pods are made of.
type resolved struct {
	*Buffer
	class *world.PodClass
	// scale is the replicas of what ScalableRef names.
	scale int32
}

func resolveBuffer(w *world.World, o *bufferv1beta1.CapacityBuffer) resolved {
	r := resolved{Buffer: &Buffer{Object: o, Reason: bufferv1beta1.ReasonResolved}}
	template := r.template(w)
	if template == nil {
		return r
	}
	r.class = world.ClassOfTemplate(template)
	r.class.Annotations = map[string]string{
		bufferv1beta1.VirtualPodAnnotation: "true", bufferv1beta1.BufferNameAnnotation: o.Name, bufferv1beta1.BufferNamespaceAnnotation: o.Namespace,
	}
	lowest := int32(math.MinInt32)
	r.class.Spec.Priority, r.class.Spec.PriorityClassName, r.class.Spec.SchedulingGates = &lowest, "", nil
	r.Replicas = r.replicas()
	return r
}

func (b *Buffer) fail(reason, format string, args ...any) *corev1.PodTemplateSpec {
	b.Reason, b.Message = reason, fmt.Sprintf(format, args...)
	return nil
}

// template finds the pod template; nil, with the reason, if there is none.
func (r *resolved) template(w *world.World) *corev1.PodTemplateSpec {
	spec := &r.Object.Spec
	switch {
	case spec.PodTemplateRef != nil && spec.ScalableRef != nil, spec.PodTemplateRef == nil && spec.ScalableRef == nil:
		return r.fail(bufferv1beta1.ReasonResolutionFailed, "one of podTemplateRef and scalableRef must be set")
	case spec.PodTemplateRef != nil:
		if r.Template = w.PodTemplate(r.Object.Namespace + "/" + spec.PodTemplateRef.Name); r.Template == nil {
			return r.fail(bufferv1beta1.ReasonPodTemplateNotFound, "PodTemplate %q not found", spec.PodTemplateRef.Name)
		}
		return &r.Template.Template
	}
	ref := spec.ScalableRef
	key := r.Object.Namespace + "/" + ref.Name
	scaled := func(replicas *int32, template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		if r.scale = 1; replicas != nil {
			r.scale = *replicas
		}
		return template
	}
	if ref.APIGroup != appsv1.GroupName && ref.APIGroup != "" {
		return r.fail(bufferv1beta1.ReasonResolutionFailed, "scalableRef %s of group %q is not supported: must be a Deployment, StatefulSet or ReplicaSet of group %q",
			ref.Kind, ref.APIGroup, appsv1.GroupName)
	}
	switch ref.Kind {
	case "Deployment":
		if o := w.Deployment(key); o != nil && len(o.Spec.Template.Spec.Containers) > 0 { // else it is known for surge alone
			return scaled(o.Spec.Replicas, &o.Spec.Template)
		}
	case "StatefulSet":
		if o := w.StatefulSet(key); o != nil {
			return scaled(o.Spec.Replicas, &o.Spec.Template)
		}
	case "ReplicaSet":
		if o := w.ReplicaSet(key); o != nil {
			return scaled(o.Spec.Replicas, &o.Spec.Template)
		}
	default:
		return r.fail(bufferv1beta1.ReasonResolutionFailed, "scalableRef of kind %q is not supported: must be a Deployment, StatefulSet or ReplicaSet", ref.Kind)
	}
	return r.fail(bufferv1beta1.ReasonScalableRefNotFound, "%s %q not found", ref.Kind, ref.Name)
}

// replicas is the larger of the fixed number and the percentage, within the limits; alone these say how many
// there are.
func (r *resolved) replicas() int32 {
	spec := &r.Object.Spec
	n, asked := int64(0), false
	if spec.Replicas != nil {
		n, asked = int64(*spec.Replicas), true
	}
	if spec.Percentage != nil && spec.ScalableRef != nil {
		share := (int64(r.scale)*int64(*spec.Percentage) + 99) / 100
		n, asked = max(n, share, 1), true
	}
	if len(spec.Limits) > 0 {
		fits, bounded := within(spec.Limits, r.class.Requests)
		switch {
		case asked && bounded:
			n = min(n, fits)
		case bounded:
			n = fits
		case !asked:
			r.fail(bufferv1beta1.ReasonResolutionFailed, "limits name no resource that the pods request, so they do not say how many there are")
		}
	}
	return int32(min(max(n, 0), math.MaxInt32))
}

// within is how many times the requests fit into limits; false if the limits name nothing that is requested.
func within(limits corev1.ResourceList, requests resource.Vector) (n int64, bounded bool) {
	n = math.MaxInt64
	amounts := resource.From(limits)
	for name := range limits { // a limit of 0 is one too
		if each := requests.Get(name); each > 0 {
			n, bounded = min(n, amounts.Get(name)/each), true
		}
	}
	return n, bounded
}

// addPods makes the virtual pods, at most so many.
func (r *resolved) addPods(most int32) {
	o, n := r.Object, min(r.Replicas, most)
	if n <= 0 || r.Reason != bufferv1beta1.ReasonResolved {
		return
	}
	created := int64(0)
	if !o.CreationTimestamp.IsZero() {
		created = o.CreationTimestamp.UnixNano()
	}
	pods := make([]world.Pod, n)
	r.Pods = make([]*world.Pod, n)
	for i := range pods {
		number := strconv.Itoa(i)
		pods[i] = world.Pod{
			UID: o.UID + types.UID("-"+number), Namespace: o.Namespace, Name: VirtualPodPrefix + o.Name + "-" + number,
			Class: r.class, Created: created, Phase: corev1.PodPending,
		}
		r.Pods[i] = &pods[i]
	}
}
