package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
)

// Wave is where the roll-out of a NodePool's drifted nodes stands, which DisruptionPolicies want in waves.
//
// Example. initial 2: the first wave takes two nodes. Once both are replaced, and the old ones gone, the
// second takes four, the third eight. If a budget lets only three of the four go at a time, the fourth
// follows as soon as one is through.
type Wave struct {
	ledger.Wave
	// Policy with the smallest first wave.
	Policy string
	// Replaced counts the nodes that were replaced since the roll-out began, Going those of them that are not
	// gone yet, Started the commands under way.
	Replaced, Going, Started int
	// Left is how many more nodes the wave takes.
	Left int
	// Halted is the failure that ended it; nil if there was none.
	Halted *ledger.RolloutHalt
}

// WaveOf is the wave of a NodePool that policies select; nil if none of them wants any. answering is the
// approved proposal that is carried out, which does not count; "" for none.
func WaveOf(s *planner.Snapshot, list []*Policy, pool *karpv1.NodePool, answering string) *Wave {
	by, initial := FirstWave(list)
	if initial <= 0 {
		return nil
	}
	w := &Wave{Policy: by, Wave: ledger.Wave{Target: targetOf(s, pool), Number: 1, Nodes: initial}}
	if r, ok := s.Ledger.Rollout(pool.Name); ok && r.Target == w.Target {
		w.Replaced, w.Halted = r.Replaced, r.Halted
	}
	for _, n := range s.StateNodes() {
		if n.NodePool == pool.Name && n.Ledger != nil && n.Ledger.TakenBy != "" && n.Ledger.Doomed != nil && n.Ledger.Doomed.Reason == doomedByDrift {
			w.Going++
		}
	}
	drifts := func(p *ledger.CommandStarted) bool {
		return p.Reason == karpv1.DisruptionReasonDrifted && len(p.Candidates) > 0 && p.Candidates[0].NodePool == pool.Name
	}
	for _, x := range s.Ledger.Commands() {
		if drifts(&x.Started) {
			w.Started++
		}
	}
	proposed := 0
	for _, x := range s.Ledger.Proposals() {
		if p := &x.Proposed.Command; x.ID != answering && x.State != ledger.ProposalRejected && drifts(p) && p.Wave != nil && p.Wave.Target == w.Target {
			proposed++
		}
	}
	before, done := 0, max(0, w.Replaced-w.Going)
	for done-before >= w.Nodes && w.Nodes < waveNodesMax {
		before += w.Nodes
		w.Number, w.Nodes = w.Number+1, w.Nodes*2
	}
	w.Left = max(0, before+w.Nodes-w.Replaced-w.Started-proposed)
	return w
}

const (
	// waveNodesMax ends the doubling: no cluster has more nodes.
	waveNodesMax = 1 << 20
	// doomedByDrift is the reason for which a command of drift dooms claims.
	doomedByDrift = "drifted"
)

// targetOf identifies what new nodes of a NodePool are: by the hash of its template, its requirements, the
// hash of its class, and the images, subnets and security groups that the class has found.
func targetOf(s *planner.Snapshot, pool *karpv1.NodePool) string {
	target := struct {
		Template     string
		Requirements []karpv1.NodeSelectorRequirementWithMinValues
		Class        string
		Found        []string
	}{Template: nodepool.Hash(pool), Requirements: pool.Spec.Template.Spec.Requirements}
	if class := classOf(s, pool); class != nil {
		target.Class = class.Annotations[awsv1.NodeClassHashAnnotationKey]
		for _, x := range class.Status.AMIs {
			target.Found = append(target.Found, x.ID)
		}
		for _, x := range class.Status.Subnets {
			target.Found = append(target.Found, x.ID)
		}
		for _, x := range class.Status.SecurityGroups {
			target.Found = append(target.Found, x.ID)
		}
		slices.Sort(target.Found)
	}
	text, err := json.Marshal(target)
	if err != nil {
		return "unencodable: " + err.Error()
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func classOf(s *planner.Snapshot, pool *karpv1.NodePool) *awsv1.EC2NodeClass {
	if pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil
	}
	return s.World.NodeClass(pool.Spec.Template.Spec.NodeClassRef.Name)
}
