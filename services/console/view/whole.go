package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millwright/events"
	"millwright/services/internal/clock"
	"millwright/store"
	"millwright/store/audit"
)

// ErrAsking: something of the same person that takes long is being worked out.
var ErrAsking = errors.New("your last bundle, replay, verification or shadow report has not ended yet")

const (
	// wholeMax bounds what reads much of the log and takes minutes: half a core each.
	wholeMax = 2
	// BundleTimeMax, ReplayTimeMax and VerifyTimeMax are how long each may take.
	BundleTimeMax = 15 * time.Minute
	ReplayTimeMax = 30 * time.Minute
	VerifyTimeMax = 30 * time.Minute
	// workFor is how long is worked without a pause, pauseMax bounds that, and toldEvery is how often it is
	// said how far it has come.
	workFor   = 20 * time.Millisecond
	pauseMax  = 5 * time.Second
	toldEvery = time.Second
)

// Progress is how far something has come: all before Record is done, and Message is the observation that was
// read last, of which LastMessage is the last where that is known.
type Progress struct {
	Record      uint64 `json:"record"`
	Last        uint64 `json:"last"`
	Message     uint64 `json:"message,omitempty"`
	LastMessage uint64 `json:"lastMessage,omitempty"`
}

// Tell sends what is known so far; an error of it ends the work.
type Tell func(event string, value any) error

// EventProgress is the event of a Progress.
const EventProgress = "progress"

// wholly runs fn in a place of its own, until it ends or its time is over. What the planners panic on is the
// question's fault.
func wholly[T any](ctx context.Context, v *View, who string, most time.Duration, fn func(context.Context) (T, error)) (made T, err error) {
	leave, err := v.whole.enter(who)
	if err != nil {
		return made, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%w: it takes longer than %s", ErrQuestion, most))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the planner failed on it: %v", ErrQuestion, p)
		}
	}()
	made, err = fn(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return made, err
}

// pace has one goroutine work half of the time, and tells how far it is.
type pace struct {
	ctx         context.Context //nolint:containedctx // it lives as long as one call
	tell        Tell
	began, told time.Time
	at          Progress
}

func newPace(ctx context.Context, tell Tell, last uint64) *pace {
	now := time.Now()
	return &pace{ctx: ctx, tell: tell, began: now, told: now, at: Progress{Last: last}}
}

// step is called after a piece of work.
func (p *pace) step() error {
	worked := time.Since(p.began)
	if worked < workFor {
		return p.ctx.Err()
	}
	if err := clock.Sleep(p.ctx, min(worked, pauseMax)); err != nil {
		return err
	}
	p.began = time.Now()
	if p.tell == nil || p.began.Sub(p.told) < toldEvery {
		return nil
	}
	p.told = p.began
	return p.tell(EventProgress, p.at)
}

// pacedLog is a log that is read at a pace.
type pacedLog struct {
	store.Log
	pace *pace
}

func (l pacedLog) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	page, err := l.Log.Read(ctx, from, limit)
	if err == nil {
		err = l.pace.step()
	}
	return page, err
}

// pacedStream is a stream that is read at a pace.
type pacedStream struct {
	audit.Stream
	pace *pace
}

// stream at a pace; nil for none.
func (p *pace) stream(s audit.Stream) audit.Stream {
	if s == nil {
		return nil
	}
	return pacedStream{s, p}
}

func (s pacedStream) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	return s.Stream.Consume(ctx, from, func(m events.Message) error {
		if err := fn(m); err != nil {
			return err
		}
		s.pace.at.Message = m.Sequence
		return s.pace.step()
	})
}
