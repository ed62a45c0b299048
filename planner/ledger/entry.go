package ledger

import (
	"time"

	"millwright/events"
)

// Entry is a decoded Record: the envelope's fields that matter to folding and explaining, and the payload.
type Entry struct {
	Seq     uint64
	Time    time.Time
	Service string
	Mode    Mode
	Kind    Kind
	// Subjects name what the record is about: pod/<ns>/<name>, node/<n>, claim/<n>, pool/<n>, command/<id>,
	// instance/<id>.
	Subjects []string
	// Causation is the record that led to this one; 0 if none.
	Causation uint64
	// Advances are the aggregates whose sequence becomes Seq.
	Advances []string
	// Basis of a decision; zero for outcomes.
	PlannerVersion uint32
	Position       events.Position
	LedgerSeq      uint64
	Now            time.Time
	OptionsSeq     uint64
	// Ignorable: a reader that doesn't know Kind skips the record.
	Ignorable bool
	// Payload is a pointer to the payload type of Kind; nil for an unknown ignorable kind.
	Payload any
	// Explanation is JSON.
	Explanation []byte
}
