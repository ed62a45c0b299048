package kube

import (
	"context"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner"
)

// bufferKinds are watched only behind the feature gate of CapacityBuffers. Of what these may refer to, only
// what one of them names is published; and as long as none names anything of a kind, that kind is not watched
// either.
var bufferKinds = []kind{
	{kind: events.KindCapacityBuffer, group: bufferv1beta1.SchemeGroupVersion, resource: "capacitybuffers", example: &bufferv1beta1.CapacityBuffer{}, everyVersion: true,
		optional: true, emptyList: func() runtime.Object { return &bufferv1beta1.CapacityBufferList{} }},
	{kind: events.KindPodTemplate, group: corev1.SchemeGroupVersion, resource: "podtemplates", example: &corev1.PodTemplate{}, named: true,
		optional: true, emptyList: func() runtime.Object { return &corev1.PodTemplateList{} }},
	{kind: events.KindStatefulSet, group: appsv1.SchemeGroupVersion, resource: "statefulsets", example: &appsv1.StatefulSet{}, named: true,
		optional: true, emptyList: func() runtime.Object { return &appsv1.StatefulSetList{} }},
	{kind: events.KindReplicaSet, group: appsv1.SchemeGroupVersion, resource: "replicasets", example: &appsv1.ReplicaSet{}, named: true,
		optional: true, emptyList: func() runtime.Object { return &appsv1.ReplicaSetList{} }},
}

// deployments are published if CapacityBuffers name them, and all of them, less their templates, while a
// DisruptionPolicy asks for surge.
var deployments = kind{kind: events.KindDeployment, group: appsv1.SchemeGroupVersion, resource: "deployments", example: &appsv1.Deployment{}, named: true,
	optional: true, emptyList: func() runtime.Object { return &appsv1.DeploymentList{} }}

// WithBuffers has CapacityBuffers watched too, and what they refer to. It is called before the first Watch.
func (s *Source) WithBuffers() *Source {
	s.kinds = allKinds()
	return s
}

// WithSurge has the Deployments watched too that may replace pods. It is called before the first Watch.
func (s *Source) WithSurge() *Source {
	s.surge = true
	if !slices.ContainsFunc(s.kinds, func(k kind) bool { return k.kind == deployments.kind }) {
		s.kinds = append([]kind{deployments}, s.kinds...)
	}
	return s
}

func allKinds() []kind {
	return slices.Concat(bufferKinds, []kind{deployments}, kinds)
}

// reference of a CapacityBuffer: an object by its kind and namespace/name.
type reference struct {
	kind events.Kind
	key  string
}

// referenceOf is the zero reference if the buffer is not for us, or refers to what nobody watches.
func referenceOf(b *bufferv1beta1.CapacityBuffer) reference {
	spec := &b.Spec
	switch {
	case !planner.IsOurBuffer(b):
	case spec.PodTemplateRef != nil:
		return reference{events.KindPodTemplate, b.Namespace + "/" + spec.PodTemplateRef.Name}
	case spec.ScalableRef != nil && (spec.ScalableRef.APIGroup == appsv1.GroupName || spec.ScalableRef.APIGroup == ""):
		for _, k := range []events.Kind{events.KindDeployment, events.KindStatefulSet, events.KindReplicaSet} {
			if k.String() == spec.ScalableRef.Kind {
				return reference{k, b.Namespace + "/" + spec.ScalableRef.Name}
			}
		}
	}
	return reference{}
}

// references are what the CapacityBuffers and DisruptionPolicies of an epoch refer to.
type references struct {
	mu sync.Mutex
	// byReferrer holds the references by the kind and namespace/name of what refers, counts how many have
	// each.
	byReferrer map[reference]reference
	counts     map[reference]int
	// moved wakes the watch of a kind whose names have changed.
	moved map[events.Kind]chan struct{}
	// unlisted are the kinds that refer and are not all known yet; listed is closed once there are none.
	unlisted map[events.Kind]bool
	listed   chan struct{}
}

// every stands for all objects of a kind; it is no name.
const every = "*"

// surged is what a DisruptionPolicy with surge refers to: the Deployments that may replace pods.
var surged = reference{events.KindDeployment, every}

func newReferences(of []kind, surge bool) *references {
	r := &references{byReferrer: map[reference]reference{}, counts: map[reference]int{}, moved: map[events.Kind]chan struct{}{},
		unlisted: map[events.Kind]bool{}, listed: make(chan struct{})}
	for _, k := range of {
		if k.named {
			r.moved[k.kind] = make(chan struct{}, 1)
		}
		if k.kind == events.KindCapacityBuffer || surge && k.kind == events.KindDisruptionPolicy {
			r.unlisted[k.kind] = true
		}
	}
	return r
}

// follow has the store of a kind that refers say what there is.
func (r *references) follow(s *store) {
	k := s.kind.kind
	if r.unlisted[k] {
		s.noted = func(key string, object metav1.Object) { r.note(reference{k, key}, object) }
		s.replaced = func() { r.allListed(k) }
	}
}

// note takes in what refers as it is now; nil if it is gone.
func (r *references) note(referrer reference, object metav1.Object) {
	now := reference{}
	switch o := object.(type) {
	case *bufferv1beta1.CapacityBuffer:
		now = referenceOf(o)
	case *mwv1alpha1.DisruptionPolicy:
		if o.Spec.Surge != nil {
			now = surged
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byReferrer[referrer]
	if before == now {
		return
	}
	delete(r.byReferrer, referrer)
	if now != (reference{}) {
		r.byReferrer[referrer] = now
		if r.counts[now]++; r.counts[now] == 1 {
			r.wakeWatch(now.kind)
		}
	}
	if before == (reference{}) {
		return
	}
	if r.counts[before]--; r.counts[before] == 0 {
		delete(r.counts, before)
		r.wakeWatch(before.kind)
	}
}

func (r *references) wakeWatch(k events.Kind) {
	select {
	case r.moved[k] <- struct{}{}:
	default: // it is awake
	}
}

// ofKind returns what is referred to of a kind, by namespace/name.
func (r *references) ofKind(k events.Kind) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]bool{}
	for x := range maps.Keys(r.counts) {
		if x.kind == k {
			names[x.key] = true
		}
	}
	return names
}

// allListed notes that all of a kind that refers are known.
func (r *references) allListed(k events.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unlisted[k] {
		if delete(r.unlisted, k); len(r.unlisted) == 0 {
			close(r.listed)
		}
	}
}

// runNamed watches a kind for as long as something names an object of it, and begins anew when other objects
// are named: then the list tells what is published, and what no longer is. Nothing is listed before all that
// may name any is known, or a new epoch would drop it all.
func (w *watched) runNamed(ctx context.Context, r *references) error {
	select {
	case <-r.listed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		select {
		case <-r.moved[w.kind.kind]: // what moved is seen now
		default:
		}
		names := r.ofKind(w.kind.kind)
		w.store.setWanted(names)
		run, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if len(names) > 0 {
				w.newReflector().RunWithContext(run)
				return
			}
			_ = w.store.Replace(nil, "") // it fails if the sink is gone, and the epoch with it
		}()
		select {
		case <-r.moved[w.kind.kind]:
		case <-ctx.Done():
		}
		cancel()
		<-done
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func trimBuffer(b *bufferv1beta1.CapacityBuffer) *bufferv1beta1.CapacityBuffer {
	kept := identity(b.ObjectMeta)
	kept.Generation, kept.CreationTimestamp, kept.DeletionTimestamp = b.Generation, b.CreationTimestamp, b.DeletionTimestamp
	return &bufferv1beta1.CapacityBuffer{ObjectMeta: kept, Spec: b.Spec, Status: b.Status}
}

// identity is all that counts of the metadata of what a buffer refers to.
func identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

// trimReferred keeps what says how many pods there are to be, and where such a pod fits; nil for any other
// object.
func trimReferred(object runtime.Object) metav1.Object {
	switch o := object.(type) {
	case *bufferv1beta1.CapacityBuffer:
		return trimBuffer(o)
	case *corev1.PodTemplate:
		kept := &corev1.PodTemplate{ObjectMeta: identity(o.ObjectMeta), Template: trimVirtual(o.Template)}
		kept.Generation = o.Generation
		return kept
	case *appsv1.Deployment:
		return &appsv1.Deployment{ObjectMeta: identity(o.ObjectMeta), Spec: appsv1.DeploymentSpec{Replicas: o.Spec.Replicas, Template: trimVirtual(o.Spec.Template),
			Strategy: o.Spec.Strategy, Paused: o.Spec.Paused}}
	case *appsv1.StatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: identity(o.ObjectMeta), Spec: appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, Template: trimVirtual(o.Spec.Template)}}
	case *appsv1.ReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: identity(o.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Template: trimVirtual(o.Spec.Template)}}
	}
	return nil
}

// withoutTemplate is what planners read of an object that no buffer names.
func withoutTemplate(object metav1.Object) metav1.Object {
	if o, ok := object.(*appsv1.Deployment); ok {
		bare := *o
		bare.Spec.Template = corev1.PodTemplateSpec{}
		return &bare
	}
	return object
}

// trimVirtual keeps what a virtual pod would have of a template: no volumes.
func trimVirtual(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	spec := trimPodSpec(&t.Spec)
	spec.Volumes, spec.NodeName = nil, ""
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: t.Labels}, Spec: spec}
}
