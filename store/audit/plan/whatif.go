package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/condition"
	"millwright/planner/drift"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// DriftedNode is a node that the given changes make drift.
type DriftedNode struct {
	Node     string `json:"node"`
	NodePool string `json:"nodePool"`
	// Reason of the condition Drifted.
	Reason string `json:"reason"`
}

// Rollout of what drifts: in waves, each as large as budgets and policies allow at that time.
type Rollout struct {
	// Nodes are replaced of those that drift; the others are among the blocked.
	Nodes int `json:"nodes"`
	Waves int `json:"waves"`
	// NodeTime is the time assumed for one wave, Duration that of all waves including the time that windows
	// make them wait; Go durations.
	NodeTime string `json:"nodeTime"`
	Duration string `json:"duration"`
}

// DefaultNodeTime is the time assumed from the start of a command until its node is gone.
const DefaultNodeTime = 3 * time.Minute

// RunDisruptionOn plans what a running system's disruptor would do. If anything is given to change, NodePools
// and EC2NodeClasses (which may drift nodes), other objects, catalogue or prices, it also says what it would
// do without that. An *InputError says what is wrong with the input.
func RunDisruptionOn(c Config, s Server, untilSettled bool) (*Disruption, error) {
	var before *Disruption
	if len(c.Sources) > 0 || c.Catalog.given() || c.Prices.given() {
		same, err := s.Clone()
		if err != nil {
			return nil, err
		}
		if _, err := c.snapshot(same.World, same.Ledger); err != nil {
			return nil, err
		}
		before = newDisruption(c, same.World, same.Ledger, nil).plan(untilSettled)
	}
	old := map[string]*awsv1.EC2NodeClass{}
	for _, nc := range s.World.NodeClasses() {
		old[nc.Name] = nc
	}
	exact, err := s.change(c)
	if err != nil {
		return nil, err
	}
	if _, err := c.snapshot(s.World, s.Ledger); err != nil {
		return nil, err
	}
	var drifted []DriftedNode
	var notes []string
	if before != nil {
		drifted, notes = s.drift(c.Now, old)
	}
	var rollout *Rollout
	if len(drifted) > 0 {
		copied, err := s.Clone()
		if err != nil {
			return nil, err
		}
		rollout = newDisruption(c, copied.World, copied.Ledger, exact).rollOut(drifted, cmp.Or(c.NodeTime, DefaultNodeTime))
	}
	out := newDisruption(c, s.World, s.Ledger, exact).plan(untilSettled)
	out.Before, out.Drift, out.Rollout, out.Notes = before, drifted, rollout, append(notes, out.Notes...)
	return out, nil
}

// Clone returns a copy that may be changed. The World may be a version.
func (s Server) Clone() (c Server, err error) {
	c.World = world.Fork(s.World)
	data, err := s.Ledger.Checkpoint()
	if err != nil {
		return c, fmt.Errorf("copy what the system has decided: %w", err)
	}
	if c.Ledger, err = ledger.Restore(data); err != nil {
		return c, fmt.Errorf("copy what the system has decided: %w", err)
	}
	return c, nil
}

// drift marks the claims that drift by NodePools and EC2NodeClasses as they are now, and takes the mark of
// those that do no more. old are the classes as they were. What follows from EC2 alone (subnets, security
// groups) is left as it is.
func (s Server) drift(now time.Time, old map[string]*awsv1.EC2NodeClass) (list []DriftedNode, notes []string) {
	f, snap := feederOn(s.World, now), planner.NewSnapshot(s.World.Version(), s.Ledger, now)
	for _, c := range slices.Clone(s.World.NodeClaims()) {
		pool := s.World.NodePool(c.Labels[karpv1.NodePoolLabelKey])
		if pool == nil || c.Spec.NodeClassRef == nil || !condition.IsTrue(c.Status.Conditions, karpv1.ConditionTypeLaunched) && !condition.IsTrue(c.Status.Conditions, karpv1.ConditionTypeInitialized) {
			continue
		}
		nc := s.World.NodeClass(c.Spec.NodeClassRef.Name)
		reason := driftOf(snap, c, pool, nc, old[c.Spec.NodeClassRef.Name])
		have := condition.Get(c.Status.Conditions, karpv1.ConditionTypeDrifted)
		was := have != nil && have.Status == metav1.ConditionTrue
		ours := was && slices.Contains(reasons, have.Reason)
		if was && !ours || was == (reason != "") {
			continue
		}
		after := c.DeepCopy()
		after.Status.Conditions = slices.DeleteFunc(after.Status.Conditions, func(x metav1.Condition) bool { return x.Type == karpv1.ConditionTypeDrifted })
		if reason != "" {
			after.Status.Conditions = append(after.Status.Conditions, metav1.Condition{Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue,
				Reason: reason, Message: reason, LastTransitionTime: metav1.NewTime(now)})
			list = append(list, DriftedNode{cmp.Or(c.Status.NodeName, c.Name), pool.Name, reason})
		}
		f.upsert(events.KindNodeClaim, c.Name, after)
	}
	f.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
	for _, nc := range s.World.NodeClasses() {
		if was := old[nc.Name]; was != nil && !sameJSON(was.Spec.AMISelectorTerms, nc.Spec.AMISelectorTerms) && sameJSON(was.Status.AMIs, nc.Status.AMIs) {
			notes = append(notes, fmt.Sprintf("EC2NodeClass %s has other amiSelectorTerms: which images they select is not known; give status.amis to see what would drift", nc.Name))
		}
	}
	slices.SortFunc(list, func(a, b DriftedNode) int { return cmp.Compare(a.Node, b.Node) })
	return list, notes
}

// reasons of the condition Drifted that can be worked out here.
var reasons = []string{drift.ReasonNodePool, drift.ReasonRequirements, drift.ReasonNodeClass, drift.ReasonImage}

// driftOf judges a claim by its NodePool and class. A class counts as changed if its hash differs from the
// one before, or its images do.
func driftOf(snap *planner.Snapshot, c *karpv1.NodeClaim, pool *karpv1.NodePool, nc, old *awsv1.EC2NodeClass) string {
	in := drift.Input{Now: snap.Now, Claims: []drift.Claim{drift.ClaimOf(c, nil)}, Pools: []drift.Pool{drift.PoolOf(pool)}}
	in.Claims[0].Launched, in.Pools[0].HashVersion = true, nodepool.HashVersion // which files do not say
	class := drift.Class{Name: c.Spec.NodeClassRef.Name}
	if nc != nil && old != nil {
		class = drift.ClassOf(nc, []string{hashOf(nc)}, nil)
		class.Current, class.SubnetIDs, class.SecurityGroupIDs = true, nil, nil
		if class.Hashes.Version = drifthash.NodeClassV5; sameJSON(old.Status.AMIs, nc.Status.AMIs) {
			class.Images = nil
		}
		in.Claims[0].ClassHash = drift.Hash{Version: drifthash.NodeClassV5, Value: hashOf(old)}
	}
	if cat := provision.Catalog(snap, pool.Name, class.Name); cat != nil {
		class.Offer(cat.Type(c.Labels[corev1.LabelInstanceTypeStable]))
	}
	in.Classes = []drift.Class{class}
	return drift.Judge(in)[0].Reason
}

func hashOf(nc *awsv1.EC2NodeClass) string {
	return drifthash.NodeClass(drifthash.NodeClassV5, &nc.Spec, awsv1.AMIFamilyOf(nc), "")
}

// rollOut replaces what drifts in waves and says how long that takes.
func (d *disruption) rollOut(drifted []DriftedNode, nodeTime time.Duration) *Rollout {
	waiting := map[string]bool{}
	for _, n := range drifted {
		waiting[n.Node] = true
	}
	began, rest := d.config.Now, d.config.Now.Add(rolloutMost)
	r := &Rollout{NodeTime: nodeTime.String()}
	last := began
	d.endRunning()
	for len(waiting) > 0 && d.config.Now.Before(rest) && !d.stopped() {
		list := d.startAll()
		if len(list) == 0 {
			if d.wake.IsZero() || !d.wake.After(d.config.Now) {
				break
			}
			d.config.Now = d.wake
			continue
		}
		gone := 0
		for _, x := range list {
			for _, n := range x.command.Candidates {
				if waiting[n.Node] {
					delete(waiting, n.Node)
					gone++
				}
			}
			d.end(x)
		}
		d.config.Now = d.config.Now.Add(nodeTime)
		if gone > 0 {
			r.Nodes, r.Waves, last = r.Nodes+gone, r.Waves+1, d.config.Now
		}
	}
	r.Duration = last.Sub(began).Round(time.Second).String()
	return r
}

// rolloutMost bounds how far into the future a roll-out is followed.
const rolloutMost = 30 * 24 * time.Hour

// writeComparison writes, for people, how the change alters the plan.
func (r *Disruption) writeComparison(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if b := r.Before; b != nil {
		fmt.Fprintln(w, "\tBEFORE\tAFTER")
		fmt.Fprintf(w, "commands\t%d\t%d\n", len(b.Commands), len(r.Commands))
		fmt.Fprintf(w, "evictions\t%d\t%d\n", evictionsOf(b), evictionsOf(r))
		if b.Settled != nil && r.Settled != nil {
			fmt.Fprintf(w, "nodes at rest\t%d\t%d\n", len(b.Settled.Nodes), len(r.Settled.Nodes))
			fmt.Fprintf(w, "$/h at rest\t%s\t%s\n", b.Settled.Price, r.Settled.Price)
		}
		for _, n := range r.Drift {
			fmt.Fprintf(w, "drifts:\t%s of %s\t%s\n", n.Node, n.NodePool, n.Reason)
		}
		if x := r.Rollout; x != nil {
			fmt.Fprintf(w, "rolls out:\t%d of %d nodes\tin %d waves, %s at %s each\n", x.Nodes, len(r.Drift), x.Waves, x.Duration, x.NodeTime)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

func evictionsOf(r *Disruption) (sum int) {
	for i := range r.Commands {
		sum += r.Commands[i].Evictions
	}
	return sum
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
