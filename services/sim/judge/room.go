package judge

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	"millwright/services/sim/cloud"
)

// room is what a node has, or what a pod asks for.
type room struct{ milli, memory, pods int64 }

func (r room) less(o room) room {
	return room{r.milli - o.milli, r.memory - o.memory, r.pods - o.pods}
}

func (r room) plus(o room) room {
	return room{r.milli + o.milli, r.memory + o.memory, r.pods + o.pods}
}

// holds is how many pods that ask for so much each have room.
func (r room) holds(each room) int {
	n := r.pods / each.pods
	for _, x := range [][2]int64{{r.milli, each.milli}, {r.memory, each.memory}} {
		if x[1] > 0 {
			n = min(n, x[0]/x[1])
		}
	}
	return int(max(n, 0))
}

func requestsOf(spec *corev1.PodSpec) room {
	r := room{pods: 1}
	for _, x := range spec.Containers {
		r.milli, r.memory = r.milli+x.Resources.Requests.Cpu().MilliValue(), r.memory+x.Resources.Requests.Memory().Value()
	}
	return r
}

// demand of a CapacityBuffer: room for so many pods.
type demand struct {
	buffer *bufferv1beta1.CapacityBuffer
	each   room
	pods   int
}

func (d demand) String() string {
	return fmt.Sprintf("%d times %dm CPU and %d bytes for %s", d.pods, d.each.milli, d.each.memory, d.buffer.Name)
}

// fit reports that rooms hold what at most two buffers demand. most[n] is how much of the second has room if
// n of the first have theirs.
func fit(rooms []room, wants []demand) bool {
	for len(wants) < 2 {
		wants = append(slices.Clip(wants), demand{each: room{pods: 1}})
	}
	first, second := wants[0], wants[1]
	most := make([]int, first.pods+1)
	for n := 1; n <= first.pods; n++ {
		most[n] = -1
	}
	for _, r := range rooms {
		next := slices.Clone(most)
		for n, have := range most {
			for k := 0; have >= 0 && n+k <= first.pods && k <= r.holds(first.each); k++ {
				left := room{r.milli - int64(k)*first.each.milli, r.memory - int64(k)*first.each.memory, r.pods - int64(k)}
				next[n+k] = max(next[n+k], have+left.holds(second.each))
			}
		}
		most = next
	}
	return most[first.pods] >= second.pods
}

// demandOf a buffer by its own rules: the larger of replicas and the share of the scalable, rounded up and at
// least one, as far as its limits on CPU allow.
func demandOf(b *bufferv1beta1.CapacityBuffer, template *corev1.PodTemplate, set *appsv1.StatefulSet) demand {
	d := demand{buffer: b}
	var n int32
	switch {
	case b.Spec.PodTemplateRef != nil && template != nil:
		d.each = requestsOf(&template.Template.Spec)
	case b.Spec.ScalableRef != nil && set != nil:
		d.each = requestsOf(&set.Spec.Template.Spec)
		if p := b.Spec.Percentage; p != nil {
			n = max((*set.Spec.Replicas**p+99)/100, 1)
		}
	default:
		return demand{each: room{pods: 1}}
	}
	if r := b.Spec.Replicas; r != nil {
		n = max(n, *r)
	}
	d.pods = int(n)
	if limit, has := b.Spec.Limits[corev1.ResourceCPU]; has {
		d.pods = min(d.pods, int(limit.MilliValue()/d.each.milli))
	}
	return d
}

// largest is the most that one of some instance types has for pods.
func largest(types []string) (most room) {
	for _, name := range types {
		if _, r := cloud.Size(name); r.MilliCPU > most.milli {
			most = room{r.MilliCPU, r.Memory, r.Pods}
		}
	}
	return most
}

// takesPods reports that a node is ready, initialized and not about to go, and that nothing keeps pods from
// it which tolerate the taints of teams.
func takesPods(n *corev1.Node) bool {
	return n.DeletionTimestamp == nil && isReady(n) && !n.Spec.Unschedulable && n.Labels[karpv1.NodeInitializedLabelKey] == "true" &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key != "team" && t.Effect != corev1.TaintEffectPreferNoSchedule })
}

// roomOn is what the pods of a node leave of it.
func roomOn(n *corev1.Node, pods []*corev1.Pod) room {
	a := n.Status.Allocatable
	r := room{a.Cpu().MilliValue(), a.Memory().Value(), a.Pods().Value()}
	for _, p := range pods {
		if p.Spec.NodeName == n.Name && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			r = r.less(requestsOf(&p.Spec))
		}
	}
	return r
}
