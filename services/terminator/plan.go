package terminator

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
)

// plan is what is due for one node; it holds nothing of the Snapshot it was made on.
type plan struct {
	leaving
	reason string
	// started is the DrainStarted record; drained: NodeDrained is recorded.
	started uint64
	drained bool
	// voluntary: a command asked for it.
	voluntary bool
	// untainted: nothing is evicted yet.
	untainted bool
	// direct: there is no valid World, so the API server must be asked for the pods.
	direct bool

	basis   planner.Basis
	expects []planner.Expectation
	// tier to be recorded; nil if it is.
	tier    *ledger.DrainTierStarted
	evicts  []eviction
	deletes []deletion
	// surges are pods that are to be replaced first, running those of them that are being replaced.
	surges  drain.Surge
	running map[types.UID]bool

	deadline, notice      time.Time
	waiting               string
	podsGone, volumesGone bool
	volumes               []string
}

// endOf is when the node is gone at the latest: EC2 does not wait for what was annotated.
func (p *plan) endOf() time.Time {
	if !p.notice.IsZero() && (p.deadline.IsZero() || p.notice.Before(p.deadline)) {
		return p.notice
	}
	return p.deadline
}

// deletion of a pod before its time.
type deletion struct {
	ref ledger.PodRef
	// granted of asked seconds of grace.
	granted, asked int64
}

// plan looks at all nodes with a recorded drain, on one Snapshot.
func (s *Service) plan(nodes []leaving) ([]plan, error) {
	var plans []plan
	// The breaker allows those that come first.
	nodes = slices.SortedStableFunc(slices.Values(nodes), func(a, b leaving) int { return a.deadline().Compare(b.deadline()) })
	look := func(direct bool) func(*planner.Snapshot) error {
		return func(snap *planner.Snapshot) error {
			s.breaker.begin(snap)
			for _, l := range nodes {
				if d := snap.Ledger.Drain(l.node.Name); d != nil && l.has(d) {
					plans = append(plans, s.planNode(snap, l, d, direct))
				}
			}
			now := s.host.Now()
			s.wave.inWaves(plans, now, func(e eviction) bool { return s.retries.At(evictKey(e.ref), now).IsZero() }, func() bool { return settled(snap) })
			return nil
		}
	}
	if s.host.LogAway() { // no tier can be recorded, but what the API server lists can be evicted
		return plans, s.host.Snapshot(service.ForEffects, look(true))
	}
	err := s.host.Snapshot(service.ForProvisioning, look(false))
	if !errors.Is(err, service.ErrNotReady) {
		s.unfit = time.Time{}
		return plans, err
	}
	if s.unfit.IsZero() {
		s.unfit = s.host.Now()
	}
	if len(nodes) == 0 || s.host.Now().Sub(s.unfit).Abs() < unfitMax {
		return nil, err
	}
	plans = nil
	return plans, s.host.Snapshot(service.ForEffects, look(true))
}

func (s *Service) planNode(snap *planner.Snapshot, l leaving, d *ledger.Drain, direct bool) plan {
	p := plan{leaving: l, reason: d.Started.Reason, started: d.Seq, drained: d.Drained > 0, direct: direct,
		voluntary: snap.Ledger.TakenVoluntarily(d.Started.Claim, d.Started.ClaimUID),
		basis:     snap.Basis(), expects: snap.Expect(ledger.NodeAggregate(l.node.Name)), deadline: l.deadline()}
	p.notice = noticeOf(snap, l, d)
	p.running, p.untainted = running(snap, l, d), !kube.IsDisrupted(l.node)
	if direct {
		p.volumes = s.attachedTo(l.node.Name)
		past := !p.deadline.IsZero() && snap.Certain().After(p.deadline)
		taken := !p.notice.IsZero() && !snap.Certain().Before(p.notice.Add(-drain.NoticeMargin))
		p.volumesGone = len(p.volumes) == 0 || taken || past && s.breaker.allows(p.node.Name)
		return p
	}
	step := drain.Plan(snap, l.node.Name)
	if step.Forced() && !s.breaker.allows(p.node.Name) {
		step = drain.PlanPaced(snap, l.node.Name)
	}
	p.tier = step.TierStarted(d)
	p.evicts = evictionsOf(step.Evict, drain.Ref)
	for _, del := range step.Delete {
		p.deletes = append(p.deletes, deletion{ref: drain.Ref(del.Pod), granted: del.GraceSeconds, asked: graceOf(del)})
	}
	p.surges = step.Surge
	p.surges.Late = nil // they are the World's
	p.waiting, p.podsGone, p.volumesGone, p.volumes = step.Message(), step.PodsGone, step.VolumesGone, step.Volumes
	return p
}

// running are the pods of a drain that Deployments are replacing, while nothing but a command takes the node.
func running(snap *planner.Snapshot, l leaving, d *ledger.Drain) map[types.UID]bool {
	pods := map[types.UID]bool{}
	if !snap.Ledger.TakenVoluntarily(d.Started.Claim, d.Started.ClaimUID) || !noticeOf(snap, l, d).IsZero() {
		return pods
	}
	for uid, surge := range d.Surges {
		if surge.Running(snap.Now) {
			pods[uid] = true
		}
	}
	return pods
}

// noticeOf is when EC2 takes the instance away by the records; zero if none says so.
func noticeOf(snap *planner.Snapshot, l leaving, d *ledger.Drain) time.Time {
	if at := noticed(snap.Ledger, l); !at.IsZero() {
		return at
	}
	if d != nil {
		return d.Started.Notice
	}
	return time.Time{}
}

func noticed(led *ledger.Ledger, l leaving) time.Time {
	if l.claim == nil {
		return time.Time{}
	}
	if c := led.Claim(l.claim.Name); c != nil && c.UID == l.claim.UID && c.Doomed != nil {
		return c.Doomed.Deadline
	}
	return time.Time{}
}

func graceOf(d drain.Deletion) int64 {
	if g := d.Pod.Class.Spec.TerminationGracePeriodSeconds; g != nil {
		return *g
	}
	return 30
}

// attachedTo returns the persistent volumes' attachments to a node, by name, as informers have them. Without
// the World it is not known which of them belong to pods that stay, so all count.
func (s *Service) attachedTo(node string) []string {
	var names []string
	for _, a := range s.cluster.VolumeAttachmentsOf(node) {
		if a.Spec.Source.PersistentVolumeName != nil {
			names = append(names, a.Name)
		}
	}
	return names
}
