package users

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
)

// visitor is the app of pods that come and go, as those of a cron job do.
const visitor = "report"

// Visits are such pods, and the policy that ignores them. They draw from random numbers of their own.
type Visits struct {
	*Users
	rng    *rand.Rand
	policy *mwv1alpha1.DisruptionPolicy
	made   int
}

// drawVisits draws a policy about all NodePools or one, by which pods that come and go restart no
// consolidateAfter, and a consolidateAfter that is long enough to see that.
func (s *Users) drawVisits() {
	rng := s.Own(0x76697369747300)
	if rng.IntN(1000) >= s.Faults.Ignored {
		return
	}
	v := &Visits{Users: s, rng: rng, policy: &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "ignoring"}}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": visitor}}
	if rng.IntN(2) == 0 {
		selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{visitor, "third"}}}}
	}
	v.policy.Spec.IgnorePodEvents = selector
	if rng.IntN(4) == 0 {
		v.policy.Spec.NodePoolSelector = &metav1.LabelSelector{MatchLabels: s.Script.Pools[rng.IntN(len(s.Script.Pools))].Labels}
	}
	for _, pool := range s.Script.Pools {
		pool.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(banQuiet)
	}
	s.Visits = v
}

// furnishVisits creates the policy that was drawn.
func (v *Visits) furnish() {
	if v == nil {
		return
	}
	text, err := json.Marshal(v.policy.Spec)
	if err != nil {
		panic(err)
	}
	v.Trace("user: makes DisruptionPolicy %s: %s", v.policy.Name, text)
	v.Cluster.Apply(events.KindDisruptionPolicy, v.policy)
}

// NowAndThen has such a pod come to a node. It is called once a second of the script.
func (v *Visits) NowAndThen() {
	if v == nil {
		return
	}
	if nodes := v.Cluster.Nodes(); len(nodes) > 0 && v.rng.IntN(8) == 0 {
		v.come(nodes[v.rng.IntN(len(nodes))])
	}
}

// All has such a pod come to each node.
func (v *Visits) All() {
	for _, n := range v.Cluster.Nodes() {
		v.come(n)
	}
}

func (v *Visits) come(n *corev1.Node) {
	v.made++
	yes, grace, name := true, int64(1), fmt.Sprintf("%s-%03d", visitor, v.made)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": visitor},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID("job-" + name), Controller: &yes}}},
		Spec: podSpec("10m", "16Mi"), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	p.Spec.TerminationGracePeriodSeconds = &grace
	v.Cluster.Visit(p, n.Name, time.Duration(500+v.rng.IntN(4000))*time.Millisecond)
}
