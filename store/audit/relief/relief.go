// Package relief restores a log whose database is full and no longer accepts writes.
//
// Guarantees: it needs no leadership and writes no record, since neither is possible then; it may run beside
// a leader, beside another instance of itself, and be interrupted at any point. What leaves the log is in the
// archive, verified. Not guaranteed: enough room. A log whose records cannot be archived needs a larger
// quota. Test with an embedded etcd with a small quota.
package relief

import (
	"context"
	"errors"
	"fmt"

	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
)

// Database of the log; etcdlog.Log is one.
type Database interface {
	archive.Live
	Usage(ctx context.Context) (store.Usage, error)
	// Forget discards the history of keys; Defragment releases free pages; Disarm makes the database accept
	// writes again.
	Forget(ctx context.Context, revision int64) error
	Defragment(ctx context.Context) error
	Disarm(ctx context.Context) error
}

// Config of Relieve.
type Config struct {
	Cluster  string
	Database Database
	// Log is the log with its archive, from which checkpoints are read.
	Log audit.CheckpointLog
	// Archive is where records go; nil: nowhere.
	Archive *archive.Archive
}

// Outcome of Relieve.
type Outcome struct {
	Before, After store.Usage
	// Archived records left the live log. Kept says why none did; "" if some did, or none had to.
	Archived uint64
	Kept     string
	// Large says why the file of some member is as large as before; "" if no member's is.
	Large string
}

// ErrFull: the database is still full.
var ErrFull = errors.New("the database of the log is full, with nothing left to take away: raise its quota")

// Relieve discards history, archives up to the newest checkpoint of the Ledger if more than half of the quota
// is still in use, or may be because that is only assumed, and makes the database accept writes again.
// ErrFull: it does not accept them. A member of the database that is unreachable does not hold it up.
func Relieve(ctx context.Context, cfg Config) (o Outcome, err error) {
	if o.Before, err = cfg.Database.Usage(ctx); err != nil {
		return o, fmt.Errorf("relieve the log: %w", err)
	}
	var large error
	if o.After, large, err = makeRoom(ctx, cfg.Database); err != nil {
		return o, fmt.Errorf("relieve the log: %w", err)
	}
	if o.After.Level() >= store.ArchiveEagerlyFrom || o.After.Assumed && o.Before.NoSpace {
		if o.Kept, o.Archived, err = archiveRecords(ctx, cfg); err != nil {
			return o, fmt.Errorf("relieve the log: %w", errors.Join(err, large))
		}
	}
	if o.Archived > 0 {
		if o.After, large, err = makeRoom(ctx, cfg.Database); err != nil {
			return o, fmt.Errorf("relieve the log: %w", err)
		}
	}
	if large != nil {
		o.Large = large.Error()
	}
	if o.After.Full() {
		return o, fmt.Errorf("relieve the log: %w", errors.Join(ErrFull, kept(o.Kept), large))
	}
	return o, nil
}

func kept(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}

// makeRoom shrinks the file to what is in use, on the members where it can. large says why it is as large as
// before on others.
func makeRoom(ctx context.Context, db Database) (u store.Usage, large, err error) {
	if err := db.Forget(ctx, 0); err != nil {
		return u, nil, err
	}
	large = db.Defragment(ctx)
	if err := db.Disarm(ctx); err != nil {
		return u, large, errors.Join(err, large)
	}
	u, err = db.Usage(ctx)
	return u, large, err
}

// archiveRecords moves the records up to the newest usable checkpoint into the archive. This is not recorded
// in the log, since there might be no room for the record.
func archiveRecords(ctx context.Context, cfg Config) (why string, n uint64, err error) {
	if cfg.Archive == nil {
		return "nothing can be archived without an archive directory", 0, nil
	}
	l, err := audit.NewestLedger(ctx, cfg.Log, 0, func(error) {})
	if errors.Is(err, audit.ErrNoCheckpoint) {
		return "nothing can be archived before there is a checkpoint of the ledger", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	base, err := cfg.Database.Base(ctx)
	if err != nil {
		return "", 0, err
	}
	if l.Seq() <= base.Seq {
		return fmt.Sprintf("all up to the newest checkpoint, of record %d, is archived already", l.Seq()), 0, nil
	}
	a := archive.NewArchiver(archive.Config{Cluster: cfg.Cluster, Live: cfg.Database, Archive: cfg.Archive})
	n, err = a.Archive(ctx, l.Seq())
	return "", n, err
}
