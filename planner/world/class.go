package world

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/intern"
	"millwright/planner/resource"
)

// classRow is a class of the World's pods, and how many they are.
type classRow struct {
	class *PodClass
	pods  int
}

// DeletionCostAnnotation is Kubernetes' ranking of a ReplicaSet's pods.
const DeletionCostAnnotation = "controller.kubernetes.io/pod-deletion-cost"

// classFor returns the class of a pod, that of other pods if it is the same.
func (w *World) classFor(p *corev1.Pod) *PodClass {
	c := classOf(p)
	if r, known := w.classes.Get(c.Digest); known {
		return r.class
	}
	if known := w.departed.class(c); known != nil {
		return known
	}
	return c
}

// countClass counts a pod into its class, or out of it.
func (w *World) countClass(c *PodClass, by int) {
	r, _ := w.classes.Get(c.Digest)
	if r.pods += by; r.pods == 0 {
		w.classes.Delete(w.owner, c.Digest)
		return
	}
	w.classes.Set(w.owner, c.Digest, classRow{c, r.pods})
}

// classOf builds the class of one pod, without what differs between replicas.
func classOf(p *corev1.Pod) *PodClass {
	c := &PodClass{Labels: p.Labels, Annotations: keptAnnotations(p.Annotations)}
	if owner := ownerOf(p); owner != nil {
		c.OwnerKind, c.OwnerAPIVersion = intern.String(owner.Kind), intern.String(owner.APIVersion)
		c.OwnerName, c.OwnerUID = owner.Name, owner.UID
	}
	c.Spec = classSpec(&p.Spec, c)
	c.Requests = PodRequests(&p.Spec, &p.Status)
	c.Digest = classDigest(c)
	return c
}

// ownerOf is the pod's controller or, without one, a Node or DaemonSet that owns it: these need not call
// themselves its controller (reference: lifecycle §8.1).
func ownerOf(p *corev1.Pod) *metav1.OwnerReference {
	if controller := metav1.GetControllerOfNoCopy(p); controller != nil {
		return controller
	}
	for _, is := range [][2]string{{"v1", "Node"}, {"apps/v1", "DaemonSet"}} {
		for i := range p.OwnerReferences {
			if o := &p.OwnerReferences[i]; o.APIVersion == is[0] && o.Kind == is[1] {
				return o
			}
		}
	}
	return nil
}

func keptAnnotations(all map[string]string) map[string]string {
	var kept map[string]string
	for _, k := range []string{karpv1.DoNotDisruptAnnotationKey, DeletionCostAnnotation} {
		if v, ok := all[k]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[k] = v
		}
	}
	return kept
}

// classSpec keeps what planners read of a spec. Volumes that are the same for any pod's placement (token
// projections, config, empty directories) go, and with them their generated names. A DaemonSet pod's own
// node affinity goes too: its controller writes the node's name into it.
func classSpec(s *corev1.PodSpec, c *PodClass) *corev1.PodSpec {
	k := &corev1.PodSpec{
		Containers: keptContainers(s.Containers, s.HostNetwork), InitContainers: keptContainers(s.InitContainers, s.HostNetwork),
		RestartPolicy: s.RestartPolicy, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		NodeSelector: s.NodeSelector, HostNetwork: s.HostNetwork, Affinity: s.Affinity, SchedulerName: s.SchedulerName,
		Tolerations: s.Tolerations, PriorityClassName: s.PriorityClassName, Priority: s.Priority,
		PreemptionPolicy: s.PreemptionPolicy, Overhead: s.Overhead, TopologySpreadConstraints: s.TopologySpreadConstraints,
		OS: s.OS, SchedulingGates: s.SchedulingGates, ResourceClaims: s.ResourceClaims, Resources: s.Resources,
		Volumes: keptVolumes(s.Volumes), RuntimeClassName: s.RuntimeClassName,
	}
	if c.DaemonSetOwned() && k.Affinity != nil && k.Affinity.NodeAffinity != nil {
		a := *k.Affinity
		a.NodeAffinity = nil
		k.Affinity = &a
	}
	return k
}

func keptContainers(list []corev1.Container, hostNetwork bool) []corev1.Container {
	if len(list) == 0 {
		return nil
	}
	kept := make([]corev1.Container, len(list))
	for i := range list {
		c := &list[i]
		kept[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy, Ports: hostPorts(c.Ports, hostNetwork)}
	}
	return kept
}

// hostPorts are, on the host's network, all ports: templates do not say that they are the node's.
func hostPorts(ports []corev1.ContainerPort, hostNetwork bool) []corev1.ContainerPort {
	var kept []corev1.ContainerPort
	for _, p := range ports {
		if p.HostPort != 0 || hostNetwork {
			kept = append(kept, p)
		}
	}
	return kept
}

func keptVolumes(list []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range list {
		v := &list[i]
		if v.Projected == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.HostPath == nil {
			kept = append(kept, *v)
		}
	}
	return kept
}

// SetDigest after a class was changed.
func (c *PodClass) SetDigest() { c.Digest = classDigest(c) }

// classDigest hashes the canonical form: each part with its length, maps by key, the spec as protobuf
// (whose maps are written by key).
func classDigest(c *PodClass) uint64 {
	size := c.Spec.Size()
	e := encoder{buf: make([]byte, 0, size+1024)}
	e.stringMap(c.Labels)
	e.stringMap(c.Annotations)
	for _, s := range []string{c.OwnerKind, c.OwnerAPIVersion, c.OwnerName, string(c.OwnerUID)} {
		e.string(s)
	}
	e.uint(uint64(size))
	from := len(e.buf)
	e.buf = slices.Grow(e.buf, size)[:from+size]
	if _, err := c.Spec.MarshalToSizedBuffer(e.buf[from:]); err != nil {
		panic("world: a decoded pod spec cannot be encoded: " + err.Error())
	}
	e.vector(c.Requests)
	sum := sha256.Sum256(e.buf)
	return binary.BigEndian.Uint64(sum[:8])
}

// vector writes amounts by name.
func (e *encoder) vector(v resource.Vector) {
	names := v.Names()
	e.uint(uint64(len(names)))
	for _, n := range names {
		e.string(string(n))
		e.int(v.Get(n))
	}
}
