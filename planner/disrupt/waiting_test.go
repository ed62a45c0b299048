package disrupt_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// ofReplicaSet makes a pod one of ReplicaSet web.
func ofReplicaSet(p *corev1.Pod) { pt.OwnedBy("apps/v1", "ReplicaSet", "web")(p) }

func unbound(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }

func created(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
}

// Pods that move do not take the room of pods that wait for a place anyway, or will as soon as they are
// created: here the nodes that stay have room for only one of them. The rules: disruption §5, Validation.
func TestPodsThatWaitAnywayKeepTheirRoom(t *testing.T) {
	now := pt.Start.Add(time.Hour)
	// Of 4 CPU a has 2 left, and b 3: its pod fits there, but not with another one of 1,500m.
	settled := []any{sized("x", "a", "2", "4Gi"), sized("y", "b", "1", "4Gi")}
	going := pt.Pod("e", pt.On("d"), pt.Requests("cpu", "1500m", "memory", "2Gi"), ofReplicaSet, pt.Deleting(now.Add(30*time.Second)))
	for name, tc := range map[string]struct {
		pods []any
		want string
	}{
		"nobody waits": {want: "single a; x to b"},
		"one that found no place": {want: "", pods: []any{
			pt.Pod("w", pt.Unschedulable(), pt.Requests("cpu", "1500m", "memory", "2Gi"))}},
		"one that has just come": {want: "", pods: []any{
			pt.Pod("w", unbound, created(now.Add(-time.Second)), pt.Requests("cpu", "1500m", "memory", "2Gi"))}},
		"one that has long been left alone by its scheduler": {want: "single a; x to b", pods: []any{
			pt.Pod("w", unbound, created(now.Add(-time.Hour)), pt.Requests("cpu", "1500m", "memory", "2Gi"))}},
		"one with a nominated node": {want: "", pods: []any{
			pt.Pod("w", pt.Unschedulable(), pt.Requests("cpu", "1500m", "memory", "2Gi"), func(p *corev1.Pod) { p.Status.NominatedNodeName = "b" })}},
		"one is held by a gate": {want: "single a; x to b", pods: []any{
			pt.Pod("w", unbound, created(now.Add(-time.Second)), pt.Requests("cpu", "1500m", "memory", "2Gi"), func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
			})}},
		"one was evicted and is not created again yet": {want: "", pods: []any{going}},
		"one was evicted, and the one in its place runs": {want: "single a; x to b", pods: []any{going,
			sized("f", "b", "100m", "1Gi", ofReplicaSet, created(now))}},
		"one was evicted, and another one of its owner is older": {want: "", pods: []any{going,
			sized("f", "b", "100m", "1Gi", ofReplicaSet, created(now.Add(-10*time.Minute)))}},
		"one was evicted that nobody creates again": {want: "single a; x to b", pods: []any{
			pt.Pod("e", pt.On("d"), pt.Requests("cpu", "1500m", "memory", "2Gi"), pt.Deleting(now.Add(30*time.Second)))}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := pt.Pool("p", onDemand, pt.Budgets(karpv1.Budget{Nodes: "100%"}), func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
					Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.xlarge"}})
			})
			c := busy(pool, []string{"a", "b", "d"}, settled...)
			c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: "d-claim", Reason: "expired"})
			c.See(tc.pods...)
			d, _ := disrupt.Plan(c.Snapshot())
			want(t, "command", told(d), tc.want)
		})
	}
}

// The confirmation of a command counts pods that have begun to wait since, whether they are bigger or smaller
// than those that it moves. The rules: disruption §5, Validation.
func TestACommandGivesWayToPodsThatCameToWait(t *testing.T) {
	for name, tc := range map[string]struct {
		cpu  string
		want string
	}{
		"there is room for it too":           {"500m", "Confirmed "},
		"a bigger one":                       {"2500m", "Rollback node a: pod default/e needs the room"},
		"a smaller one":                      {"1500m", "Rollback node a: pod default/e needs the room"},
		"one for which there never was room": {"3500m", "Confirmed "},
	} {
		t.Run(name, func(t *testing.T) {
			c := busy(pt.Pool("p", onDemand), []string{"a", "b", "d"}, sized("x", "a", "2", "4Gi"), sized("y", "b", "1", "4Gi"))
			c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: "d-claim", Reason: "expired"})
			s := c.Snapshot()
			d, _ := disrupt.Plan(s)
			want(t, "command", told(d), "single a; x to b")
			seq := c.Decide(s, d)
			mark(c)
			c.See(pt.Pod("e", pt.On("d"), pt.Requests("cpu", tc.cpu, "memory", "2Gi"), ofReplicaSet, pt.Deleting(c.Clock.Add(30*time.Second))))
			v := disrupt.Confirm(c.Snapshot(), c.Ledger.Command(ledger.CommandID(c.Ledger.LogID(), seq)))
			want(t, "verdict", v.Outcome.String()+" "+v.Reason, tc.want)
		})
	}
}
