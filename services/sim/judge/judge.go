// Package judge makes the checks of a simulated run. What decisions are judged by is derived from messages,
// payloads of records and the objects of the cluster alone, and shares nothing with the planners; only end.go
// asks the fold of the log, for what is missing until the cluster is at rest, and replays it.
package judge

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/cloud"
	"millwright/store"
)

// What is decided is judged by the messages that the process has seen and by the payloads of the records, and
// by nothing that plans.

// Decision looks at one before it is appended; what it returns looks again when it is stored.
func (s *Judge) Decision(p Process, position events.Position, payload any) func(store.Record) {
	if at, _ := p.Folded(); position.Incarnation != s.Incarnation || at != position.Sequence {
		return nil // the process has seen more since the Snapshot
	}
	switch payload := payload.(type) {
	case *ledger.ProvisioningPlanned:
		s.judgeRoom(payload)
		return s.judgePlan(p, payload.Search == nil || payload.Search.Position == position)
	case *ledger.CommandStarted:
		s.Buffers.judge(p, payload)
		byBudgets, byPolicies := s.judgeCommand(p), s.rules.judgeByPolicies(p, payload)
		return func(rec store.Record) {
			byBudgets(rec)
			byPolicies(rec)
		}
	case *ledger.DrainOutStarted:
		s.rules.judgeDrainOut(p, payload)
	}
	return nil
}

// judgeRoom demands that each instance type of a planned NodeClaim holds its pods, as they are in the
// cluster.
func (s *Judge) judgeRoom(plan *ledger.ProvisioningPlanned) {
	for _, c := range plan.Claims {
		var milli, memory, pods int64
		for _, ref := range c.Pods {
			if p := s.Cluster.Pod(ref.Namespace + "/" + ref.Name); p != nil && p.UID == ref.UID {
				for _, x := range p.Spec.Containers {
					milli, memory = milli+x.Resources.Requests.Cpu().MilliValue(), memory+x.Resources.Requests.Memory().Value()
				}
				pods++
			} else if each, virtual := s.Buffers.requestsOf(string(ref.UID)); virtual {
				milli, memory, pods = milli+each.milli, memory+each.memory, pods+1
			}
		}
		for _, name := range c.InstanceTypes {
			if _, room := cloud.Size(name); milli > room.MilliCPU || memory > room.Memory || pods > room.Pods {
				s.Violate(CheckRoom, "a claim of NodePool %s is planned for %d pods of %dm CPU and %d bytes, which %s does not hold", c.NodePool, pods, milli, memory, name)
			}
		}
	}
}

// judgePlan checks verdicts, if the round is about all pods that are seen, and limits. Of the claims only
// those count that were not seen going.
func (s *Judge) judgePlan(p Process, whole bool) func(store.Record) {
	v := s.seenBy(p)
	_, through := p.Folded()
	var pending []*corev1.Pod
	if whole {
		pending = v.pending()
	}
	counted := map[string]bool{}
	for name, c := range s.book.claims {
		counted[name] = s.takesRoom(v, c, through)
	}
	return func(rec store.Record) {
		for _, pod := range pending {
			if !s.book.verdicts[string(pod.UID)] {
				s.Violate(CheckVerdicts, "pod %s (%s) has none after record %d", pod.Name, pod.UID, rec.Seq)
			}
		}
		for _, pool := range s.Script.Pools {
			limit, limited := s.limitOf(pool.Name)
			used, planned, parts := s.useOf(pool.Name, rec.Seq, counted)
			if limited && planned && used > limit {
				s.Violate(CheckLimits, "record %d brings NodePool %s to %dm of %dm CPU: %v", rec.Seq, pool.Name, used, limit, parts)
			}
		}
	}
}

// takesRoom reports that a claim surely counted against its pool's limit for who had seen so much.
func (s *Judge) takesRoom(v *seen, c *booked, through uint64) bool {
	if c.planned > through || s.book.isGoing(c, through) {
		return false
	}
	o := v.claim(c.name)
	if o == nil {
		return !c.joined && c.provider == "" || v.claimOf(c.provider) != nil
	}
	return !v.going(o)
}

// useOf adds up what counted claims, and those that a record plans, take of a pool's CPU.
func (s *Judge) useOf(pool string, seq uint64, counted map[string]bool) (milli int64, planned bool, parts []string) {
	for _, name := range slices.Sorted(maps.Keys(s.book.claims)) {
		c := s.book.claims[name]
		if c.pool != pool || !counted[name] && c.planned != seq {
			continue
		}
		planned = planned || c.planned == seq
		milli += s.milliCPUOf(c)
		parts = append(parts, fmt.Sprintf("%s %dm", name, s.milliCPUOf(c)))
	}
	return milli, planned, parts
}

// milliCPUOf is what a claim takes of its pool's limit: what its Node reports, or else what is recorded.
func (s *Judge) milliCPUOf(c *booked) int64 {
	for _, n := range s.Cluster.Nodes() {
		if cpu, reported := n.Status.Capacity[corev1.ResourceCPU]; reported && c.provider != "" && n.Spec.ProviderID == c.provider {
			return cpu.MilliValue()
		}
	}
	return c.milliCPU
}

// lately returns a NodePool as it is and as it was when it may have been seen so.
func (s *Judge) lately(name string) (list []*karpv1.NodePool) {
	if p := s.Cluster.NodePool(name); p != nil {
		list = append(list, p)
	}
	for _, past := range s.history.pools[name] {
		if s.Clock.Now().Sub(past.until) < lookback {
			list = append(list, past.pool)
		}
	}
	return list
}

// limitOf is the highest CPU limit a NodePool had lately, in millicores; false if it had none.
func (s *Judge) limitOf(name string) (milli int64, limited bool) {
	for _, p := range s.lately(name) {
		limit, has := p.Spec.Limits[corev1.ResourceCPU]
		if !has {
			return 0, false
		}
		milli, limited = max(milli, limit.MilliValue()), true
	}
	return milli, limited
}

// poolNode is a node that counts for its pool's budget.
type poolNode struct {
	claim string
	going bool
	ready bool
}

// nodesOf are a pool's initialized nodes that are not terminating yet, as a process has seen them.
func (s *Judge) nodesOf(v *seen, pool string, through uint64) (list []poolNode) {
	for _, n := range all[*corev1.Node](v, events.KindNode) {
		c := v.claimOf(n.Spec.ProviderID)
		if c == nil || n.Labels[karpv1.NodePoolLabelKey] != pool || n.Labels[karpv1.NodeInitializedLabelKey] != "true" || isTrue(c.Status.Conditions, karpv1.ConditionTypeInstanceTerminating) {
			continue
		}
		b := s.book.claims[c.Name]
		list = append(list, poolNode{c.Name, v.going(c) || b != nil && s.book.isGoing(b, through), isReady(n)})
	}
	return list
}

// judgeCommand counts the pool's nodes as they were seen, and what commands take of them once the record is
// stored.
func (s *Judge) judgeCommand(p Process) func(store.Record) {
	v, nodes := s.seenBy(p), map[string][]poolNode{}
	_, through := p.Folded()
	for _, pool := range s.Script.Pools {
		nodes[pool.Name] = s.nodesOf(v, pool.Name, through)
	}
	return func(rec store.Record) {
		command := s.book.commands[ledger.CommandID(s.Log.ID(), rec.Seq)]
		if command == nil {
			return
		}
		for _, pool := range command.pools {
			s.judgeBudget(rec, command, pool, nodes[pool])
		}
	}
}

// judgeBudget counts what a command and all others take of a pool's nodes.
func (s *Judge) judgeBudget(rec store.Record, command *bookedCommand, pool string, list []poolNode) {
	gone, leaving := 0, 0
	healthy := false // a node that is not ready uses the budget up before it is taken, so only those that leave count for it
	for _, n := range list {
		taken := false
		for _, c := range s.book.commands {
			taken = taken || slices.Contains(c.claims, n.claim)
		}
		if taken || n.going {
			leaving++
		}
		if taken || n.going || !n.ready {
			gone++
		}
		healthy = healthy || n.ready && slices.Contains(command.claims, n.claim)
	}
	if !healthy {
		gone = leaving
	}
	allowed := 0
	for _, p := range s.lately(pool) {
		allowed = max(allowed, budgetOf(p, len(list)))
	}
	if gone > allowed {
		s.Violate(CheckBudgets, "record %d brings NodePool %s to %d disrupted of %d nodes, %d are allowed", rec.Seq, pool, gone, len(list), allowed)
	}
}

func budgetOf(pool *karpv1.NodePool, nodes int) int {
	text, percent := strings.CutSuffix(pool.Spec.Disruption.Budgets[0].Nodes, "%")
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	if percent {
		return (nodes*n + 99) / 100
	}
	return n
}
