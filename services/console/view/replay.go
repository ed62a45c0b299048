package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/store/audit"
	"millwright/store/audit/whatif"
)

// Results of a decision that is taken again.
const (
	ReplayIdentical     = "identical"
	ReplayDifferent     = "different"
	ReplayNotReplayable = "not replayable"
)

// Replayed is what came of a decision that was taken again.
type Replayed struct {
	Seq uint64 `json:"seq"`
	// Result is identical, different or not replayable.
	Result string `json:"result"`
	// Explained: its explanation was compared too. Derived: it follows from facts that its record carries,
	// and not from a Snapshot.
	Explained bool `json:"explained"`
	Derived   bool `json:"derived"`
	// Detail names the first difference, or says why it cannot be taken again.
	Detail string `json:"detail,omitempty"`
	// Recorded and Planned are digests of what was decided; Planned is "" if nothing is now, or it is not
	// known.
	Recorded string `json:"recorded,omitempty"`
	Planned  string `json:"planned,omitempty"`
	// Seconds that it took.
	Seconds float64 `json:"seconds"`
}

// Replay takes a decision again, for somebody, on what it was taken on, and compares. Errors are as of Plan,
// or ErrNotFound.
func (v *View) Replay(ctx context.Context, who string, seq uint64) (*Replayed, error) {
	if err := v.isDecision(ctx, seq); err != nil {
		return nil, err
	}
	began := v.cfg.Now()
	return planned(ctx, v, who, func(ctx context.Context) (*Replayed, error) {
		report, err := audit.Replay(ctx, v.cfg.Log, v.cfg.Stream, audit.Range{From: seq, To: seq})
		if err != nil {
			return nil, fmt.Errorf("take record %d again: %w", seq, err)
		}
		x := &Replayed{Seq: seq, Result: ReplayIdentical, Explained: report.Explained > 0, Derived: report.Derived > 0, Seconds: v.cfg.Now().Sub(began).Seconds()}
		switch {
		case len(report.Divergences) > 0:
			d := report.Divergences[0]
			x.Result, x.Detail, x.Recorded, x.Planned = ReplayDifferent, d.Detail, d.Recorded, d.Planned
		case report.Replayed() == 0:
			x.Result, x.Detail = ReplayNotReplayable, notReplayable(report, seq)
		}
		return x, nil
	})
}

// notReplayable is why a decision is not.
func notReplayable(report audit.Report, seq uint64) string {
	for _, s := range report.NotReplayable {
		if s.From <= seq && seq <= s.To {
			return s.Reason
		}
	}
	return "it was not planned on a Snapshot"
}

// isDecision refuses a sequence of no record, or of one that says what came of something.
func (v *View) isDecision(ctx context.Context, seq uint64) error {
	d, err := v.Decision(ctx, seq)
	switch {
	case err != nil:
		return err
	case !d.Row.Decision:
		return fmt.Errorf("%w: record %d says what was done; only decisions can be taken again", ErrQuestion, seq)
	}
	return nil
}

// instead is what a decision on record would have been with what is given.
func (v *View) instead(ctx context.Context, q PlanRequest) (*Plan, error) {
	began := v.cfg.Now()
	if _, err := q.config(); err != nil {
		return nil, err
	}
	if err := v.isDecision(ctx, q.Record); err != nil {
		return nil, err
	}
	r := whatif.Request{Range: audit.Range{From: q.Record, To: q.Record}, Workers: 1}
	var err error
	if r.Change, err = readChange(q.Manifests, q.Prices); err != nil {
		return nil, err
	}
	report, err := whatif.Run(ctx, v.cfg.Log, v.cfg.Stream, r)
	if err != nil {
		return nil, err
	}
	return &Plan{Instead: report, Seconds: v.cfg.Now().Sub(began).Seconds()}, nil
}

// checkReplicas refuses NodePools of more nodes than are planned for.
func checkReplicas(objects []metav1.Object) error {
	for _, o := range objects {
		if p, ok := o.(*karpv1.NodePool); ok && p.Spec.Replicas != nil && *p.Spec.Replicas > planPodsMax {
			return fmt.Errorf("NodePool %s: spec.replicas: asks for %d nodes; %d are planned for at most", p.Name, *p.Spec.Replicas, planPodsMax)
		}
	}
	return nil
}

// Facts are what a decision was taken on: its Snapshot, as far as the decision has to do with it.
type Facts struct {
	Seq uint64 `json:"seq"`
	// Now is the time that the decision went by, AsOf what the World was as of.
	Now  time.Time `json:"now"`
	AsOf time.Time `json:"asOf"`
	// Stream and StreamSequence are the position of the World, LedgerSeq that of the Ledger.
	Stream         string `json:"stream"`
	StreamSequence uint64 `json:"streamSequence"`
	LedgerSeq      uint64 `json:"ledgerSeq"`
	// Nodes and MicroUSDPerHour are those of the whole cluster; Named are the nodes that the decision is
	// about, Pools all NodePools.
	Nodes           int    `json:"nodes"`
	MicroUSDPerHour int64  `json:"microUSDPerHour"`
	Named           []Node `json:"named"`
	Pools           []Pool `json:"pools"`
	// Pods that the decision is about, and that were in the World; NamedMore and PodsMore count those that
	// are left out.
	Pods      []FactPod       `json:"pods"`
	NamedMore int             `json:"namedMore,omitempty"`
	PodsMore  int             `json:"podsMore,omitempty"`
	Options   planner.Options `json:"options"`
	// Manifests are the NodePools that the decision has to do with, and the DisruptionPolicies, as they were,
	// as YAML: to ask with one of them changed. "": they are too long.
	Manifests string `json:"manifests"`
}

// FactPod is a pod of a Snapshot.
type FactPod struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Node      string  `json:"node,omitempty"`
	Requests  Amounts `json:"requests"`
}

// factsMax bounds each list of Facts.
const factsMax = 200

// Facts returns what a decision was taken on, for somebody. Errors are as of Replay.
func (v *View) Facts(ctx context.Context, who string, seq uint64) (*Facts, error) {
	if err := v.isDecision(ctx, seq); err != nil {
		return nil, err
	}
	return planned(ctx, v, who, func(ctx context.Context) (*Facts, error) {
		var x *Facts
		report, err := audit.Walk(ctx, v.cfg.Log, v.cfg.Stream, audit.Range{From: seq, To: seq}, func(visit audit.Visit) {
			x = factsOf(visit, v.cfg.Log.ID())
		})
		switch {
		case err != nil:
			return nil, fmt.Errorf("read what record %d was decided on: %w", seq, err)
		case x == nil:
			return nil, fmt.Errorf("%w: what record %d was decided on is not known any more: %s", ErrQuestion, seq, notReplayable(report, seq))
		}
		return x, nil
	})
}

func factsOf(visit audit.Visit, logID string) *Facts {
	s, e := visit.Snapshot, visit.Entry
	now := makeNow(s)
	x := &Facts{Seq: e.Seq, Now: e.Now.UTC(), AsOf: now.AsOf, Stream: e.Position.Incarnation, StreamSequence: e.Position.Sequence, LedgerSeq: e.LedgerSeq,
		Nodes: len(now.Nodes), MicroUSDPerHour: now.MicroUSDPerHour, Named: []Node{}, Pools: now.Pools, Pods: []FactPod{}, Options: s.Options}
	about := map[string]bool{}
	for _, subject := range audit.Mentions(e, logID) {
		about[subject] = true
	}
	for _, n := range now.Nodes {
		if about["node/"+n.Name] || n.NodeClaim != "" && about["claim/"+n.NodeClaim] {
			x.Named = append(x.Named, n)
			about["pool/"+n.NodePool] = true
		}
	}
	x.Manifests = manifestsOf(s, about)
	if len(x.Named) > factsMax {
		x.Named, x.NamedMore = x.Named[:factsMax], len(x.Named)-factsMax
	}
	for _, p := range s.World.Pods() {
		if about["pod/"+p.Key()] {
			x.Pods = append(x.Pods, FactPod{p.Namespace, p.Name, p.NodeName, amounts(p.Class.Requests)})
		}
	}
	slices.SortFunc(x.Pods, func(a, b FactPod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	if len(x.Pods) > factsMax {
		x.Pods, x.PodsMore = x.Pods[:factsMax], len(x.Pods)-factsMax
	}
	return x
}
