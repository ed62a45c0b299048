// Package effects starts what the parts of lifecycle do beside the step, and remembers when each of it may be
// tried again.
package effects

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"millwright/services/internal/backoff"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

const (
	// Timeout bounds one effect. A launch is the longest: templates, then CreateFleet.
	Timeout = time.Minute
	// RetryFirst is the pause after an effect that failed once.
	RetryFirst = time.Second
	retryMax   = time.Minute
	// stopPause is how often what an operator stopped is looked at.
	stopPause = time.Second
)

// Effects of one service.
type Effects struct {
	host service.Host
	// Retries by key: claim/<name>, nodepool/<name>, scan, …
	Retries *backoff.Keys
	ended   atomic.Bool
}

// New returns the effects of a service on this host.
func New(host service.Host) *Effects {
	return &Effects{host: host, Retries: backoff.New(RetryFirst, retryMax)}
}

// Start starts an effect that is about no claim alone.
func (e *Effects) Start(key string, l lane.Lane, fn func(ctx context.Context) error) {
	e.StartThen(key, l, fn, e.End)
}

// StartThen starts an effect and calls then once it ended; it reports whether the host took it.
func (e *Effects) StartThen(key string, l lane.Lane, fn func(ctx context.Context) error, then func()) bool {
	return e.host.Effect(key, l, Timeout, func(ctx context.Context) error {
		defer then()
		return fn(ctx)
	})
}

// End has the next step look at what there is to do.
func (e *Effects) End() { e.ended.Store(true) }

// Ended reports that an effect ended since it was last asked.
func (e *Effects) Ended() bool { return e.ended.Swap(false) }

// PutOff decides when an effect is tried again. A conflict is no failure, nor is a stop, nor a Snapshot that
// can't be had for a moment.
func (e *Effects) PutOff(key string, err error) error {
	switch now := e.host.Now(); {
	case errors.Is(err, service.ErrStopped):
		e.Hold(key, stopPause)
		return nil
	case kube.IsConflict(err), errors.Is(err, store.ErrConflict), errors.Is(err, service.ErrNotReady):
		e.Retries.Conflicted(key, now)
		return nil
	default:
		e.Retries.Failed(key, now)
		return err
	}
}

// Hold keeps a key from being tried for a while, which is no failure.
func (e *Effects) Hold(key string, d time.Duration) {
	now := e.host.Now()
	e.Retries.Hold(key, now.Add(d), now)
}

// Waits reports that the key is not to be tried yet.
func (e *Effects) Waits(key string) bool { return !e.Retries.Due(key, e.host.Now()) }

// Earliest returns the earlier one that is set.
func Earliest(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
