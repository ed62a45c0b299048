// Package subjectstest writes long logs of which it is known what happened.
package subjectstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/store/audit"
	"millwright/store/memlog"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Writer appends the lives of nodes to a log, of which it keeps what really happened.
type Writer struct {
	t   testing.TB
	Log *memlog.Log
	rng *rand.Rand
	now time.Time
	n   int
	// Lives of claims that are over, Refused are pods that were.
	Lives   []Life
	Refused []string
}

// Life of one node.
type Life struct {
	Claim, Node, Instance, Pod, Command string
	// Records of its story.
	Records []uint64
}

// New returns a Writer of an empty log.
func New(t testing.TB) *Writer {
	w := &Writer{t: t, rng: rand.New(rand.NewPCG(1, 2)), now: pt.Start}
	log, err := memlog.Open(memlog.Config{Cluster: "test", LogID: pt.LogID, Clock: func() time.Time { return w.now }})
	check(t, err)
	w.Log = log
	return w
}

func (w *Writer) append(decision bool, service string, kind ledger.Kind, payload any, subjects ...string) uint64 {
	w.now = w.now.Add(time.Second)
	d, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload, Subjects: subjects})
	if decision {
		d, err = audit.DecisionDraft(planner.Basis{Now: w.now}, planner.Decision{Kind: kind, Payload: payload, Subjects: subjects})
		d.Position.Incarnation = "s"
	}
	check(w.t, err)
	d.Time, d.Service, d.Mode = w.now, service, string(ledger.ModeActive)
	rec, err := w.Log.Append(context.Background(), d)
	check(w.t, err)
	return rec.Seq
}

// Live appends the life of a node: planned for a pod, made, launched, joined, taken by a command, ended;
// and a pod that is refused beside it.
func (w *Writer) Live() {
	w.n++
	pod := ledger.PodRef{UID: types.UID(fmt.Sprint("u", w.n)), Namespace: "shop", Name: fmt.Sprintf("web-%06x", w.n)}
	refused := ledger.PodRef{UID: types.UID(fmt.Sprint("r", w.n)), Namespace: "shop", Name: fmt.Sprintf("giant-%06x", w.n)}
	l := Life{Node: fmt.Sprintf("ip-%06x", w.n), Instance: fmt.Sprintf("i-%08x", w.n), Pod: "shop/" + pod.Name}
	add := func(seq uint64) uint64 { l.Records = append(l.Records, seq); return seq }
	planned := add(w.append(true, "provisioner", ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{
		Claims:  []ledger.PlannedClaim{{NodePool: "p", InstanceTypes: []string{"m5.large"}, Pods: []ledger.PodRef{pod}}},
		Refused: []ledger.Refused{{Pods: []ledger.PodRef{refused}, Reasons: []ledger.Refusal{{Constraint: "resources", Message: "no instance type has enough resources"}}}}}))
	l.Claim = ledger.ClaimName(pt.LogID, "p", planned, 0)
	w.Refused = append(w.Refused, "shop/"+refused.Name)
	uid := types.UID("claim-" + l.Claim)
	add(w.append(false, "lifecycle", ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: l.Claim, UID: uid}))
	add(w.append(false, "lifecycle", ledger.KindLaunched, &ledger.Launched{Claim: l.Claim, UID: uid, InstanceID: l.Instance, InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}))
	add(w.append(false, "lifecycle", ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: l.Claim, Node: l.Node}))
	for range w.rng.IntN(4) {
		w.append(false, "lifecycle", ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "r", Message: "m"})
	}
	started := add(w.append(true, "disruptor", ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: l.Node, Claim: l.Claim, NodePool: "p"}}}))
	l.Command = ledger.CommandID(pt.LogID, started)
	add(w.append(false, "lifecycle", ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: l.Claim, InstanceID: l.Instance}))
	add(w.append(false, "lifecycle", ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: l.Claim, UID: uid, Reason: "empty"}))
	w.Lives = append(w.Lives, l)
}

// Head is the last record.
func (w *Writer) Head() uint64 {
	h, err := w.Log.Head(context.Background())
	check(w.t, err)
	return h.Seq
}

// Now is the time of the last record.
func (w *Writer) Now() time.Time { return w.now }
