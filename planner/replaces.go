package planner

import (
	"fmt"

	"millwright/planner/ledger"
	"millwright/planner/surge"
	"millwright/planner/world"
)

// ReplacesFirst reports that a pod which its PodDisruptionBudget never lets go leaves its node all the
// same once a command takes that: a DisruptionPolicy asks for surge, and the World shows that the pod's
// Deployment replaces it. Only with the option SurgeFirst.
func (s *Snapshot) ReplacesFirst(p *world.Pod) bool {
	asked, why := s.replacement(p)
	return asked && why == ""
}

// NotReplacedFirst says why surge does not help a pod that its PodDisruptionBudget never lets go; "" if it
// does, or nobody asks for it.
func (s *Snapshot) NotReplacedFirst(p *world.Pod) string {
	_, why := s.replacement(p)
	return why
}

// replacement of a pod: whether it is asked for, and why there is none.
func (s *Snapshot) replacement(p *world.Pod) (asked bool, why string) {
	if !s.Options.SurgeFirst || !p.Ready || !p.Active() || p.NodeName == "" || JobOwned(p.Class) || p.Class.DaemonSetOwned() {
		return false, ""
	}
	n := s.StateNode(p.NodeName)
	if n == nil || n.Claim == nil || s.surgePolicy(n.NodePool) == "" {
		return false, ""
	}
	if budgets := s.PodBudgets().Matching(p); len(budgets) != 1 || !surge.NeverAllows(budgets[0]) {
		return false, ""
	}
	if n.MarkedForDeletion && s.CommandOf(n.Claim.Name) == "" && s.Ledger.TakenBy(n.Claim.Name, n.Claim.UID) == "" {
		return false, "" // something else than a command takes its node
	}
	if d := s.Ledger.Drain(n.Name); d != nil {
		if decided, is := d.Surges[p.UID]; is && decided.Until.IsZero() {
			return true, "its owner could not do so"
		}
	}
	return true, s.ownerRefuses(p)
}

// surgePolicy is surge.Policy, once for each NodePool.
func (s *Snapshot) surgePolicy(nodePool string) string {
	name, known := s.cache.surging[nodePool]
	if !known {
		if s.cache.surging == nil {
			s.cache.surging = map[string]string{}
		}
		name, _ = surge.Policy(s.World, nodePool)
		s.cache.surging[nodePool] = name
	}
	return name
}

// ownerRefuses says why the owner of a pod can't replace it first, as the World shows the owner; "" if it
// can. It is worked out once for each class.
func (s *Snapshot) ownerRefuses(p *world.Pod) string {
	key := matchKey{p.Namespace, p.Class}
	why, known := s.cache.owners[key]
	if known {
		return why
	}
	facts := ledger.SurgeFacts{Owner: p.Class.OwnerKind, Volume: surge.VolumeForOneNode(s.World, p)}
	if name := DeploymentOf(p.Class); name != "" && facts.Volume == "" {
		if d := s.World.Deployment(p.Namespace + "/" + name); d != nil {
			facts = surge.AddDeployment(facts, d)
		} else {
			facts.Failure = fmt.Sprintf("Deployment %s/%s is not known", p.Namespace, name)
		}
	}
	if s.cache.owners == nil {
		s.cache.owners = map[matchKey]string{}
	}
	s.cache.owners[key] = surge.Refusal(&facts)
	return s.cache.owners[key]
}
