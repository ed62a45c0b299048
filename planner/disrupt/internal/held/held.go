// Package held says which pods hold a node that would run empty by itself if nothing new came to it.
package held

import (
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// By are the pods, by namespace and name, that hold a node: protected ones, those whose PodDisruptionBudget
// allows nothing, and those of Jobs. There are none if another pod is on it, which is returned instead: one
// that may be moved, or one of a DaemonSet that nobody may disturb and that does not end.
func By(s *planner.Snapshot, n *planner.StateNode) (pods []ledger.HoldingPod, other *world.Pod) {
	budgets := s.PodBudgets()
	for _, p := range n.Pods {
		why := reason(s, budgets, p)
		switch stays := !planner.IsReschedulable(p); {
		case stays && why != "" && p.Active():
			return nil, p
		case stays:
		case why == "":
			return nil, p
		default:
			pods = append(pods, ledger.HoldingPod{PodRef: ledger.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}, Why: why})
		}
	}
	return pods, nil
}

// reason why a pod holds its node; "" if it does not.
func reason(s *planner.Snapshot, budgets *planner.PodBudgets, p *world.Pod) string {
	if planner.DoNotDisrupt(p, s.Now).InEffect {
		return "do-not-disrupt"
	}
	if planner.JobOwned(p.Class) {
		return "Job"
	}
	if !planner.IsEvictable(p, s.Now) {
		return ""
	}
	if blocking, _ := budgets.Blocking(p); len(blocking) > 0 {
		return "PodDisruptionBudget " + blocking[0].Namespace + "/" + blocking[0].Name
	}
	return ""
}
