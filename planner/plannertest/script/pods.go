package script

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ktypes "k8s.io/apimachinery/pkg/types"
)

func pod(c *Case, a *Args) {
	name, count := a.Next(), 1
	if a.More() && strings.HasPrefix(a.words[0], "x") && !strings.Contains(a.words[0], "=") {
		count = a.number(a.Next()[1:])
	}
	p := newPod(name)
	c.podOptions(p, a)
	p = Over(c, p, a.Block())
	for i := range count {
		q := p.DeepCopy()
		if count > 1 {
			q.Name = fmt.Sprintf("%s-%02d", name, i)
		}
		c.Put("pod", q)
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
}

func daemonset(c *Case, a *Args) {
	p := newPod(a.Next())
	c.podOptions(p, a)
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: p.Name}}
	ds.Spec.Template.Labels, ds.Spec.Template.Spec = p.Labels, p.Spec
	c.Put("daemonset", Over(c, ds, a.Block()))
}

func (c *Case) podOptions(p *corev1.Pod, a *Args) {
	c.T.Helper()
	main := &p.Spec.Containers[0]
	main.Resources.Requests = corev1.ResourceList{}
	for a.More() {
		switch k, v := a.Option(); k {
		case "ns":
			p.Namespace = v
		case "label":
			set(&p.Labels, v)
		case "annotation":
			set(&p.Annotations, v)
		case "owner":
			p.OwnerReferences = []metav1.OwnerReference{ownerOf(v)}
		case "on":
			c.bound(p, v)
		case "select":
			set(&p.Spec.NodeSelector, v)
		case "tolerate":
			p.Spec.Tolerations = append(p.Spec.Tolerations, tolerationOf(v))
		case "hostPort":
			main.Ports = append(main.Ports, a.portOf(v))
		case "volume":
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
				Name: fmt.Sprintf("v%d", len(p.Spec.Volumes)), VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v}}})
		case "or", "require", "prefer":
			a.nodeAffinity(p, k, v)
		case "spread":
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, a.spreadOf(v))
		case "near", "apart", "prefer-near", "prefer-apart":
			podAffinity(p, k, termOf(v))
		default:
			main.Resources.Requests[corev1.ResourceName(k)] = a.quantity(v)
		}
	}
}

// ownerOf reads KIND/NAME.
func ownerOf(text string) metav1.OwnerReference {
	kind, name, _ := strings.Cut(text, "/")
	version, yes := "apps/v1", true
	switch kind {
	case "Node":
		version = "v1"
	case "Job":
		version = "batch/v1"
	}
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: ktypes.UID("uid-" + name), Controller: &yes}
}

// portOf reads N[/PROTOCOL][@IP].
func (a *Args) portOf(text string) corev1.ContainerPort {
	text, ip, _ := strings.Cut(text, "@")
	text, protocol, _ := strings.Cut(text, "/")
	n := int32(a.number(text))
	return corev1.ContainerPort{HostPort: n, ContainerPort: n, HostIP: ip, Protocol: corev1.Protocol(protocol)}
}

// nodeAffinity adds a requirement to the last required term, begins the next one, or adds a preferred term.
func (a *Args) nodeAffinity(p *corev1.Pod, word, value string) {
	a.c.T.Helper()
	affinity := &affinityOf(p).NodeAffinity
	if *affinity == nil {
		*affinity = &corev1.NodeAffinity{}
	}
	if word == "prefer" {
		weight, key, _ := strings.Cut(value, ":")
		(*affinity).PreferredDuringSchedulingIgnoredDuringExecution = append((*affinity).PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
			Weight: int32(a.number(weight)), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{a.selectorRequirement(key)}}})
		return
	}
	required := &(*affinity).RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1)}
	}
	terms := &(*required).NodeSelectorTerms
	if word == "or" {
		*terms = append(*terms, corev1.NodeSelectorTerm{})
		return
	}
	last := &(*terms)[len(*terms)-1]
	last.MatchExpressions = append(last.MatchExpressions, a.selectorRequirement(value))
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

// termOf reads K=V@DOMAIN.
func termOf(text string) corev1.PodAffinityTerm {
	label, key, _ := strings.Cut(text, "@")
	k, v := pair(label)
	return corev1.PodAffinityTerm{TopologyKey: domain(key), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{k: v}}}
}

func podAffinity(p *corev1.Pod, word string, t corev1.PodAffinityTerm) {
	affinity := affinityOf(p)
	preferred := corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: t}
	if strings.HasSuffix(word, "near") {
		if affinity.PodAffinity == nil {
			affinity.PodAffinity = &corev1.PodAffinity{}
		}
		if word == "near" {
			affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, t)
			return
		}
		affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, preferred)
		return
	}
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	if word == "apart" {
		affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, t)
		return
	}
	affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, preferred)
}

// spreadOf reads K=V@DOMAIN and the fields that differ from maxSkew 1, DoNotSchedule.
func (a *Args) spreadOf(text string) corev1.TopologySpreadConstraint {
	a.c.T.Helper()
	parts := strings.Split(text, ",")
	t := termOf(parts[0])
	s := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: t.TopologyKey, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: t.LabelSelector}
	for _, field := range parts[1:] {
		k, v := pair(field)
		policy := corev1.NodeInclusionPolicy(v)
		switch k {
		case "maxSkew":
			s.MaxSkew = int32(a.number(v))
		case "minDomains":
			n := int32(a.number(v))
			s.MinDomains = &n
		case "when":
			s.WhenUnsatisfiable = corev1.UnsatisfiableConstraintAction(v)
		case "nodeTaintsPolicy":
			s.NodeTaintsPolicy = &policy
		case "nodeAffinityPolicy":
			s.NodeAffinityPolicy = &policy
		case "matchLabelKeys":
			s.MatchLabelKeys = append(s.MatchLabelKeys, v)
		default:
			a.c.T.Fatalf("spread: unknown field %s", k)
		}
	}
	return s
}
