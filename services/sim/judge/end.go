package judge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/condition"
	"millwright/planner/providerid"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/events/membus"
	"millwright/planner/ledger"
	"millwright/services/sim/stage"
	"millwright/store/audit"
)

// finding is something that is not as it should be, since a time; zero if it should never be.
type finding struct {
	since time.Time
	text  string
}

// patience is how long something may be under way in a cluster whose nodes expire again and again, unless
// there is a moment at which nothing is.
const patience = 6 * time.Minute

// SecondLook is within which services see what calm has changed.
const SecondLook = 10 * time.Second

// Unsettled lists what keeps the cluster from having what was asked for, and nothing more.
func (s *Judge) Unsettled() []string {
	var missing []string
	early := s.Script.Expires && s.Clock.Now().Sub(s.Calmed) < patience
	findings := slices.Concat(s.waitingPods(), s.idleNodes(), s.unmatched(s.heldNodes()))
	for _, f := range findings {
		if s.Script.Expires && !f.since.IsZero() && s.Clock.Now().Sub(planner.Latest(f.since, s.Calmed)) < patience {
			continue
		}
		missing = append(missing, f.text)
	}
	for _, p := range s.Script.Pools {
		if s.Cluster.NodePool(p.Name) == nil {
			missing = append(missing, fmt.Sprintf("NodePool %s is not back", p.Name))
		}
	}
	if early && (s.Script.Lingers || len(findings) > 0) {
		missing = append(missing, "nodes expire: too early to say")
	}
	return missing
}

// waitingPods are not where they should be; those that can have no node must have a verdict.
func (s *Judge) waitingPods() (list []finding) {
	for _, p := range s.Cluster.Pods() {
		switch {
		case p.DeletionTimestamp != nil:
			list = append(list, finding{p.DeletionTimestamp.Time, fmt.Sprintf("pod %s is being deleted", p.Name)})
		case p.Spec.NodeName == "" && s.mayWait(p):
			if s.Reference.Verdict(p.UID) == nil {
				list = append(list, finding{p.CreationTimestamp.Time, fmt.Sprintf("pod %s waits without a verdict", p.Name)})
			}
		case p.Status.Phase != corev1.PodRunning || s.Cluster.Node(p.Spec.NodeName) == nil:
			list = append(list, finding{p.CreationTimestamp.Time, fmt.Sprintf("pod %s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)})
		}
	}
	for _, d := range s.Cluster.Deployments() {
		if n := len(s.podsOf(d.Name)); n < d.Replicas {
			list = append(list, finding{text: fmt.Sprintf("%s has %d of %d pods", d.Name, n, d.Replicas)})
		}
	}
	return list
}

// idleNodes are Nodes that are not ready for pods, or have none.
func (s *Judge) idleNodes() (list []finding) {
	held := s.heldNodes()
	for _, n := range s.Cluster.Nodes() {
		used := slices.ContainsFunc(s.Cluster.PodsOn(n.Name), func(p *corev1.Pod) bool { return !isDaemonPod(p) })
		switch {
		case held[n.Name]:
		case n.DeletionTimestamp != nil:
			list = append(list, finding{n.DeletionTimestamp.Time, fmt.Sprintf("node %s is being deleted", n.Name)})
		case n.Labels[karpv1.NodeInitializedLabelKey] != "true":
			list = append(list, finding{n.CreationTimestamp.Time, fmt.Sprintf("node %s is not initialized", n.Name)})
		case !used && s.Buffers.needs(n):
		case !used && !s.budgetUsed(held, n.Labels[karpv1.NodePoolLabelKey]):
			list = append(list, finding{n.CreationTimestamp.Time, fmt.Sprintf("node %s is empty", n.Name)})
		}
	}
	return list
}

// unmatched lists where instances, NodeClaims, Nodes and Ledger do not agree.
func (s *Judge) unmatched(held map[string]bool) (list []finding) {
	add := func(since time.Time, format string, args ...any) {
		list = append(list, finding{since, fmt.Sprintf(format, args...)})
	}
	claims := map[string]bool{}
	for _, c := range s.Cluster.NodeClaims() {
		claims[string(c.UID)] = true
		l := s.Reference.Claim(c.Name)
		switch {
		case l == nil || l.UID != c.UID:
			add(c.CreationTimestamp.Time, "NodeClaim %s is not in the Ledger", c.Name)
		case s.holdsNode(held, c):
		case c.DeletionTimestamp != nil:
			add(c.DeletionTimestamp.Time, "NodeClaim %s (%s) is being deleted", c.Name, l.State)
		case s.ending(c):
			add(s.Clock.Now(), "the instance of NodeClaim %s ends", c.Name)
		case l.State != ledger.ClaimInitializedState || l.Doomed != nil:
			add(c.CreationTimestamp.Time, "NodeClaim %s is %s, doomed %v", c.Name, l.State, l.Doomed != nil)
		}
	}
	for _, l := range s.Reference.Claims() {
		if !claims[string(l.UID)] && !(l.Instance != nil && s.holdsInstance(held, l.Instance.ProviderID)) {
			add(s.Entries[l.PlannedSeq-1].Time, "claim %s (%s) has no NodeClaim", l.Name, l.State)
		}
	}
	for _, i := range s.Cloud.Instances() {
		if c := s.Cluster.NodeClaim(s.history.owner[i.ID]); !i.Ending() && !s.holdsInstance(held, providerid.Of(i.Zone, i.ID)) && (c == nil || s.history.launched[string(c.UID)] != i.ID) {
			add(i.LaunchTime, "instance %s has no NodeClaim %s", i.ID, s.history.owner[i.ID])
		}
	}
	for _, c := range s.Reference.Commands() {
		add(c.At, "command %s is %s", c.ID, c.State)
	}
	for _, d := range s.Reference.Drains() {
		if !held[d.Started.Node] {
			add(d.At, "node %s is drained since record %d", d.Started.Node, d.Seq)
		}
	}
	return list
}

// holdsNode reports that the NodeClaim's Node is among the held.
func (s *Judge) holdsNode(held map[string]bool, c *karpv1.NodeClaim) bool {
	return s.holdsInstance(held, c.Status.ProviderID)
}

func (s *Judge) holdsInstance(held map[string]bool, providerID string) bool {
	return slices.ContainsFunc(s.Cluster.Nodes(), func(n *corev1.Node) bool { return held[n.Name] && n.Spec.ProviderID == providerID })
}

// budgetUsed reports that a held Node uses up the budget of a pool, maybe forever.
func (s *Judge) budgetUsed(held map[string]bool, pool string) bool {
	return slices.ContainsFunc(s.Cluster.Nodes(), func(n *corev1.Node) bool { return held[n.Name] && n.Labels[karpv1.NodePoolLabelKey] == pool })
}

// ending reports that the NodeClaim's instance is on its way out, though nobody may have noticed yet.
func (s *Judge) ending(c *karpv1.NodeClaim) bool {
	i := s.Cloud.Instance(s.history.launched[string(c.UID)])
	return i != nil && i.Ending()
}

// heldNodes are being drained and wait, without a deadline, for a pod that must not be evicted: it is
// protected, or its budget allows nothing while those that should take its place find none because of a
// NodePool's limit.
func (s *Judge) heldNodes() map[string]bool {
	held := map[string]bool{}
	for _, n := range s.Cluster.Nodes() {
		held[n.Name] = n.DeletionTimestamp != nil && !s.hasDeadline(n) && slices.ContainsFunc(s.Cluster.PodsOn(n.Name), func(p *corev1.Pod) bool {
			return p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" ||
				!s.Cluster.MayEvict(p) && slices.ContainsFunc(s.podsOf(p.Labels["app"]), func(o *corev1.Pod) bool { return o.Spec.NodeName == "" && s.mayWait(o) })
		})
	}
	return held
}

// hasDeadline reports that the drain of a Node ends at some time. The deadline of a NodeClaim that users took
// away by its finalizers is forgotten, unless the drain began with it.
func (s *Judge) hasDeadline(n *corev1.Node) bool {
	d := s.Reference.Drain(n.Name)
	return !s.deadlineOf(n.Name).IsZero() && (!s.strippedOf(n.Spec.ProviderID) || d != nil && !d.Started.Deadline.IsZero())
}

// mayWait reports that no node can be made for the pod: it never fits, or a limit is in the way.
func (s *Judge) mayWait(p *corev1.Pod) bool {
	limited := slices.ContainsFunc(s.Script.Pools, func(x *karpv1.NodePool) bool { return len(x.Spec.Limits) > 0 })
	v := s.Reference.Verdict(p.UID)
	return p.Labels["app"] == stage.NeverFits || limited && (v == nil || v.Node == "" && v.Claim == "")
}

func (s *Judge) podsOf(app string) []*corev1.Pod {
	return slices.DeleteFunc(s.Cluster.Pods(), func(p *corev1.Pod) bool { return p.Labels["app"] != app })
}

func isDaemonPod(p *corev1.Pod) bool {
	c := metav1.GetControllerOf(p)
	return c != nil && c.Kind == "DaemonSet"
}

// Leftovers lists what is there although nothing is asked for.
func (s *Judge) Leftovers() []string {
	var missing []string
	for _, f := range s.unmatched(nil) {
		missing = append(missing, f.text)
	}
	for _, p := range s.Cluster.Pods() {
		missing = append(missing, "pod "+p.Name)
	}
	for _, n := range s.Cluster.Nodes() {
		missing = append(missing, "node "+n.Name)
	}
	for _, c := range s.Cluster.NodeClaims() {
		missing = append(missing, "NodeClaim "+c.Name)
	}
	for _, i := range s.Cloud.Instances() {
		if !i.Gone() {
			missing = append(missing, "instance "+i.ID)
		}
	}
	return missing
}

// refolded is the fold of the log's bytes up to the last check.
type refolded struct{ *ledger.Ledger }

// Refold folds the log from its bytes, on from where it was at the last check, and returns the digest of the
// fold.
func (s *Judge) Refold() (digest string, ok bool) {
	if s.refolded.Ledger == nil {
		s.refolded.Ledger = ledger.New(s.Log.ID())
	}
	for s.refolded.Seq() < uint64(len(s.Entries)) {
		records, err := s.Log.Read(context.Background(), s.refolded.Seq()+1, 500)
		if err != nil || len(records) == 0 {
			s.Violate(CheckLog, "read from %d: %v", s.refolded.Seq()+1, err)
			return "", false
		}
		for _, rec := range records {
			e, err := audit.Decode(rec)
			if err == nil {
				err = s.refolded.Apply(e)
			}
			if err != nil {
				s.Violate(CheckFold, "record %d: %v", rec.Seq, err)
				return "", false
			}
		}
	}
	return s.refolded.Digest(), true
}

// decodedStream is the stream with the messages as the services folded them.
type decodedStream struct {
	*membus.Stream
	messages []events.Observation
}

// Decoded is the message as it was folded.
func (d decodedStream) Decoded(m events.Message) events.Observation { return d.messages[m.Sequence-1] }

// decodedAnew is the share of seeds, one in so many, whose messages are decoded anew for the replay: what a
// service changed of those it shares with others comes out there.
const decodedAnew = 8

// Replay plans every decision again.
func (s *Judge) Replay() {
	var stream audit.Stream = s.Stream
	if s.Seed%decodedAnew != 0 {
		stream = decodedStream{s.Stream, s.Messages}
	}
	report, err := audit.Replay(context.Background(), s.Log, stream, audit.Range{From: 1})
	if err != nil {
		s.Violate(CheckReplay, "%v", err)
		return
	}
	s.Stats.Replayed = report.Replayed()
	for _, d := range report.Divergences {
		s.Violate(CheckReplay, "record %d, %s of %s: %s", d.Seq, d.Kind, d.Service, d.Detail)
	}
	for _, span := range report.NotReplayable {
		if s.Stats.Renewals == 0 {
			s.Violate(CheckReplay, "records %d to %d cannot be replayed: %s", span.From, span.To, span.Reason)
		}
	}
}

// AnyWaits reports that a pod has no node yet and that may change as time passes: it may get one, or another
// reason why not, because an offering that failed counts again, or did a moment ago.
func (s *Judge) AnyWaits() bool {
	marked := len(s.Reference.UnavailableOfferings(s.Clock.Now().Add(-2*SecondLook))) > 0
	return slices.ContainsFunc(s.Cluster.Pods(), func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" && (marked || p.Labels["app"] != stage.NeverFits)
	})
}

func (s *Judge) AnyHeld() bool {
	for _, held := range s.heldNodes() {
		if held {
			return true
		}
	}
	return false
}

// Rolls reports that nodes have drifted or are being replaced: what was settled a while ago may be under way
// again by now, as budgets allow it.
func (s *Judge) Rolls() bool {
	return len(s.Reference.Commands())+len(s.Reference.Drains()) > 0 || slices.ContainsFunc(s.Cluster.NodeClaims(), func(c *karpv1.NodeClaim) bool {
		return condition.IsTrue(c.Status.Conditions, karpv1.ConditionTypeDrifted)
	})
}
