package retention_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/retention"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit/relief"
	"millwright/store/etcdlog"
)

const smallQuota = 16 << 20

// full fills a database until it takes no more, with a checkpoint of the Ledger on the way, and stops it.
func full(t *testing.T, dir, archives string) {
	t.Run("fill it", func(t *testing.T) {
		d := openAt(t, dir, archives, smallQuota)
		r := lead(t, d.log, d.elector)
		k := d.keeper(r, nil, retention.Policy{Every: 300})
		var err error
		for n := 0; err == nil && n < 100_000; n++ {
			if n == 1000 {
				r.keep(k)
			}
			_, err = d.log.Append(bounded(t), decision(t, n))
		}
		if err == nil {
			t.Fatal("a small database took everything")
		}
	})
}

// The database is full, and everything is started anew: nobody can lead until somebody who does not has made
// room.
func TestAFullDatabaseRecoversAfterARestartOfEverything(t *testing.T) {
	dir, archives := filepath.Join(t.TempDir(), "etcd"), t.TempDir()
	full(t, dir, archives)
	d := openAt(t, dir, archives, smallQuota)
	hurried, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := d.elector.Campaign(hurried, store.Candidacy{Service: ledger.ServiceLifecycle, Identity: "too early"}); err == nil {
		t.Fatal("the database is not full: the test shows nothing")
	}
	log := archive.Join(d.log, d.dir)
	guard := retention.NewGuard(d.log, log, d.dir, "test", zerolog.Nop())
	if err := guard.Look(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := guard.Check(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	r := lead(t, log, d.elector)
	d.write(t, 0, 100)
	r.keep(d.keeper(r, d.dir, retention.Policy{Every: 50}))
	if base, err := d.log.Base(bounded(t)); err != nil || base.Seq < 900 {
		t.Errorf("live from %d on, %v", base.Seq+1, err)
	}
	if _, err := log.Verify(bounded(t)); err != nil {
		t.Error(err)
	}
}

// lame is a database one member of which is away: it cannot be made smaller, and that is reported after the
// others were.
type lame struct{ *etcdlog.Log }

func (l lame) Defragment(ctx context.Context) error {
	return errors.Join(l.Log.Defragment(ctx), errors.New("status of etcd member-2: no answer"))
}

// A full database is brought back though one member of etcd is away, its records too if it takes that.
func TestAFullDatabaseRecoversWhileAMemberIsAway(t *testing.T) {
	dir, archives := filepath.Join(t.TempDir(), "etcd"), t.TempDir()
	full(t, dir, archives)
	d := openAt(t, dir, archives, smallQuota)
	log := archive.Join(d.log, d.dir)
	guard := retention.NewGuard(lame{d.log}, log, d.dir, "test", zerolog.Nop())
	if err := guard.Look(bounded(t)); err != nil {
		t.Error(err)
	}
	if err := guard.Check(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if base, err := d.log.Base(bounded(t)); err != nil || base.Seq < 900 {
		t.Errorf("live from %d on, %v", base.Seq+1, err)
	}
	lead(t, log, d.elector)
	if _, err := log.Verify(bounded(t)); err != nil {
		t.Error(err)
	}
}

// Without an archive the history of keys is all there is to give up.
// earlier is an etcd before 3.6, which does not report its quota: 2 GiB are assumed.
type earlier struct {
	*etcdlog.Log
	used         int64
	defragmented int
}

func (e *earlier) Usage(ctx context.Context) (store.Usage, error) {
	u, err := e.Log.Usage(ctx)
	u.QuotaBytes, u.Assumed = 2<<30, true
	if e.used > 0 {
		u.FileBytes, u.UsedBytes = e.used, e.used
	}
	return u, err
}

func (e *earlier) Defragment(ctx context.Context) error {
	e.defragmented++
	return e.Log.Defragment(ctx)
}

func TestAnEtcdThatDoesNotReportItsQuotaIsNotRelievedBeforeItIsFull(t *testing.T) {
	etcd := &earlier{Log: openDatabase(t, smallQuota).log, used: 5 << 29}
	guard := retention.NewGuard(etcd, etcd, nil, "test", zerolog.Nop())
	if err := guard.Look(bounded(t)); err != nil {
		t.Error(err)
	}
	if err := guard.Check(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if etcd.defragmented > 0 {
		t.Error("it is defragmented")
	}
}

// Its quota may be smaller than what is assumed: once it is full, records go into the archive however little
// that seems to be.
func TestAnEtcdThatDoesNotReportItsQuotaIsRelievedWhenItIsFull(t *testing.T) {
	dir, archives := filepath.Join(t.TempDir(), "etcd"), t.TempDir()
	full(t, dir, archives)
	d := openAt(t, dir, archives, smallQuota)
	guard := retention.NewGuard(&earlier{Log: d.log}, archive.Join(d.log, d.dir), d.dir, "test", zerolog.Nop())
	if err := guard.Look(bounded(t)); err != nil {
		t.Error(err)
	}
	if base, err := d.log.Base(bounded(t)); err != nil || base.Seq < 900 {
		t.Errorf("live from %d on, %v", base.Seq+1, err)
	}
}

func TestAFullDatabaseWithoutAnArchiveSaysWhatHelps(t *testing.T) {
	dir, archives, quota := filepath.Join(t.TempDir(), "etcd"), t.TempDir(), int64(smallQuota)
	full(t, dir, t.TempDir())
	t.Run("used up", func(t *testing.T) {
		d := openAt(t, dir, t.TempDir(), smallQuota)
		guard := retention.NewGuard(d.log, d.log, nil, "test", zerolog.Nop())
		err := guard.Look(bounded(t))
		for range 2 { // what the history gave back is used up
			fill(t, d.log)
			err = guard.Look(bounded(t))
		}
		if ready := guard.Check(); ready == nil || !strings.Contains(ready.Error(), "archive") {
			t.Errorf("ready: %v", ready)
		}
		if err != nil && (!errors.Is(err, relief.ErrFull) || !strings.Contains(err.Error(), "archive directory")) {
			t.Errorf("got %v", err)
		}
		// The operator names a directory. Where not even the mark of what is archived has room any more, he
		// raises the quota too.
		dir := archive.Open(archives, d.log.ID())
		guard = retention.NewGuard(d.log, archive.Join(d.log, dir), dir, "test", zerolog.Nop())
		if err := guard.Look(bounded(t)); err != nil {
			t.Log(err)
			quota = 2 * smallQuota
		}
	})
	d := openAt(t, dir, archives, quota)
	log := archive.Join(d.log, d.dir)
	guard := retention.NewGuard(d.log, log, d.dir, "test", zerolog.Nop())
	if err := guard.Look(bounded(t)); err != nil || guard.Check() != nil {
		t.Fatalf("%v; ready: %v", err, guard.Check())
	}
	lead(t, log, d.elector)
	if _, err := log.Verify(bounded(t)); err != nil {
		t.Error(err)
	}
}

// fill appends until nothing goes.
func fill(t *testing.T, log *etcdlog.Log) {
	t.Helper()
	for n := range 100_000 {
		if _, err := log.Append(bounded(t), decision(t, n)); err != nil {
			return
		}
	}
}
