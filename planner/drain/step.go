package drain

import (
	"fmt"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// NoticeMargin is how long before the instance is taken away budgets and protection hold no more: what pods
// that ask for no other grace period need to end.
const NoticeMargin = defaultGrace

// Step is what a drain has to do as of a Snapshot.
type Step struct {
	Node string
	// Tier is the first that still has pods to wait for; 0 if none has.
	Tier int
	// Waiting are the pods of all tiers the drain waits for, by namespace and name.
	Waiting []*world.Pod
	// Evict, Held and Leaving are those of Tier: to be evicted, protected, already being deleted. Pods in
	// Delete are in none of them.
	Evict, Held, Leaving []*world.Pod
	// Delete are pods of any tier that must be deleted now to be gone by the deadline.
	Delete []Deletion
	// Surge holds back pods of Tier: they are waited for, and in none of the lists above.
	Surge Surge
	// Stuck pods are not waited for.
	Stuck []*world.Pod
	// Deadline is the termination timestamp; zero for none. DeadlineInvalid is the annotation that can't be
	// read.
	Deadline        time.Time
	DeadlineInvalid string
	// Notice is when EC2 takes the instance away; zero: nothing says so. The pods of all tiers are evicted at
	// once then, and from NoticeMargin before it what is left is deleted.
	Notice time.Time
	// Paced: the deadline does not count yet. A notice is never paced: its instance goes whatever happens
	// here.
	Paced bool
	// PodsGone: nothing is left to wait for. VolumesGone: no volume either, or the deadline has passed.
	PodsGone, VolumesGone bool
	// Volumes are the attachments waited for, by name.
	Volumes []string
	// WakeAt is when time alone changes the step next; zero if it doesn't.
	WakeAt time.Time
}

// Deletion of a pod with a shortened grace period, past its budget, tier and protection.
type Deletion struct {
	Pod          *world.Pod
	GraceSeconds int64
}

// Done reports that the instance may be terminated as far as the Snapshot knows.
func (s Step) Done() bool { return s.PodsGone && s.VolumesGone }

// Message is the text that users see; "" when no pod is waited for.
func (s Step) Message() string {
	if len(s.Waiting) == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods are waiting to be evicted", len(s.Waiting))
}

// TierStarted is the record of the step's tier, nil if the Ledger already has it with all these pods. Records
// are per tier, not per eviction: a tier is recorded again only when a pod joins it.
func (s Step) TierStarted(d *ledger.Drain) *ledger.DrainTierStarted {
	r := &ledger.DrainTierStarted{Node: s.Node, Tier: s.Tier, Evict: Refs(s.Evict), Held: Refs(s.Held), Late: Refs(s.Surge.Late), Paced: s.Paced, Notice: s.Notice}
	for _, del := range s.Delete {
		r.Delete = append(r.Delete, Ref(del.Pod))
	}
	if s.Tier == 0 || d == nil {
		return nil
	}
	fresh := d.Tier != s.Tier
	for _, list := range [][]ledger.PodRef{r.Evict, r.Delete} {
		for _, p := range list {
			fresh = fresh || !d.TierPods[p.UID]
		}
	}
	for _, p := range r.Held {
		_, known := d.TierPods[p.UID]
		fresh = fresh || !known
	}
	if !fresh {
		return nil
	}
	return r
}

// Ref names a pod in a record.
func Ref(p *world.Pod) ledger.PodRef {
	return ledger.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}

// Refs names pods in a record.
func Refs(pods []*world.Pod) []ledger.PodRef {
	var refs []ledger.PodRef
	for _, p := range pods {
		refs = append(refs, Ref(p))
	}
	return refs
}

// Plan returns the step of a node's drain. A node without a NodeClaim is drained without a deadline.
func Plan(s *planner.Snapshot, node string) Step {
	step := Step{Node: node, Notice: noticeOf(s, node)}
	step.setDeadline(s)
	return step.plan(s, node)
}

// PlanPaced is Plan for a drain in which nothing is forced although its deadline is near: too many drains
// reached theirs at once.
func PlanPaced(s *planner.Snapshot, node string) Step {
	step := Step{Node: node, Notice: noticeOf(s, node), Paced: true}
	return step.plan(s, node)
}

// Forced reports that the step does what only the deadline allows, and no notice.
func (s Step) Forced() bool {
	return s.Tier != TierForced && (len(s.Delete) > 0 || s.VolumesGone && len(s.Volumes) > 0 && !s.Deadline.IsZero())
}

// noticeOf is when EC2 takes the node's instance away by the records; zero if none says so.
func noticeOf(s *planner.Snapshot, node string) (at time.Time) {
	if d := s.Ledger.Drain(node); d != nil {
		at = d.Started.Notice
	}
	if n := s.StateNode(node); n != nil && n.Ledger != nil && n.Ledger.Doomed != nil && !n.Ledger.Doomed.Deadline.IsZero() {
		at = n.Ledger.Doomed.Deadline
	}
	return at.UTC()
}

// noticeDue reports that the instance is taken away so soon that what is left is deleted.
func (s Step) noticeDue(now time.Time) bool {
	return !s.Notice.IsZero() && !now.Before(s.Notice.Add(-NoticeMargin))
}

func (st *Step) plan(s *planner.Snapshot, node string) Step {
	step := *st
	pods := s.World.PodsOn(node)
	for _, p := range pods {
		step.sort(p, s.Certain())
	}
	step.selectTier(s.Certain())
	step.setSurge(s)
	step.PodsGone = len(step.Waiting) == 0
	step.setVolumes(s, pods)
	return step
}

// setDeadline reads the claim's annotation, else what the drain's record says.
func (st *Step) setDeadline(s *planner.Snapshot) {
	if d := s.Ledger.Drain(st.Node); d != nil {
		st.Deadline = d.Started.Deadline
	}
	n := s.StateNode(st.Node)
	if n == nil || n.Claim == nil {
		return
	}
	text, ok := n.Claim.Annotations[karpv1.TerminationTimestampAnnotationKey]
	if !ok {
		return
	}
	t, err := ParseDeadline(text)
	if err != nil {
		st.DeadlineInvalid = text
		return
	}
	st.Deadline = t
}

// ParseDeadline reads a termination timestamp, in UTC. It refuses a year that no record can hold: 9999
// with an offset may be the year 10000 in UTC.
func ParseDeadline(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, err
	}
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("year %d is not within 0 and 9999", t.Year())
	}
	return t, nil
}

// sort classifies a pod: waited for, stuck, or due for deletion.
func (st *Step) sort(p *world.Pod, now time.Time) {
	role := RoleOf(p, now)
	if role == Stuck {
		st.Stuck = append(st.Stuck, p)
	}
	if !role.Waited() {
		return
	}
	st.Waiting = append(st.Waiting, p)
	if role == Leaving {
		st.wakeBy(deletedAt(p).Add(stuckAfter + time.Nanosecond))
	}
	if role == Held {
		st.wakeBy(planner.DoNotDisrupt(p, now).Until)
	}
	if st.noticeDue(now) {
		if role != Leaving || deletedAt(p).After(st.Notice) && deletedAt(p).Sub(now) > time.Second {
			st.Delete = append(st.Delete, Deletion{Pod: p, GraceSeconds: max(1, min(secondsTo(st.Notice, now), int64(grace(p)/time.Second)))})
		}
		return
	}
	if !st.Notice.IsZero() {
		st.wakeBy(st.Notice.Add(-NoticeMargin))
	}
	if st.due(p, role, now) {
		st.Delete = append(st.Delete, Deletion{Pod: p, GraceSeconds: secondsTo(st.Deadline, now)})
	}
}

// secondsTo is at least one: zero would leave a pod's containers running.
func secondsTo(deadline, now time.Time) int64 { return max(int64(deadline.Sub(now)/time.Second), 1) }

// due reports that a pod must be deleted now (reference: lifecycle §8.4): its grace period no longer fits
// before the deadline, or it is being deleted and would end after it.
func (st *Step) due(p *world.Pod, role Role, now time.Time) bool {
	switch {
	case st.Deadline.IsZero():
		return false
	case role == Leaving:
		return deletedAt(p).After(st.Deadline) && deletedAt(p).Sub(now) > time.Second
	}
	at := st.Deadline.Add(-grace(p))
	if now.After(at) {
		return true
	}
	st.wakeBy(at.Add(time.Nanosecond))
	return false
}

// selectTier lists the pods of the first tier that has any to wait for; under a notice, which leaves no time
// for turns, those of all.
func (st *Step) selectTier(now time.Time) {
	for _, p := range st.Waiting {
		if t := TierOf(p.Class); st.Tier == 0 || t < st.Tier {
			st.Tier = t
		}
	}
	deleted := map[*world.Pod]bool{}
	for _, d := range st.Delete {
		deleted[d.Pod] = true
	}
	if len(st.Waiting) > 0 && st.noticeDue(now) {
		st.Tier = TierForced
	}
	for _, p := range st.Waiting {
		if TierOf(p.Class) != st.Tier && st.Notice.IsZero() || deleted[p] {
			continue
		}
		switch RoleOf(p, now) {
		case Evictable:
			st.Evict = append(st.Evict, p)
		case Held:
			st.Held = append(st.Held, p)
		case Leaving:
			st.Leaving = append(st.Leaving, p)
		}
	}
}

func (st *Step) wakeBy(at time.Time) {
	if !at.IsZero() && (st.WakeAt.IsZero() || at.Before(st.WakeAt)) {
		st.WakeAt = at
	}
}
