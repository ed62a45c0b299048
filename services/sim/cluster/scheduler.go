package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
)

// scheduler is a small kube-scheduler. It knows the Nodes as they were a moment ago.
type scheduler struct {
	*Cluster
	nodes   map[string]*corev1.Node
	pending bool
	// awayUntil is when it looks at pods again; what it knows of Nodes goes on.
	awayUntil time.Time
	// tried is when it last found no place for a pod, by UID.
	tried map[types.UID]time.Time
}

// seeNode tells the scheduler of a Node after a moment; what is older than what it knows is nothing new.
func (k *scheduler) seeNode(before, after Object) {
	wait := k.between(5, 400)
	if k.SchedulerLate > 0 && k.rng.IntN(1000) < k.SchedulerLate {
		wait = k.between(400, 6000)
	}
	k.clock.After(wait, func() {
		if after == nil {
			if have := k.nodes[before.GetName()]; have != nil && have.UID == before.GetUID() {
				delete(k.nodes, before.GetName())
			}
			return
		}
		n := after.(*corev1.Node)
		if k.Node(n.Name) == nil {
			return
		}
		if have := k.nodes[n.Name]; have == nil || version(have) < version(n) {
			k.nodes[n.Name] = n
			k.wake()
		}
	})
}

func version(o Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic("cluster: resource version " + o.GetResourceVersion())
	}
	return n
}

func (k *scheduler) wake() {
	if k.pending {
		return
	}
	k.pending = true
	k.clock.After(max(k.between(20, 150), k.awayUntil.Sub(k.clock.Now())), func() {
		k.pending = false
		k.schedule()
	})
}

// schedule looks at all pods without a node, oldest first.
func (k *scheduler) schedule() {
	var waiting []*corev1.Pod
	for _, p := range k.Pods() {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 {
			waiting = append(waiting, p)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, p := range waiting {
		if nodes := k.fitting(p); len(nodes) > 0 {
			k.bind(p, nodes[k.rng.IntN(len(nodes))])
			continue
		}
		k.refuse(p)
	}
}

// PauseScheduler has kube-scheduler stand still for a while, unless it does.
func (k *Cluster) PauseScheduler(d time.Duration) {
	if k.clock.Now().After(k.scheduler.awayUntil) {
		k.scheduler.awayUntil = k.clock.Now().Add(d)
	}
}

// fitting lists the Nodes that could run the pod, by name.
func (k *scheduler) fitting(p *corev1.Pod) []string {
	var names []string
	requests := requestsOf(p)
	for name, n := range k.nodes {
		if k.Node(name) == nil || n.Spec.Unschedulable || !tolerated(&p.Spec, n.Spec.Taints) || !carries(n.Labels, p.Spec.NodeSelector) {
			continue
		}
		if requests.Fits(k.free(n)) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

func (k *scheduler) bind(p *corev1.Pod, node string) {
	o := p.DeepCopy()
	o.Spec.NodeName = node
	setPodCondition(o, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: k.now()})
	k.put(events.KindPod, o)
	k.clock.After(k.between(200, 1500), func() { k.startPod(keyOf(o), o.UID, node) })
}

// Surprise makes one more pod of a Deployment, and binds it to the Node at once if kube-scheduler would do so
// by what it knows.
func (k *Cluster) Surprise(d *Deployment, node string) {
	d.Replicas++
	p := k.controllers.makePod(d)
	if slices.Contains(k.scheduler.fitting(p), node) {
		k.scheduler.bind(p, node)
	}
}

// refuse says so of a pod, unless it has said just that before.
func (k *scheduler) refuse(p *corev1.Pod) {
	if k.tried == nil {
		k.tried = map[types.UID]time.Time{}
	}
	k.tried[p.UID] = k.clock.Now()
	text := fmt.Sprintf("0/%d nodes are available", len(k.nodes))
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Reason == corev1.PodReasonUnschedulable && c.Message == text
	}) {
		return
	}
	o := p.DeepCopy()
	setPodCondition(o, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: text, LastTransitionTime: k.now(), LastProbeTime: k.now()})
	k.put(events.KindPod, o)
}

// Tried is when kube-scheduler last found no place for a pod; zero if it never tried.
func (k *Cluster) Tried(pod types.UID) time.Time { return k.scheduler.tried[pod] }
