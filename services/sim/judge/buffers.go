package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
)

// Checks of CapacityBuffers (reference: scheduling §15). That NodeClaims which are planned for them stay
// within the limits, and have room for them, is judged as of all.
const (
	CheckBufferKept   = "4: CapacityBuffers: no command takes the room that they hold"
	CheckBufferFilled = "CapacityBuffers have their room, pods start in it at once, and it is filled again, if nothing fails"
	CheckBufferGone   = "no plan is about a CapacityBuffer that was deleted"
)

const (
	// BufferTime is within which room is there, if nothing fails: a few launches, for nodes may run full
	// meanwhile.
	BufferTime = 4 * time.Minute
	// ServedTime is within which kube-scheduler binds pods for which there is room.
	ServedTime = 5 * time.Second
)

// Buffers judge the room of CapacityBuffers.
type Buffers struct {
	*Judge
	// gone is when a buffer was deleted, by its UID.
	gone map[string]time.Time
}

func newBuffers(j *Judge) *Buffers { return &Buffers{Judge: j, gone: map[string]time.Time{}} }

// wants are what the buffers of the cluster demand, by name.
func (b *Buffers) wants() (list []demand) {
	for _, c := range b.Cluster.Present() {
		if o, ok := c.Object.(*bufferv1beta1.CapacityBuffer); ok && o.DeletionTimestamp == nil {
			get := func(kind events.Kind, key string) any { return b.Cluster.Object(kind, key) }
			list = append(list, demandBy(o, get))
		}
	}
	return list
}

// wantedBy is what the buffers demand that were seen.
func (v *seen) wantedBy() (list []demand) {
	for _, o := range all[*bufferv1beta1.CapacityBuffer](v, events.KindCapacityBuffer) {
		list = append(list, demandBy(o, func(kind events.Kind, key string) any { return v.objects[kind][key] }))
	}
	return list
}

func demandBy(o *bufferv1beta1.CapacityBuffer, get func(events.Kind, string) any) demand {
	var template *corev1.PodTemplate
	var set *appsv1.StatefulSet
	if r := o.Spec.PodTemplateRef; r != nil {
		template, _ = get(events.KindPodTemplate, o.Namespace+"/"+r.Name).(*corev1.PodTemplate)
	}
	if r := o.Spec.ScalableRef; r != nil {
		set, _ = get(events.KindStatefulSet, o.Namespace+"/"+r.Name).(*appsv1.StatefulSet)
	}
	return demandOf(o, template, set)
}

// rooms of the nodes of the cluster that pods may come to, but one.
func (b *Buffers) rooms(without string) (list []room) {
	pods := b.Cluster.Pods()
	for _, n := range b.Cluster.Nodes() {
		if n.Name != without && takesPods(n) {
			list = append(list, roomOn(n, pods))
		}
	}
	return list
}

// Limited reports that a limit, or nodes that expire again and again, may keep buffers from their room.
func (b *Buffers) Limited() bool {
	return b.Script.Expires || slices.ContainsFunc(b.Script.Pools, func(p *karpv1.NodePool) bool { return len(p.Spec.Limits) > 0 })
}

// requestsOf is what a pod of a buffer that is there asks for; false if it is none.
func (b *Buffers) requestsOf(uid string) (room, bool) {
	for _, d := range b.wants() {
		if strings.HasPrefix(uid, string(d.buffer.UID)+"-") {
			return d.each, true
		}
	}
	return room{}, false
}

// Missing lists the buffers if there is no room for what they demand together.
func (b *Buffers) Missing() (missing []string) {
	wants := b.wants()
	if rooms := b.rooms(""); !fit(rooms, wants) {
		for _, d := range wants {
			missing = append(missing, fmt.Sprintf("room %s, in %v", d, rooms))
		}
	}
	return missing
}

// needs reports that a buffer may need an empty node. What two buffers of different pods hold may lie so that
// it takes more nodes than it must; and where it lies on reserved capacity, a Balanced NodePool saves nothing
// by moving it.
func (b *Buffers) needs(n *corev1.Node) bool {
	wants := b.wants()
	if pool := b.Cluster.NodePool(n.Labels[karpv1.NodePoolLabelKey]); pool != nil && len(wants) > 0 &&
		pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyBalanced && n.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved {
		return true
	}
	return len(wants) > 1 || !fit(b.rooms(n.Name), wants)
}

// CheckServed demands that all pods of an app have a node.
func (b *Buffers) CheckServed(app string, pods int) {
	list := b.podsOf(app)
	bound := slices.DeleteFunc(list, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	if len(bound) < pods {
		b.Violate(CheckBufferFilled, "%d of %d pods have started in the room of a buffer after %s", len(bound), pods, ServedTime)
	}
}

// Deleted notes that buffers are gone.
func (b *Buffers) Deleted(list []*bufferv1beta1.CapacityBuffer) {
	for _, o := range list {
		b.gone[string(o.UID)] = b.Clock.Now()
	}
}

// enter demands that no plan is about pods of a buffer that is gone, once that was seen: the first one takes
// back what was said of them.
func (b *Buffers) enter(e ledger.Entry) {
	if _, ok := e.Payload.(*ledger.ProvisioningPlanned); !ok || e.Mode == ledger.ModeShadow || len(b.gone) == 0 {
		return
	}
	for pod := range b.book.verdicts {
		buffer := pod[:max(strings.LastIndex(pod, "-"), 0)]
		if since, gone := b.gone[buffer]; gone && b.Clock.Now().Sub(since) > SecondLook {
			b.Violate(CheckBufferGone, "record %d leaves a verdict on pod %s", e.Seq, pod)
		}
	}
}

// judge demands that a command leaves room for what buffers demand if there was room. Doubts count for the
// command: what was there is looked at with all pods that there are, and only while nothing else is under
// way; what will be there with all that is on order.
func (b *Buffers) judge(p Process, c *ledger.CommandStarted) {
	v := b.seenBy(p)
	wants := v.wantedBy()
	if _, through := p.Folded(); len(wants) == 0 || len(b.book.commands) > 0 || len(v.pending()) > 0 || b.anyGoes(v, through) {
		return
	}
	pods := all[*corev1.Pod](v, events.KindPod)
	var before, after []room
	there := map[string]bool{}
	for _, n := range all[*corev1.Node](v, events.KindNode) {
		if !takesPods(n) {
			continue
		}
		there[n.Spec.ProviderID] = true
		r := roomOn(n, pods)
		before = append(before, r.less(b.daemonsToCome(v, n, pods)))
		if !slices.ContainsFunc(c.Candidates, func(x ledger.Candidate) bool { return x.Node == n.Name }) {
			after = append(after, r.less(movedTo(c, n.Name, pods)))
		}
	}
	if !fit(before, wants) {
		return
	}
	for i := range c.Replacements {
		x := &c.Replacements[i]
		after = append(after, largest(x.InstanceTypes).less(sumOf(x.Pods, pods)))
	}
	for _, x := range b.book.claims {
		if content := x.content(); content != nil && x.doomed == 0 && !there[x.provider] {
			after = append(after, largest(content.planned.InstanceTypes))
		}
	}
	if !fit(after, wants) {
		b.Violate(CheckBufferKept, "nodes go for %s, from %s on; buffers want %v, there was room %v and is %v", c.Reason, c.Candidates[0].Node, wants, before, after)
	}
}

// anyGoes reports that a node whose pods need another place is going, or takes none.
func (b *Buffers) anyGoes(v *seen, through uint64) bool {
	return slices.ContainsFunc(all[*corev1.Pod](v, events.KindPod), func(p *corev1.Pod) bool {
		if p.Spec.NodeName == "" {
			return true
		}
		if p.DeletionTimestamp != nil {
			return true // another may come for it
		}
		n, _ := v.objects[events.KindNode][p.Spec.NodeName].(*corev1.Node)
		if n == nil || !takesPods(n) {
			return true
		}
		c := v.claimOf(n.Spec.ProviderID)
		return c == nil || v.going(c) || b.book.claims[c.Name] == nil || b.book.isGoing(b.book.claims[c.Name], through)
	})
}

// daemonsToCome is what DaemonSets may still want of a node.
func (b *Buffers) daemonsToCome(v *seen, n *corev1.Node, pods []*corev1.Pod) (sum room) {
	for _, ds := range all[*appsv1.DaemonSet](v, events.KindDaemonSet) {
		if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
			return p.Spec.NodeName == n.Name && isDaemonPod(p) && p.OwnerReferences[0].UID == ds.UID
		}) {
			sum = sum.plus(requestsOf(&ds.Spec.Template.Spec))
		}
	}
	return sum
}

// movedTo is what the pods ask for that a command moves to a node.
func movedTo(c *ledger.CommandStarted, node string, pods []*corev1.Pod) (sum room) {
	for _, t := range c.Placements {
		if t.Node == node {
			sum = sum.plus(sumOf(t.Pods, pods))
		}
	}
	return sum
}

// sumOf adds up what pods ask for; those of buffers are none.
func sumOf(refs []ledger.PodRef, pods []*corev1.Pod) (sum room) {
	for _, ref := range refs {
		for _, p := range pods {
			if p.UID == ref.UID {
				sum = sum.plus(requestsOf(&p.Spec))
			}
		}
	}
	return sum
}
