package audit

import (
	"context"
	"errors"
	"fmt"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store"
)

// ErrUnsynced: the observation stream holds no complete view of the cluster yet; a later attempt may find
// one.
var ErrUnsynced = errors.New("the observation stream holds no complete view of the cluster yet")

// Present returns the World and the Ledger as of now: what a service that starts now would plan on. Both
// belong to the caller. It returns ErrUnsynced before the first resync has ended.
func Present(ctx context.Context, log CheckpointLog, stream Stream) (*world.World, *ledger.Ledger, error) {
	l, err := PresentLedger(ctx, log)
	if err != nil {
		return nil, nil, err
	}
	w, err := presentWorld(ctx, stream)
	if err != nil {
		return nil, nil, err
	}
	return w, l, nil
}

// PresentLedger folds the log as it stands, from its newest checkpoint. The Ledger belongs to the caller.
func PresentLedger(ctx context.Context, log CheckpointLog) (*ledger.Ledger, error) {
	l, err := NewestLedger(ctx, log, 0, func(error) {})
	if errors.Is(err, ErrNoCheckpoint) {
		l, err = ledger.New(""), nil
	}
	if err != nil {
		return nil, err
	}
	for {
		records, err := log.Read(ctx, l.Seq()+1, readBatch)
		if err != nil && !(errors.Is(err, store.ErrCorrupt) && len(records) > 0) {
			return nil, fmt.Errorf("read log from %d: %w", l.Seq()+1, err)
		}
		for _, rec := range records {
			e, err := Decode(rec)
			if err != nil {
				return nil, err
			}
			if err := l.Apply(e); err != nil {
				return nil, err
			}
		}
		if len(records) < readBatch {
			return l, nil
		}
	}
}

// presentWorld folds the stream up to its end at the time of the call.
func presentWorld(ctx context.Context, stream Stream) (*world.World, error) {
	st, err := stream.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for stream state: %w", err)
	}
	w, err := start(ctx, stream.Blobs(), st, st.Last)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, ErrUnsynced
	}
	if w.Position().Sequence < st.Last {
		err = stream.Consume(ctx, w.Position().Sequence+1, func(m events.Message) error {
			if err := fold(ctx, stream, w, m); err != nil {
				return err
			}
			if m.Sequence >= st.Last {
				return errReached
			}
			return nil
		})
		if err != nil && !errors.Is(err, errReached) {
			return nil, fmt.Errorf("read stream: %w", err)
		}
	}
	if !w.Synced() {
		return nil, ErrUnsynced
	}
	return w, nil
}
