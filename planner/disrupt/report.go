package disrupt

import (
	"cmp"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/internal/pricing"
	"millwright/planner/ledger"
)

// Cause is why a node may not be disrupted, from a closed set, for counting.
type Cause string

const (
	CauseNoClaim        Cause = "no-claim"
	CauseNoNode         Cause = "no-node"
	CauseNotInitialized Cause = "not-initialized"
	CauseDeleting       Cause = "deleting"
	CauseNominated      Cause = "nominated"
	CauseNodeAnnotation Cause = "node-do-not-disrupt"
	CauseNoPoolLabel    Cause = "no-nodepool-label"
	CauseNoPool         Cause = "nodepool-not-found"
	CauseOwnPods        Cause = "millwright-pods"
	CausePodAnnotation  Cause = "pod-do-not-disrupt"
	CausePDB            Cause = "pdb"
	CauseManyPDBs       Cause = "multiple-pdbs"
	CauseUnreadablePods Cause = "unreadable-pods"
	CauseScheduler      Cause = "scheduler-late"
	// CauseTainted: the taint of a command that was rolled back, or of another autoscaler, is still to be
	// taken off.
	CauseTainted Cause = "tainted"

	// CauseNodeLimit: a replacement would be more nodes than the static NodePool may have.
	CauseNodeLimit Cause = "node-limit"

	CauseUnknownType  Cause = pricing.UnknownType
	CauseMissingLabel Cause = "label-missing"
	CauseNoPrice      Cause = "price-unknown"
	CauseEmptyOnly    Cause = "consolidation-of-empty-nodes-only"
	// CauseNoPlace: some of its pods would have no place; CauseNotCheaper: they would, but at no lower price.
	CauseNoPlace    Cause = "pods-need-it"
	CauseNotCheaper Cause = pricing.NotCheaper
	CauseSpot       Cause = pricing.Spot
	CauseScore      Cause = "balanced-score"
	CauseLimits     Cause = "nodepool-limits"
	CauseBackoff    Cause = "replacements-fail"
	// The next ones are of DisruptionPolicies.
	CausePaused      Cause = policy.Paused
	CauseTooYoung    Cause = policy.TooYoung
	CauseWindow      Cause = policy.Window
	CauseSavings     Cause = "savings"
	CauseRate        Cause = policy.Rate
	CausePolicyFault Cause = policy.Unreadable
	// CauseMovedLately: a command moved its pods there not long ago.
	CauseMovedLately Cause = "moved-lately"
	// CauseEvictionCost: its pods cost more to evict than would be saved.
	CauseEvictionCost Cause = "eviction-cost"
	// A command for it waits for approval, or was rejected.
	CauseProposed Cause = "proposed"
	CauseRejected Cause = "rejected"
	// CauseWave: the present wave of its NodePool's drift is full; CauseHalted: one has failed.
	CauseWave   Cause = "wave"
	CauseHalted Cause = "rollout-halted"
	// CauseNotPreferred: it is a fallback, and stays one for now.
	CauseNotPreferred Cause = "preferred-unavailable"
	// CauseDrainsOut: only pods that nobody may disturb, and of Jobs, are on it, and it is to run empty.
	CauseDrainsOut Cause = "drains-out"
	// CauseBuffer: the room of a CapacityBuffer is on it, and there is none elsewhere.
	CauseBuffer Cause = "buffer-pods"
	// CausePDBSum: other nodes that go have pods of the same PodDisruptionBudget.
	CausePDBSum Cause = "pdb-sum"

	// The causes below are of the methods, not of the node.
	CauseStatic   Cause = "static"
	CauseDisabled Cause = "consolidation-disabled"
	CauseNotEmpty Cause = "not-empty"
	CauseNotQuiet Cause = "not-quiet"
	CauseBudget   Cause = "budget"
	CauseRemoving Cause = "command-running"
	// CauseLeft: the steps of the pass were used up before it came to the node.
	CauseLeft Cause = "left-for-next-pass"
)

// Blocked says why a node may not be disrupted.
type Blocked struct {
	Cause Cause `json:"cause"`
	// Message is the text of the KubeEvent; "" if none is to be sent.
	Message string `json:"message,omitempty"`
	// Object that blocks, such as "PodDisruptionBudget ns/name" or "pod ns/name"; "" if it is the node
	// itself.
	Object string `json:"object,omitempty"`
	// Until is when time alone ends it; zero if it does not.
	Until time.Time `json:"until,omitzero"`
	// EventReason is DisruptionBlocked or Unconsolidatable; "" if none is to be sent.
	EventReason string `json:"-"`
	// Reason is what for the budget of CauseBudget is; it is counted, and not recorded.
	Reason karpv1.DisruptionReason `json:"-"`
}

// Reasons of KubeEvents.
const (
	EventDisruptionBlocked = "DisruptionBlocked"
	EventUnconsolidatable  = "Unconsolidatable"
)

// NodeReport is what was found of one node.
type NodeReport struct {
	// Node is "" while there is none, Claim for an unmanaged node.
	Node     string `json:"node,omitempty"`
	Claim    string `json:"claim,omitempty"`
	NodePool string `json:"nodePool,omitempty"`
	// Blocked is nil for a node that may be taken.
	Blocked *Blocked `json:"blocked,omitempty"`
	// QuietSince is the start of the quiet time, ConsolidatableAt its end; zero if not looked at.
	QuietSince time.Time `json:"quietSince,omitzero"`
	// Drifted is why the node of a static NodePool is to be replaced; "" if it is not.
	Drifted          string    `json:"drifted,omitempty"`
	ConsolidatableAt time.Time `json:"consolidatableAt,omitzero"`
}

// PoolReport is what a NodePool's budgets allow for one reason.
type PoolReport struct {
	NodePool string                  `json:"nodePool"`
	Reason   karpv1.DisruptionReason `json:"reason"`
	// Nodes is what percentages are of, Consuming how many of them are going or not ready, Going how many are
	// going.
	Nodes     int `json:"nodes"`
	Consuming int `json:"consuming"`
	Going     int `json:"going,omitempty"`
	// Allowed is before, Remaining after subtraction of Consuming. Unlimited stands for no active budget.
	Allowed   int  `json:"allowed"`
	Remaining int  `json:"remaining"`
	Unlimited bool `json:"unlimited,omitempty"`
	// Invalid is the fault of a budget that can't be read; then nothing is allowed.
	Invalid string `json:"invalid,omitempty"`
}

// BlockedByBudget is the text of the KubeEvent DisruptionBlocked on the NodePool; "" if none is due, as for a
// reason for which no node is eligible (reference: disruption §4).
func (r *Report) BlockedByBudget(p PoolReport) string {
	if p.Nodes == 0 || p.Allowed > 0 || r.Eligible[p.Reason] == 0 {
		return ""
	}
	return "No allowed disruptions for disruption reason " + string(p.Reason) + " due to blocking budget"
}

// Report of one Plan.
type Report struct {
	// Nodes by name, then claim.
	Nodes []NodeReport
	// Pools by name, one entry per reason.
	Pools []PoolReport
	// Eligible counts the nodes that could be taken if budgets allowed, by reason.
	Eligible map[karpv1.DisruptionReason]int
	// Unapproved are the scores of what Balanced NodePools did not approve.
	Unapproved []Score
	// StepsEnded are the methods, MethodMulti or MethodSingle, whose search ended before it was done because
	// its steps were used up.
	StepsEnded []string
	// Searched is how far the search came, Next where the next pass goes on.
	Searched Searched
	Next     ledger.SearchFrom
	// WakeAt is when a node's quiet time ends next, or a budget's window may open; zero if time alone changes
	// nothing.
	WakeAt time.Time
}

// Searched is how much of a cluster a pass covered.
type Searched struct {
	// Candidates are the nodes that drift and consolidation were to look at. Left of them the pass did not
	// come to, because its steps were used up: the next one begins with them.
	Candidates int `json:"candidates"`
	Left       int `json:"left,omitempty"`
}

// ended notes that a method's steps were used up.
func (r *Report) ended(method string) {
	if !slices.Contains(r.StepsEnded, method) {
		r.StepsEnded = append(r.StepsEnded, method)
	}
}

func (r *Report) wake(at time.Time) {
	if !at.IsZero() && (r.WakeAt.IsZero() || at.Before(r.WakeAt)) {
		r.WakeAt = at
	}
}

// Reasons say in words what keeps the node, the object that blocks by its name; nil if nothing does.
func (n *NodeReport) Reasons() []string {
	if n.Blocked == nil {
		return nil
	}
	text := causeTexts[n.Blocked.Cause]
	switch {
	case n.Blocked.Message != "":
		return n.Blocked.Reasons()
	case n.Blocked.Cause == CauseNotQuiet && !n.ConsolidatableAt.IsZero():
		text += " (until " + n.ConsolidatableAt.UTC().Format(time.RFC3339) + ")"
	case n.Blocked.Cause == CauseBudget:
		text += " of NodePool " + n.NodePool
	}
	return []string{cmp.Or(text, string(n.Blocked.Cause))}
}

// Reasons say it in words, as far as they follow from it alone.
func (b *Blocked) Reasons() []string {
	if b.Object != "" && b.Message != "" {
		return []string{b.Object + ": " + b.Message}
	}
	return []string{cmp.Or(b.Message, causeTexts[b.Cause], string(b.Cause))}
}

// causeTexts say what has no KubeEvent.
var causeTexts = map[Cause]string{
	CauseNoClaim:   "it has no NodeClaim",
	CauseTainted:   "it bears the taint of another command",
	CauseStatic:    "its NodePool has a fixed number of replicas",
	CauseNotQuiet:  "pods came or went within consolidateAfter",
	CauseBudget:    "the disruption budget",
	CauseRemoving:  "a command takes it already",
	CauseLeft:      "the steps of the pass were used up, the next one begins with it",
	CauseProposed:  "a command for its NodePool waits for approval",
	CauseNominated: "pods are on their way to it, or come first",
	CauseNoPrice:   "its price is not known",
	CauseScore:     "the disruption is too much for the saving (Balanced)",
}
