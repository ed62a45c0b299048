package retention_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/services/internal/retention"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
	"millwright/store/etcdlog"
	"millwright/store/etcdlog/embedded"
)

// database is a log in an etcd with a small quota.
type database struct {
	client  *clientv3.Client
	log     *etcdlog.Log
	elector *etcdlog.Elector
	dir     *archive.Archive
}

func openDatabase(t *testing.T, quota int64) database {
	t.Helper()
	return openAt(t, t.TempDir(), t.TempDir(), quota)
}

// openAt opens the database in a directory, beside an archive in another.
func openAt(t *testing.T, dir, archives string, quota int64) database {
	t.Helper()
	server, err := embedded.Start(dir, embedded.Options{QuotaBytes: quota})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	log, err := etcdlog.Open(bounded(t), etcdlog.Config{Client: server.Client, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	elector := etcdlog.NewElector(server.Client, "test")
	if err := elector.Depose(bounded(t)); err != nil {
		t.Fatal(err)
	}
	return database{client: server.Client, log: log, elector: elector, dir: archive.Open(archives, log.ID())}
}

func (d database) keeper(r *rig, dir *archive.Archive, p retention.Policy) *retention.Keeper {
	return retention.New(retention.Config{Host: r.host, Log: d.log, Database: d.log, Cluster: "test", Archive: dir, Policy: p,
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
}

// write appends n decisions of about 4 KiB, many at a time, and returns how many bytes payloads and
// explanations had.
func (d database) write(t *testing.T, first, n int) (bytes int) {
	t.Helper()
	ctx := bounded(t)
	var g errgroup.Group
	g.SetLimit(64)
	for i := first; i < first+n; i++ {
		draft := decision(t, i)
		bytes += len(draft.Payload) + len(draft.Explanation)
		g.Go(func() error {
			_, err := d.log.Append(ctx, draft)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("append after %d records: %v", first, err)
	}
	return bytes
}

// decision refuses one of 200 pods, with reasons that do not compress.
func decision(t *testing.T, i int) store.Draft {
	t.Helper()
	pod := ledger.PodRef{UID: types.UID(fmt.Sprint("u", i%200)), Namespace: "default", Name: fmt.Sprint("web-", i%200)}
	payload, err := json.Marshal(&ledger.ProvisioningPlanned{Refused: []ledger.Refused{{Pods: []ledger.PodRef{pod}}}})
	if err != nil {
		t.Fatal(err)
	}
	var noise strings.Builder
	source := rand.New(rand.NewPCG(1, uint64(i)))
	for noise.Len() < 4000 {
		fmt.Fprintf(&noise, "%016x", source.Uint64())
	}
	return store.Draft{Service: ledger.ServiceProvisioner, Mode: string(ledger.ModeActive), Kind: uint16(ledger.KindProvisioningPlanned),
		Payload: payload, Explanation: fmt.Appendf(nil, `{"why":%q}`, noise.String())}
}

// TestWeekOfLoadNeverFillsTheDatabase appends five times what the database may hold. By the sizing in
// docs/operations.md a week of a thousand nodes takes a sixteenth of the default quota, so this is a year and
// a half.
func TestWeekOfLoadNeverFillsTheDatabase(t *testing.T) {
	const quota = 16 << 20
	d := openDatabase(t, quota)
	r := lead(t, d.log, d.elector)
	k := d.keeper(r, d.dir, retention.Policy{Every: 2000})
	bytes, highest := 0, 0.0
	for n := 0; bytes < 5*quota; n += 500 {
		bytes += d.write(t, n, 500)
		u, err := d.log.Usage(bounded(t))
		if err != nil || u.NoSpace {
			t.Fatalf("after %d MiB: %+v, %v", bytes>>20, u, err)
		}
		highest = max(highest, u.Level(), float64(u.FileBytes)/float64(u.QuotaBytes))
		r.keep(k)
	}
	if highest >= store.OmitExplanationsFrom {
		t.Errorf("the database was %.0f %% full", 100*highest)
	}
	base, err := d.log.Base(bounded(t))
	if err != nil || base.Seq == 0 {
		t.Fatalf("nothing was archived: %v", err)
	}
	joined := archive.Join(d.log, d.dir)
	if last, err := joined.Verify(bounded(t)); err != nil || last <= base.Seq {
		t.Fatalf("verified to %d, %v", last, err)
	}
	if got, want := started(t, d.log), foldedPages(t, joined); got != want {
		t.Error("checkpoint and tail are not the fold of archive and log")
	}
	all := &observedLog{Log: joined, lost: map[string]bool{}}
	for _, p := range checkpointsOf(t, joined) {
		all.lost[p.Blob] = true
	}
	if got, want := started(t, all), foldedPages(t, joined); got != want || all.reads[0] != 1 {
		t.Error("without a checkpoint, the start is not the fold of archive and log")
	}
	r.wantAlarm("LogHalfFull", "archived eagerly")
	t.Logf("%d MiB through a quota of %d MiB, at most %.0f %% full; live from %d", bytes>>20, quota>>20, 100*highest, base.Seq+1)
}

// foldedPages returns the digest of the Ledger folded from the first record; explanations must all be there.
func foldedPages(t *testing.T, log store.Log) string {
	t.Helper()
	l := ledger.New("")
	err := eachPage(t, log, func(rec store.Record) error {
		e, err := audit.Decode(rec)
		if err != nil {
			return err
		}
		if e.Kind == ledger.KindProvisioningPlanned && len(e.Explanation) == 0 {
			t.Fatalf("record %d lost its explanation", e.Seq)
		}
		return l.Apply(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	return l.Digest()
}

func eachPage(t *testing.T, log store.Log, fn func(store.Record) error) error {
	for from := uint64(1); ; {
		page, err := log.Read(bounded(t), from, 500)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, rec := range page {
			if err := fn(rec); err != nil {
				return err
			}
			from = rec.Seq + 1
		}
	}
}

func checkpointsOf(t *testing.T, log audit.CheckpointLog) (list []ledger.LedgerCheckpoint) {
	t.Helper()
	err := audit.EachCheckpoint(context.Background(), log, func(c audit.Checkpoint) bool {
		list = append(list, c.LedgerCheckpoint)
		return true
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("%d checkpoints, %v", len(list), err)
	}
	return list
}

// wantAlarm expects that an alarm is on record and was told as a KubeEvent.
func (r *rig) wantAlarm(reason, text string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Reason == reason && strings.Contains(e.Message, text) {
			return
		}
	}
	r.t.Errorf("no KubeEvent %s with %q in %v", reason, text, r.events)
}

func TestWithoutAnArchiveNothingIsLostAndPeopleAreTold(t *testing.T) {
	d := openDatabase(t, 16<<20)
	r := lead(t, d.log, d.elector)
	k := d.keeper(r, nil, retention.Policy{Every: 100000})
	for n, level := 0, 0.0; level < 0.82; n += 100 {
		d.write(t, n, 100)
		u, err := d.log.Usage(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		level = u.Level()
		r.keep(k)
	}
	r.wantAlarm("LogHalfFull", "without --archive-dir")
	r.wantAlarm("LogNearlyFull", "without --archive-dir")
	if base, err := d.log.Base(bounded(t)); err != nil || base.Seq != 0 {
		t.Errorf("live from %d, %v", base.Seq+1, err)
	}
}

func TestAgeAndNumberDecideWhatStaysLive(t *testing.T) {
	for name, c := range map[string]struct {
		policy retention.Policy
		moved  bool
	}{
		"young and few":  {retention.Policy{Every: 50}, false},
		"old":            {retention.Policy{Every: 50, Age: 1}, true},
		"many behind it": {retention.Policy{Every: 50, Records: 20}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDatabase(t, 256<<20)
			r := lead(t, d.log, d.elector)
			k := d.keeper(r, d.dir, c.policy)
			for n := range 3 {
				d.write(t, n*60, 60)
				r.keep(k)
			}
			base, err := d.log.Base(bounded(t))
			if err != nil || base.Seq > 0 != c.moved {
				t.Errorf("live from %d, %v", base.Seq+1, err)
			}
		})
	}
}

// tightLipped is an etcd that does not report its usage.
type tightLipped struct{ *etcdlog.Log }

func (tightLipped) Usage(context.Context) (store.Usage, error) {
	return store.Usage{}, errors.New("permission denied")
}

func TestWithoutKnowingTheUsageAgeAndNumberDecide(t *testing.T) {
	d := openDatabase(t, 256<<20)
	r := lead(t, d.log, d.elector)
	k := retention.New(retention.Config{Host: r.host, Log: d.log, Database: tightLipped{d.log}, Cluster: "test", Archive: d.dir,
		Policy: retention.Policy{Every: 50, Records: 20}, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	for n := range 3 {
		d.write(t, n*60, 60)
		r.keep(k)
	}
	if base, err := d.log.Base(bounded(t)); err != nil || base.Seq == 0 {
		t.Errorf("nothing is archived: %v", err)
	}
}

func TestBlobsThatNoRecordNamesGo(t *testing.T) {
	d := openDatabase(t, 256<<20)
	r := lead(t, d.log, d.elector)
	k := d.keeper(r, d.dir, retention.Policy{Every: 50, Records: 1, Grace: 1})
	orphan, err := d.log.PutBlob(bounded(t), []byte("nobody names this"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		d.write(t, n*60, 60)
		r.keep(k)
	}
	blobs, err := d.log.Blobs(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	list := checkpointsOf(t, archive.Join(d.log, d.dir))
	if _, there := blobs[orphan]; there {
		t.Error("the orphan is there")
	}
	if _, there := blobs[list[len(list)-1].Blob]; there {
		t.Error("the checkpoint of an archived record is there")
	}
	if _, there := blobs[list[0].Blob]; !there {
		t.Error("the newest checkpoint is gone")
	}
	if _, err := archive.Join(d.log, d.dir).Verify(bounded(t)); err != nil {
		t.Error(err)
	}
}
