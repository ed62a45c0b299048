package users

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	"millwright/events"
	"millwright/planner/options"
	"millwright/services/sim/cluster"
)

// Buffers are CapacityBuffers, and what they refer to: a PodTemplate, or a StatefulSet whose pods nobody
// makes. They draw from random numbers of their own.
type Buffers struct {
	*Users
	rng     *rand.Rand
	objects []*bufferv1beta1.CapacityBuffer
	spec    corev1.PodSpec
}

// Names of what buffers refer to, and of the pods that consume their room.
const (
	buffered = "buffered"
	Consumer = "consumer"
)

// drawBuffers draws one CapacityBuffer or two: a fixed number of pods, and a share of a StatefulSet.
func (s *Users) drawBuffers() {
	rng := s.Own(0x62756666657273)
	if rng.IntN(1000) >= s.Faults.Buffers {
		return
	}
	if err := s.Options.SetFeatureGates(options.GateCapacityBuffer + "=true"); err != nil {
		panic(err)
	}
	x := &Buffers{Users: s, rng: rng, spec: podSpec([]string{"300m", "700m", "1200m"}[rng.IntN(3)], []string{"128Mi", "1Gi"}[rng.IntN(2)])}
	add := func(name string, spec bufferv1beta1.CapacityBufferSpec) {
		if rng.IntN(4) == 0 {
			spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
		}
		x.objects = append(x.objects, &bufferv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec})
	}
	one, share := int32(1+rng.IntN(3)), int32(20+rng.IntN(60))
	kind := rng.IntN(3)
	if kind != 1 {
		add("fixed", bufferv1beta1.CapacityBufferSpec{PodTemplateRef: &bufferv1beta1.LocalObjectRef{Name: buffered}, Replicas: &one})
	}
	if kind != 0 {
		add("share", bufferv1beta1.CapacityBufferSpec{ScalableRef: &bufferv1beta1.ScalableRef{APIGroup: appsv1.GroupName, Kind: "StatefulSet", Name: buffered}, Percentage: &share})
	}
	s.Buffers = x
}

// furnish creates what was drawn, and the buffers themselves some time later.
func (x *Buffers) furnish() {
	if x == nil {
		return
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": buffered}}, Spec: x.spec}
	x.Cluster.Apply(events.KindPodTemplate, &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: buffered}, Template: template})
	larger := *template.DeepCopy()
	larger.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
	x.scale(larger, int32(2+x.rng.IntN(4)))
	x.Clock.After(time.Duration(x.rng.Int64N(int64(x.Script.Length))), func() { x.scale(larger, int32(1+x.rng.IntN(6))) })
	for _, o := range x.objects {
		x.Clock.After(time.Duration(x.rng.Int64N(int64(x.Script.Length/2))), func() {
			text, err := json.Marshal(o.Spec)
			if err != nil {
				panic(err)
			}
			x.Trace("user: makes CapacityBuffer %s: %s", o.Name, text)
			x.Cluster.Apply(events.KindCapacityBuffer, o)
		})
	}
}

func (x *Buffers) scale(template corev1.PodTemplateSpec, replicas int32) {
	x.Trace("user: scales StatefulSet %s to %d", buffered, replicas)
	x.Cluster.Apply(events.KindStatefulSet, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: buffered},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Template: template}})
}

// Consume makes as many pods as the first buffer is for and returns how many that are.
func (x *Buffers) Consume() int {
	o := x.objects[0]
	have, _ := x.Cluster.Object(events.KindCapacityBuffer, o.Namespace+"/"+o.Name).(*bufferv1beta1.CapacityBuffer)
	if have == nil || have.Status.Replicas == nil {
		return 0
	}
	spec := x.spec.DeepCopy()
	if o.Spec.ScalableRef != nil {
		spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
	}
	n := int(*have.Status.Replicas)
	x.Trace("user: makes %d pods for which there is a CapacityBuffer", n)
	x.Cluster.Deploy(cluster.Deployment{Name: Consumer, Replicas: n, Labels: map[string]string{"app": Consumer}, Spec: *spec})
	return n
}

// Delete deletes all CapacityBuffers and returns them.
func (x *Buffers) Delete() (deleted []*bufferv1beta1.CapacityBuffer) {
	x.Trace("user: deletes the CapacityBuffers")
	for _, o := range x.objects {
		key := o.Namespace + "/" + o.Name
		if have, ok := x.Cluster.Object(events.KindCapacityBuffer, key).(*bufferv1beta1.CapacityBuffer); ok {
			deleted = append(deleted, have)
			x.Cluster.Delete(events.KindCapacityBuffer, key)
		}
	}
	x.Cluster.Scale(Consumer, 0)
	return deleted
}
