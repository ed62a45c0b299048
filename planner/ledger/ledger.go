package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/cadence"
	"millwright/planner/ledger/failing"
	"millwright/planner/ledger/names"
	"millwright/planner/memory"
	"millwright/planner/options"
	"millwright/planner/version"
)

var (
	// ErrUnknownKind: a record this version doesn't know and must not skip. Stand down.
	ErrUnknownKind = errors.New("unknown record kind")
	// ErrGap: an entry came before the one that the Ledger expects next. Read the log from Seq+1.
	ErrGap = errors.New("record missing")
	// ErrPayload: the payload is not of the type its kind asks for.
	ErrPayload = errors.New("payload of another kind")
)

// Ledger is the fold of Records: either the live one, which Apply changes, or an immutable version of it.
// Versions may be read concurrently with each other and with Apply; the live one may not be read concurrently
// with Apply.
type Ledger struct {
	state
	// owner of what Apply may change in place; nil in a version.
	owner *version.Owner
	// latest is the version taken last, nil if Apply was called since.
	latest *Ledger
	// typeLists are the lists of instance types planned last, kept to be shared; they are never changed, only
	// replaced.
	typeLists [][]string
	// planning caches PlanningOptions; nil until somebody asks.
	planning *atomic.Pointer[options.Options]
}

// state is all data of the Ledger; its accessors are promoted to the Ledger. Whatever its pointers and Go
// maps refer to is never changed, only replaced.
type state struct {
	logID, cluster string
	// replaced names, of a log whose names are pseudonyms; no part of a checkpoint.
	replaced   names.Replaced
	seq        uint64
	lastTime   time.Time
	optionsSeq uint64
	options    []byte
	backoff    backoff

	modes     map[string]Mode
	claims    version.Table[string, *Claim, *Claim]
	commands  version.Table[string, *Command, *Command]
	drains    version.Table[string, *Drain, *Drain]
	proposals version.Table[string, *Proposal, *Proposal]
	// evictions of the last hour by NodePool.
	evictions map[string][]Evicted
	offerings version.Map[OfferingKey, UnavailableOffering]
	// subnets without free addresses by id, at most subnetsMax.
	subnets version.Map[string, UnavailableOffering]
	// reservations of capacity by id.
	reservations version.Map[string, reservation]
	// verdicts by pod UID.
	verdicts   version.Map[types.UID, *Verdict]
	aggregates version.Map[string, uint64]
	// positions is the highest sequence that any record names, by stream incarnation.
	positions map[string]uint64
	// shadow is the digest of the last shadow record by service, kind and subject.
	shadow version.Map[string, string]
	// adopted logs by id.
	adopted map[string]bool
	// failing are the NodePools whose last replacement failed, by name.
	failing map[string]failing.Count
	// rollouts of drifted nodes in waves, by NodePool; at most rolloutsMax.
	rollouts map[string]Rollout
	// returns of NodePools to what is preferred that EC2 took back, by name; at most returnsMax.
	returns map[string]LostReturns
	// drainOuts of nodes, by name; at most twice DrainOutsMax.
	drainOuts map[string]DrainOut
	// drifts are the roll-outs of drifted nodes, in waves or not.
	drifts *cadence.Table
	// memory that nodes were found to have.
	memory *memory.Table
	// control is the last ControlChanged.
	control *ControlChanged
	// controlSeq and controlAt are of that record.
	controlSeq uint64
	controlAt  time.Time
}

// Memory is what nodes were found to have; nil if nothing is known.
func (l *state) Memory() *memory.Table { return l.memory }

// Drifts says when drift began to replace the nodes of each NodePool; nil if it never did.
func (l *state) Drifts() *cadence.Table { return l.drifts }

// New returns the Ledger of an empty log. logID may be empty: the genesis record sets it.
func New(logID string) *Ledger {
	return &Ledger{owner: new(version.Owner), planning: &atomic.Pointer[options.Options]{}, state: state{
		logID: logID, backoff: defaultBackoff,
		claims:    version.NewTable[string](version.Whole[*Claim]),
		commands:  version.NewTable[string](version.Whole[*Command]),
		drains:    version.NewTable[string](version.Whole[*Drain]),
		proposals: version.NewTable[string](version.Whole[*Proposal]),
		offerings: version.NewMap[OfferingKey, UnavailableOffering](func(k OfferingKey) uint64 {
			return version.Strings(k.InstanceType, k.Zone) ^ version.String(k.CapacityType) ^ version.Strings("group", k.PlacementGroup)
		}),
		subnets:      version.NewMap[string, UnavailableOffering](version.String[string]),
		reservations: version.NewMap[string, reservation](version.String[string]),
		verdicts:     version.NewMap[types.UID, *Verdict](version.String[types.UID]),
		aggregates:   version.NewMap[string, uint64](version.String[string]),
		shadow:       version.NewMap[string, string](version.String[string]),
	}}
}

// Version returns an immutable copy of the Ledger as it is now: it copies the tables' roots, which takes
// about a microsecond. Whatever is folded later copies what it changes. The version of a version is that
// version itself.
func (l *Ledger) Version() *Ledger {
	if l.owner == nil {
		return l
	}
	if l.latest == nil {
		v := *l
		v.owner = nil
		l.owner, l.latest = new(version.Owner), &v
	}
	return l.latest
}

// with returns a copy of a small map in which k has the value v.
func with[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	c := make(map[K]V, len(m)+1)
	maps.Copy(c, m)
	c[k] = v
	return c
}

// edit replaces the row of a key by a copy, which it returns; nil if there is none.
func edit[R any](o *version.Owner, t *version.Table[string, *R, *R], key string) *R {
	r, ok := t.Get(key)
	if !ok {
		return nil
	}
	c := *r
	t.Set(o, key, &c)
	return &c
}

// Apply folds the next entry. An entry that was folded already changes nothing. After ErrUnknownKind, ErrGap
// or ErrPayload the Ledger is unchanged.
func (l *Ledger) Apply(e Entry) error {
	if e.Seq <= l.seq {
		return nil
	}
	if e.Seq != l.seq+1 {
		return fmt.Errorf("apply record %d on %d: %w", e.Seq, l.seq, ErrGap)
	}
	if err := check(e); err != nil {
		return fmt.Errorf("apply record %d (%s): %w", e.Seq, e.Kind, err)
	}
	if l.owner == nil {
		panic("ledger: a version cannot be changed")
	}
	l.latest = nil
	l.envelope(e)
	if e.Payload == nil {
		return nil
	}
	if e.Mode == ModeShadow {
		l.foldShadow(e)
		return nil
	}
	l.fold(e)
	return nil
}

// check refuses entries that cannot be folded.
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
	l.seq = e.Seq
	l.passTime(e)
	for _, a := range e.Advances {
		l.aggregates.Set(l.owner, a, e.Seq)
	}
	if p := e.Position; p.Incarnation != "" {
		l.positions = with(l.positions, p.Incarnation, max(l.positions[p.Incarnation], p.Sequence))
		for len(l.positions) > positionsMax { // the Ledger's own copy by now
			delete(l.positions, oldestIncarnation(l.positions, p.Incarnation))
		}
	}
}

// positionsMax bounds the stream incarnations whose highest sequence is remembered. Streams keep only the
// incarnation before theirs.
const positionsMax = 32

// oldestIncarnation returns the first by name, other than but; incarnations are numbered, so a shorter name
// is an older one.
func oldestIncarnation(positions map[string]uint64, but string) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(positions)), func(n string) bool { return n == but })
	return slices.MinFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
}

// LogID and Cluster are of the genesis record.
func (l *state) LogID() string   { return l.logID }
func (l *state) Cluster() string { return l.cluster }

// Seq is the last record folded; 0 before the genesis.
func (l *state) Seq() uint64 { return l.seq }

// LastTime is the time of the newest record.
func (l *state) LastTime() time.Time { return l.lastTime }

// Options returns the planning options in force as JSON (planner.Options); nil if none were set.
func (l *state) Options() []byte { return l.options }

// PlanningOptions returns the planning options in force, decoded once per record instead of for every
// Snapshot: the defaults if none were set, or if they cannot be read.
func (l *Ledger) PlanningOptions() options.Options {
	if p := l.planning.Load(); p != nil {
		return *p
	}
	o, err := options.Decode(l.options)
	if err != nil {
		o = options.Default()
	}
	l.planning.Store(&o)
	return o
}

// OptionsSeq is the OptionsSet record in force; 0 if none.
func (l *state) OptionsSeq() uint64 { return l.optionsSeq }

// Mode a service works in; active if never changed.
func (l *state) Mode(service string) Mode { return cmp.Or(l.modes[service], ModeActive) }

// Control is the last ControlChanged; nil if there was none.
func (l *state) Control() *ControlChanged { return l.control }

// ControlSeq and ControlAt are sequence and time of the last ControlChanged; zero if there was none.
func (l *state) ControlSeq() uint64   { return l.controlSeq }
func (l *state) ControlAt() time.Time { return l.controlAt }

// FailingUntil is when replacements of a NodePool may be tried again, after one that failed; zero if none did
// since one succeeded.
func (l *state) FailingUntil(nodePool string) time.Time { return l.failing[nodePool].Until }

// HasAdopted reports that an operator let this log take over objects that name another log.
func (l *state) HasAdopted(logID string) bool { return l.adopted[logID] }

func row[R any](t *version.Table[string, *R, *R], key string) *R {
	r, _ := t.Get(key)
	return r
}

// Claims returns the open claims by name.
func (l *state) Claims() []*Claim { return l.claims.List() }

// Claim returns the open claim of a name; nil if there is none.
func (l *state) Claim(name string) *Claim { return row(&l.claims, name) }

// Commands returns the running commands by id.
func (l *state) Commands() []*Command { return l.commands.List() }

// Command returns the running command of an id; nil if there is none.
func (l *state) Command(id string) *Command { return row(&l.commands, id) }

// Drains returns the drains that have not ended by node.
func (l *state) Drains() []*Drain { return l.drains.List() }

// Drain returns the drain of a node; nil if there is none.
func (l *state) Drain(node string) *Drain { return row(&l.drains, node) }

// Verdict returns what was last recorded of a pod; nil if nothing or if it was forgotten.
func (l *state) Verdict(pod types.UID) *Verdict {
	v, _ := l.verdicts.Get(pod)
	return v
}

// Verdicts returns all verdicts by pod UID.
func (l *state) Verdicts() []*Verdict {
	list := make([]*Verdict, 0, l.verdicts.Len())
	for _, uid := range version.Keys(&l.verdicts) {
		list = append(list, l.Verdict(uid))
	}
	return list
}

// Aggregate returns the last record that advanced an aggregate; 0 if none did since it was retired, or ever.
func (l *state) Aggregate(name string) uint64 {
	seq, _ := l.aggregates.Get(name)
	return seq
}

// HighestPosition is the highest stream sequence of an incarnation that any record names. A World below it
// has not seen what some decision was based on.
func (l *state) HighestPosition(incarnation string) uint64 { return l.positions[incarnation] }
