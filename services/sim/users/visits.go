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

// visits are such pods, and the policy that ignores them. They draw from random numbers of their own.
type visits struct {
	*rand.Rand
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
	v := &visits{Rand: rng, policy: &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "ignoring"}}}
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
	s.visits = v
}

// furnishVisits creates the policy that was drawn.
func (s *Users) furnishVisits() {
	if s.visits == nil {
		return
	}
	text, err := json.Marshal(s.visits.policy.Spec)
	if err != nil {
		panic(err)
	}
	s.Trace("user: makes DisruptionPolicy %s: %s", s.visits.policy.Name, text)
	s.Cluster.Apply(events.KindDisruptionPolicy, s.visits.policy)
}

// HasVisits reports that pods come and go which a policy ignores.
func (s *Users) HasVisits() bool { return s.visits != nil }

// Visit has now and then such a pod come to a node. It is called once a second of the script.
func (s *Users) Visit() {
	if nodes := s.Cluster.Nodes(); s.visits != nil && len(nodes) > 0 && s.visits.IntN(8) == 0 {
		s.visit(nodes[s.visits.IntN(len(nodes))])
	}
}

// VisitAll has such a pod come to each node.
func (s *Users) VisitAll() {
	for _, n := range s.Cluster.Nodes() {
		s.visit(n)
	}
}

func (s *Users) visit(n *corev1.Node) {
	s.visits.made++
	yes, grace, name := true, int64(1), fmt.Sprintf("%s-%03d", visitor, s.visits.made)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": visitor},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID("job-" + name), Controller: &yes}}},
		Spec: podSpec("10m", "16Mi"), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	p.Spec.TerminationGracePeriodSeconds = &grace
	s.Cluster.Visit(p, n.Name, time.Duration(500+s.visits.IntN(4000))*time.Millisecond)
}
