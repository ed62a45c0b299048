package retention

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
)

// Defaults of a Policy.
const (
	// EveryDefault is how many records lie between checkpoints of the Ledger (DESIGN §4).
	EveryDefault = 10000
	// AgeDefault and RecordsDefault limit what stays live.
	AgeDefault     = 7 * 24 * time.Hour
	RecordsDefault = 200000
)

const (
	// roundEvery is how often the log is checked, archiveEvery how often it is checked for something old
	// enough to be archived.
	roundEvery   = 5 * time.Second
	archiveEvery = time.Minute
	// forgetEvery is how long etcd keeps the history of keys.
	forgetEvery = 5 * time.Minute
	// collectEvery is how often blobs that no record names are looked for.
	collectEvery = 10 * time.Minute
	// roundTimeout bounds one round.
	roundTimeout = 10 * time.Minute
)

// Host is the part of step.Host that a Keeper needs.
type Host interface {
	Now() time.Time
	Ledger(fn func(*ledger.Ledger) error) error
	// Note appends a record in any mode, under the leadership in force.
	Note(ctx context.Context, kind ledger.Kind, payload any, aggregate string, expect uint64) error
	// Retire appends a record of audit.RetirementDrafts, under the leadership in force.
	Retire(ctx context.Context, draft store.Draft) error
	Event(e service.KubeEvent)
}

// Log is what a Keeper needs of the log; store.Log is one.
type Log interface {
	audit.CheckpointLog
	PutBlob(ctx context.Context, data []byte) (string, error)
	Head(ctx context.Context) (store.Head, error)
}

// Database is a log that can be archived and made smaller; etcdlog.Log is one.
type Database interface {
	archive.Live
	Usage(ctx context.Context) (store.Usage, error)
	// Revision and Forget: the history of keys before a revision is discarded.
	Revision(ctx context.Context) (int64, error)
	Forget(ctx context.Context, revision int64) error
	Defragment(ctx context.Context) error
	Disarm(ctx context.Context) error
	// Blobs returns the blobs with the revision of their last put; DeleteBlob deletes one that was not put
	// since.
	Blobs(ctx context.Context) (map[string]int64, error)
	DeleteBlob(ctx context.Context, hash string, revision int64) (bool, error)
}

// Signer signs heads of the log, or says soon why not; heads.Signer and heads.RemoteSigner are such.
type Signer interface {
	Sign(ctx context.Context, head store.Head, now time.Time) (*ledger.SignedHead, error)
}

// Policy says what stays in the live log. Zero values mean the defaults.
type Policy struct {
	// Every is how many records lie between checkpoints.
	Every uint64
	// Age and Records: records that are older, or further back, are archived.
	Age     time.Duration
	Records uint64
	// Grace is how long a blob that no record names is kept: an append may be about to name it.
	Grace time.Duration
}

// Config of a Keeper.
type Config struct {
	Host Host
	Log  Log
	// Database of the log; nil: it is neither archived nor compacted.
	Database Database
	Cluster  string
	// Archive is where old records go; nil: they stay.
	Archive *archive.Archive
	// Signer signs the head of the log at each checkpoint; nil: nobody does.
	Signer     Signer
	Policy     Policy
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Keeper maintains one log. Its methods are for one goroutine.
type Keeper struct {
	cfg       Config
	metrics   *metrics
	archiver  *archive.Archiver
	collector *collector
	// blind: etcd did not report its usage when it was last asked.
	blind bool
	// raised are the alarms on record that are not over.
	raised map[string]bool
	// archived, forgotten and collected are when that was last done; revision is etcd's at the time of
	// forgotten.
	archived, forgotten, collected time.Time
	revision                       int64
}

// New returns a Keeper that does nothing until Run.
func New(cfg Config) *Keeper {
	p := &cfg.Policy
	if p.Every == 0 {
		p.Every = EveryDefault
	}
	if p.Age == 0 {
		p.Age = AgeDefault
	}
	if p.Records == 0 {
		p.Records = RecordsDefault
	}
	if p.Grace == 0 {
		p.Grace = graceDefault
	}
	k := &Keeper{cfg: cfg, metrics: newMetrics(cfg.Registerer), raised: map[string]bool{}}
	if cfg.Database != nil {
		k.collector = newCollector(cfg.Database, p.Grace)
	}
	if cfg.Database != nil && cfg.Archive != nil {
		k.archiver = archive.NewArchiver(archive.Config{Cluster: cfg.Cluster, Live: cfg.Database, Archive: cfg.Archive, Note: k.noteSegment})
	}
	return k
}

// Run maintains the log until ctx ends, while the host leads.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounded, cancel := context.WithTimeout(ctx, roundTimeout)
		err := k.Round(bounded)
		cancel()
		if err != nil && ctx.Err() == nil {
			k.metrics.failures.Inc()
			k.cfg.Logger.Warn().Err(err).Dur("retry_in", roundEvery).Msg("log not looked after")
		}
	}
}

// Round does once whatever is due.
func (k *Keeper) Round(ctx context.Context) error {
	if k.cfg.Database == nil {
		_, err := k.checkpoint(ctx, k.cfg.Policy.Every)
		return err
	}
	u := k.usage(ctx)
	if u.NoSpace {
		return errFull // Guard relieves it
	}
	eager, every := u.Level() >= store.ArchiveEagerlyFrom, k.cfg.Policy.Every
	if eager {
		every = max(every/10, 1)
	}
	written, err := k.checkpoint(ctx, every)
	if err != nil {
		return err
	}
	if err := k.alarm(ctx, u); err != nil {
		return err
	}
	moved, err := k.archive(ctx, eager, written)
	return errors.Join(err, k.tidy(ctx, eager, moved)) // there is room to make whether or not records can be archived
}

// usage is zero while etcd does not report it, as to users without the role root: then only age and number
// decide.
func (k *Keeper) usage(ctx context.Context) store.Usage {
	u, err := k.cfg.Database.Usage(ctx)
	if err != nil && !k.blind && ctx.Err() == nil {
		k.cfg.Logger.Warn().Err(err).Msg("usage of the log's database is not known")
	}
	k.blind = err != nil
	if err != nil {
		return store.Usage{}
	}
	return u
}

var errFull = errors.New("the database of the log is full")

// since reports that something was last done a time ago, or never.
func (k *Keeper) since(last time.Time, d time.Duration) bool {
	return last.IsZero() || k.cfg.Host.Now().Sub(last) >= d
}
