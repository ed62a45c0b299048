package judge

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
	"millwright/store"
)

// Checks of commands by what each part of the DisruptionPolicies says.
const (
	CheckSavings  = "4: DisruptionPolicies: commands save what is asked for"
	CheckAge      = "4: DisruptionPolicies: no node is taken too young"
	CheckRate     = "4: DisruptionPolicies: no more pods move in an hour"
	CheckWindows  = "4: DisruptionPolicies: nothing is taken outside of windows"
	CheckPause    = "4: DisruptionPolicies: nothing is taken during a pause"
	CheckApproval = "4: DisruptionPolicies: people have approved what they want to"
	CheckDrainOut = "4: DisruptionPolicies: nodes run empty only where that is asked for"
	CheckSurge    = "4: DisruptionPolicies: pods that nothing stands in for are replaced first"
)

// rules judge by DisruptionPolicies.
type rules struct {
	*Judge
	// given says of proposals whether people have approved them, moved what the commands take that were not
	// given up, both by id.
	given map[string]bool
	moved map[string][]movedPods
	// surged are the pods that were to be replaced first, or can't be, by UID.
	surged map[string]bool
	// alone is the only ready pod of each app, and since when it is.
	alone map[string]loner

	payBack      *payBack
	destinations *destinations
	waves        *waves
	spot         *spotSavings
	returns      *returns
}

func newRules(s *Judge) *rules {
	return &rules{Judge: s, given: map[string]bool{}, moved: map[string][]movedPods{}, surged: map[string]bool{}, alone: map[string]loner{},
		payBack: &payBack{s}, destinations: &destinations{s}, waves: &waves{Judge: s}, spot: &spotSavings{s}, returns: &returns{s}}
}

type loner struct {
	uid   string
	since time.Time
}

// movedPods of a node that a command takes.
type movedPods struct {
	claim, pool string
	seq         uint64
	at          time.Time
	pods        int
}

// enter takes in what counts for the policies of later commands. Those of shadow mode take nothing.
func (s *rules) enter(e ledger.Entry) {
	if e.Mode == ledger.ModeShadow {
		return
	}
	s.waves.enter(e)
	switch p := e.Payload.(type) {
	case *ledger.ProposalAnswered:
		if _, answered := s.given[p.ID]; !answered {
			s.given[p.ID] = p.Approved
		}
	case *ledger.CommandStarted:
		for _, c := range p.Candidates {
			id := ledger.CommandID(s.Log.ID(), e.Seq)
			s.moved[id] = append(s.moved[id], movedPods{c.Claim, c.NodePool, e.Seq, s.Clock.Now(), len(c.Pods)})
		}
	case *ledger.CommandReduced:
		s.moved[p.ID] = slices.DeleteFunc(s.moved[p.ID], func(m movedPods) bool {
			return slices.ContainsFunc(p.Dropped, func(d ledger.DroppedNode) bool { return d.Claim == m.claim })
		})
	case *ledger.CommandRolledBack:
		delete(s.moved, p.ID)
	case *ledger.SurgeDecided:
		for _, o := range p.Owners {
			for _, pod := range o.Pods {
				s.surged[string(pod.UID)] = true
			}
		}
	}
}

// IsPostponed reports that a DisruptionPolicy may keep for a while what it allows later.
func IsPostponed(k *cluster.Cluster) bool {
	return slices.ContainsFunc(k.Present(), func(c cluster.Change) bool {
		p, ok := c.Object.(*mwv1alpha1.DisruptionPolicy)
		return ok && (p.Spec.Pause != nil || len(p.Spec.Windows) > 0 || p.Spec.MinNodeAge != nil || p.Spec.Approval != nil || p.Spec.MaxEvictionsPerHour != nil || p.Spec.DrainOut != nil ||
			p.Spec.Destination == mwv1alpha1.DestinationBan || p.Spec.Savings != nil && p.Spec.Savings.Spot != nil || p.Spec.ReturnToPreferred != nil)
	})
}

// policiesOf are the policies that a process has seen to be about a NodePool.
func (v *seen) policiesOf(name string) (list []*mwv1alpha1.DisruptionPolicy) {
	pool, _ := v.objects[events.KindNodePool][name].(*karpv1.NodePool)
	if pool == nil {
		return nil
	}
	for _, p := range all[*mwv1alpha1.DisruptionPolicy](v, events.KindDisruptionPolicy) {
		selected := true
		if sel := p.Spec.NodePoolSelector; sel != nil {
			for key, value := range sel.MatchLabels {
				selected = selected && pool.Labels[key] == value
			}
		}
		if selected {
			list = append(list, p)
		}
	}
	return list
}

// judgeByPolicies looks at a command by the policies that who decided it had seen. It returns what looks
// at the record: who else has decided by then counts for the hour.
func (s *rules) judgeByPolicies(p Process, c *ledger.CommandStarted) func(store.Record) {
	v := s.seenBy(p)
	byPool := map[string][]*mwv1alpha1.DisruptionPolicy{}
	for _, x := range c.Candidates {
		byPool[x.NodePool] = v.policiesOf(x.NodePool)
		for _, policy := range byPool[x.NodePool] {
			s.judgeByPolicy(v, policy, c, &x)
		}
	}
	s.destinations.judge(v, c)
	s.Quiet.judge(v, c)
	_, through := p.Folded()
	s.returns.judge(v, through, c)
	byWaves := s.waves.judge(v, c)
	return func(rec store.Record) {
		byWaves(rec)
		for _, pool := range slices.Sorted(maps.Keys(byPool)) {
			for _, policy := range byPool[pool] {
				s.judgeRate(rec, policy, pool)
			}
		}
	}
}

// judgeByPolicy looks at one node of a command. Clocks may be apart, so what is about to change is not
// judged.
func (s *rules) judgeByPolicy(v *seen, policy *mwv1alpha1.DisruptionPolicy, c *ledger.CommandStarted, x *ledger.Candidate) {
	now, spec := s.Clock.Now(), &policy.Spec
	if spec.Pause != nil && now.Add(stage.ClocksApart).Before(spec.Pause.Until.Time) {
		s.Violate(CheckPause, "node %s is taken, %s pauses until %s", x.Node, policy.Name, spec.Pause.Until)
	}
	if o := v.claim(x.Claim); o != nil && spec.MinNodeAge != nil {
		if age := now.Add(stage.ClocksApart).Sub(o.CreationTimestamp.Time); age < spec.MinNodeAge.Duration {
			s.Violate(CheckAge, "node %s is %s old, %s wants %s", x.Node, age, policy.Name, spec.MinNodeAge.Duration)
		}
	}
	if !isOpen(spec.Windows, c.Reason, now.Add(-stage.ClocksApart)) && !isOpen(spec.Windows, c.Reason, now) && !isOpen(spec.Windows, c.Reason, now.Add(stage.ClocksApart)) {
		s.Violate(CheckWindows, "node %s is taken for %s at %s, against the windows of %s", x.Node, c.Reason, now, policy.Name)
	}
	if a := spec.Approval; a != nil && slices.Contains(a.Reasons, c.Reason) && !s.given[c.Proposal] {
		s.Violate(CheckApproval, "node %s is taken for %s by proposal %q, which nobody has approved", x.Node, c.Reason, c.Proposal)
	}
	if spec.Savings != nil && c.Reason == karpv1.DisruptionReasonUnderutilized {
		s.judgeSavings(policy, c, x)
		s.payBack.judge(v, policy, c, x)
		s.spot.judge(v, policy, c)
	}
}

// isOpen by windows that open each few minutes.
func isOpen(windows []mwv1alpha1.Window, reason karpv1.DisruptionReason, at time.Time) bool {
	limited, allowed := false, false
	for _, w := range windows {
		if len(w.Reasons) > 0 && !slices.Contains(w.Reasons, reason) {
			continue
		}
		var every int
		if _, err := fmt.Sscanf(w.Schedule, "*/%d * * * *", &every); err != nil {
			panic(err)
		}
		open := false
		for since := time.Duration(0); since < w.Duration.Duration; since += time.Minute {
			open = open || at.Add(-since).Minute()%every == 0
		}
		if w.Action == mwv1alpha1.WindowDeny && open {
			return false
		}
		if w.Action == mwv1alpha1.WindowAllow {
			limited, allowed = true, allowed || open
		}
	}
	return !limited || allowed
}

// judgeSavings measures a node that goes without a replacement by itself, and else the whole command.
func (s *rules) judgeSavings(policy *mwv1alpha1.DisruptionPolicy, c *ledger.CommandStarted, x *ledger.Candidate) {
	before, saved, evictions := c.PriceBefore, c.PriceBefore-c.PriceAfter, int64(c.Evictions)
	if len(c.Replacements) == 0 {
		before, saved, evictions = x.Price, x.Price, movedFrom(c, x)
	}
	if evictions == 0 {
		return
	}
	want := policy.Spec.Savings
	if want.MinPercent != nil && saved*100 < before*int64(*want.MinPercent) ||
		want.MinPerHour != nil && saved < microDollars(*want.MinPerHour) ||
		want.MinPerEviction != nil && saved < evictions*microDollars(*want.MinPerEviction) {
		s.Violate(CheckSavings, "node %s goes with %d evictions, which saves %d of %d micro-dollars an hour, against %s", x.Node, evictions, saved, before, policy.Name)
	}
}

// movedFrom counts the pods of a node that a command has places for.
func movedFrom(c *ledger.CommandStarted, x *ledger.Candidate) (n int64) {
	for _, t := range c.Placements {
		for _, pod := range t.Pods {
			if slices.ContainsFunc(x.Pods, func(own ledger.PodRef) bool { return own.UID == pod.UID }) {
				n++
			}
		}
	}
	return n
}

func microDollars(text string) int64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return int64(f*1e6 + 0.5)
}

// judgeRate counts the pods of a NodePool that a command and those of the last hour move. A single node
// with more pods may go if nothing else has moved.
func (s *rules) judgeRate(rec store.Record, policy *mwv1alpha1.DisruptionPolicy, pool string) {
	most := policy.Spec.MaxEvictionsPerHour
	if most == nil {
		return
	}
	own, nodes, others := 0, 0, 0
	for id, list := range s.moved {
		for _, m := range list {
			switch {
			case m.pool != pool || m.pods == 0 || s.Clock.Now().Sub(m.at) > time.Hour-2*stage.ClocksApart:
			case id == ledger.CommandID(s.Log.ID(), rec.Seq):
				own, nodes = own+m.pods, nodes+1
			default:
				others += m.pods
			}
		}
	}
	if own > 0 && own+others > int(*most) && (others > 0 || nodes > 1) {
		s.Violate(CheckRate, "record %d moves %d pods of NodePool %s on %d nodes, after %d: %s lets %d move in an hour", rec.Seq, own, pool, nodes, others, policy.Name, *most)
	}
}

// judgeDrainOut demands that a policy asks for it.
func (s *rules) judgeDrainOut(p Process, d *ledger.DrainOutStarted) {
	v := s.seenBy(p)
	for _, n := range d.Nodes {
		if !slices.ContainsFunc(v.policiesOf(n.NodePool), func(o *mwv1alpha1.DisruptionPolicy) bool { return o.Spec.DrainOut != nil }) {
			s.Violate(CheckDrainOut, "node %s of NodePool %s is to", n.Node, n.NodePool)
		}
	}
}

// noteReady remembers which pods are alone.
func (s *rules) noteReady(app string) {
	var ready []*corev1.Pod
	for _, p := range s.podsOf(app) {
		if isReadyPod(p) && p.DeletionTimestamp == nil {
			ready = append(ready, p)
		}
	}
	switch a := s.alone; {
	case len(ready) != 1:
		delete(a, app)
	case a[app].uid != string(ready[0].UID):
		a[app] = loner{string(ready[0].UID), s.Clock.Now()}
	}
}

// judgeSurge looks at the eviction of a pod for a command: whether its owner can be surged was asked
// before.
func (s *rules) judgeSurge(by Process, p *corev1.Pod) {
	n, alone := s.Cluster.Node(p.Spec.NodeName), s.alone[p.Labels["app"]]
	if n == nil || isDaemonPod(p) || alone.uid != string(p.UID) || s.Clock.Now().Sub(alone.since) < lookback || s.surged[string(p.UID)] {
		return
	}
	if _, noticed := s.Deeds.Noticed[InstanceOf(n.Spec.ProviderID)]; noticed || !s.takenByCommand(n) {
		return
	}
	for _, policy := range s.seenBy(by).policiesOf(n.Labels[karpv1.NodePoolLabelKey]) {
		if policy.Spec.Surge != nil {
			s.Violate(CheckSurge, "%s evicts %s, alone since %s, and nobody has asked whether it can be replaced first", by, p.Name, alone.since)
		}
	}
}

// takenByCommand reports that a command takes a node, and nothing else does.
func (s *rules) takenByCommand(n *corev1.Node) bool {
	for _, list := range s.moved {
		for _, m := range list {
			c := s.book.claims[m.claim]
			if c != nil && c.provider == n.Spec.ProviderID && (c.doomed == 0 || c.doomed == m.seq) {
				return true
			}
		}
	}
	return false
}

func isReadyPod(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}
