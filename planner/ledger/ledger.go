package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrUnknownKind: a record this version doesn't know and must not skip. Stand down.
	ErrUnknownKind = errors.New("unknown record kind")
	// ErrGap: an entry came before the one the Ledger waits for. Read the log from Seq+1.
	ErrGap = errors.New("record missing")
	// ErrPayload: the payload is not of the type its kind asks for.
	ErrPayload = errors.New("payload of another kind")
)

// Ledger is the fold of Records. Reads may run at the same time as each other, never beside Apply.
type Ledger struct {
	s state
	// Sorted caches; nil when stale.
	sortedClaims   atomic.Pointer[[]*Claim]
	sortedCommands atomic.Pointer[[]*Command]
	sortedDrains   atomic.Pointer[[]*Drain]
	byUID          atomic.Pointer[map[types.UID]*Claim]
	// decoded is what DecodedOptions made; nil when stale.
	decoded atomic.Pointer[any]
}

// state is all of the Ledger, as a checkpoint holds it.
type state struct {
	LogID      string    `json:"logID"`
	Cluster    string    `json:"cluster,omitempty"`
	Seq        uint64    `json:"seq"`
	LastTime   time.Time `json:"lastTime,omitzero"`
	OptionsSeq uint64    `json:"optionsSeq,omitempty"`
	Options    []byte    `json:"options,omitempty"`
	Backoff    backoff   `json:"backoff"`

	Modes     map[string]Mode     `json:"modes,omitempty"`
	Claims    map[string]*Claim   `json:"claims,omitempty"`
	Commands  map[string]*Command `json:"commands,omitempty"`
	Drains    map[string]*Drain   `json:"drains,omitempty"`
	Offerings offerings           `json:"offerings,omitempty"`
	// Reservations of capacity by id.
	Reservations map[string]*reservation `json:"reservations,omitempty"`
	// Verdicts by pod UID.
	Verdicts   map[types.UID]*Verdict `json:"verdicts,omitempty"`
	Aggregates map[string]uint64      `json:"aggregates,omitempty"`
	// Positions is the highest sequence named of each stream incarnation.
	Positions map[string]uint64 `json:"positions,omitempty"`
	// Shadow is the digest of the last shadow record by service, kind and subject.
	Shadow map[string]string `json:"shadow,omitempty"`
	// Adopted logs by id.
	Adopted map[string]bool `json:"adopted,omitempty"`
	// Control is the last ControlChanged.
	Control *ControlChanged `json:"control,omitempty"`
	// ControlSeq and ControlAt are of that record.
	ControlSeq uint64    `json:"controlSeq,omitempty"`
	ControlAt  time.Time `json:"controlAt,omitzero"`
}

// New returns the Ledger of an empty log. logID may be empty: the genesis record sets it.
func New(logID string) *Ledger {
	l := &Ledger{}
	l.s.LogID = logID
	l.s.Backoff = defaultBackoff
	l.s.fillMaps()
	return l
}

func (s *state) fillMaps() {
	s.Modes = orEmpty(s.Modes)
	s.Claims = orEmpty(s.Claims)
	s.Commands = orEmpty(s.Commands)
	s.Drains = orEmpty(s.Drains)
	s.Offerings = orEmpty(s.Offerings)
	s.Reservations = orEmpty(s.Reservations)
	s.Verdicts = orEmpty(s.Verdicts)
	s.Aggregates = orEmpty(s.Aggregates)
	s.Positions = orEmpty(s.Positions)
	s.Shadow = orEmpty(s.Shadow)
	s.Adopted = orEmpty(s.Adopted)
}

func orEmpty[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

// Apply folds the next entry. An entry that was folded before changes nothing. After ErrUnknownKind, ErrGap
// or ErrPayload the Ledger is as it was.
func (l *Ledger) Apply(e Entry) error {
	if e.Seq <= l.s.Seq {
		return nil
	}
	if e.Seq != l.s.Seq+1 {
		return fmt.Errorf("apply record %d on %d: %w", e.Seq, l.s.Seq, ErrGap)
	}
	if err := check(e); err != nil {
		return fmt.Errorf("apply record %d (%s): %w", e.Seq, e.Kind, err)
	}
	l.envelope(e)
	if e.Payload == nil {
		return nil
	}
	if e.Mode == ModeShadow {
		l.foldShadow(e)
		return nil
	}
	l.fold(e)
	l.stale()
	return nil
}

// check refuses what can't be folded.
func check(e Entry) error {
	want := NewPayload(e.Kind)
	switch {
	case want == nil && e.Ignorable:
		return nil
	case want == nil:
		return ErrUnknownKind
	case e.Payload == nil && e.Ignorable:
		return nil
	case fmt.Sprintf("%T", want) != fmt.Sprintf("%T", e.Payload):
		return fmt.Errorf("%w: %T", ErrPayload, e.Payload)
	}
	return nil
}

// envelope folds what every record carries. Aggregates move for shadow records too, as they do in the store.
func (l *Ledger) envelope(e Entry) {
	l.s.Seq = e.Seq
	l.passTime(e)
	for _, a := range e.Advances {
		l.s.Aggregates[a] = e.Seq
	}
	if p := e.Position; p.Incarnation != "" {
		l.s.Positions[p.Incarnation] = max(l.s.Positions[p.Incarnation], p.Sequence)
	}
}

func (l *Ledger) stale() {
	l.sortedClaims.Store(nil)
	l.sortedCommands.Store(nil)
	l.sortedDrains.Store(nil)
	l.byUID.Store(nil)
}

// LogID and Cluster are of the genesis record.
func (l *Ledger) LogID() string   { return l.s.LogID }
func (l *Ledger) Cluster() string { return l.s.Cluster }

// Seq is the last record folded; 0 before the genesis.
func (l *Ledger) Seq() uint64 { return l.s.Seq }

// LastTime is the time of the newest record.
func (l *Ledger) LastTime() time.Time { return l.s.LastTime }

// Options returns the planning options in force as JSON (planner.Options); nil if none were set.
func (l *Ledger) Options() []byte { return l.s.Options }

// DecodedOptions is what decode makes of Options, computed once per record and not for every Snapshot. All callers
// must pass the same decode.
func (l *Ledger) DecodedOptions(decode func([]byte) any) any {
	if p := l.decoded.Load(); p != nil {
		return *p
	}
	decoded := decode(l.s.Options)
	l.decoded.Store(&decoded)
	return decoded
}

// OptionsSeq is the OptionsSet record in force; 0 if none.
func (l *Ledger) OptionsSeq() uint64 { return l.s.OptionsSeq }

// Mode a service works in; active if never changed.
func (l *Ledger) Mode(service string) Mode { return cmp.Or(l.s.Modes[service], ModeActive) }

// Control is the last ControlChanged; nil if there was none.
func (l *Ledger) Control() *ControlChanged { return l.s.Control }

// ControlSeq and ControlAt are sequence and time of the last ControlChanged; zero if there was none.
func (l *Ledger) ControlSeq() uint64   { return l.s.ControlSeq }
func (l *Ledger) ControlAt() time.Time { return l.s.ControlAt }

// HasAdopted reports that a person let this log take over objects that name another log.
func (l *Ledger) HasAdopted(logID string) bool { return l.s.Adopted[logID] }

// Claims returns the open claims by name.
func (l *Ledger) Claims() []*Claim {
	return cached(&l.sortedClaims, l.s.Claims)
}

// Claim returns the open claim of a name; nil if there is none.
func (l *Ledger) Claim(name string) *Claim { return l.s.Claims[name] }

// ClaimByUID returns the open claim whose NodeClaim has the UID; nil if there is none.
func (l *Ledger) ClaimByUID(uid types.UID) *Claim {
	if p := l.byUID.Load(); p != nil {
		return (*p)[uid]
	}
	index := map[types.UID]*Claim{}
	for _, c := range l.Claims() {
		if c.UID != "" {
			index[c.UID] = c
		}
	}
	l.byUID.Store(&index)
	return index[uid]
}

// Commands returns the running commands by id.
func (l *Ledger) Commands() []*Command { return cached(&l.sortedCommands, l.s.Commands) }

// Command returns the running command of an id; nil if there is none.
func (l *Ledger) Command(id string) *Command { return l.s.Commands[id] }

// Drains returns the drains that have not ended by node.
func (l *Ledger) Drains() []*Drain { return cached(&l.sortedDrains, l.s.Drains) }

// Drain returns the drain of a node; nil if there is none.
func (l *Ledger) Drain(node string) *Drain { return l.s.Drains[node] }

// Verdict returns what was last recorded of a pod; nil if nothing or if it was forgotten.
func (l *Ledger) Verdict(pod types.UID) *Verdict { return l.s.Verdicts[pod] }

// Verdicts returns all verdicts by pod UID.
func (l *Ledger) Verdicts() []*Verdict {
	list := make([]*Verdict, 0, len(l.s.Verdicts))
	for _, uid := range slices.Sorted(maps.Keys(l.s.Verdicts)) {
		list = append(list, l.s.Verdicts[uid])
	}
	return list
}

// Aggregate returns the last record that advanced an aggregate; 0 if none did since it was retired, or ever.
func (l *Ledger) Aggregate(name string) uint64 { return l.s.Aggregates[name] }

// HighestPosition is the highest stream sequence of an incarnation that any record names. A World below it
// has not seen what a decision was taken on.
func (l *Ledger) HighestPosition(incarnation string) uint64 { return l.s.Positions[incarnation] }

// cached returns the values of m by key.
func cached[V any](cache *atomic.Pointer[[]V], m map[string]V) []V {
	if p := cache.Load(); p != nil {
		return *p
	}
	list := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[k])
	}
	cache.Store(&list)
	return list
}

// Digest identifies the Ledger's state: equal states, equal digests.
func (l *Ledger) Digest() string {
	b, err := l.Checkpoint()
	if err != nil {
		panic("ledger: folded state cannot be encoded: " + err.Error())
	}
	return CheckpointDigest(b)
}

// CheckpointDigest is the Digest of the Ledger whose Checkpoint these bytes are.
func CheckpointDigest(checkpoint []byte) string { return hexHash(checkpoint) }

// StateVersion is raised when a Ledger holds what Restore cannot fill in from checkpoints of earlier programs;
// StateVersionOldest is the oldest it still can. An older program does not restore what a newer one wrote.
const (
	StateVersion       uint32 = 1
	StateVersionOldest uint32 = 1
)

// Checkpoint returns the Ledger as canonical JSON.
func (l *Ledger) Checkpoint() ([]byte, error) {
	b, err := json.Marshal(&l.s)
	if err != nil {
		return nil, fmt.Errorf("encode ledger at %d: %w", l.s.Seq, err)
	}
	return b, nil
}

// Restore returns the Ledger a checkpoint holds; it folds on as the checkpointed one would have.
func Restore(data []byte) (*Ledger, error) {
	l := &Ledger{}
	if err := json.Unmarshal(data, &l.s); err != nil {
		return nil, fmt.Errorf("decode ledger checkpoint: %w", err)
	}
	l.s.fillMaps()
	return l, nil
}
