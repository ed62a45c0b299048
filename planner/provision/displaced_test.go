package provision_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner"
	"millwright/planner/options"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

// TestNodesAreNotBoughtWithoutEndForPodsThatTaintsDriveAway: each of a line of pods has to leave its new node
// because of a NoExecute taint. From the third node on, the next one is looked for after a minute, two, and
// so on.
func TestNodesAreNotBoughtWithoutEndForPodsThatTaintsDriveAway(t *testing.T) {
	for revision, waits := range map[int][]time.Duration{
		options.Revision3: {0, 0, 0, 0, 0, 0},
		options.Revision4: {0, 0, 0, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute},
	} {
		c := pt.New(append(pt.WithCatalogue(), pt.Pool("p"))...)
		o := planner.PresentOptions()
		o.Revision = revision
		c.Options(o)
		for i, wait := range waits {
			line := func(options ...func(*corev1.Pod)) *corev1.Pod {
				p := pt.Pod(fmt.Sprint("web-", i), append(options, pt.OwnedBy("apps/v1", "ReplicaSet", "web"))...)
				p.CreationTimestamp = metav1.NewTime(c.Clock)
				return p
			}
			c.See(line(pt.Unschedulable()))
			came := c.Clock
			planned := func(after time.Duration) bool {
				c.Clock = came.Add(after)
				_, round := provision.Plan(c.Snapshot())
				if reasons := round.Verdicts[0].Reasons; len(reasons) > 0 && reasons[0].Constraint != "displaced" {
					t.Fatalf("refused: %+v", reasons)
				}
				return round.Planned == 1
			}
			if wait > 0 && planned(0) || wait > 0 && planned(wait-time.Second) {
				t.Errorf("revision %d: a node for pod %d is planned before %s have passed", revision, i, wait)
			}
			if !planned(wait) {
				t.Errorf("revision %d: none is planned for pod %d after %s", revision, i, wait)
			}
			c.Clock = came
			if wait > 0 && !planned(-time.Hour) {
				t.Errorf("revision %d: with a clock that is behind by an hour pod %d waits", revision, i)
			}
			c.Clock = came
			c.Advance(wait)
			node := fmt.Sprint("node-", i)
			c.See(pt.Node(node, pt.InPool("p"), func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(c.Clock) }))
			c.Advance(30 * time.Second)
			evicted := line(pt.On(node), pt.Deleting(c.Clock), func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					Reason: "DeletionByTaintManager", LastTransitionTime: metav1.NewTime(c.Clock)})
			})
			c.See(evicted)
			c.Gone(evicted, pt.Node(node))
		}
	}
}
