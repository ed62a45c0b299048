package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// Pods that a command moved are not moved again within half an hour, unless it pays for them: 0.192 USD per
// hour pay for nine. It holds too if evictions cost nothing. The rules: disruption §5.
func TestNoPodIsMovedTwiceInHalfAnHour(t *testing.T) {
	for name, tc := range map[string]struct {
		pods   int
		owner  string
		before bool // the pods were there before the command
		taken  string
		cause  disrupt.Cause
	}{
		"many pods that were moved":   {10, "web-7d9f", false, "", disrupt.CauseMovedLately},
		"few enough to pay":           {9, "web-7d9f", false, "a", ""},
		"pods of another owner":       {10, "api-5c4b", false, "a", ""},
		"pods that were there before": {10, "web-7d9f", true, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "1"})), "a", "b")
			c.See(pt.WithCatalogue()...)
			for _, n := range []string{"a", "b"} {
				c.See(pt.Node(n, pt.InPool("p"), func(o *corev1.Node) {
					o.Labels[corev1.LabelInstanceTypeStable], o.Labels[karpv1.CapacityTypeLabelKey] = "m5.xlarge", karpv1.CapacityTypeOnDemand
				}))
			}
			o := planner.DefaultOptions()
			o.EvictionCost = 0
			c.Options(o)
			moved := c.Clock
			c.Decide(c.Snapshot(), &planner.Decision{Kind: ledger.KindCommandMovesStarted, Payload: &ledger.CommandStarted{Reason: "Underutilized", Method: "single", Evictions: 1,
				Candidates: []ledger.Candidate{{Node: "gone", Claim: "gone-claim", NodePool: "p", Pods: []ledger.PodRef{{UID: "u", Namespace: "default", Name: "web-7d9f-old"}}}}}})
			id := ledger.CommandID(pt.LogID, c.Ledger.Seq())
			c.Record(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})
			c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: id})
			created := moved.Add(time.Second)
			if tc.before {
				created = moved.Add(-time.Minute)
			}
			for i := range tc.pods {
				for _, n := range []string{"a", "b"} {
					c.See(pt.Pod(fmt.Sprintf("%s-%s%d", tc.owner, n, i), pt.On(n), pt.Requests("cpu", "10m"), func(p *corev1.Pod) {
						p.CreationTimestamp = metav1.NewTime(created)
					}))
				}
			}
			c.Advance(5 * time.Minute)
			d, r := disrupt.Plan(c.Snapshot())
			want(t, "taken", taken(d), tc.taken)
			if tc.cause == "" {
				return
			}
			want(t, "cause", r.Nodes[0].Blocked.Cause, tc.cause)
			want(t, "message", r.Nodes[0].Blocked.Message, "10 of its pods were moved within 30 minutes, in which it saves 0.096 USD; to move them again costs 0.1")
			want(t, "wakes", r.WakeAt, created.Add(30*time.Minute))
			c.Advance(25*time.Minute + time.Second)
			d, _ = disrupt.Plan(c.Snapshot())
			want(t, "taken half an hour after they were created", taken(d), "a")
		})
	}
}
