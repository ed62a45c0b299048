package audit

import (
	"encoding/json"
	"errors"
	"fmt"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/ledger/compact"
	"millwright/store"
)

// ErrPayload: the payload of a record cannot be read as that of its kind. The error names the sequence.
var ErrPayload = errors.New("unreadable payload")

// Encode returns the bytes of a payload and of an explanation, which may be nil. An explanation over the
// limit of DESIGN §4 is replaced by a note of its size.
func Encode(payload, explanation any) (p, x []byte, err error) {
	if p, err = json.Marshal(payload); err != nil {
		return nil, nil, fmt.Errorf("encode payload %T: %w", payload, err)
	}
	if explanation == nil {
		return p, nil, nil
	}
	if x, err = json.Marshal(explanation); err != nil {
		return nil, nil, fmt.Errorf("encode explanation %T: %w", explanation, err)
	}
	if len(x) > store.MaxInlineExplanationBytes {
		x, err = json.Marshal(map[string]int{"omittedBytes": len(x)})
	}
	return p, x, err
}

// DecisionDraft is the draft of a decision's record, without time, service, mode and lease.
func DecisionDraft(basis planner.Basis, d planner.Decision) (store.Draft, error) {
	p, x, err := Encode(d.Payload, d.Explanation)
	if err != nil {
		return store.Draft{}, fmt.Errorf("encode %s: %w", d.Kind, err)
	}
	return store.Draft{
		Kind: uint16(d.Kind), Ignorable: d.Kind.Ignorable(), Subjects: d.Subjects, Causation: d.Causation,
		PlannerVersion: planner.Version, Position: store.Position(basis.Position), LedgerSeq: basis.LedgerSeq,
		Now: basis.Now, OptionsSeq: basis.OptionsSeq, Payload: p, Explanation: x,
		Expects: Expectations(d.Expects), Advances: d.Advances,
	}, nil
}

// Outcome is what a record says about an act; only Kind and Payload must be set.
type Outcome struct {
	Kind ledger.Kind
	// Payload is a pointer to the payload type of Kind.
	Payload   any
	Subjects  []string
	Causation uint64
	Expects   []planner.Expectation
	Advances  []string
}

// OutcomeDraft is the draft of an outcome's record, without time, service, mode and lease.
func OutcomeDraft(o Outcome) (store.Draft, error) {
	p, _, err := Encode(o.Payload, nil)
	if err != nil {
		return store.Draft{}, fmt.Errorf("encode %s: %w", o.Kind, err)
	}
	return store.Draft{
		Kind: uint16(o.Kind), Ignorable: o.Kind.Ignorable(), Subjects: o.Subjects, Causation: o.Causation, Payload: p,
		Expects: Expectations(o.Expects), Advances: o.Advances,
	}, nil
}

// ControlDraft is the draft of an operator's command, with the corresponding switch. It expects the control
// aggregate where the operator saw it, so that of two concurrent commands one is refused.
func ControlDraft(c *ledger.ControlChanged, seen uint64) (store.Draft, error) {
	const aggregate = ledger.ControlAggregate
	d, err := OutcomeDraft(Outcome{Kind: ledger.KindControlChanged, Payload: c, Expects: []planner.Expectation{{Aggregate: aggregate, Seq: seen}}, Advances: []string{aggregate}})
	if err != nil {
		return d, err
	}
	d.Service, d.Mode = ledger.ServiceOperator, string(ledger.ModeActive)
	d.Switches = map[string]string{ledger.SwitchStop: string(d.Payload)}
	return d, nil
}

// AnswerDraft is the draft of an operator's answer to a proposal. It expects the command's aggregate where
// the operator saw it, so that of two concurrent answers one is refused.
func AnswerDraft(a *ledger.ProposalAnswered, nodes []string, seen uint64) (store.Draft, error) {
	aggregate := ledger.CommandAggregate(a.ID)
	subjects := append([]string{aggregate}, nodes...)
	d, err := OutcomeDraft(Outcome{Kind: ledger.KindProposalAnswered, Payload: a, Subjects: subjects,
		Expects: []planner.Expectation{{Aggregate: aggregate, Seq: seen}}, Advances: []string{aggregate}})
	if err != nil {
		return d, err
	}
	d.Service, d.Mode = ledger.ServiceOperator, string(ledger.ModeActive)
	return d, nil
}

// ResumeDraft is the draft of an operator's word that a roll-out begins anew. It expects the NodePool's
// aggregate where the operator saw it.
func ResumeDraft(r *ledger.RolloutResumed, seen uint64) (store.Draft, error) {
	aggregate := ledger.PoolAggregate(r.NodePool)
	d, err := OutcomeDraft(Outcome{Kind: ledger.KindRolloutResumed, Payload: r, Subjects: []string{aggregate},
		Expects: []planner.Expectation{{Aggregate: aggregate, Seq: seen}}, Advances: []string{aggregate}})
	if err != nil {
		return d, err
	}
	d.Service, d.Mode = ledger.ServiceOperator, string(ledger.ModeActive)
	return d, nil
}

// BundleDraft is the draft of a note that somebody took a bundle.
func BundleDraft(b *ledger.BundleTaken) (store.Draft, error) {
	d, err := OutcomeDraft(Outcome{Kind: ledger.KindBundleTaken, Payload: b})
	d.Service, d.Mode = ledger.ServiceOperator, string(ledger.ModeActive)
	return d, err
}

const (
	// retiredMax is how many aggregates one record retires at most; store.MaxAggregates is a little more.
	retiredMax = 1000
	// retiredRecordsMax bounds the records written at a time, if many aggregates have died before any was
	// retired.
	retiredRecordsMax = 16
	// shadowBytesMax bounds what is kept of shadow records.
	shadowBytesMax = 1 << 20
)

// RetirementDrafts are the drafts of the AggregatesRetired records that are worth writing now, oldest
// aggregates first, without time, service and lease: for aggregates that no record after through advanced,
// provided that there are at least as many as given, 1 or more. A draft is refused if one of its aggregates
// has moved since.
func RetirementDrafts(l *ledger.Ledger, through uint64, least int) ([]store.Draft, error) {
	var drafts []store.Draft
	shadow, dead := l.ShadowBytes() > shadowBytesMax, l.Dead(through)
	for shadow || len(dead) >= least && len(drafts) < retiredRecordsMax {
		n := min(len(dead), retiredMax)
		d, err := retirementDraft(l, &ledger.AggregatesRetired{Aggregates: dead[:n], Shadow: shadow})
		if err != nil {
			return nil, err
		}
		drafts, shadow, dead = append(drafts, d), false, dead[n:]
	}
	return drafts, nil
}

func retirementDraft(l *ledger.Ledger, p *ledger.AggregatesRetired) (store.Draft, error) {
	d, err := OutcomeDraft(Outcome{Kind: ledger.KindAggregatesRetired, Payload: p, Advances: []string{ledger.RetiredAggregate}})
	if err != nil {
		return d, err
	}
	d.Mode, d.Retires, d.Expects = string(ledger.ModeActive), p.Aggregates, map[string]uint64{}
	for _, name := range p.Aggregates {
		d.Expects[name] = l.Aggregate(name)
	}
	return d, nil
}

// Expectations as the store takes them.
func Expectations(list []planner.Expectation) map[string]uint64 {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]uint64, len(list))
	for _, e := range list {
		m[e.Aggregate] = e.Seq
	}
	return m
}

// Decode reads a record. A kind that this version does not know yields an entry without payload if the record
// is ignorable, else ledger.ErrUnknownKind; a payload that does not fit its kind yields ErrPayload. Both name
// the sequence.
func Decode(rec store.Record) (ledger.Entry, error) {
	e := ledger.Entry{
		Seq: rec.Seq, Time: rec.Time, Service: rec.Service, Mode: ledger.Mode(rec.Mode), Kind: ledger.Kind(rec.Kind),
		Subjects: rec.Subjects, Causation: rec.Causation, Advances: rec.Advances, PlannerVersion: rec.PlannerVersion,
		Position: events.Position(rec.Position), LedgerSeq: rec.LedgerSeq, Now: rec.Now, OptionsSeq: rec.OptionsSeq,
		Ignorable: rec.Ignorable, Explanation: rec.Explanation,
	}
	payload := ledger.NewPayload(e.Kind)
	if payload == nil {
		if rec.Ignorable {
			return e, nil
		}
		return e, fmt.Errorf("decode record %d: %w: %d", rec.Seq, ledger.ErrUnknownKind, rec.Kind)
	}
	if err := json.Unmarshal(rec.Payload, payload); err != nil {
		return e, fmt.Errorf("decode record %d (%s): %w: %w", rec.Seq, e.Kind, ErrPayload, err)
	}
	e.Payload = compact.Expand(payload)
	return e, nil
}

// IsDecision reports that the entry was planned on a Snapshot.
func IsDecision(e ledger.Entry) bool { return e.PlannerVersion != 0 && e.Position.Incarnation != "" }
