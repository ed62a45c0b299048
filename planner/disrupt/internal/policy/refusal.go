package policy

import (
	"fmt"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/options"
)

// Causes of refusals.
const (
	Unreadable = "policy-unreadable"
	Paused     = "paused"
	TooYoung   = "too-young"
	Window     = "window"
	Rate       = "evictions-per-hour"
)

// Refusal is what a policy has against taking a node away.
type Refusal struct {
	Cause, Message string
	// Until is when time alone ends it; zero if it does not.
	Until time.Time
}

func refuse(cause, format string, args ...any) *Refusal {
	return &Refusal{Cause: cause, Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) until(at time.Time) *Refusal {
	r.Until = at
	return r
}

// Block says what the policy has against taking a node away for a reason now; nil if nothing.
func (p *Policy) Block(n *planner.StateNode, reason karpv1.DisruptionReason, now time.Time) *Refusal {
	if p.fault != "" {
		return refuse(Unreadable, "DisruptionPolicy %q can't be read: %s", p.Name, p.fault)
	}
	if pause := p.Spec.Pause; pause != nil && now.Before(pause.Until.Time) {
		b := refuse(Paused, "DisruptionPolicy %q pauses disruption until %s", p.Name, Clock(pause.Until.Time))
		if pause.Reason != "" {
			b.Message += ": " + pause.Reason
		}
		return b.until(pause.Until.Time)
	}
	if age := p.Spec.MinNodeAge; age != nil {
		if old := n.Claim.CreationTimestamp.Add(age.Duration); now.Before(old) {
			return refuse(TooYoung, "DisruptionPolicy %q keeps nodes younger than %s", p.Name, age.Duration).until(old)
		}
	}
	return p.closed(reason, now)
}

// closed says which window keeps a reason from disruption; nil if none does.
func (p *Policy) closed(reason karpv1.DisruptionReason, now time.Time) *Refusal {
	if len(p.windows) == 0 {
		return nil
	}
	if p.judged == nil || !p.judgedAt.Equal(now) {
		p.judged, p.judgedAt = map[karpv1.DisruptionReason]*Refusal{}, now
	}
	r, known := p.judged[reason]
	if !known {
		r = p.closedBy(reason, now)
		p.judged[reason] = r
	}
	return r
}

func (p *Policy) closedBy(reason karpv1.DisruptionReason, now time.Time) *Refusal {
	var opens time.Time
	limited, open := false, false
	for _, w := range p.windows {
		if len(w.Reasons) > 0 && !slices.Contains(w.Reasons, reason) {
			continue
		}
		from, until, is := w.at(now)
		switch {
		case w.Action == mwv1alpha1.WindowDeny && is:
			return refuse(Window, "DisruptionPolicy %q denies disruption for reason %s until %s", p.Name, reason, Clock(until)).until(until)
		case w.Action == mwv1alpha1.WindowAllow:
			limited, open = true, open || is
			if !is && !from.IsZero() && (opens.IsZero() || from.Before(opens)) {
				opens = from
			}
		}
	}
	switch {
	case !limited || open:
		return nil
	case opens.IsZero():
		return refuse(Window, "DisruptionPolicy %q allows disruption for reason %s at no time that ever comes", p.Name, reason)
	}
	return refuse(Window, "DisruptionPolicy %q allows disruption for reason %s from %s", p.Name, reason, Clock(opens)).until(opens)
}

// at returns the opening that contains now, or else the next one; zero times if there is none.
func (w *window) at(now time.Time) (from, until time.Time, open bool) {
	from = w.next(now.Add(-w.Duration.Duration))
	if from.IsZero() || from.Year() < 2 {
		return time.Time{}, time.Time{}, false
	}
	return from, from.Add(w.Duration.Duration), !from.After(now)
}

// after returns the next opening that begins after a time.
func (w *window) after(t time.Time) (from, until time.Time, ok bool) {
	from = w.next(t)
	if from.IsZero() || from.Year() < 2 {
		return time.Time{}, time.Time{}, false
	}
	return from, from.Add(w.Duration.Duration), true
}

// BlockByRate keeps a node whose pods would be too many for the hour. One with more pods than may move in an
// hour can go if nothing else moved, unless nothing may move at all.
func (p *Policy) BlockByRate(s *planner.Snapshot, n *planner.StateNode, pods int) *Refusal {
	most := p.Spec.MaxEvictionsPerHour
	if most == nil {
		return nil
	}
	moved, until := s.Ledger.Evictions(n.NodePool, s.Now)
	if pods == 0 || moved == 0 && *most > 0 || moved+pods <= int(*most) {
		return nil
	}
	return refuse(Rate, "DisruptionPolicy %q lets %d pods of NodePool %q move in an hour, %d have", p.Name, *most, n.NodePool, moved).until(until)
}

// TooMany are the nodes whose pods, with those of the nodes before them, are too many for the hour.
func TooMany(s *planner.Snapshot, byPool map[string][]*Policy, nodes []*planner.StateNode, podsOf func(*planner.StateNode) int) (kept []*planner.StateNode, why string) {
	return tooMany(byPool, nodes, podsOf, func(pool string) int {
		moved, _ := s.Ledger.Evictions(pool, s.Now)
		return moved
	})
}

// PodsOn counts the pods of a node that would need a new place.
func PodsOn(n *planner.StateNode) (count int) {
	for _, p := range n.Pods {
		if planner.IsReschedulable(p) {
			count++
		}
	}
	return count
}

// FitLater reports that the pods of nodes are too many for the hour, but would not be had none moved in it: a
// command waits for that, if the rules have it wait.
func FitLater(s *planner.Snapshot, byPool map[string][]*Policy, nodes []*planner.StateNode) bool {
	if s.Options.Revision < options.Revision1 {
		return false
	}
	kept, _ := TooMany(s, byPool, nodes, PodsOn)
	always, _ := tooMany(byPool, nodes, PodsOn, func(string) int { return 0 })
	return len(kept) > 0 && len(always) == 0
}

func tooMany(byPool map[string][]*Policy, nodes []*planner.StateNode, podsOf func(*planner.StateNode) int, movedFrom func(pool string) int) (kept []*planner.StateNode, why string) {
	moving, first := map[string]int{}, map[string]bool{}
	for _, n := range nodes {
		pods := podsOf(n)
		if pods == 0 {
			continue
		}
		for _, rule := range byPool[n.NodePool] {
			if most := rule.Spec.MaxEvictionsPerHour; most != nil && first[n.NodePool] {
				if movedFrom(n.NodePool)+moving[n.NodePool]+pods > int(*most) {
					kept, why = append(kept, n), fmt.Sprintf("DisruptionPolicy %q lets %d pods of NodePool %q move in an hour", rule.Name, *most, n.NodePool)
					break
				}
			}
		}
		if !slices.Contains(kept, n) {
			first[n.NodePool] = true
			moving[n.NodePool] += pods
		}
	}
	return kept, why
}

// FirstWave is the smallest first wave of drift that policies want, and which of them wants it; 0 if none
// wants waves. One that can't be read wants none: it blocks everything.
func FirstWave(list []*Policy) (by string, nodes int) {
	for _, p := range list {
		if w := p.Spec.Waves; w != nil && p.fault == "" && (nodes == 0 || max(1, int(w.Initial)) < nodes) {
			by, nodes = p.Name, max(1, int(w.Initial))
		}
	}
	return by, nodes
}

// WithWaves are the policies that want waves, by name.
func WithWaves(list []*Policy) (names []string) {
	for _, p := range list {
		if p.Spec.Waves != nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// BansDestinations reports that pods are moved to no node inside its consolidateAfter.
func (p *Policy) BansDestinations() bool {
	return p.fault == "" && p.Spec.Destination == mwv1alpha1.DestinationBan
}
