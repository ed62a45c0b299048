package disruptor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/condition"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/drainout"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
)

// policiesEvery is how often the status of DisruptionPolicies is computed again.
const policiesEvery = 10 * time.Second

// EventHalted is the reason of the KubeEvent on a NodePool whose roll-out has halted; it is not repeated for
// haltedFor.
const (
	EventHalted = "RolloutHalted"
	haltedFor   = 6 * time.Hour
)

// policyStatus is the status to write on one DisruptionPolicy.
type policyStatus struct {
	name   string
	uid    types.UID
	status mwv1alpha1.DisruptionPolicyStatus
	// generation of the spec that was looked at.
	generation int64
}

// tellPolicies writes what DisruptionPolicies select, when they open, and what of them cannot be parsed. The
// World does not contain their status, so what was written last is remembered, for the existing policies; a
// new leader reads it first.
func (s *Service) tellPolicies() error {
	now := s.host.Now()
	if wait := s.policiesAt.Sub(now); wait > 0 && wait <= policiesEvery { // longer: the clock was set back
		return nil
	}
	s.policiesAt = now.Add(policiesEvery)
	var list []policyStatus
	err := s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		waves := disrupt.Waves(snap)
		s.tellHalted(waves)
		for _, p := range snap.World.DisruptionPolicies() {
			list = append(list, statusOf(p, snap, waves))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range s.policies.toTell(list) {
		s.startEffect("policy/"+p.name, "write status of disruptionpolicy "+p.name, func(ctx context.Context) error {
			return s.tellPolicy(ctx, p)
		})
	}
	return nil
}

// toldPolicies is what was written last, for the existing policies.
type toldPolicies struct {
	mu   sync.Mutex
	told map[types.UID]policyStatus
}

// toTell returns what differs from what was written last, and forgets policies that are not listed.
func (t *toldPolicies) toTell(list []policyStatus) (due []policyStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make(map[types.UID]policyStatus, len(list))
	for _, p := range list {
		last, ok := t.told[p.uid]
		if ok && last.generation == p.generation && equality.Semantic.DeepEqual(last.status, p.status) {
			kept[p.uid] = last
		} else {
			due = append(due, p)
		}
	}
	t.told = kept
	return due
}

func (t *toldPolicies) addStatus(p policyStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[p.uid] = p
}

func statusOf(p *mwv1alpha1.DisruptionPolicy, snap *planner.Snapshot, waves []disrupt.PoolWave) policyStatus {
	selected, openings, fault := disrupt.PolicyStatus(p, snap.World.NodePools(), snap.Now)
	ready := metav1.Condition{Type: karpv1.ConditionTypeReady, Status: metav1.ConditionTrue, Reason: karpv1.ConditionTypeReady, ObservedGeneration: p.Generation}
	if fault != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Unreadable", fault
	}
	status := mwv1alpha1.DisruptionPolicyStatus{NodePoolCount: int32(selected), NextWindows: openings, Conditions: []metav1.Condition{ready}}
	status.Rollouts, status.HaltedRollouts = rolloutsOf(waves, p.Name)
	status.DrainingOut = int32(drainout.Count(snap, p))
	return policyStatus{name: p.Name, uid: p.UID, generation: p.Generation, status: status}
}

// rolloutsMax bounds the roll-outs that a policy's status names.
const rolloutsMax = 50

// rolloutsOf are the roll-outs of the NodePools that a policy selects, halted ones first, and how many are
// halted.
func rolloutsOf(waves []disrupt.PoolWave, policy string) (list []mwv1alpha1.Rollout, halted int32) {
	for i := range waves {
		w := &waves[i]
		if !slices.Contains(w.Policies, policy) {
			continue
		}
		r := mwv1alpha1.Rollout{NodePool: w.NodePool, Wave: int32(w.Number), WaveNodes: int32(w.Nodes), Replaced: int32(w.Replaced)}
		if h := w.Halted; h != nil {
			halted++
			at := metav1.NewTime(h.At.Truncate(time.Second))
			r.Halted, r.HaltedAt = h.Reason, &at
		}
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(a, b mwv1alpha1.Rollout) int {
		return cmp.Compare(cmp.Compare(b.Halted, ""), cmp.Compare(a.Halted, ""))
	})
	return list[:min(len(list), rolloutsMax)], halted
}

// tellHalted says on NodePools whose roll-out has halted that it waits for a person.
func (s *Service) tellHalted(waves []disrupt.PoolWave) {
	s.metrics.halted.Reset()
	for i := range waves {
		w := &waves[i]
		if w.Halted == nil {
			continue
		}
		s.metrics.halted.WithLabelValues(w.NodePool).Set(1)
		s.host.Event(service.KubeEvent{Object: poolReference(w.NodePool), Type: corev1.EventTypeWarning, Reason: EventHalted,
			Message: disrupt.HaltedText(w.NodePool, w.Halted), DedupeFor: haltedFor})
	}
}

// tellPolicy reads the policy again and writes what differs; a condition keeps its transition time while its
// status is the same.
func (s *Service) tellPolicy(ctx context.Context, p policyStatus) error {
	before, err := s.kube.GetPolicy(ctx, p.name)
	if err != nil || before.UID != p.uid || before.Generation != p.generation {
		return ignore(err, kube.NotFound) // the next look sees the newer one
	}
	after := before.DeepCopy()
	after.Status.NodePoolCount, after.Status.NextWindows = p.status.NodePoolCount, p.status.NextWindows
	after.Status.DrainingOut = p.status.DrainingOut
	after.Status.Rollouts, after.Status.HaltedRollouts = p.status.Rollouts, p.status.HaltedRollouts
	conditions := condition.List{Generation: p.generation, Created: before.CreationTimestamp.Time, Now: s.host.Now(), Conditions: after.Status.Conditions}
	for _, c := range p.status.Conditions {
		conditions.Set(c.Type, c.Status, c.Reason, c.Message)
	}
	after.Status.Conditions = conditions.Conditions
	if _, err := s.kube.UpdatePolicyStatus(ctx, before, after); err != nil {
		return ignore(fmt.Errorf("write status of disruptionpolicy %s: %w", p.name, err), kube.NotFound)
	}
	s.policies.addStatus(p)
	return nil
}
