package garbage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/providerid"

	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/lane"
)

const (
	// pollEvery is how often terminating instances are looked at, all in one call.
	pollEvery = 2 * time.Second
	// VisibleAfter is the age from which EC2 must know an instance; younger ones may not be visible yet.
	VisibleAfter = 60 * time.Second
)

// StepPoll looks at all terminating instances at once.
func (g *Collector) StepPoll(now time.Time) time.Time {
	ids := g.found.endings()
	if len(ids) == 0 {
		return time.Time{}
	}
	if at := g.effects.Retries.At("poll", now); now.Before(at) {
		return at
	}
	g.effects.Start("poll", lane.Poll, func(ctx context.Context) error { return g.poll(ctx, ids) })
	return now.Add(pollEvery)
}

func (g *Collector) poll(ctx context.Context, ids map[string]time.Time) error {
	g.effects.Hold("poll", pollEvery)
	found, err := g.deps.EC2.DescribeInstances(ctx, slices.Sorted(maps.Keys(ids)))
	if err != nil {
		return fmt.Errorf("poll terminating instances: %w", err)
	}
	g.deps.Listener.HearOf(g.found.rememberInstances(g.factsOf(slices.Sorted(maps.Keys(ids)), found))...)
	return nil
}

// lookAtInstances returns what EC2 says of all instances that are listed or named. It asks by id for what the
// list by tags does not show: terminated, unknown, or stripped of its tags.
func (g *Collector) lookAtInstances(ctx context.Context, l *listing) (map[string]claim.InstanceFacts, error) {
	listed := map[string]bool{}
	for _, i := range l.instances {
		listed[i.ID] = true
	}
	missing := slices.DeleteFunc(l.instanceIDs(), func(id string) bool { return listed[id] })
	facts := g.factsOf(slices.Sorted(maps.Keys(listed)), l.instances)
	if len(missing) == 0 {
		return facts, nil
	}
	found, err := g.deps.EC2.DescribeInstances(ctx, missing)
	if err != nil {
		return nil, fmt.Errorf("describe instances missing from the list: %w", err)
	}
	maps.Copy(facts, g.factsOf(missing, found))
	return facts, nil
}

// factsOf is what EC2's answer says of these ids. What it does not know is missing once it is old enough to
// be known.
func (g *Collector) factsOf(ids []string, found []ec2.Instance) map[string]claim.InstanceFacts {
	all := map[string]claim.InstanceFacts{}
	states := map[string]ec2.Instance{}
	for _, i := range found {
		states[i.ID] = i
	}
	now := g.host.Now()
	for _, id := range ids {
		i, known := states[id]
		facts := claim.InstanceFacts{Terminated: known && i.Gone(), Ending: known && i.Ending()}
		facts.Missing = !known && g.oldEnough(id, now)
		all[id] = facts
	}
	return all
}

// oldEnough reports that EC2 must know the instance by now: the claim that names it was launched long enough
// ago. That is not when the attempt was recorded, for its request may have been sent again since: what this
// leader launched counts from its answer, what an earlier one did at most from its own beginning.
func (g *Collector) oldEnough(id string, now time.Time) bool {
	at := g.found.launchedAt(id)
	if !at.IsZero() {
		return now.Sub(at) > VisibleAfter
	}
	_ = g.host.Ledger(func(l *ledger.Ledger) error {
		for _, c := range l.Claims() {
			if c.Instance != nil && c.Instance.InstanceID == id && !c.OpenedAt.IsZero() {
				at = planner.Latest(c.OpenedAt, g.started)
			}
		}
		return nil
	})
	if at.IsZero() {
		at = g.createdAt(id)
	}
	return !at.IsZero() && now.Sub(at) > VisibleAfter
}

// createdAt is the creation of the NodeClaim that names the instance: an adopted one's launch is not in the
// log.
func (g *Collector) createdAt(id string) time.Time {
	for _, o := range g.deps.Cache.NodeClaims() {
		if _, of := providerid.Split(o.Status.ProviderID); of == id {
			return o.CreationTimestamp.Time
		}
	}
	for _, n := range g.deps.Cache.Nodes() {
		if _, of := providerid.Split(n.Spec.ProviderID); of == id {
			return n.CreationTimestamp.Time
		}
	}
	return time.Time{}
}
