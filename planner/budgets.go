package planner

import (
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"millwright/planner/surge"
	"millwright/planner/world"
)

// PodBudgets are the PodDisruptionBudgets of a Snapshot, ready to be matched with pods.
type PodBudgets struct {
	byNamespace map[string][]podBudget
	// matches caches by namespace and class, since replicas match alike.
	matches map[matchKey][]*policyv1.PodDisruptionBudget
	// replaces reports that a pod goes without an eviction, before which its Deployment replaces it.
	replaces func(*world.Pod) bool
}

type podBudget struct {
	object   *policyv1.PodDisruptionBudget
	selector labels.Selector
}

type matchKey struct {
	namespace string
	class     *world.PodClass
}

// PodBudgets returns the Snapshot's PodDisruptionBudgets. It is computed once.
func (s *Snapshot) PodBudgets() *PodBudgets {
	if s.cache.budgets == nil {
		s.cache.budgets = newPodBudgets(s.World.PodDisruptionBudgets())
		s.cache.budgets.replaces = s.ReplacesFirst
	}
	return s.cache.budgets
}

// newPodBudgets leaves out budgets whose selector is missing or can't be read: they select nothing.
func newPodBudgets(list []*policyv1.PodDisruptionBudget) *PodBudgets {
	b := &PodBudgets{byNamespace: map[string][]podBudget{}, matches: map[matchKey][]*policyv1.PodDisruptionBudget{}}
	for _, pdb := range list {
		if pdb.Spec.Selector == nil {
			continue
		}
		sel, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue
		}
		b.byNamespace[pdb.Namespace] = append(b.byNamespace[pdb.Namespace], podBudget{pdb, sel})
	}
	return b
}

// Matching returns the budgets that select a pod, by name.
func (b *PodBudgets) Matching(p *world.Pod) []*policyv1.PodDisruptionBudget {
	key := matchKey{p.Namespace, p.Class}
	if list, ok := b.matches[key]; ok {
		return list
	}
	var list []*policyv1.PodDisruptionBudget
	for _, pb := range b.byNamespace[p.Namespace] {
		if pb.selector.Matches(labels.Set(p.Class.Labels)) {
			list = append(list, pb.object)
		}
	}
	b.matches[key] = list
	return list
}

// Blocking returns the budgets, by name, that currently forbid evicting a pod: those with no disruption left
// to allow, unless the pod is unready and their unhealthyPodEvictionPolicy allows evicting unready pods,
// or its Deployment replaces it first. More than one budget on a pod blocks too, because the eviction API
// refuses such a pod; multiple says so.
func (b *PodBudgets) Blocking(p *world.Pod) (blocking []*policyv1.PodDisruptionBudget, multiple bool) {
	all := b.Matching(p)
	if len(all) > 1 {
		return all, true
	}
	for _, pdb := range all {
		if pdb.Status.DisruptionsAllowed == 0 && !GoesUnready(pdb, p) && !b.replaces(p) {
			blocking = append(blocking, pdb)
		}
	}
	return blocking, false
}

// GoesUnready reports that a budget does not hold a pod, because it is not ready: its eviction uses up
// nothing of what the budget allows.
func GoesUnready(pdb *policyv1.PodDisruptionBudget, p *world.Pod) bool {
	policy := pdb.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow && p.NotReady
}

// FullyBlocking reports that a budget can never allow a disruption: maxUnavailable 0 or 0 %, minAvailable 100
// %.
func FullyBlocking(pdb *policyv1.PodDisruptionBudget) bool { return surge.FullyBlocking(pdb) }

// IsMoving reports that a pod of a node that is being removed will have to be rescheduled now (reference:
// scheduling §2.3): it is reschedulable, not protected, and not held by a budget that can never allow a
// disruption, unless its Deployment replaces it first.
func (b *PodBudgets) IsMoving(p *world.Pod, now time.Time) bool {
	if !IsReschedulable(p) || DoNotDisrupt(p, now).InEffect {
		return false
	}
	if ToleratesDisrupted(p.Class) {
		return true
	}
	all := b.Matching(p)
	return len(all) <= 1 && !slices.ContainsFunc(all, func(pdb *policyv1.PodDisruptionBudget) bool {
		return FullyBlocking(pdb) && !GoesUnready(pdb, p) && !b.replaces(p)
	})
}
