package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// waitLimit bounds each wait; it is generous, since machines are slow at times.
	waitLimit = 2 * time.Minute
	pollEvery = 250 * time.Millisecond
	// tryLimit bounds one attempt: a server that was killed may leave a call without an answer.
	tryLimit = 10 * time.Second
	// remindEvery is how often a long wait prints what it is waiting for.
	remindEvery = 15 * time.Second
)

// progress prints lines with the seconds since the start.
type progress struct {
	w     io.Writer
	start time.Time
}

func newProgress(w io.Writer) *progress { return &progress{w, time.Now()} }

func (p *progress) say(format string, args ...any) {
	fmt.Fprintf(p.w, "%4d s  %s\n", int(time.Since(p.start).Seconds()), fmt.Sprintf(format, args...))
}

// await polls until met returns "", which otherwise says what is missing.
func (p *progress) await(ctx context.Context, what string, met func(context.Context) string) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	remind := time.Now().Add(remindEvery)
	for {
		missing := look(ctx, met)
		if missing == "" {
			return nil
		}
		if time.Now().After(remind) {
			p.say("  waiting for %s: %s", what, missing)
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
