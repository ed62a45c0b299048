package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
)

// seen is what the messages of a stream say up to one of them, by the rules of the stream alone: it shares
// nothing with the World that services fold.
type seen struct {
	incarnation    string
	at             uint64
	epoch, counter uint64
	asOf           time.Time
	objects        map[events.Kind]map[string]any
	// mentioned are the keys that a running resync has named; nil if none runs.
	mentioned map[events.Kind]map[string]bool
	// missed: a message of the running resync was lost, so that it drops nothing.
	missed bool
	// podEvents is when a pod was last seen to come to a node, to end there, or to go, by the name of the
	// node; what a first resync names tells nothing of that, until it is complete.
	podEvents map[string]time.Time
	complete  bool
	// recommended are the instances that EC2 was seen to recommend to leave, by id.
	recommended map[string]bool
	// spot are the prices of spot offerings, of now and before.
	spot spotPrices
}

// seenBy is what a process has seen.
func (s *Judge) seenBy(p Process) *seen {
	v := s.views[p]
	if v == nil || v.incarnation != s.Incarnation {
		v = &seen{incarnation: s.Incarnation, objects: map[events.Kind]map[string]any{}, podEvents: map[string]time.Time{}, recommended: map[string]bool{}, spot: spotPrices{}}
		s.views[p] = v
	}
	messages, _ := p.Folded()
	// Who has not noticed yet that the stream was renewed counts the messages of the one before.
	for messages = min(messages, uint64(len(s.Messages))); v.at < messages; v.at++ {
		v.takeObservation(s.Messages[v.at])
	}
	return v
}

// take: an epoch ends those before it, counters rise, and a resync of which nothing was lost drops what it
// does not name.
func (v *seen) takeObservation(o events.Observation) {
	if o.Epoch < v.epoch || o.Epoch == v.epoch && o.Counter <= v.counter {
		return
	}
	v.missed = v.missed || o.Epoch != v.epoch || o.Counter != v.counter+1
	v.epoch, v.counter = o.Epoch, o.Counter
	switch o.Op {
	case events.OpResyncBegin:
		v.mentioned, v.missed = map[events.Kind]map[string]bool{}, false
	case events.OpResyncEnd:
		for key, pod := range v.objects[events.KindPod] {
			if v.dropped(events.KindPod, key) {
				v.notePod(pod, nil, o.ObservedAt)
			}
		}
		for kind, objects := range v.objects {
			maps.DeleteFunc(objects, func(key string, _ any) bool { return v.dropped(kind, key) })
		}
		v.complete = v.complete || v.mentioned != nil && !v.missed
		v.mentioned = nil
	case events.OpHeartbeat:
		v.asOf = o.ObservedAt
	case events.OpDelete:
		v.notePod(v.objects[o.Kind][o.Name], nil, o.ObservedAt)
		delete(v.objects[o.Kind], o.Name)
	case events.OpUpsert:
		if i, ok := o.Object.(*events.Interruption); ok && i.MessageKind == events.RebalanceRecommendation {
			v.recommended[i.InstanceID] = true
			return
		}
		if v.objects[o.Kind] == nil {
			v.objects[o.Kind] = map[string]any{}
		}
		v.notePod(v.objects[o.Kind][o.Name], o.Object, o.ObservedAt)
		v.objects[o.Kind][o.Name] = o.Object
		if prices, ok := o.Object.(*events.Prices); ok {
			v.spot.enter(prices, o.ObservedAt)
		}
		if v.mentioned != nil {
			if v.mentioned[o.Kind] == nil {
				v.mentioned[o.Kind] = map[string]bool{}
			}
			v.mentioned[o.Kind][o.Name] = true
		}
	}
}

// dropped reports that a resync which ends, and of which nothing was lost, has not named an object.
func (v *seen) dropped(kind events.Kind, key string) bool {
	return v.mentioned != nil && !v.missed && !v.mentioned[kind][key]
}

// notePod notes that a pod came to a node, ended there, or goes, unless a policy ignores it; nil: it was not
// there, or is not any more.
func (v *seen) notePod(before, after any, at time.Time) {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && was.UID != is.UID {
		v.notePod(was, nil, at)
		was = nil
	}
	alive := func(p *corev1.Pod) bool {
		return p != nil && p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	}
	if p := cmp.Or(is, was); v.complete && p != nil && !isDaemonPod(p) && alive(was) != alive(is) && !v.ignores(p) {
		v.podEvents[p.Spec.NodeName] = at
	}
}

// all returns the objects of a type, by key.
func all[T any](v *seen, kind events.Kind) (list []T) {
	for _, key := range slices.Sorted(maps.Keys(v.objects[kind])) {
		if o, ok := v.objects[kind][key].(T); ok {
			list = append(list, o)
		}
	}
	return list
}

// pending are the pods that want a node: kube-scheduler found none, and they are not of a DaemonSet.
func (v *seen) pending() (list []*corev1.Pod) {
	for _, p := range all[*corev1.Pod](v, events.KindPod) {
		unschedulable := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		})
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if unschedulable && !ended && p.Spec.NodeName == "" && p.Status.NominatedNodeName == "" && p.DeletionTimestamp == nil && !isDaemonPod(p) {
			list = append(list, p)
		}
	}
	return list
}

// claimOf returns the NodeClaim of an instance; nil if none is seen.
func (v *seen) claimOf(providerID string) *karpv1.NodeClaim {
	for _, c := range all[*karpv1.NodeClaim](v, events.KindNodeClaim) {
		if c.Status.ProviderID == providerID && providerID != "" {
			return c
		}
	}
	return nil
}

func (v *seen) claim(name string) *karpv1.NodeClaim {
	c, _ := v.objects[events.KindNodeClaim][name].(*karpv1.NodeClaim)
	return c
}

// ends reports that the instance of a provider id is seen to end.
func (v *seen) ends(providerID string) bool {
	for _, i := range all[*events.InstanceState](v, events.KindInstanceState) {
		if len(providerID) > len(i.ID) && providerID[len(providerID)-len(i.ID):] == i.ID {
			return i.State == "shutting-down" || i.State == "terminated"
		}
	}
	return false
}

// going reports that a NodeClaim is seen to go.
func (v *seen) going(c *karpv1.NodeClaim) bool {
	return c.DeletionTimestamp != nil || isTrue(c.Status.Conditions, karpv1.ConditionTypeInstanceTerminating) || v.ends(c.Status.ProviderID)
}

// isTrue reports that a condition is True.
func isTrue(list []metav1.Condition, kind string) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.Type == kind && c.Status == metav1.ConditionTrue })
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
