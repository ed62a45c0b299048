package retention

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"millwright/services/internal/clock"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit/relief"
)

const (
	// guardEvery is how often a Guard checks the database.
	guardEvery = 10 * time.Second
	// guardPause is the longest pause before it relieves, so that several processes rarely do it at once.
	guardPause = 2 * time.Second
)

// Guard relieves the log's database when it is full, whoever leads: with a full database nobody can lead. It
// runs in each process that can maintain the log, for as long as that runs.
type Guard struct {
	cfg    relief.Config
	logger zerolog.Logger
	// trouble is why the process is not ready, "" if nothing is wrong.
	trouble atomic.Pointer[string]
}

// NewGuard returns a Guard that does nothing until Run.
func NewGuard(database Database, log Log, to *archive.Archive, cluster string, logger zerolog.Logger) *Guard {
	return &Guard{cfg: relief.Config{Cluster: cluster, Database: database, Log: log, Archive: to}, logger: logger}
}

// Run watches the database until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	if g.cfg.Archive == nil {
		g.logger.Warn().Msg("nothing is archived without --archive-dir: some day the log's database will be full; millctl status says when")
	}
	for ctx.Err() == nil {
		if err := g.Look(ctx); err != nil && ctx.Err() == nil {
			g.logger.Error().Err(err).Dur("retry_in", guardEvery).Msg("log not relieved")
		}
		_ = clock.Sleep(ctx, guardEvery)
	}
	return nil
}

// Look relieves the database if it is full.
func (g *Guard) Look(ctx context.Context) error {
	u, err := g.cfg.Database.Usage(ctx)
	if err != nil {
		return nil // the Keeper says so, once
	}
	if u.Full() {
		_ = clock.Sleep(ctx, rand.N(guardPause))
		if u, err = g.cfg.Database.Usage(ctx); err != nil || !u.Full() { // another process did it
			return nil
		}
		g.logger.Error().Int64("quota_bytes", u.QuotaBytes).Msg("database of the log is full")
		o, err := relief.Relieve(ctx, g.cfg)
		if err != nil {
			g.setTrouble(err.Error())
			return err
		}
		u = o.After
		g.logger.Warn().Int64("file_bytes_before", o.Before.FileBytes).Int64("file_bytes", u.FileBytes).Uint64("records", o.Archived).
			Str("kept", o.Kept).Str("large", o.Large).Msg("log relieved")
	}
	g.judge(u)
	return nil
}

// judge says what is wrong if the database is too full.
func (g *Guard) judge(u store.Usage) {
	text := ""
	switch {
	case u.Full():
		text = "the log's database is full"
	case u.Level() >= store.OmitExplanationsFrom && !u.Assumed && g.cfg.Archive == nil:
		text = fmt.Sprintf("the log's database uses %.0f %% of its %d MiB, and nothing can be archived without --archive-dir", 100*u.Level(), u.QuotaBytes>>20)
	}
	g.setTrouble(text)
}

func (g *Guard) setTrouble(text string) { g.trouble.Store(&text) }

// Check fails while the database is full, or nearly so and never archived.
func (g *Guard) Check() error {
	if text := g.trouble.Load(); text != nil && *text != "" {
		return fmt.Errorf("%s", *text)
	}
	return nil
}
