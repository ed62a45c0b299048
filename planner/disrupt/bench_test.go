package disrupt_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/tools/workload"
)

const benchPodsPerNode = 30

// benchCluster is workload.Settled with its nodes in so many NodePools: full nodes, 30 pods on each, spread
// and affinity on a third.
func benchCluster(nodes, pools int) *pt.Cluster {
	since := pt.Start.Add(-time.Hour)
	p := workload.Settled(nodes, benchPodsPerNode, since)
	p.Catalogue.Types.Generation = 1
	c := pt.New(pt.NodeClass(workload.NodeClass), &events.CatalogRef{NodeClass: workload.NodeClass, Hash: "hash", Catalog: p.Catalogue.Types}, p.Catalogue.Prices)
	at := 0
	pool := func() string { return fmt.Sprintf("pool-%02d", at%pools) }
	for _, o := range p.Objects {
		switch o := o.(type) {
		case *karpv1.NodePool:
			for i := range pools {
				q := o.DeepCopy()
				q.Name = fmt.Sprintf("pool-%02d", i)
				q.UID = types.UID("uid-" + q.Name)
				c.See(q)
			}
			continue
		case *corev1.Node:
			o.Labels[karpv1.NodePoolLabelKey] = pool()
		case *karpv1.NodeClaim:
			o.Labels[karpv1.NodePoolLabelKey] = pool()
			c.Record(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: o.Name, UID: o.UID, NodePool: pool(), ProviderID: o.Status.ProviderID})
			c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: o.Name, Node: o.Status.NodeName})
			at++
		}
		c.See(o)
	}
	c.Options(planner.PresentOptions())
	c.Messages = nil // never read again
	c.Advance(time.Hour)
	return c
}

// BenchmarkPass is one search in vain, in a cluster of full nodes: judged are the candidates of which it says
// why they stay, and peak-MB is what a pass holds at most besides the World, with what waits to be collected
// (a tenth of the heap).
func BenchmarkPass(b *testing.B) {
	for _, x := range []struct{ nodes, pools int }{{1000, 20}, {5000, 40}} {
		b.Run(fmt.Sprint(x.nodes), func(b *testing.B) {
			c := benchCluster(x.nodes, x.pools)
			runtime.GC()
			b.ReportAllocs()
			judged := 0
			for b.Loop() {
				d, r := disrupt.Plan(c.Snapshot())
				if d != nil {
					b.Fatalf("the cluster is not settled: %+v", d.Payload)
				}
				judged = 0
				for _, n := range r.Nodes {
					if n.Blocked != nil {
						judged++
					}
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(judged), "judged")
			b.ReportMetric(peak(func() { disrupt.Plan(c.Snapshot()) }), "peak-MB")
		})
	}
}

// peak is how much the heap grows while something runs, in millions of bytes.
func peak(run func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, most := m.HeapAlloc, uint64(0)
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	run()
	close(done)
	<-sampled
	return (float64(most) - float64(before)) / 1e6
}

// BenchmarkDrift plans the roll-out of all nodes of a cluster under the budget of 10 %, pass after pass. Each
// is over before the next: its nodes have not drifted any more, as those that would have taken their place.
func BenchmarkDrift(b *testing.B) {
	const nodes = 1000
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := benchCluster(nodes, 1)
		setDrifted(c, c.World.NodeClaims(), metav1.ConditionTrue)
		passes, done := 0, 0
		for ; done < nodes; passes++ {
			s := c.Snapshot()
			b.StartTimer()
			list, _ := disrupt.Plans(s)
			b.StopTimer()
			if len(list) == 0 {
				b.Fatalf("%d of %d nodes are done", done, nodes)
			}
			done += len(list)
			endAll(c, s, list)
		}
		b.ReportMetric(float64(passes), "passes")
		b.StartTimer()
	}
}

// endAll starts the commands of a pass, and ends them as if their nodes were new ones now.
func endAll(c *pt.Cluster, s *planner.Snapshot, list []*planner.Decision) {
	var claims []*karpv1.NodeClaim
	for _, d := range list {
		started := d.Payload.(*ledger.CommandStarted)
		seq := c.Decide(s, d)
		back := &ledger.CommandRolledBack{ID: ledger.CommandID(c.Ledger.LogID(), seq)}
		for i, r := range started.Replacements {
			back.Unused = append(back.Unused, ledger.ExcessClaim{Claim: ledger.ClaimName(c.Ledger.LogID(), r.NodePool, seq, i)})
		}
		c.Record(ledger.KindCommandAbandoned, back)
		claims = append(claims, c.World.NodeClaim(started.Candidates[0].Claim))
	}
	setDrifted(c, claims, metav1.ConditionFalse)
	c.Messages, c.Entries = nil, nil
}

func setDrifted(c *pt.Cluster, claims []*karpv1.NodeClaim, status metav1.ConditionStatus) {
	for _, claim := range claims {
		claim = claim.DeepCopy()
		d := pt.True(karpv1.ConditionTypeDrifted, c.Clock)
		d.Status, d.Reason = status, "NodePoolDrifted"
		claim.Status.Conditions = append(slices.DeleteFunc(claim.Status.Conditions, func(x metav1.Condition) bool { return x.Type == d.Type }), d)
		c.See(claim)
	}
}

// BenchmarkPolicies looks at 1,000 nodes, all but consolidation, without policies and with 20 that have two
// windows each.
func BenchmarkPolicies(b *testing.B) {
	for _, policies := range []int{0, 20} {
		b.Run(fmt.Sprint(policies), func(b *testing.B) {
			c := benchCluster(1000, 20)
			for i := range policies {
				c.See(pt.Policy(fmt.Sprintf("d-%02d", i), fmt.Sprintf(`{minNodeAge: 1m, maxEvictionsPerHour: 100000, windows: [
					{action: Deny, schedule: "%d 3 24 12 *", duration: 72h, timeZone: Europe/Berlin},
					{action: Allow, schedule: "*/5 * * * *", duration: 24h, timeZone: America/New_York}]}`, i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				disrupt.PlanPrompt(c.Snapshot())
			}
		})
	}
}

// One look at all approved proposals of a cluster whose budget lets one node go.
func BenchmarkAnswersThatWait(b *testing.B) {
	c := benchCluster(400, 1)
	c.Options(planner.PresentOptions())
	s := c.Snapshot()
	for _, p := range s.World.NodePools() {
		q := p.DeepCopy()
		q.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}}
		c.See(q)
	}
	for _, o := range s.World.NodeClaims() {
		q := o.DeepCopy()
		d := pt.True(karpv1.ConditionTypeDrifted, pt.Start)
		d.Reason = "NodePoolDrifted"
		q.Status.Conditions = append(q.Status.Conditions, d)
		c.See(q)
	}
	c.See(pt.Policy("ask", "approval: {reasons: [Drifted]}"))
	for more := true; more; {
		s = c.Snapshot()
		list, _ := disrupt.Plans(s)
		for _, d := range list {
			c.Decide(s, d)
		}
		more = len(list) > 0
	}
	for _, x := range c.Ledger.Proposals() {
		c.Record(ledger.KindProposalAnswered, &ledger.ProposalAnswered{ID: x.ID, Approved: true, By: "ann"})
	}
	s = c.Snapshot()
	if d := disrupt.AnswerDecision(s, s.Ledger.Proposals()[0]); d == nil {
		b.Fatal("none is carried out")
	} else {
		c.Decide(s, d)
	}
	s = c.Snapshot()
	for b.Loop() {
		for _, x := range s.Ledger.Proposals() {
			if disrupt.AnswerDecision(s, x) != nil {
				b.Fatal("more than one node may go")
			}
		}
	}
	b.ReportMetric(float64(len(s.Ledger.Proposals())), "proposals")
}
