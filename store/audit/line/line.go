// Package line is a record as a line of JSON: what `millctl log -o json` prints, and what is exported.
//
// Guarantees: payload and explanation are as recorded; a record of an unknown kind has a line too. Fields are
// only added. Callers: millctl, services/export.
package line

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// Line of a record.
type Line struct {
	Seq            uint64      `json:"seq"`
	Time           time.Time   `json:"time"`
	Service        string      `json:"service"`
	Mode           ledger.Mode `json:"mode"`
	Kind           string      `json:"kind"`
	Subjects       []string    `json:"subjects,omitempty"`
	Causation      uint64      `json:"causation,omitempty"`
	PlannerVersion uint32      `json:"plannerVersion,omitempty"`
	Stream         string      `json:"stream,omitempty"`
	StreamSequence uint64      `json:"streamSequence,omitempty"`
	LedgerSeq      uint64      `json:"ledgerSeq,omitempty"`
	Now            time.Time   `json:"now,omitzero"`
	Advances       []string    `json:"advances,omitempty"`
	// Payload and Explanation as recorded; in base64 if they are no JSON.
	Payload     json.RawMessage `json:"payload,omitempty"`
	Explanation json.RawMessage `json:"explanation,omitempty"`
	// Hash of the record, hex.
	Hash string `json:"hash"`
	// Text says in a sentence what is recorded.
	Text string `json:"text,omitempty"`
}

// Decode returns the entry of a record. One of an unknown kind has no payload.
func Decode(rec store.Record) (ledger.Entry, error) {
	e, err := audit.Decode(rec)
	if errors.Is(err, ledger.ErrUnknownKind) {
		return ledger.Entry{Seq: rec.Seq, Time: rec.Time, Service: rec.Service, Mode: ledger.Mode(rec.Mode), Kind: ledger.Kind(rec.Kind), Subjects: rec.Subjects}, nil
	}
	return e, err
}

// Of returns the line of a record and its entry; logID names the claims and commands that it made.
func Of(rec store.Record, e ledger.Entry, logID string) Line {
	return Line{
		rec.Seq, rec.Time, rec.Service, e.Mode, e.Kind.String(), rec.Subjects, rec.Causation, rec.PlannerVersion,
		rec.Position.Incarnation, rec.Position.Sequence, rec.LedgerSeq, rec.Now, rec.Advances,
		asJSON(rec.Payload), asJSON(rec.Explanation), fmt.Sprintf("%x", rec.Hash), audit.Describe(e, logID),
	}
}

// asJSON hands JSON through and quotes what is not: the payload of an unknown kind may be anything.
func asJSON(b []byte) json.RawMessage {
	if len(b) == 0 || json.Valid(b) {
		return b
	}
	quoted, err := json.Marshal(b)
	if err != nil {
		return nil
	}
	return quoted
}
