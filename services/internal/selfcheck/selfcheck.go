// Package selfcheck takes recorded decisions again while Millwright runs: a recent one every few minutes,
// on the Snapshot that it was taken on, and compares it with its record. A divergence is counted and named
// in the log.
//
// Guarantees: it decides, appends and holds up nothing; on average it uses 2 % of a core at most; one
// decision is taken again at a time, and none where the memory limit leaves no room for a second World.
// Not guaranteed: that every decision is checked; `millctl replay` does that. It runs beside the lifecycle
// service, in whichever process leads that. Test with Checker.Check, over any log and stream.
package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

const (
	// EveryDefault is how long it waits after a check, at least.
	EveryDefault = 5 * time.Minute
	// share is the part of a core that checks use at most: after one that took a time, it waits so many
	// times as long.
	share = 50
	// recentMax is how far before the head of the log a decision may lie to be checked, in records.
	recentMax = 500
	// checkTimeout bounds one check.
	checkTimeout = 5 * time.Minute
)

// Outcome of a check.
type Outcome string

// Outcomes. None: there was no decision that had not been checked.
const (
	None     Outcome = ""
	Same     Outcome = "same"
	Diverged Outcome = "diverged"
	// NotReplayable: the stream or the log does not have any more what the decision was taken on.
	NotReplayable Outcome = "not_replayable"
	// NoRoom: the memory limit leaves no room.
	NoRoom Outcome = "no_room"
	// Failed: log or stream could not be read, or the planner panicked.
	Failed Outcome = "failed"
)

var outcomes = []Outcome{Same, Diverged, NotReplayable, NoRoom, Failed}

// Log is what is read of the event log; store.Log is one.
type Log interface {
	audit.CheckpointLog
	Head(ctx context.Context) (store.Head, error)
}

// Config of a Checker.
type Config struct {
	Log    Log
	Stream audit.Stream
	// Every is how long to wait after a check, at least.
	Every time.Duration
	// Room says whether there is memory for a check; nil: by the memory limit of the process.
	Room       func() bool
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Checker of one log. Its methods are for one goroutine.
type Checker struct {
	cfg     Config
	metrics *checks
	// checked is the last decision that was checked, by kind.
	checked map[ledger.Kind]uint64
}

// New returns a Checker that does nothing until Run.
func New(cfg Config) *Checker {
	if cfg.Room == nil {
		cfg.Room = room
	}
	return &Checker{cfg: cfg, metrics: newMetrics(cfg.Registerer), checked: map[ledger.Kind]uint64{}}
}

// Run checks until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	wait := time.NewTimer(c.cfg.Every)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		began := time.Now()
		c.Check(ctx)
		wait.Reset(max(c.cfg.Every, share*time.Since(began)))
	}
}

// Check takes one decision again: the newest of the kind that has waited longest for it.
func (c *Checker) Check(ctx context.Context) Outcome {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	began := time.Now()
	e, outcome, err := c.check(bounded)
	if outcome == None || ctx.Err() != nil {
		return None
	}
	logger := c.cfg.Logger.With().Uint64("decision_id", e.Seq).Str("kind", e.Kind.String()).Str("decided_by", e.Service).Logger()
	switch {
	case err != nil:
		logger.Warn().Err(err).Dur("retry_in", c.cfg.Every).Msg("decision not taken again to compare it with its record")
	case outcome == Same:
		logger.Debug().Msg("decision is the same when it is taken again")
	}
	c.metrics.total.WithLabelValues(string(outcome)).Inc()
	c.metrics.duration.Observe(time.Since(began).Seconds())
	return outcome
}

func (c *Checker) check(ctx context.Context) (e ledger.Entry, outcome Outcome, err error) {
	defer func() {
		if p := recover(); p != nil { // of a planner, on what it did not panic on before: that is to be seen, and ends nothing
			outcome, err = Failed, fmt.Errorf("replay record %d: panic: %v", e.Seq, p)
		}
	}()
	e, err = c.next(ctx)
	if err != nil {
		return e, Failed, err
	}
	if e.Seq == 0 {
		return e, None, nil
	}
	c.checked[e.Kind] = e.Seq
	if !c.cfg.Room() {
		return e, NoRoom, errNoRoom
	}
	report, err := audit.Replay(ctx, c.cfg.Log, c.cfg.Stream, audit.Range{From: e.Seq, To: e.Seq})
	switch {
	case err != nil:
		return e, Failed, fmt.Errorf("replay record %d: %w", e.Seq, err)
	case len(report.Divergences) > 0:
		c.name(report.Divergences)
		return e, Diverged, nil
	case report.Replayed() == 0:
		return e, NotReplayable, fmt.Errorf("replay record %d: %s", e.Seq, reasonOf(report))
	}
	return e, Same, nil
}

var errNoRoom = errors.New("the memory limit leaves no room for a second picture of the cluster")

// reasonOf a decision that was not replayed.
func reasonOf(r audit.Report) string {
	if len(r.NotReplayable) == 0 {
		return "it is no decision that can be replayed"
	}
	return r.NotReplayable[len(r.NotReplayable)-1].Reason
}

// name the divergences in the log.
func (c *Checker) name(list []audit.Divergence) {
	for _, d := range list {
		c.cfg.Logger.Error().Uint64("decision_id", d.Seq).Str("kind", d.Kind.String()).Str("decided_by", d.Service).
			Str("recorded", d.Recorded).Str("planned", d.Planned).Str("difference", d.Detail).
			Msg("a recorded decision comes out differently when it is taken again")
	}
}

// next is the decision to check; its Seq is 0 if there is none. Of the kinds that have new decisions it
// takes the one that was checked longest ago, so that a kind that is frequent leaves none of the others
// unchecked.
func (c *Checker) next(ctx context.Context) (next ledger.Entry, err error) {
	head, err := c.cfg.Log.Head(ctx)
	if err != nil {
		return next, fmt.Errorf("read the log's head: %w", err)
	}
	from := head.Seq - min(head.Seq, recentMax-1)
	records, err := c.cfg.Log.Read(ctx, max(from, 1), recentMax)
	if err != nil && !errors.Is(err, store.ErrCompacted) { // it has become younger meanwhile: there will be others
		return next, fmt.Errorf("read log from %d: %w", from, err)
	}
	seen := map[ledger.Kind]bool{}
	for _, rec := range slices.Backward(records) {
		e, err := audit.Decode(rec)
		if err != nil || !audit.Replayable(e) || seen[e.Kind] {
			continue
		}
		seen[e.Kind] = true
		if e.Seq > c.checked[e.Kind] && (next.Seq == 0 || c.checked[e.Kind] < c.checked[next.Kind]) {
			next = e
		}
	}
	return next, nil
}

// room: what is alive is mostly the World; a second one is at most as large.
func room() bool {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return true
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Kind() != metrics.KindUint64 || live[0].Value.Uint64() <= uint64(limit)/2
}
