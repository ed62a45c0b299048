package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/world"
)

// Stream is what Replay reads of the observation stream; events.Stream is one.
type Stream interface {
	State(ctx context.Context) (events.StreamState, error)
	Consume(ctx context.Context, from uint64, fn func(events.Message) error) error
	Blobs() events.Blobs
}

// Decoder is a Stream that already has the messages decoded. Replay folds these instead of decoding again:
// they must equal what events.Decode and events.ResolveCatalog return for the message, and nobody may have
// changed them.
type Decoder interface {
	Decoded(m events.Message) events.Observation
}

// errReached ends Consume when the last position is folded.
var errReached = errors.New("position reached")

// replayWorlds folds the stream once and replays each decision when its position is reached.
func (p *replayer) replayWorlds(ctx context.Context, stream Stream) error {
	var err error
	if p.ledgers, err = newLedgers(p.begin, p.entries, p.renamed.replaced()); err != nil {
		return err
	}
	if stream == nil {
		p.skipAll("no observation stream at hand")
		return nil
	}
	st, err := stream.State(ctx)
	if err != nil {
		return fmt.Errorf("ask for stream state: %w", err)
	}
	p.sortTodo(st)
	if len(p.todo) == 0 {
		return nil
	}
	w, err := start(ctx, stream.Blobs(), st, p.todo[0].Position.Sequence)
	if err != nil {
		return err
	}
	if w == nil {
		p.skipAll(fmt.Sprintf("the stream retains messages from %d on and no checkpoint reaches them", st.First))
		return nil
	}
	return p.foldThrough(ctx, stream, w)
}

// sortTodo orders by position and omits what this stream or this version cannot answer.
func (p *replayer) sortTodo(st events.StreamState) {
	p.todo = slices.DeleteFunc(p.todo, func(e task) bool {
		switch {
		case e.PlannerVersion != planner.Version:
			p.skip(e.Entry, fmt.Sprintf("planned by version %d, this is %d", e.PlannerVersion, planner.Version))
		case e.Position.Incarnation != st.Incarnation:
			p.skip(e.Entry, "stream "+e.Position.Incarnation+" is not at hand")
		case e.Position.Sequence > st.Last:
			p.skip(e.Entry, fmt.Sprintf("the stream ends at %d", st.Last))
		default:
			return false
		}
		return true
	})
	slices.SortStableFunc(p.todo, func(a, b task) int {
		return cmp.Or(cmp.Compare(a.Position.Sequence, b.Position.Sequence), cmp.Compare(a.LedgerSeq, b.LedgerSeq), cmp.Compare(a.Seq, b.Seq))
	})
}

func (p *replayer) skipAll(reason string) {
	for _, e := range p.todo {
		p.skip(e.Entry, reason)
	}
	p.todo = nil
}

// start returns the World to fold from: the newest checkpoint at or before the position, else the first
// from which the stream continues, else an empty one if the stream is complete; nil if there is none.
func start(ctx context.Context, blobs events.Blobs, st events.StreamState, position uint64) (*world.World, error) {
	list, err := events.Checkpoints(ctx, blobs)
	if err != nil {
		return nil, err
	}
	whole := st.First <= 1
	var before, after []events.Checkpoint
	for _, c := range list {
		switch {
		case c.Incarnation != st.Incarnation || c.Sequence+1 < st.First:
		case c.Sequence <= position:
			before = append(before, c)
		case !whole:
			after = append(after, c)
		}
	}
	slices.Reverse(before)
	for _, c := range append(before, after...) {
		// If one cannot be read, because it was deleted since it was listed or is damaged, there are older
		// ones.
		if w, err := events.ReadCheckpoint(ctx, blobs, c, world.ReadCheckpoint); err == nil && w.Position().Incarnation == st.Incarnation {
			return w, nil
		}
	}
	if !whole {
		return nil, nil
	}
	w := world.New()
	w.SetIncarnation(st.Incarnation)
	return w, nil
}

// foldThrough folds message by message up to the last decision's position.
func (p *replayer) foldThrough(ctx context.Context, stream Stream, w *world.World) error {
	if p.due(w); len(p.todo) == 0 {
		return nil
	}
	err := stream.Consume(ctx, w.Position().Sequence+1, func(m events.Message) error {
		if err := fold(ctx, stream, w, m); err != nil {
			return err
		}
		if p.due(w); len(p.todo) == 0 {
			return errReached
		}
		return nil
	})
	switch {
	case errors.Is(err, errReached):
		return nil
	case errors.Is(err, events.ErrCompacted):
		p.skipAll("the stream dropped messages while it was read")
		return nil
	}
	return err
}

// fold is that of the services: what cannot be decoded is skipped, an object of an unknown kind is folded as
// such, and a lost or damaged catalogue unresolved.
func fold(ctx context.Context, stream Stream, w *world.World, m events.Message) error {
	_, err := folded(ctx, stream, w, m)
	return err
}

// folded is fold that returns what was folded; nothing if it could not be decoded.
func folded(ctx context.Context, stream Stream, w *world.World, m events.Message) (events.Observation, error) {
	if d, ok := stream.(Decoder); ok {
		o := d.Decoded(m)
		w.Apply(m.Sequence, o)
		return o, nil
	}
	o, err := events.Decode(m.Data)
	if err != nil && !errors.Is(err, events.ErrUnknownKind) {
		return events.Observation{}, nil
	}
	if err := events.ResolveCatalog(ctx, stream.Blobs(), &o, w.HoldsCatalog); err != nil && !events.BlobLost(err) {
		return o, fmt.Errorf("message %d: %w", m.Sequence, err)
	}
	w.Apply(m.Sequence, o)
	return o, nil
}

// FoldSince folds the stream up to its end at the time of the call, and calls seen for each message once
// it is folded; an error of seen ends it. It begins with the newest checkpoint that is as of the time or
// before; where there is none, with the oldest World that can be had. A World that is not synced was not
// seen whole yet.
func FoldSince(ctx context.Context, stream Stream, at time.Time, seen func(*world.World, events.Observation) error) error {
	st, err := stream.State(ctx)
	if err != nil {
		return fmt.Errorf("ask for stream state: %w", err)
	}
	w, err := worldAsOf(ctx, stream.Blobs(), st, at)
	switch {
	case err != nil:
		return err
	case w == nil:
		return ErrUnsynced
	case w.Position().Sequence >= st.Last:
		return nil
	}
	err = stream.Consume(ctx, w.Position().Sequence+1, func(m events.Message) error {
		o, err := folded(ctx, stream, w, m)
		if err != nil {
			return err
		}
		if err := seen(w, o); err != nil {
			return err
		}
		if m.Sequence >= st.Last {
			return errReached
		}
		return nil
	})
	if err != nil && !errors.Is(err, errReached) {
		return fmt.Errorf("read stream: %w", err)
	}
	return nil
}

// worldAsOf is the World to fold from for what happened since a time; nil if there is none.
func worldAsOf(ctx context.Context, blobs events.Blobs, st events.StreamState, at time.Time) (*world.World, error) {
	list, err := events.Checkpoints(ctx, blobs)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(list) {
		if c.Incarnation != st.Incarnation || c.Sequence+1 < st.First {
			continue
		}
		w, err := events.ReadCheckpoint(ctx, blobs, c, world.ReadCheckpoint)
		if err == nil && w.Position().Incarnation == st.Incarnation && !w.AsOf().IsZero() && !w.AsOf().After(at) {
			return w, nil
		}
	}
	return start(ctx, blobs, st, 0)
}

// due replays the decisions whose position the World has reached or passed.
func (p *replayer) due(w *world.World) {
	at := w.Position()
	for len(p.todo) > 0 && p.todo[0].Position.Sequence <= at.Sequence {
		t := p.todo[0]
		e := t.Entry
		p.todo = p.todo[1:]
		switch {
		case e.Position.Sequence < at.Sequence:
			p.skip(e, fmt.Sprintf("the stream is retained from %d on", at.Sequence))
		case e.Position.Digest != at.Digest:
			p.skip(e, "the stream's messages up to the position are not those that were folded")
		case missingCatalog(w) != "":
			p.skip(e, "the catalogue of NodeClass "+missingCatalog(w)+" is not at hand")
		default:
			p.planAt(t, w)
		}
	}
}

func missingCatalog(w *world.World) string {
	for _, name := range w.CatalogNames() {
		if !w.HasCatalog(name) {
			return name
		}
	}
	return ""
}

func (p *replayer) planAt(t task, w *world.World) {
	l, err := p.ledgers.at(t.LedgerSeq)
	if err != nil {
		p.skip(t.Entry, err.Error())
		return
	}
	s := planner.SnapshotAt(w.Version(), l.Version(), t.Now)
	if p.visit != nil {
		p.visited(t, s)
		return
	}
	p.plan(t, s)
}
