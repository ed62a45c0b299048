package watcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"millwright/events"
	"millwright/services/internal/clock"
)

// errRenewed ends an epoch: the stream it was published to is no longer the one in force.
var errRenewed = errors.New("the stream was renewed")

// errTorn ends an epoch of which the stream lost messages.
var errTorn = errors.New("messages of the epoch are missing from the stream")

// A World that is torn for tornBeats heartbeats after the resync gets another one, at most each repairEvery.
const (
	tornBeats   = 3
	repairEvery = time.Minute
)

// sumsEvery is how often a heartbeat carries the sums of all kinds, against which each World is checked.
const sumsEvery = 10 * time.Second

// runEpoch publishes one epoch until it fails or ctx ends, and reports whether its resync was completed.
func (w *Watcher) runEpoch(ctx context.Context) (bool, error) {
	w.metrics.resyncs.Inc()
	state, err := w.cfg.Stream.State(ctx)
	if err != nil {
		return false, fmt.Errorf("state of the stream: %w", err)
	}
	number, err := w.nextEpoch(ctx, state)
	if err != nil {
		return false, err
	}
	// Nothing of an earlier epoch may still be in flight; its failure is why there is a new one.
	if err := w.flush(ctx); err != nil {
		w.cfg.Logger.Debug().Err(err).Msg("publishes of the epoch before were lost")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e := &epoch{w: w, incarnation: state.Incarnation, publisher: newPublisher(ctx, w, number, cancel)}
	w.cfg.Logger.Info().Uint64("epoch", number).Str("incarnation", state.Incarnation).Msg("epoch begins")
	err = e.run(ctx)
	w.memory.detach(e.publisher)
	return e.synced.Load(), err
}

func (e *epoch) run(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return fmt.Errorf("begin resync: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	listed := make(chan struct{})
	g.Go(func() error { return e.w.cfg.Kube.Watch(ctx, e.publisher, func() { close(listed) }) })
	g.Go(func() error { return e.finishResync(ctx, listed) })
	g.Go(func() error { return e.heartbeats(ctx) })
	err := g.Wait()
	if cause := context.Cause(e.publisher.ctx); cause != nil {
		return cause
	}
	return err
}

// begin publishes the mark and what is known of AWS. It waits until both are stored: if the bus is
// unreachable, nothing is requested from the API server.
func (e *epoch) begin(ctx context.Context) error {
	if err := e.publisher.publishMark(events.OpResyncBegin, nil); err != nil {
		return err
	}
	if err := e.w.memory.replay(ctx, e.publisher, e.w.cfg.Stream.Blobs()); err != nil {
		return err
	}
	if e.w.aws != nil {
		e.w.aws.Resync()
	}
	return e.publisher.flush(ctx)
}

// finishResync publishes the end of the resync once every object was published.
func (e *epoch) finishResync(ctx context.Context, listed <-chan struct{}) error {
	select {
	case <-listed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := e.w.waitAWS(ctx); err != nil {
		return err
	}
	if err := e.publisher.publishMark(events.OpResyncEnd, nil); err != nil {
		return err
	}
	if err := e.publisher.flush(ctx); err != nil {
		return err
	}
	e.synced.Store(true)
	e.w.cfg.Logger.Info().Uint64("epoch", e.publisher.epoch).Uint64("messages", e.publisher.published()).Msg("resync ended")
	return nil
}

// waitAWS waits for the first poll of EC2, so that the first resync of a process does not make consumers
// forget the catalogues. If EC2 does not answer, the cluster is served without it.
func (w *Watcher) waitAWS(ctx context.Context) error {
	aws, ok := w.aws.(interface{ Synced() bool })
	deadline := w.cfg.Clock().Add(w.cfg.AWSWait)
	for ok && !aws.Synced() {
		if w.cfg.Clock().After(deadline) {
			w.cfg.Logger.Warn().Dur("waited", w.cfg.AWSWait).Msg("resync ends without a poll of aws")
			return nil
		}
		if err := clock.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// heartbeats publishes one at each interval if all is well, and notices what no publish would: that
// acknowledgements failed and that the stream was renewed.
func (e *epoch) heartbeats(ctx context.Context) error {
	tick := time.NewTicker(e.w.cfg.HeartbeatEvery)
	defer tick.Stop()
	for {
		if err := e.heartbeat(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (e *epoch) heartbeat(ctx context.Context) error {
	w := e.w
	at := w.cfg.Clock() // before the request: what happened by then has been seen
	if err := w.cfg.Kube.Alive(ctx); err != nil {
		w.metrics.heartbeatsWithheld.Inc()
		w.cfg.Logger.Debug().Err(err).Msg("heartbeat withheld")
	} else if err := e.publisher.heartbeat(at, w.progress(), e.sumsDue(at)); err != nil {
		return err
	}
	if err := e.publisher.flush(ctx); err != nil {
		return err
	}
	if err := e.checkStream(ctx); err != nil {
		return err
	}
	return e.checkTorn(at)
}

// sumsDue: while a resync runs, a World still holds what the resync will drop.
func (e *epoch) sumsDue(now time.Time) bool {
	if !e.synced.Load() || now.Sub(e.summed).Abs() < sumsEvery {
		return false
	}
	e.summed = now
	return true
}

// checkTorn: messages that a server lost after it had acknowledged them are noticed only in the fold, and so
// is a World that differs from the sums.
func (e *epoch) checkTorn(now time.Time) error {
	if !e.synced.Load() || !e.w.world.Torn() {
		e.torn = 0
		return nil
	}
	if e.torn++; e.torn < tornBeats || now.Sub(e.w.repaired).Abs() < repairEvery {
		return nil
	}
	e.w.repaired = now
	return errTorn
}

func (e *epoch) checkStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.w.cfg.FlushTimeout)
	defer cancel()
	state, err := e.w.cfg.Stream.State(ctx)
	if err != nil {
		return fmt.Errorf("state of the stream: %w", err)
	}
	e.w.metrics.streamLast.Set(float64(state.Last))
	e.w.first.Store(state.First)
	if state.Incarnation != e.incarnation {
		return fmt.Errorf("%s is in force, not %s: %w", state.Incarnation, e.incarnation, errRenewed)
	}
	return nil
}

func (w *Watcher) progress() map[string]string {
	progress := w.cfg.Kube.Progress()
	if progress == nil {
		progress = map[string]string{}
	}
	w.memory.progress(progress)
	return progress
}

func (w *Watcher) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.FlushTimeout)
	defer cancel()
	return w.cfg.Stream.Flush(ctx)
}

// nextEpoch is above the last one published and, even if the stream lost that, above all earlier ones: its
// high bits are milliseconds, its low 16 bits come from the log-id.
func (w *Watcher) nextEpoch(ctx context.Context, state events.StreamState) (uint64, error) {
	reading, cancel := context.WithTimeout(ctx, w.cfg.FlushTimeout)
	defer cancel()
	last, err := lastEpoch(reading, w.cfg.Stream, state)
	if err != nil {
		return 0, fmt.Errorf("find the last epoch: %w", err)
	}
	high := max(uint64(max(w.cfg.Clock().UnixMilli(), 1)), last>>16+1)
	return high<<16 | logBits(w.cfg.LogID), nil
}

func logBits(logID string) uint64 {
	var bits uint64
	for _, c := range []byte(logID) {
		bits = bits*31 + uint64(c)
	}
	return bits & 0xffff
}

// lastEpoch reads the last message; 0 if there is none or it cannot be read.
func lastEpoch(ctx context.Context, s events.Stream, state events.StreamState) (uint64, error) {
	if state.First > state.Last {
		return 0, nil
	}
	var last uint64
	enough := errors.New("enough")
	err := s.Consume(ctx, state.Last, func(m events.Message) error {
		if o, err := events.Decode(m.Data); err == nil || errors.Is(err, events.ErrUnknownKind) {
			last = o.Epoch
		}
		return enough
	})
	if errors.Is(err, enough) || errors.Is(err, events.ErrCompacted) {
		return last, nil
	}
	return 0, err
}
