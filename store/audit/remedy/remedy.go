package remedy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

const (
	// plansMost bounds the plans that are tried for one pod, foundMost what is returned.
	plansMost = 120
	foundMost = 5
)

// Remedy is what to change, and where the pod would run then.
type Remedy struct {
	// NodePool that is to change; "" if only the pod is.
	NodePool string `json:"nodePool,omitempty"`
	// Changes are one or two.
	Changes []string `json:"changes"`
	// Offering is the cheapest one that the pod would get; empty if it fits on what is there.
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// MicroUSDPerHour of the offering; 0 if its price is not known.
	MicroUSDPerHour int64 `json:"microUSDPerHour,omitempty"`
}

// Text is the remedy in a sentence.
func (r *Remedy) Text() string {
	text := strings.Join(r.Changes, ", and ")
	if r.InstanceType == "" {
		return text + ": it would run on what is there"
	}
	return fmt.Sprintf("%s: it would run on %s %s in %s", text, r.InstanceType, r.CapacityType, r.Zone)
}

// Found is the answer for a pod.
type Found struct {
	// Fits: nothing has to change any more.
	Fits     bool
	Remedies []Remedy
	// Cut: not everything was tried, for want of time.
	Cut bool
}

// Of finds remedies for a pod that waits, the smallest first. stop is asked between plans; nil: it is never
// stopped. It finds nothing for a pod that does not wait.
func Of(s *planner.Snapshot, pod types.UID, stop func() bool) Found {
	t := newTrial(s, pod, stop)
	if t == nil {
		return Found{}
	}
	if _, fits := t.plan("", nil); fits {
		return Found{Fits: true}
	}
	edits := podEdits(t.pod)
	found := t.singles("", edits)
	var pools []string
	for _, p := range s.World.NodePools() {
		if p.DeletionTimestamp == nil && p.Spec.Replicas == nil {
			pools = append(pools, p.Name)
		}
	}
	for _, name := range pools {
		found = append(found, t.singles(name, poolEdits(s.World.NodePool(name)))...)
	}
	if len(found) == 0 {
		for _, name := range pools {
			found = append(found, t.pairs(name, slices.Concat(poolEdits(s.World.NodePool(name)), edits))...)
		}
	}
	slices.SortStableFunc(found, func(a, b Remedy) int {
		return cmp.Or(cmp.Compare(len(a.Changes), len(b.Changes)), cmp.Compare(unknownLast(a.MicroUSDPerHour), unknownLast(b.MicroUSDPerHour)))
	})
	return Found{Remedies: found[:min(len(found), foundMost)], Cut: t.cut}
}

func unknownLast(price int64) int64 {
	if price == 0 {
		return 1 << 62
	}
	return price
}

// trial plans for one pod on a World in which nobody else waits.
type trial struct {
	snapshot *planner.Snapshot
	base     *world.World
	pod      *world.Pod
	stop     func() bool
	plans    int
	cut      bool
}

func newTrial(s *planner.Snapshot, pod types.UID, stop func() bool) *trial {
	p := s.World.Pod(pod)
	if p == nil || p.NodeName != "" || !p.Active() {
		return nil
	}
	t := &trial{snapshot: s, pod: p, stop: stop}
	w := world.Fork(s.World)
	for _, other := range s.World.PendingPods() {
		if other.UID != pod {
			show(w, events.Observation{Op: events.OpDelete, Kind: events.KindPod, UID: other.UID, Name: other.Key()})
		}
	}
	t.base = w.Version()
	return t
}

// show folds a further message of the World's epoch.
func show(w *world.World, o events.Observation) {
	o.Epoch, o.Counter, o.ObservedAt = w.Epoch(), w.Counter()+1, w.AsOf()
	w.Apply(w.Position().Sequence+1, o)
}

// placed is where the pod has a place; claim is nil on what is there.
type placed struct{ claim *ledger.PlannedClaim }

// plan asks for the pod with edits of a NodePool and of itself.
func (t *trial) plan(pool string, edits []edit) (placed, bool) {
	if t.plans >= plansMost || t.stop != nil && t.stop() {
		t.cut = true
		return placed{}, false
	}
	t.plans++
	w := world.Fork(t.base)
	changed, pod := t.edited(pool, edits)
	if changed != nil {
		show(w, events.Observation{Op: events.OpUpsert, Kind: events.KindNodePool, UID: changed.UID, Name: pool, ResourceVersion: changed.ResourceVersion, Object: changed})
	}
	if pod != nil {
		show(w, events.Observation{Op: events.OpUpsert, Kind: events.KindPod, UID: pod.UID, Name: t.pod.Key(), ResourceVersion: pod.ResourceVersion, Object: pod})
	}
	_, round := provision.Plan(planner.NewSnapshot(w.Version(), t.snapshot.Ledger, t.snapshot.Now))
	for i := range round.Verdicts {
		v := &round.Verdicts[i]
		if v.Pod.UID != t.pod.UID {
			continue
		}
		if v.NewClaim > 0 {
			return placed{&round.Claims[v.NewClaim-1]}, true
		}
		return placed{}, len(v.Reasons) == 0
	}
	return placed{}, false
}

// edited are NodePool and pod with the edits; nil for what none of them is about.
func (t *trial) edited(name string, edits []edit) (pool *karpv1.NodePool, pod *corev1.Pod) {
	for _, e := range edits {
		switch {
		case e.pool != nil:
			if pool == nil {
				pool = t.base.NodePool(name).DeepCopy()
			}
			e.pool(pool)
		case e.pod != nil:
			if pod == nil {
				pod = podOf(t.pod)
			}
			e.pod(pod)
		}
	}
	return pool, pod
}

// podOf is a pod that waits as its class and condition have it.
func podOf(p *world.Pod) *corev1.Pod {
	c := p.Class
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: c.Labels, Annotations: c.Annotations,
			ResourceVersion: p.ResourceVersion, CreationTimestamp: metav1.NewTime(time.Unix(0, p.Created))},
		Spec: *c.Spec.DeepCopy(),
	}
	if c.OwnerKind != "" {
		yes := true
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.OwnerAPIVersion, Kind: c.OwnerKind, Name: c.OwnerName, UID: c.OwnerUID, Controller: &yes}}
	}
	o.Status.Phase = corev1.PodPending
	o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		LastTransitionTime: metav1.NewTime(time.Unix(0, p.UnschedulableSince))}}
	return o
}

// singles are the edits that do by themselves.
func (t *trial) singles(pool string, edits []edit) (found []Remedy) {
	for _, e := range edits {
		if r := t.try(pool, e); r != nil {
			found = append(found, *r)
		}
	}
	return found
}

// pairs are two edits that do together, of which none does alone.
func (t *trial) pairs(pool string, edits []edit) (found []Remedy) {
	for i := range edits {
		for j := i + 1; j < len(edits); j++ {
			if r := t.try(pool, edits[i], edits[j]); r != nil {
				found = append(found, *r)
			}
		}
	}
	return found
}

// try plans with edits; then each is made as small as the place that was found allows, if it still does.
func (t *trial) try(pool string, edits ...edit) *Remedy {
	at, ok := t.plan(pool, edits)
	if !ok {
		return nil
	}
	edits = slices.Clone(edits)
	for i := range edits {
		for _, smaller := range edits[i].smaller(t, at.claim) {
			with := slices.Clone(edits)
			with[i] = smaller
			if found, ok := t.plan(pool, with); ok {
				edits, at = with, found
				break
			}
		}
	}
	r := &Remedy{}
	for _, e := range edits {
		r.Changes = append(r.Changes, e.text)
		if e.pool != nil {
			r.NodePool = pool
		}
	}
	if at.claim != nil {
		o := at.claim.Cheapest
		r.InstanceType, r.Zone, r.CapacityType, r.MicroUSDPerHour = o.InstanceType, o.Zone, o.CapacityType, o.MicroUSDPerHour
	}
	return r
}
