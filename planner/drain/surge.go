package drain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// surgeWithin is how long a Deployment has if the policy says nothing.
const surgeWithin = 10 * time.Minute

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
	st.Surge.Policy, st.Surge.Within = surgePolicy(s.World, n.NodePool)
	var evict []*world.Pod
	for _, p := range st.Evict {
		surge, decided := d.Surges[p.UID]
		switch {
		case decided && surge.Running(s.Now):
			st.Surge.Running = withPod(st.Surge.Running, s.World, p, nothingStandsIn(s, p))
			st.wakeBy(surge.Until)
			continue
		case decided && !surge.Until.IsZero():
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
	facts := ledger.SurgeFacts{Owner: c.OwnerKind, Volume: volumeForOneNode(w, p)}
	for i := range list {
		if q := &list[i]; c.OwnerUID != "" && q.OwnerUID == c.OwnerUID && q.Because == because && q.Facts == facts {
			q.Pods = append(q.Pods, Ref(p))
			return list
		}
	}
	return append(list, SurgeQuestion{Pods: []ledger.PodRef{Ref(p)}, Because: because, Owner: c.OwnerName, OwnerUID: c.OwnerUID, Facts: facts})
}

// surgePolicy is the first DisruptionPolicy by name that wants pods of a NodePool surged, and the shortest
// time that any of them gives.
func surgePolicy(w *world.World, nodePool string) (name string, within time.Duration) {
	pool := w.NodePool(nodePool)
	if pool == nil {
		return "", 0
	}
	for _, o := range w.DisruptionPolicies() {
		if o.Spec.Surge == nil || !selects(o.Spec.NodePoolSelector, pool.Labels) {
			continue
		}
		d := surgeWithin
		if o.Spec.Surge.Within != nil {
			d = min(o.Spec.Surge.Within.Duration, ledger.SurgeWithinMax)
		}
		if name == "" {
			name, within = o.Name, d
		}
		within = min(within, d)
	}
	return name, within
}

// selects reports that a selector selects all, or these labels. One that can't be read selects nothing.
func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	if selector == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(labels.Set(set))
}

// nothingStandsIn says why a pod must not be missed; "" if it may. Pods that serve nobody yet, those of
// DaemonSets, which are not replaced elsewhere, and those of Jobs, of which there is one of each, may.
func nothingStandsIn(s *planner.Snapshot, p *world.Pod) string {
	c := p.Class
	if !p.Ready || c.DaemonSetOwned() || planner.JobOwned(c) {
		return ""
	}
	for _, pdb := range s.PodBudgets().Matching(p) {
		if neverAllows(pdb) {
			return fmt.Sprintf("PodDisruptionBudget %s/%s never lets it go", pdb.Namespace, pdb.Name)
		}
	}
	if c.OwnerUID == "" || s.ReadyReplicas(p) == 1 {
		return oneReady
	}
	return ""
}

// neverAllows reports a budget that allows no disruption even if all its pods are healthy.
func neverAllows(pdb *policyv1.PodDisruptionBudget) bool {
	if pdb.Status.DisruptionsAllowed > 0 {
		return false
	}
	return planner.FullyBlocking(pdb) || pdb.Status.ExpectedPods > 0 && pdb.Status.DesiredHealthy >= pdb.Status.ExpectedPods
}

// volumeForOneNode is a PersistentVolumeClaim of a pod that two nodes can't have at a time, or that nobody
// knows; "" if there is none. What is created for each pod is no hindrance.
func volumeForOneNode(w *world.World, p *world.Pod) string {
	for _, v := range p.Class.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		c := w.PersistentVolumeClaim(p.Namespace + "/" + name)
		shared := c != nil && slices.ContainsFunc(c.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
			return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
		})
		if !shared {
			return name
		}
	}
	return ""
}

// Refusal says why the owner of pods can't be surged; "" if it can: its Deployment creates the new pod before
// it removes the old one.
func Refusal(f *ledger.SurgeFacts) string {
	switch {
	case f.Owner == "":
		return "it has no controller that creates it again"
	case f.Owner != "ReplicaSet":
		return fmt.Sprintf("a %s creates no new pod before the old one is gone", f.Owner)
	case f.Volume != "":
		return fmt.Sprintf("PersistentVolumeClaim %q is for one node at a time", f.Volume)
	case f.Failure != "":
		return f.Failure
	case f.Deployment == "":
		return "no Deployment controls its ReplicaSet"
	case f.Paused:
		return fmt.Sprintf("Deployment %s is paused", f.Deployment)
	case f.Strategy != "RollingUpdate":
		return fmt.Sprintf("Deployment %s has strategy %s", f.Deployment, f.Strategy)
	}
	surge, err := amount(f.MaxSurge, f.Replicas, true)
	if err != nil {
		return fmt.Sprintf("maxSurge of Deployment %s: %v", f.Deployment, err)
	}
	unavailable, err := amount(f.MaxUnavailable, f.Replicas, false)
	if err != nil {
		return fmt.Sprintf("maxUnavailable of Deployment %s: %v", f.Deployment, err)
	}
	switch {
	case surge < 1:
		return fmt.Sprintf("maxSurge of Deployment %s is %s", f.Deployment, f.MaxSurge)
	case unavailable > 0:
		return fmt.Sprintf("maxUnavailable of Deployment %s is %s, which comes to %d of %d replicas", f.Deployment, f.MaxUnavailable, unavailable, f.Replicas)
	}
	return ""
}

// amount of replicas, or a percentage of them, as Deployments round it.
func amount(text string, replicas int32, up bool) (int, error) {
	v := intstr.Parse(text)
	return intstr.GetScaledValueFromIntOrPercent(&v, int(replicas), up)
}

// Answer is what becomes of the pods of a question once the facts of their Deployment are known.
func (q *SurgeQuestion) Answer(f ledger.SurgeFacts, within time.Duration, now time.Time) ledger.SurgedOwner {
	o := ledger.SurgedOwner{Pods: q.Pods, Because: q.Because, Facts: f}
	if o.Refused = Refusal(&f); o.Refused == "" {
		o.Within, o.Until = within, now.Add(within).UTC()
	}
	return o
}

// ReplaySurge decides once more on the recorded facts, and says where that differs from the record.
func ReplaySurge(p *ledger.SurgeDecided) error {
	for i := range p.Owners {
		o := &p.Owners[i]
		if want := Refusal(&o.Facts); want != o.Refused {
			return fmt.Errorf("pods of %s: recorded %q, decided %q", o.Facts.Owner, o.Refused, want)
		}
		if (o.Refused == "") == o.Until.IsZero() {
			return fmt.Errorf("pods of %s: refused %q, and surged until %s", o.Facts.Owner, o.Refused, o.Until.Format(time.RFC3339))
		}
	}
	return nil
}
