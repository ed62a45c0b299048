package outcome

import (
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// waitLimit bounds a wait; it is generous, since machines are slow at times.
	waitLimit = 2 * time.Minute
	pollEvery = 250 * time.Millisecond
	// tryLimit bounds one attempt: a server that was killed may leave a call without an answer.
	tryLimit = 10 * time.Second
	// remindEvery is how often a long wait prints what it is waiting for.
	remindEvery = 15 * time.Second
)

// Progress prints lines with the seconds since the start.
type Progress struct {
	w     io.Writer
	start time.Time
}

// NewProgress starts the clock.
func NewProgress(w io.Writer) *Progress { return &Progress{w, time.Now()} }

// Say prints a line.
func (p *Progress) Say(format string, args ...any) {
	fmt.Fprintf(p.w, "%4d s  %s\n", int(time.Since(p.start).Seconds()), fmt.Sprintf(format, args...))
}

// Await polls until met returns "", which otherwise says what is missing.
func (p *Progress) Await(ctx context.Context, what string, met func(context.Context) string) error {
	return p.AwaitFor(ctx, waitLimit, what, met)
}

// AwaitFor is Await with a limit of its own.
func (p *Progress) AwaitFor(ctx context.Context, limit time.Duration, what string, met func(context.Context) string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	remind := time.Now().Add(remindEvery)
	for {
		missing := look(ctx, met)
		if missing == "" {
			return nil
		}
		if time.Now().After(remind) {
			p.Say("  waiting for %s: %s", what, missing)
			remind = time.Now().Add(remindEvery)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %s", what, ctx.Err(), missing)
		case <-time.After(pollEvery):
		}
	}
}

func look(ctx context.Context, met func(context.Context) string) string {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	return met(ctx)
}
