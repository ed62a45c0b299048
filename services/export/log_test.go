package export_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/etcdlog"
	"millwright/store/etcdlog/embedded"
	"millwright/store/memlog"
)

// etcdBench is a bench on a real etcd, with an archive.
func etcdBench(t *testing.T) (*bench, *etcdlog.Log, *archive.Archive) {
	t.Helper()
	server, err := embedded.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	log, err := etcdlog.Open(t.Context(), etcdlog.Config{Client: server.Client, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	a := archive.Open(t.TempDir(), log.ID())
	t.Cleanup(func() { _ = a.Close() })
	b := &bench{t: t, log: archive.Join(log, a), live: log, cursors: log, elector: etcdlog.NewElector(server.Client, "test", etcdlog.LeaseTTLAlone), logged: &logged{}}
	return b, log, a
}

// A sink that was away until what it has not seen left etcd gets it from the archive, while new records come.
func TestWhatIsArchivedMeanwhileIsSentFromTheArchive(t *testing.T) {
	b, log, a := etcdBench(t)
	var down atomic.Bool
	var asked atomic.Int64
	r := &receiver{answer: func([]event.Event) int {
		asked.Add(1)
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}}
	s := to(t, r)
	b.closed(20)
	stop := b.run(s)
	until(t, "they are there", func() bool { _, n := r.sequences(); return n == 21 })
	down.Store(true)
	b.closed(40)
	until(t, "they wait", func() bool {
		return b.metric("lag_records", "cloudevents") > 0 && b.metric("lag_seconds", "cloudevents") > 0
	})
	stop()
	if b.metric("lag_records", "cloudevents") != 0 || b.metric("lag_seconds", "cloudevents") != 0 {
		t.Error("who leads no more says that records wait")
	}
	archiver := archive.NewArchiver(archive.Config{Cluster: "test", Live: log, Archive: a})
	if _, err := archiver.Archive(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Read(t.Context(), 30, 1); err == nil {
		t.Fatal("nothing has left the log")
	}
	before := asked.Load()
	stop = b.run(s)
	until(t, "it was asked", func() bool { return asked.Load() > before })
	b.closed(5)
	down.Store(false)
	until(t, "all are there", func() bool { _, n := r.sequences(); return n == 66 })
	b.settled()
	stop()
	text, err := log.Cursor(t.Context(), "cloudevents")
	if err != nil || !strings.HasPrefix(text, `{"seq":66,`) || b.metric("skipped_records_total", "cloudevents") != 0 {
		t.Errorf("the cursor is %s, %v", text, err)
	}
	if list, _ := r.sequences(); len(list) > 66+1 { // one may have been taken while the answer was lost
		t.Errorf("%d came for 66 records", len(list))
	}
}

// Of two exporters one sends, and the other goes on where it stopped.
func TestTheNextLeaderGoesOnWhereTheLastOneStopped(t *testing.T) {
	b, _, _ := etcdBench(t)
	r := &receiver{}
	s := to(t, r)
	first, second := b.run(s), b.run(s)
	b.closed(20)
	until(t, "they are there", func() bool { _, n := r.sequences(); return n == 21 })
	first()
	b.closed(20)
	until(t, "the others are there", func() bool { _, n := r.sequences(); return n == 41 })
	second()
	if list, _ := r.sequences(); len(list) > 41+1 { // one may have been taken while its answer was lost
		t.Errorf("%d came for 41 records", len(list))
	}
}

func TestRecordsThatAreNowhereAnyMoreArePassedOverAndCounted(t *testing.T) {
	b, r := newBench(t), &receiver{}
	records := b.closed(30)
	gone := records[14]
	if err := b.log.(*memlog.Log).Compact(t.Context(), store.Head{Seq: gone.Seq, Hash: gone.Hash}); err != nil {
		t.Fatal(err)
	}
	b.run(to(t, r))
	until(t, "the others are there", func() bool { list, _ := r.sequences(); return slices.Contains(list, "31") })
	if n := b.metric("skipped_records_total", "cloudevents"); n != 15 || !strings.Contains(b.logged.String(), "had left log and archive") {
		t.Errorf("%v were passed over: %s", n, b.logged)
	}
}

// locked is a log whose records cannot be read for a while, as without the right to the archive's bucket.
type locked struct {
	store.Log
	open atomic.Bool
}

func (l *locked) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	if !l.open.Load() {
		return nil, errors.New("read segment 1 of the archive: AccessDenied")
	}
	return l.Log.Read(ctx, from, limit)
}

// Records that wait because they cannot be read are a lag as well, until they can.
func TestWhatCannotBeReadLags(t *testing.T) {
	b, r := newBench(t), &receiver{}
	b.closed(20)
	log := &locked{Log: b.log}
	b.log = log
	b.run(to(t, r))
	until(t, "all of it lags, for longer and longer", func() bool {
		return b.metric("lag_records", "cloudevents") == 21 && b.metric("lag_seconds", "cloudevents") > 0
	})
	log.open.Store(true)
	until(t, "they are there", func() bool { _, n := r.sequences(); return n == 21 })
	b.settled()
	if age := b.metric("lag_seconds", "cloudevents"); age != 0 {
		t.Errorf("nothing waits, for %v seconds", age)
	}
}

// restored is a log in whose place another may be put.
type restored struct{ atomic.Pointer[memlog.Log] }

func (r *restored) ID() string { return r.Load().ID() }
func (r *restored) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	return r.Load().Append(ctx, d)
}
func (r *restored) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	return r.Load().Read(ctx, from, limit)
}
func (r *restored) Watch(ctx context.Context, from uint64, fn func(store.Record) error) error {
	return r.Load().Watch(ctx, from, fn)
}
func (r *restored) Head(ctx context.Context) (store.Head, error) { return r.Load().Head(ctx) }
func (r *restored) Aggregate(ctx context.Context, name string) (uint64, error) {
	return r.Load().Aggregate(ctx, name)
}
func (r *restored) Switch(ctx context.Context, name string) (string, store.Head, error) {
	return r.Load().Switch(ctx, name)
}
func (r *restored) PutBlob(ctx context.Context, data []byte) (string, error) {
	return r.Load().PutBlob(ctx, data)
}
func (r *restored) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	return r.Load().GetBlob(ctx, hash)
}
func (r *restored) Verify(ctx context.Context) (uint64, error) { return r.Load().Verify(ctx) }
func (r *restored) Close() error                               { return nil }

// What the log holds after it was restored from a backup is sent, under other ids than what was lost, whether
// the export runs meanwhile or not, and wherever its cursor stands.
func TestALogThatWasRestoredIsSentFromWhereItParted(t *testing.T) {
	for _, running := range []bool{true, false} {
		for _, longer := range []bool{true, false} {
			t.Run(fmt.Sprintf("running %v, longer %v", running, longer), func(t *testing.T) {
				b, r := newBench(t), &receiver{}
				open := func() *memlog.Log {
					l, err := memlog.Open(memlog.Config{Cluster: "test", LogID: strings.Repeat("ab", 16), Clock: func() time.Time { return start }})
					if err != nil {
						t.Fatal(err)
					}
					return l
				}
				log := &restored{}
				log.Store(open())
				b.log, b.live = log, log
				s := to(t, r)
				stop := b.run(s)
				for i := range 5 {
					b.closed(10)
					until(t, "they are there", func() bool { _, n := r.sequences(); return n == 10*(i+1)+1 })
				}
				if !running {
					stop()
				}
				backup := open()
				log2 := &restored{}
				log2.Store(backup)
				copied := &bench{t: t, log: log2}
				for range 3 {
					copied.closed(10)
				}
				n := 5
				if longer {
					n = 40
				}
				for i := range n {
					copied.record(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: fmt.Sprint("after", i)})
				}
				log.Store(backup)
				if !running {
					b.run(s)
				}
				until(t, "what is new is there", func() bool { _, got := r.sequences(); return got == 51+n })
				if b.metric("rewinds_total", "cloudevents") != 1 {
					t.Errorf("it went back %v times", b.metric("rewinds_total", "cloudevents"))
				}
			})
		}
	}
}
