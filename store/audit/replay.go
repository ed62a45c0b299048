package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/store"
)

// Log is what Replay reads of the event log.
type Log interface {
	Read(ctx context.Context, from uint64, limit int) ([]store.Record, error)
}

// Range of sequences to replay, both ends included. To 0 is the head.
type Range struct{ From, To uint64 }

func (r Range) contains(seq uint64) bool { return seq >= r.From && (r.To == 0 || seq <= r.To) }

// Report of a replay.
type Report struct {
	// Records that were read, from 1 to Head; Decisions of them in the range.
	Records, Decisions int
	Head               uint64
	// Checkpoints of the Ledger that were compared with the fold.
	Checkpoints int
	// Planned counts the decisions that were planned again from their Snapshot, Derived those that were
	// derived again from an input that their record carries; diverged ones are included. Explained counts
	// those of both whose explanations were compared too: the others have none, or it was omitted to save
	// room.
	Planned, Derived, Explained int
	Divergences                 []Divergence
	NotReplayable               []Span
}

// Divergence is a decision that would come out differently today.
type Divergence struct {
	Seq     uint64
	Kind    ledger.Kind
	Service string
	// Recorded and Planned are digests of kind and payload; Planned is "" if nothing was decided.
	Recorded, Planned string
	// Detail names the first difference of the payloads.
	Detail string
	again
}

// again is what a decision comes to now.
type again struct {
	// Decision is nil if nothing is decided, or if the record carries what it was derived from.
	Decision *planner.Decision
	// Explanation is what it is explained with now.
	Explanation any
}

// Span of decisions, in the order of sequences, that could not be replayed for one reason.
type Span struct {
	From, To uint64
	Count    int
	Reason   string
}

// Replayed counts the decisions that were taken again.
func (r Report) Replayed() int { return r.Planned + r.Derived }

// Skipped counts the decisions that were not.
func (r Report) Skipped() (n int) {
	for _, s := range r.NotReplayable {
		n += s.Count
	}
	return n
}

// Counts says how many decisions were replayed in which way.
func (r Report) Counts() string {
	return fmt.Sprintf("%d planned again from their Snapshot, %d derived from a recorded input, %d not replayable; %d explanations compared",
		r.Planned, r.Derived, r.Skipped(), r.Explained)
}

// Summary is the last line millctl prints.
func (r Report) Summary() string {
	return fmt.Sprintf("%d decisions replayed, %d divergences", r.Replayed(), len(r.Divergences))
}

// Replay takes the decisions of a range again, as many at a time as there are processors, and compares
// them and their explanations with their records, and checkpoints of the Ledger with the fold. The Ledger
// is rebuilt from the log, or from a checkpoint well before the range, the World from the stream's
// checkpoints and messages; with a nil stream, decisions that need a World are not replayed. It returns an
// error only if the log or the stream cannot be read.
func Replay(ctx context.Context, log Log, stream Stream, r Range) (Report, error) {
	return newReplayer(runtime.GOMAXPROCS(0)).replay(ctx, log, stream, r)
}

// ReplayBeside is Replay that takes one decision again at a time, for processes that have other work to do.
func ReplayBeside(ctx context.Context, log Log, stream Stream, r Range) (Report, error) {
	return newReplayer(1).replay(ctx, log, stream, r)
}

func (p *replayer) replay(ctx context.Context, log Log, stream Stream, r Range) (Report, error) {
	defer p.planning.Wait()
	p.renamed.log, _ = log.(Renamed)
	if err := p.readLog(ctx, log, r); err != nil {
		return p.report, err
	}
	if err := p.checkCheckpoints(); err != nil {
		return p.report, err
	}
	if err := p.replayWorlds(ctx, stream); err != nil {
		return p.report, err
	}
	p.noteAll(0)
	p.finish()
	return p.report, nil
}

func newReplayer(workers int) *replayer {
	return &replayer{found: map[uint64]*begun[provision.Search]{}, reasons: map[uint64]string{}, slots: make(chan struct{}, workers)}
}

// replayer holds one replay.
type replayer struct {
	// visit is called instead of planning again; nil: it is planned. searches are the Snapshots of searches
	// whose confirmation was not visited yet, by the record's sequence.
	visit    func(Visit)
	searches map[uint64]*planner.Snapshot

	report Report
	// renamed is the log, if its names are pseudonyms.
	renamed renamed
	// begin is the Ledger that the entries continue; nil if they are the whole log.
	begin   *ledger.Ledger
	entries []ledger.Entry
	// todo are the decisions that need a World, by position; found are the plans of searches that their
	// records confirm, by the record's sequence.
	todo    []task
	found   map[uint64]*begun[provision.Search]
	ledgers ledgers
	// slots bound what is planned at a time; waiting are the outcomes to come, in the order of todo.
	slots    chan struct{}
	planning sync.WaitGroup
	waiting  []*begun[compared]
	// pass is the one whose commands are being replayed.
	pass pass
	// reasons why a decision was not replayed, by sequence.
	reasons map[uint64]string
	// decided are the sequences of the range's decisions, for spans.
	decided []uint64
}

const readBatch = 500

// Replayable reports that Replay takes an entry again with the planners of this version, unless what it
// needs is lost.
func Replayable(e ledger.Entry) bool {
	switch {
	case slices.Contains(derived, e.Kind):
		return true
	case !IsDecision(e) || e.PlannerVersion != planner.Version:
		return false
	}
	return planners[e.Kind] != nil || startedBy(e) != nil
}

// derived kinds carry the facts that they follow from.
var derived = []ledger.Kind{ledger.KindClaimDoomed, ledger.KindDriftJudged, ledger.KindSurgeDecided}

// readLog reads everything up to the end of the range and replays at once what carries its own input.
func (p *replayer) readLog(ctx context.Context, log Log, r Range) error {
	next, err := p.start(ctx, log, r)
	if err != nil {
		return err
	}
	for r.To == 0 || next <= r.To {
		records, err := log.Read(ctx, next, readBatch)
		if isCompacted(err) && p.begin == nil {
			if next, err = p.startLate(ctx, log, err); err == nil {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("read log from %d: %w", next, err)
		}
		if len(records) == 0 {
			break
		}
		for _, rec := range records {
			if r.To != 0 && rec.Seq > r.To {
				return nil
			}
			if err := p.addRecord(rec, r); err != nil {
				return err
			}
		}
		next = records[len(records)-1].Seq + 1
	}
	return nil
}

func isCompacted(err error) bool { return errors.Is(err, store.ErrCompacted) }

func (p *replayer) addRecord(rec store.Record, r Range) error {
	e, err := Decode(rec)
	if err != nil {
		return err
	}
	p.entries = append(p.entries, e)
	p.report.Records++
	p.report.Head = e.Seq
	if !r.contains(e.Seq) {
		return nil
	}
	switch {
	case p.skipWithheld(e):
	case p.skipDerived(e):
	case e.Kind == ledger.KindClaimDoomed:
		p.decision(e)
		p.replayDoomed(e)
	case e.Kind == ledger.KindDriftJudged:
		p.decision(e)
		p.replayDrift(e)
	case e.Kind == ledger.KindSurgeDecided:
		p.decision(e)
		p.replaySurge(e)
	case IsDecision(e) && !observed[e.Kind]:
		p.decision(e)
		if search, ok := searchOf(e); ok {
			p.todo = append(p.todo, task{search, true})
		}
		p.todo = append(p.todo, task{e, false})
	}
	return nil
}

// task is a decision to plan again. A confirmed one is two: before it comes its search, on a Snapshot of its
// own.
type task struct {
	ledger.Entry
	search bool
}

// searchOf is the entry as its search would have recorded it; false if it was not confirmed.
func searchOf(e ledger.Entry) (ledger.Entry, bool) {
	p, ok := e.Payload.(*ledger.ProvisioningPlanned)
	if !ok || p.Search == nil {
		return e, false
	}
	b := provision.BasisOf(p.Search)
	e.Position, e.LedgerSeq, e.Now, e.OptionsSeq = b.Position, b.LedgerSeq, b.Now, b.OptionsSeq
	return e, true
}

func (p *replayer) decision(e ledger.Entry) {
	p.report.Decisions++
	p.decided = append(p.decided, e.Seq)
}

// plan replays one decision on a Snapshot of versions at the recorded position.
func (p *replayer) plan(t task, s *planner.Snapshot) {
	e := t.Entry
	if s.OptionsSeq != e.OptionsSeq {
		p.skip(e, fmt.Sprintf("options of record %d were in force, the log says %d", e.OptionsSeq, s.OptionsSeq))
		return
	}
	_, confirmed := searchOf(e)
	again := planners[e.Kind]
	switch {
	case t.search:
		p.found[e.Seq] = begin(p, func() provision.Search { return searchAgain(s, e) })
		return
	case confirmed:
		p.confirm(e, s)
		return
	case startedBy(e) != nil:
		p.noteLater(p.replanCommand(e, s))
		return
	case again == nil:
		p.skip(e, fmt.Sprintf("no planner for %s in this version", e.Kind))
		return
	}
	p.noteLater(begin(p, func() compared { return compare(e, again(s, e)) }))
}

// confirm confirms the search of a decision again, unless that could not be replayed: why is said already.
func (p *replayer) confirm(e ledger.Entry, s *planner.Snapshot) {
	search, ok := p.found[e.Seq]
	delete(p.found, e.Seq)
	if !ok {
		return
	}
	p.noteLater(then(p, search, func(found provision.Search) compared {
		if found.Decision == nil {
			return compare(e, nil)
		}
		d, _ := provision.Confirm(found, s)
		return compare(e, d)
	}))
}

// compared is what came of a decision that was taken again.
type compared struct {
	explained  bool
	divergence *Divergence
}

func (p *replayer) note(c compared) {
	if c.explained {
		p.report.Explained++
	}
	if c.divergence != nil {
		p.report.Divergences = append(p.report.Divergences, *c.divergence)
	}
}

// compare a decision with its record; nil: nothing is decided.
func compare(e ledger.Entry, d *planner.Decision) compared {
	recorded := ledger.PayloadDigest(e.Kind, e.Payload)
	if d == nil {
		return diverges(e, recorded, "", "nothing is decided now", again{})
	}
	planned := ledger.PayloadDigest(d.Kind, d.Payload)
	switch {
	case planned == recorded:
		return compareExplanation(e, recorded, again{d, d.Explanation})
	case d.Kind != e.Kind:
		return diverges(e, recorded, planned, "decides "+d.Kind.String()+" now", again{d, d.Explanation})
	}
	return diverges(e, recorded, planned, firstDifference(e.Payload, d.Payload), again{d, d.Explanation})
}

// compareExplanation compares the explanation in a record with the present one. A record without any may have
// had to omit it.
func compareExplanation(e ledger.Entry, recorded string, a again) (c compared) {
	if len(e.Explanation) == 0 {
		return c
	}
	_, explained, err := Encode(nil, a.Explanation)
	switch {
	case err != nil:
		c = diverges(e, recorded, recorded, err.Error(), a)
	case !bytes.Equal(explained, e.Explanation):
		c = diverges(e, recorded, recorded, "explanation: "+firstDifference(json.RawMessage(e.Explanation), json.RawMessage(orNull(explained))), a)
	}
	c.explained = true
	return c
}

func orNull(b []byte) []byte {
	if len(b) == 0 {
		return []byte("null")
	}
	return b
}

func diverges(e ledger.Entry, recorded, planned, detail string, a again) compared {
	return compared{divergence: &Divergence{Seq: e.Seq, Kind: e.Kind, Service: e.Service, Recorded: recorded, Planned: planned, Detail: detail, again: a}}
}

func (p *replayer) skip(e ledger.Entry, reason string) { p.reasons[e.Seq] = reason }

// finish sorts the divergences and joins neighbours that were not replayed for the same reason.
func (p *replayer) finish() {
	slices.SortFunc(p.report.Divergences, func(a, b Divergence) int { return int(int64(a.Seq) - int64(b.Seq)) })
	var open *Span
	for _, seq := range p.decided {
		reason, skipped := p.reasons[seq]
		switch {
		case !skipped:
			open = nil
		case open != nil && open.Reason == reason:
			open.To, open.Count = seq, open.Count+1
		default:
			p.report.NotReplayable = append(p.report.NotReplayable, Span{From: seq, To: seq, Count: 1, Reason: reason})
			open = &p.report.NotReplayable[len(p.report.NotReplayable)-1]
		}
	}
}
