package plan

import (
	"time"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/drainout"
	"millwright/planner/ledger"
)

// DrainingNode is to run empty by itself: only pods that nobody may disturb, and pods of Jobs, keep it.
type DrainingNode struct {
	Node     string `json:"node"`
	NodePool string `json:"nodePool"`
	Policy   string `json:"policy"`
	// Since it does; nil if it would begin now.
	Since *time.Time `json:"since,omitempty"`
	// Savings in USD per hour once it is gone.
	Savings string `json:"savings"`
	// Pods that hold it, ten at most, when it begins; PodsMore counts the others.
	Pods     []HoldingPod `json:"pods,omitempty"`
	PodsMore int          `json:"podsMore,omitempty"`
}

// HoldingPod keeps its node, and why.
type HoldingPod struct {
	Pod string `json:"pod"`
	Why string `json:"why"`
}

// drainOutRoundsMost bounds the decisions about nodes that drain out; each is of up to 25 nodes.
const drainOutRoundsMost = 1000

// drainOuts lists the nodes that drain out once no command follows: those that do so already and those that
// begin.
func (d *disruption) drainOuts() {
	first := d.ledger.Seq()
	begun := map[string]*ledger.NodeDrainingOut{}
	from, snap := "", d.snapshot()
	idle, idleMost := 0, 1+len(snap.StateNodes())/drainout.QuestionsMax
	for range drainOutRoundsMost {
		decision, next := drainout.Plan(snap, from)
		if decision == nil {
			// The next look asks about other nodes, unless this one has asked about all.
			if idle++; next == "" || idle > idleMost {
				break
			}
			from = next
			continue
		}
		if idle = 0; !d.apply(snap.Now, decision.Kind, decision.Payload) {
			break
		}
		if started, ok := decision.Payload.(*ledger.DrainOutStarted); ok {
			for i := range started.Nodes {
				begun[started.Nodes[i].Node] = &started.Nodes[i]
			}
		}
		snap = d.snapshot()
	}
	d.listDrainOuts(snap, first, begun)
}

func (d *disruption) listDrainOuts(snap *planner.Snapshot, first uint64, begun map[string]*ledger.NodeDrainingOut) {
	for _, name := range snap.Ledger.DrainOuts() {
		n := snap.StateNode(name)
		if n == nil || n.MarkedForDeletion {
			continue
		}
		x, _ := snap.Ledger.DrainOut(name)
		out := DrainingNode{Node: name, NodePool: x.NodePool, Policy: x.Policy, Savings: dollars(disrupt.Price(snap, n))}
		if x.Seq <= first {
			out.Since = &x.At
		}
		if b := begun[name]; b != nil {
			for _, p := range b.Pods {
				out.Pods = append(out.Pods, HoldingPod{podName(p.PodRef), p.Why})
			}
			out.PodsMore = b.PodsMore
		}
		d.out.DrainOut = append(d.out.DrainOut, out)
	}
}
