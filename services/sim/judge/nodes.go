package judge

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/services/internal/kube"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

func reasonOf(list []metav1.Condition, kind string) string {
	for _, c := range list {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

func isRegistered(n *corev1.Node) bool {
	return n.Labels[karpv1.NodeRegisteredLabelKey] == "true" && !unregistered(n)
}

// checkDrifted demands that what a NodeClaim shows of its drift stands in the log, and that there is a cause.
func (s *Judge) checkDrifted(c *karpv1.NodeClaim, reason string) {
	if !s.history.drifted[string(c.UID)+"/"+reason] {
		s.Violate(CheckJudged, "NodeClaim %s shows %s", c.Name, reason)
	}
	if reason == reasonRecommended {
		s.Recommended.checkHeeded(c)
		return
	}
	if !s.Deeds.Reshaped {
		s.Violate(CheckDrift, "NodeClaim %s has drifted: %s", c.Name, reason)
	}
}

func (s *Judge) checkNode(before, after cluster.Object) {
	if before == nil {
		return
	}
	old := before.(*corev1.Node)
	id := InstanceOf(old.Spec.ProviderID)
	if after == nil {
		orphan := !held(old) && s.strippedOf(old.Spec.ProviderID) // garbage collection may have deleted it with its NodeClaim
		if isRegistered(old) && !s.Deeds.Stripped[string(old.UID)] && !orphan {
			s.checkGone("Node "+old.Name, id)
		}
		return
	}
	n := after.(*corev1.Node)
	if !kube.IsDisrupted(old) && kube.IsDisrupted(n) {
		s.Moved(n.Name)
	}
	if held(old) && !held(n) && !s.Deeds.Stripped[string(old.UID)] {
		s.checkGone("the finalizer of Node "+n.Name, id)
	}
	if unregistered(old) && !unregistered(n) {
		s.checkRegistered(n)
	}
}

func held(n *corev1.Node) bool { return slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) }

func unregistered(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
}

// checkGone demands that the instance has ended by the time that what goes.
func (s *Judge) checkGone(what, id string) {
	if i := s.Cloud.Instance(id); i != nil && !i.Gone() {
		s.Violate(CheckInstanceFirst, "%s is gone, %s is %s", what, id, i.State)
	}
}

// checkRegistered demands that everything is in place when the unregistered taint goes.
func (s *Judge) checkRegistered(n *corev1.Node) {
	var owner *karpv1.NodeClaim
	for _, c := range s.Cluster.NodeClaims() {
		if c.Status.ProviderID == n.Spec.ProviderID {
			owner = c
		}
	}
	if owner == nil {
		id := InstanceOf(n.Spec.ProviderID)
		if i := s.Cloud.Instance(id); s.strippedOf(n.Spec.ProviderID) || i != nil && i.Gone() {
			return // users took the NodeClaim away, or it went as it should before the slow write of a deposed leader arrived
		}
		s.Violate(CheckRegistration, "Node %s is registered without a NodeClaim", n.Name)
		return
	}
	if n.Labels[karpv1.NodeRegisteredLabelKey] != "true" || !held(n) {
		s.Violate(CheckRegistration, "Node %s lacks the label or the finalizer", n.Name)
	}
	for _, m := range []struct{ want, have map[string]string }{{owner.Labels, n.Labels}, {owner.Annotations, n.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(m.want)) {
			lately := key == stage.NoteKey || key == karpv1.TerminationTimestampAnnotationKey // written a moment ago, by users or as the claim was deleted
			if m.have[key] != m.want[key] && !lately {
				s.Violate(CheckRegistration, "Node %s has %s=%q, its NodeClaim %q", n.Name, key, m.have[key], m.want[key])
			}
		}
	}
	for _, t := range owner.Spec.Taints {
		if !slices.ContainsFunc(n.Spec.Taints, func(have corev1.Taint) bool { return have.MatchTaint(&t) }) {
			s.Violate(CheckRegistration, "Node %s lacks taint %s", n.Name, t.Key)
		}
	}
}

// strippedOf reports that users have stripped the finalizers of the NodeClaim whose instance has a provider
// id.
func (s *Judge) strippedOf(providerID string) bool {
	id := InstanceOf(providerID)
	for uid, launched := range s.history.launched {
		if launched == id && s.Deeds.Stripped[uid] {
			return true
		}
	}
	return false
}
