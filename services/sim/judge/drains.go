package judge

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// CheckTaken demands, of an instance that is taken back while nothing fails, that no pod is left on it that
// could have been evicted.
func (s *Judge) CheckTaken(i *cloud.Instance) {
	if s.Calmed.IsZero() || s.Clock.Now().Sub(s.Calmed) < stage.NoticeTime {
		return
	}
	for _, n := range s.Cluster.Nodes() {
		if InstanceOf(n.Spec.ProviderID) != i.ID || s.strippedOf(n.Spec.ProviderID) || s.Deeds.Stripped[string(n.UID)] {
			continue
		}
		for _, p := range s.Cluster.PodsOn(n.Name) {
			if s.waitedFor(p) && p.DeletionTimestamp == nil {
				s.Violate(CheckTaken, "%s is on node %s as %s is taken back", p.Name, n.Name, i.ID)
			}
		}
	}
}

// toleratesDisrupted by the rules of Kubernetes: an empty key with Exists tolerates all, an empty effect all
// effects.
func toleratesDisrupted(p *corev1.Pod) bool {
	taint := karpv1.DisruptedTaint()
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect {
			return false
		}
		if t.Operator == corev1.TolerationOpExists {
			return t.Key == "" || t.Key == taint.Key
		}
		return t.Key == taint.Key && t.Value == taint.Value
	})
}

// slack is how much a process's clock may be ahead of the true time.
func (s *Judge) slack() time.Duration {
	return min(2*max(s.Drawn.Skew, s.Drawn.Jump)+time.Second, stage.ClocksApart)
}

// deadlineOf is the termination timestamp that the NodeClaim behind a node has or had, or when it was to be
// repaired if that is earlier; zero for none.
func (s *Judge) deadlineOf(node string) time.Time {
	n := s.Cluster.Node(node)
	if n == nil {
		return time.Time{}
	}
	deadline := s.history.deadlines[n.Spec.ProviderID]
	if at := s.Repairs.deadlines[n.Spec.ProviderID]; !at.IsZero() && (deadline.IsZero() || at.Before(deadline)) {
		return at
	}
	return deadline
}

func (s *Judge) passed(t time.Time) bool { return !t.IsZero() && s.Clock.Now().Add(s.slack()).After(t) }

// PodsListed notes that the API server lists the pods of a node now.
func (s *Judge) PodsListed(node string) { s.history.listed[node] = s.Clock.Now() }

// CheckEviction demands that do-not-disrupt is honoured. Budgets are the API server's.
func (s *Judge) CheckEviction(by Process, key string, uid types.UID) {
	p := s.Cluster.Pod(key)
	if p == nil || p.UID != uid || p.DeletionTimestamp != nil {
		return
	}
	s.rules.judgeSurge(by, p)
	since, lately := s.Deeds.Protected[string(uid)]
	if p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" && !(lately && s.Clock.Now().Sub(since) < lookback) {
		s.Violate(CheckEviction, "%s evicts %s", by, key)
	}
}

// CheckDeletion demands that a pod is deleted past its budget only as the node's deadline comes.
func (s *Judge) CheckDeletion(by Process, key string, uid types.UID) {
	p := s.Cluster.Pod(key)
	if p == nil || p.UID != uid || s.Cluster.Node(p.Spec.NodeName) == nil {
		return // of a Node that is gone: kubelet can't be asked any more
	}
	grace := 30 * time.Second
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	const margin = 30 * time.Second // before EC2 takes the instance back
	if end, noticed := s.Deeds.Noticed[InstanceOf(s.Cluster.Node(p.Spec.NodeName).Spec.ProviderID)]; noticed && s.passed(end.Add(-margin-stage.ClocksApart)) {
		return
	}
	if i := s.Cloud.Instance(InstanceOf(s.Cluster.Node(p.Spec.NodeName).Spec.ProviderID)); i != nil && s.Reservations.takenBy(i, s.Clock.Now().Add(margin+stage.ClocksApart)) {
		return
	}
	deadline := s.deadlineOf(p.Spec.NodeName)
	if deadline.IsZero() || !s.passed(deadline.Add(-grace)) {
		s.Violate(CheckEviction, "%s deletes %s, the deadline of %s is %s", by, key, p.Spec.NodeName, deadline)
	}
}

// CheckTermination demands that no pod that must be waited for runs on an instance that is ended. One that
// was bound after the API server listed the node's pods for the last time cannot be known.
func (s *Judge) CheckTermination(by Process, ids []string) {
	for _, id := range ids {
		i := s.Cloud.Instance(id)
		if i == nil || i.Ending() {
			continue
		}
		for _, n := range s.Cluster.Nodes() {
			if n.Spec.ProviderID != "aws:///"+i.Zone+"/"+id || s.passed(s.deadlineOf(n.Name)) {
				continue
			}
			for _, p := range s.Cluster.PodsOn(n.Name) {
				listed, bound := s.history.listed[n.Name], s.history.bound[string(p.UID)]
				if s.waitedFor(p) && (listed.IsZero() || !bound.After(listed)) {
					s.Violate(CheckUndrained, "%s ends %s with %s on node %s", by, id, p.Name, n.Name)
				}
			}
		}
	}
}

func (s *Judge) waitedFor(p *corev1.Pod) bool {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	stuck := p.DeletionTimestamp != nil && s.Clock.Now().Add(s.slack()).Sub(p.DeletionTimestamp.Time) > time.Minute
	return !ended && !stuck && !toleratesDisrupted(p)
}
