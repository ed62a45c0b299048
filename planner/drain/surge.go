package drain

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/surge"
	"millwright/planner/world"
)

// oneReady is why nothing stands in for the only pod that is ready.
const oneReady = "one ready replica"

// SurgeQuestion is about the pods of one owner on a node that drains: whether the owner can be surged.
type SurgeQuestion struct {
	// Pods are not evicted before it is answered.
	Pods []ledger.PodRef
	// Because says why nothing stands in for them.
	Because string
	// Owner is their controller, by name and UID; empty if they have none.
	Owner    string
	OwnerUID types.UID
	// Facts hold what the Snapshot says; those of the Deployment are missing.
	Facts ledger.SurgeFacts
}

// Surge is what a drain does before it evicts pods that nothing stands in for.
type Surge struct {
	// Command that takes the node, Policy that asks for the surge, and how long a Deployment has.
	Command, Policy string
	Within          time.Duration
	// Questions are still to be answered, by the name of their first pod. Running are those whose answer is
	// that Deployments replace the pods.
	Questions, Running []SurgeQuestion
	// Late are pods for which that took too long: they are evicted.
	Late []*world.Pod
}

// Held are the pods of Running.
func (u *Surge) Held() (refs []ledger.PodRef) {
	for i := range u.Running {
		refs = append(refs, u.Running[i].Pods...)
	}
	return refs
}

// setSurge takes pods out of Evict that are to be replaced first, or may be (reference: disruption §4.1).
// Where the instance goes by itself, or something else than a command takes it, nothing waits.
func (st *Step) setSurge(s *planner.Snapshot) {
	d, n := s.Ledger.Drain(st.Node), s.StateNode(st.Node)
	if d == nil || n == nil || !st.Notice.IsZero() || len(st.Evict) == 0 {
		return
	}
	st.Surge.Command = s.Ledger.TakenBy(d.Started.Claim, d.Started.ClaimUID)
	if st.Surge.Command == "" {
		return
	}
	st.Surge.Policy, st.Surge.Within = surge.Policy(s.World, n.NodePool)
	var evict []*world.Pod
	for _, p := range st.Evict {
		known, decided := d.Surges[p.UID]
		switch {
		case decided && known.Running(s.Now):
			st.Surge.Running = withPod(st.Surge.Running, s.World, p, nothingStandsIn(s, p))
			st.wakeBy(known.Until)
			continue
		case decided && !known.Until.IsZero():
			st.Surge.Late = append(st.Surge.Late, p)
		case !decided && !d.TierPods[p.UID] && st.Surge.Policy != "":
			if because := nothingStandsIn(s, p); because != "" {
				st.Surge.Questions = withPod(st.Surge.Questions, s.World, p, because)
				continue
			}
		}
		evict = append(evict, p)
	}
	st.Evict = evict
}

// withPod adds a pod to the question about its owner.
func withPod(list []SurgeQuestion, w *world.World, p *world.Pod, because string) []SurgeQuestion {
	c := p.Class
	facts := ledger.SurgeFacts{Owner: c.OwnerKind, Volume: surge.VolumeForOneNode(w, p)}
	for i := range list {
		if q := &list[i]; c.OwnerUID != "" && q.OwnerUID == c.OwnerUID && q.Because == because && q.Facts == facts {
			q.Pods = append(q.Pods, Ref(p))
			return list
		}
	}
	return append(list, SurgeQuestion{Pods: []ledger.PodRef{Ref(p)}, Because: because, Owner: c.OwnerName, OwnerUID: c.OwnerUID, Facts: facts})
}

// nothingStandsIn says why a pod must not be missed; "" if it may. Pods that serve nobody yet, those of
// DaemonSets, which are not replaced elsewhere, and those of Jobs, of which there is one of each, may.
func nothingStandsIn(s *planner.Snapshot, p *world.Pod) string {
	c := p.Class
	if !p.Ready || c.DaemonSetOwned() || planner.JobOwned(c) {
		return ""
	}
	for _, pdb := range s.PodBudgets().Matching(p) {
		if surge.NeverAllows(pdb) {
			return fmt.Sprintf("PodDisruptionBudget %s/%s never lets it go", pdb.Namespace, pdb.Name)
		}
	}
	if c.OwnerUID == "" || s.ReadyReplicas(p) == 1 {
		return oneReady
	}
	return ""
}

// Answer is what becomes of the pods of a question once the facts of their Deployment are known.
func (q *SurgeQuestion) Answer(f ledger.SurgeFacts, within time.Duration, now time.Time) ledger.SurgedOwner {
	o := ledger.SurgedOwner{Pods: q.Pods, Because: q.Because, Facts: f}
	if o.Refused = surge.Refusal(&f); o.Refused == "" {
		o.Within, o.Until = within, now.Add(within).UTC()
	}
	return o
}

// ReplaySurge decides once more on the recorded facts, and says where that differs from the record.
func ReplaySurge(p *ledger.SurgeDecided) error {
	for i := range p.Owners {
		o := &p.Owners[i]
		if want := surge.Refusal(&o.Facts); want != o.Refused {
			return fmt.Errorf("pods of %s: recorded %q, decided %q", o.Facts.Owner, o.Refused, want)
		}
		if (o.Refused == "") == o.Until.IsZero() {
			return fmt.Errorf("pods of %s: refused %q, and surged until %s", o.Facts.Owner, o.Refused, o.Until.Format(time.RFC3339))
		}
	}
	return nil
}
