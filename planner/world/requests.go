package world

import (
	corev1 "k8s.io/api/core/v1"

	"millwright/planner/resource"
)

// amountMax bounds one amount of a request, so that sums over a node cannot overflow and can be undone.
const amountMax = int64(1) << 52

// PodRequests is what a pod uses of a node (reference: scheduling §4): the larger of the running containers'
// sum and the peak of the init containers, replaced by pod-level requests where given, plus overhead, and one
// pod. status may be nil; it matters while containers are resized in place.
func PodRequests(spec *corev1.PodSpec, status *corev1.PodStatus) resource.Vector {
	resized := resizing{status: status}
	var sum, side, peak resource.Vector
	for i := range spec.Containers {
		sum = sum.Add(resized.container(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		req := resized.container(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sum, side = sum.Add(req), side.Add(req)
			peak = peak.Max(side)
		} else {
			peak = peak.Max(side.Add(req))
		}
	}
	req := podLevel(spec, sum.Max(peak)).Add(vector(spec.Overhead))
	req.Pods = 1
	return req
}

// podLevel replaces each resource that the pod itself requests.
func podLevel(spec *corev1.PodSpec, req resource.Vector) resource.Vector {
	if spec.Resources == nil {
		return req
	}
	list := withLimits(*spec.Resources)
	own := vector(list)
	for name := range list {
		req.Set(name, own.Get(name))
	}
	return req
}

// PodLimits is what a pod may use of a node at most, of the resources that it is limited in, and one pod. It
// is put together as PodRequests; overhead counts where there is a limit.
func PodLimits(spec *corev1.PodSpec) resource.Vector {
	var sum, side, peak resource.Vector
	for i := range spec.Containers {
		sum = sum.Add(vector(spec.Containers[i].Resources.Limits))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		limits := vector(c.Resources.Limits)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sum, side = sum.Add(limits), side.Add(limits)
			peak = peak.Max(side)
		} else {
			peak = peak.Max(side.Add(limits))
		}
	}
	limits := sum.Max(peak)
	if spec.Resources != nil {
		own := vector(spec.Resources.Limits)
		for _, name := range own.Names() {
			limits.Set(name, own.Get(name))
		}
	}
	overhead := vector(spec.Overhead)
	for _, name := range overhead.Names() {
		if n := limits.Get(name); n > 0 {
			limits.Set(name, n+overhead.Get(name))
		}
	}
	limits.Pods = 1
	return limits
}

// resizing knows what containers hold while their resources change in place.
type resizing struct {
	status *corev1.PodStatus
}

func (r resizing) container(c *corev1.Container) resource.Vector {
	req := vector(withLimits(c.Resources))
	cs := r.findStatus(c.Name)
	if cs == nil || cs.Resources == nil {
		return req
	}
	held := vector(cs.Resources.Requests).Max(vector(cs.AllocatedResources))
	if r.infeasible() {
		return held
	}
	return req.Max(held)
}

func (r resizing) findStatus(name string) *corev1.ContainerStatus {
	if r.status == nil {
		return nil
	}
	for _, list := range [][]corev1.ContainerStatus{r.status.ContainerStatuses, r.status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func (r resizing) infeasible() bool {
	c := podCondition(r.status, corev1.PodResizePending)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible
}

func podCondition(status *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

// withLimits returns the requests, with limits in place of those that are missing.
func withLimits(r corev1.ResourceRequirements) corev1.ResourceList {
	missing := false
	for name := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			missing = true
		}
	}
	if !missing {
		return r.Requests
	}
	list := r.Limits.DeepCopy()
	for name, q := range r.Requests {
		list[name] = q
	}
	return list
}

// vector converts requests, each amount bounded to [0, amountMax].
func vector(list corev1.ResourceList) resource.Vector {
	v := resource.From(list)
	for _, name := range v.Names() {
		if n := v.Get(name); n != bounded(n) {
			v.Set(name, bounded(n))
		}
	}
	return v
}

func bounded(n int64) int64 { return min(max(n, 0), amountMax) }
