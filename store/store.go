package store

import (
	"context"
	"errors"
	"time"
)

// Sentinel errors. Test with errors.Is.
var (
	// ErrConflict: a named aggregate has moved. Plan again on a fresh Snapshot; retrying the same draft is
	// wrong.
	ErrConflict = errors.New("aggregate moved")
	// ErrFenced: the lease is no longer held. Stop acting.
	ErrFenced = errors.New("lease lost")
	// ErrTooLarge: the draft exceeds MaxRecordBytes even with its payload as a blob.
	ErrTooLarge = errors.New("record too large")
	// ErrRefused: the database takes no writes, as etcd at its quota; the draft certainly is not stored.
	// Reads may work.
	ErrRefused = errors.New("write refused")
	// ErrCompacted: the sequence asked for is no longer in the live log.
	ErrCompacted = errors.New("sequence compacted")
	// ErrNotFound: no such record or blob.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt: a stored record cannot be parsed or its hash does not match; the error names the sequence.
	ErrCorrupt = errors.New("corrupt record")
	// ErrForeignLog: the log belongs to another cluster.
	ErrForeignLog = errors.New("log of another cluster")
)

// Position mirrors events.Position; the store gives it no meaning.
type Position struct {
	Incarnation string
	Sequence    uint64
	Digest      uint64
}

// Draft is a record before it has a place in the log.
type Draft struct {
	// Time is the writer's clock; the log raises it to the previous record's time if it is lower.
	Time    time.Time
	Service string
	// Mode is "active" or "shadow".
	Mode string
	Kind uint16
	// Ignorable: a reader that doesn't know Kind may skip the record.
	Ignorable bool
	Subjects  []string
	Causation uint64

	PlannerVersion uint32
	Position       Position
	LedgerSeq      uint64
	// Now is the decision's Now; zero for outcomes.
	Now        time.Time
	OptionsSeq uint64

	Payload     []byte
	Explanation []byte
	// OmitExplanation keeps only the explanation's hash, to save room. It is not part of the Record.
	OmitExplanation bool
	// Format is the highest that all readers of the log know (FORMAT §2): from 2 on long content is
	// compressed. 0 means 1. It is not part of the Record.
	Format int

	// Expects maps an aggregate to the sequence at which it must be; 0: not advanced since it was retired, or
	// ever.
	Expects map[string]uint64
	// Advances lists the aggregates whose sequence becomes this record's. It is part of the Record.
	Advances []string
	// Retires lists aggregates that are at 0 from this record on: the log forgets them in the same step. Each
	// is expected where it is, which is not 0, and not advanced.
	Retires []string
	// Switches are set by name in the same step in which the record is stored (FORMAT §1, control/). They
	// belong to operators and are never deleted.
	Switches map[string]string
	// Lease fences the append; the zero Lease appends unfenced (tools, tests).
	Lease Lease
}

// Record is a Draft with its place. Expects, Retires, Switches, Lease, OmitExplanation and Format are not
// kept.
type Record struct {
	Seq uint64
	Draft
	PrevHash, Hash [32]byte
}

// Lease is the proof of leadership that fences an append.
type Lease struct {
	Key string
	// Revision at which Key was created.
	Revision int64
}

// Head of the log.
type Head struct {
	Seq  uint64
	Hash [32]byte
}

// Log is the event log of one cluster. All methods are safe for concurrent use.
type Log interface {
	// ID is the log-id of the genesis record, 32 hex digits.
	ID() string
	// Append stores one record and returns it. Concurrent calls are committed in groups; a conflict of one
	// draft does not fail the others. If only the head moved, it re-chains and retries by itself.
	Append(ctx context.Context, d Draft) (Record, error)
	// Read returns up to limit records from sequence `from` (1 is the genesis), in order; fewer at the end.
	// A record that cannot be parsed yields ErrCorrupt after the records before it.
	Read(ctx context.Context, from uint64, limit int) ([]Record, error)
	// Watch calls fn for each record from `from` on, then for each new one, until ctx ends or fn returns an
	// error. It resumes after lost connections and etcd compaction without gaps or repeats.
	Watch(ctx context.Context, from uint64, fn func(Record) error) error
	// Head returns the last sequence and hash.
	Head(ctx context.Context) (Head, error)
	// Aggregate returns the last sequence that advanced name; 0 if none did since it was retired, or ever.
	Aggregate(ctx context.Context, name string) (uint64, error)
	// Switch returns the value of an operator's switch, "" if it was never set, and the head of the log at
	// the same moment. It is linearizable: it includes everything that was acknowledged before the call.
	Switch(ctx context.Context, name string) (string, Head, error)
	// PutBlob stores data under its SHA-256 (hex), in chunks; GetBlob reads and verifies it.
	PutBlob(ctx context.Context, data []byte) (string, error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	// Verify walks the hash chain of the live log and returns the last good sequence and the first fault.
	Verify(ctx context.Context) (uint64, error)
	Close() error
}

// Cursors keeps beside the log how far those have come who hand its records to others. It is no part of the
// chain: what is lost with it is only what need not have been sent again.
type Cursors interface {
	// Cursor returns what was kept last under a name; "" if nothing was.
	Cursor(ctx context.Context, name string) (string, error)
	// SetCursor keeps a value of at most MaxCursorBytes under a name. ErrFenced: the lease is no longer held.
	SetCursor(ctx context.Context, lease Lease, name, value string) error
}

// InfoKinds is the entry of a candidate's info that says which kinds of records it knows.
const InfoKinds = "kinds"

// InfoOptions is the entry that says which planning options it would record when it leads, as JSON.
const InfoOptions = "options"

// InfoFormat is the entry of a candidate's info that says up to which format it reads records; without it, 1.
const InfoFormat = "format"

// Elector elects one active instance per service.
type Elector interface {
	// Campaign blocks until the candidate leads its service or ctx ends.
	Campaign(ctx context.Context, c Candidacy) (Leadership, error)
	// Leaders returns the current leader of each service, by name.
	Leaders(ctx context.Context) ([]Leader, error)
}

// Candidacy is what an instance presents in an election.
type Candidacy struct {
	Service, Identity string
	// Info is published beside the key (version, host), for status commands and for version negotiation.
	Info map[string]string
	// Deposable: a standby need not wait until the lease of this leader has expired, but may end it once the
	// leader has been silent for a second. For services without creating effects: their leadership promises
	// no Deadline, and appends of a leader that was only slow are fenced.
	Deposable bool
}

// Leadership that was won.
type Leadership interface {
	Lease() Lease
	// Deadline is the time, by this process's monotonic clock, until which the lease is certainly valid.
	// Creating effects must end before it. The zero time, always, for a Deposable candidate.
	Deadline() time.Time
	// Report publishes the leader's state beside its key, for status commands; it replaces the last report.
	// ErrFenced: the key is gone.
	Report(ctx context.Context, report map[string]string) error
	// Done is closed when leadership is lost or resigned.
	Done() <-chan struct{}
	Resign(ctx context.Context) error
}

// Leader is the leader of a service.
type Leader struct {
	Service, Identity string
	Info              map[string]string
	// Report is the last one; nil before the first.
	Report map[string]string
	Lease  Lease
}
