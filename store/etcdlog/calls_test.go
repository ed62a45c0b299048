package etcdlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/archive"
	"millwright/store/etcdlog"
)

// scene is a log of nine records that somebody works upon while others act.
type scene struct {
	server *clientv3.Client
	// mine makes the calls under test, other is another process.
	mine, other *etcdlog.Log
	cluster     string
	tap         *tap
	// meanwhile counts what the other appended.
	meanwhile atomic.Int32
}

// largePayload becomes a blob, hugePayload one of two chunks.
var (
	largePayload = []byte(strings.Repeat("large", 30_000))
	hugePayload  = strings.Repeat("huge", 300_000)
)

func newScene(t *testing.T, server *clientv3.Client, cluster string, p *tap) *scene {
	s := &scene{server: server, cluster: cluster, tap: p}
	t.Cleanup(func() { forget(t, server, cluster) })
	for log, client := range map[**etcdlog.Log]*clientv3.Client{&s.mine: p.client(t, server), &s.other: server} {
		settled(t, "open", func(ctx context.Context) (err error) {
			*log, err = etcdlog.Open(ctx, etcdlog.Config{Client: client, Cluster: cluster})
			return err
		})
		t.Cleanup(func() { _ = (*log).Close() })
	}
	for i := range 8 {
		d := store.Draft{Payload: fmt.Appendf(nil, `{"n":%d}`, i), Advances: []string{fmt.Sprintf("claim/%d", i)}}
		if i == 5 {
			d.Payload = largePayload
		}
		s.must(t, d)
	}
	return s
}

// forget leaves nothing of a cluster in the database: the scenes of a test have one server, and each that
// makes room rewrites what all before it left.
func forget(t *testing.T, server *clientv3.Client, cluster string) {
	var deleted *clientv3.DeleteResponse
	settled(t, "delete the log", func(ctx context.Context) (err error) {
		deleted, err = server.Delete(ctx, "/millwright/"+cluster+"/", clientv3.WithPrefix())
		return err
	})
	settled(t, "compact", func(ctx context.Context) error {
		_, err := server.Compact(ctx, deleted.Header.Revision)
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil
		}
		return err
	})
}

func (s *scene) must(t *testing.T, d store.Draft) store.Record {
	t.Helper()
	r, err := s.other.Append(bounded(t), d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// write is what another process appends.
func (s *scene) write(t *testing.T) error {
	s.meanwhile.Add(1)
	s.must(t, store.Draft{Payload: []byte("meanwhile")})
	return nil
}

// records are all that are live or in the archive, verified.
func (s *scene) records(t *testing.T, dir *archive.Archive) []store.Record {
	t.Helper()
	log := store.Log(s.other)
	if dir != nil {
		log = archive.Join(log, dir)
	}
	settled(t, "verify", func(ctx context.Context) error { _, err := log.Verify(ctx); return err })
	var list []store.Record
	settled(t, "read", func(ctx context.Context) (err error) { list, err = log.Read(ctx, 1, 1000); return err })
	return list
}

// settled tries until no member of etcd is about to take the lead, as one may when a fault is over; a request
// meanwhile is refused, or not answered for a while.
func settled(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	ctx := bounded(t)
	err := try(ctx)
	for ; isUnled(err) && ctx.Err() == nil; err = try(ctx) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// count is how many records have a payload.
func count(list []store.Record, payload string) (n int) {
	for _, r := range list {
		if string(r.Payload) == payload {
			n++
		}
	}
	return n
}

// Whatever happens around any call of anything that the log does, what it promises holds.
func TestTheLogKeepsItsPromisesWhateverHappensAroundItsCalls(t *testing.T) {
	logKeepsItsPromises(t, startEtcd(t).Client, faults)
}

func logKeepsItsPromises(t *testing.T, server *clientv3.Client, faults injection) {
	var clusters atomic.Int32
	for name, act := range map[string]func(t *testing.T, s *scene, arm func(func(context.Context) error)){
		"append": appendOnce, "append in a crowd": appendInACrowd, "append what another appends": appendAgainstAnother,
		"watch": watchOn, "read": readAll, "archive": archiveMost, "compact": compactSome, "collect a blob": collectBlob,
		"set and read a switch": setSwitch, "retire": retireAggregate, "report": reportStanding, "open": openAgain,
		"look at the room": lookAtTheRoom, "make room": makeRoom,
	} {
		t.Run(name, func(t *testing.T) {
			eachFault(t, server, faults, func(t *testing.T, p *tap, arm func(func(context.Context) error)) {
				act(t, newScene(t, server, fmt.Sprintf("calls-%d", clusters.Add(1)), p), arm)
			})
		})
	}
}

// stored checks an append whose outcome is err: a record that was acknowledged is there, and none is there
// twice.
func (s *scene) stored(t *testing.T, payload string, err error) {
	t.Helper()
	list := s.records(t, nil)
	if n := count(list, payload); n > 1 || err == nil && n == 0 {
		t.Errorf("it is stored %d times, the append ended with %v", n, err)
	}
	if n := count(list, "meanwhile"); n != int(s.meanwhile.Load()) {
		t.Errorf("%d of the other's %d records are there", n, s.meanwhile.Load())
	}
}

func appendOnce(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	arm(func(context.Context) error { return s.write(t) })
	_, err := s.mine.Append(bounded(t), store.Draft{Payload: []byte(hugePayload), Expects: map[string]uint64{"claim/3": 5}, Advances: []string{"claim/3"}})
	s.stored(t, hugePayload, err)
}

// appendInACrowd loses the head to another twice, and so queues.
func appendInACrowd(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	s.tap.each = func(n int, call string) {
		if n < 4 && call == "txn" {
			_ = s.write(t)
		}
	}
	arm(func(context.Context) error { return s.write(t) })
	_, err := s.mine.Append(bounded(t), store.Draft{Payload: []byte("mine")})
	if err != nil {
		t.Errorf("append: %v", err)
	}
	s.stored(t, "mine", err)
}

// appendAgainstAnother appends a checkpoint, for example, as another leader does.
func appendAgainstAnother(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	arm(func(context.Context) error {
		s.must(t, store.Draft{Payload: []byte("theirs"), Advances: []string{"claim/3"}})
		return nil
	})
	_, err := s.mine.Append(bounded(t), store.Draft{Payload: []byte("mine"), Expects: map[string]uint64{"claim/3": 5}, Advances: []string{"claim/3"}})
	s.stored(t, "mine", err)
	list := s.records(t, nil)
	last := list[len(list)-1]
	if count(list, "mine") == 1 && string(last.Payload) == "mine" && count(list, "theirs") > 0 {
		t.Error("stored although the aggregate had moved")
	}
	if err != nil && count(list, "theirs") > 0 && count(list, "mine") == 0 && !errors.Is(err, store.ErrConflict) {
		t.Errorf("append: %v", err)
	}
}

func watchOn(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	arm(func(context.Context) error { return s.write(t) })
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	ended := make(chan error, 1)
	var seen []uint64
	go func() {
		ended <- s.mine.Watch(ctx, 1, func(r store.Record) error {
			seen = append(seen, r.Seq)
			if string(r.Payload) == "last" {
				cancel()
			}
			return nil
		})
	}()
	for range 3 {
		_ = s.write(t)
	}
	last := s.must(t, store.Draft{Payload: []byte("last")})
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	for i, seq := range seen {
		if seq != uint64(i+1) {
			t.Fatalf("seen %v", seen)
		}
	}
	if len(seen) < int(last.Seq) {
		t.Errorf("seen %d records of %d", len(seen), last.Seq)
	}
}

func readAll(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	// Another process archives the records that have a blob and, since a reader may stand still for long,
	// collects the blob as well.
	arm(func(ctx context.Context) error {
		if err := s.compactThrough(ctx, 7); err != nil {
			return err
		}
		blobs, err := s.other.Blobs(ctx)
		for hash, revision := range blobs {
			if _, failed := s.other.DeleteBlob(ctx, hash, revision); failed != nil {
				err = failed
			}
		}
		return err
	})
	list, err := s.mine.Read(bounded(t), 2, 1000)
	for i, r := range list {
		if r.Seq != uint64(i+2) {
			t.Fatalf("record %d follows %d others", r.Seq, i)
		}
	}
	if err == nil && len(list) < 8 {
		t.Errorf("%d records and no error", len(list))
	}
	if errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a sound log is said to be corrupt: %v", err)
	}
}

// compactThrough is what another archiver does; it may have done it already.
func (s *scene) compactThrough(ctx context.Context, seq uint64) error {
	base, err := s.other.Base(ctx)
	if err != nil || base.Seq >= seq {
		return err
	}
	r, err := s.other.Read(ctx, seq, 1)
	if err != nil {
		return err
	}
	return s.other.Compact(ctx, store.Head{Seq: seq, Hash: r[0].Hash})
}

func isUnled(err error) bool {
	return errors.Is(err, rpctypes.ErrLeaderChanged) || errors.Is(err, rpctypes.ErrTimeout) || errors.Is(err, rpctypes.ErrNoLeader)
}

// until repeats what may fail because of a fault, and must succeed in the end.
func until(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	if err := try(bounded(t)); err == nil {
		return
	}
	settled(t, what+" again", try)
}

func archiveMost(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	before := s.records(t, nil)
	dir := archive.Open(t.TempDir(), s.mine.ID())
	t.Cleanup(func() { _ = dir.Close() })
	a := archive.NewArchiver(archive.Config{Cluster: s.cluster, Live: s.mine, Archive: dir})
	arm(func(context.Context) error { return s.write(t) })
	until(t, "archive", func(ctx context.Context) error { _, err := a.Archive(ctx, 7); return err })
	after := s.records(t, dir)
	if len(after) != len(before)+int(s.meanwhile.Load()) {
		t.Fatalf("%d records, there were %d and %d came", len(after), len(before), s.meanwhile.Load())
	}
	for i, r := range before {
		if after[i].Hash != r.Hash {
			t.Fatalf("record %d is another", r.Seq)
		}
	}
}

func compactSome(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	r, err := s.other.Read(bounded(t), 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	arm(func(ctx context.Context) error { return s.compactThrough(ctx, 7) })
	until(t, "compact", func(ctx context.Context) error { return s.mine.Compact(ctx, store.Head{Seq: 5, Hash: r[0].Hash}) })
	settled(t, "verify", func(ctx context.Context) error { _, err := s.other.Verify(ctx); return err })
	base, err := s.other.Base(bounded(t))
	if err != nil || base.Seq != 5 && base.Seq != 7 {
		t.Fatalf("base %d, %v", base.Seq, err)
	}
	if list, err := s.other.Read(bounded(t), base.Seq+1, 100); err != nil || len(list) != 9-int(base.Seq) {
		t.Errorf("%d records after %d, %v", len(list), base.Seq, err)
	}
}

// collectBlob deletes a blob that nobody names, while another names it.
func collectBlob(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	payload := strings.Repeat("orphan", 30_000)
	hash, err := s.other.PutBlob(bounded(t), []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	arm(func(context.Context) error { s.must(t, store.Draft{Payload: []byte(payload)}); return nil })
	named := func() int { return count(s.records(t, nil), payload) }
	blobs, err := s.mine.Blobs(bounded(t))
	if err == nil && named() == 0 {
		_, _ = s.mine.DeleteBlob(bounded(t), hash, blobs[hash])
	}
	if named() == 0 {
		s.must(t, store.Draft{Payload: []byte(payload)})
	}
	if n := named(); n == 0 { // records verifies that the payload is there
		t.Error("the record is gone")
	}
}

func setSwitch(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	arm(func(context.Context) error { return s.write(t) })
	_, err := s.mine.Append(bounded(t), store.Draft{Payload: []byte("stop"), Switches: map[string]string{"stop": "all"}})
	s.stored(t, "stop", err)
	var value string
	until(t, "read the switch", func(ctx context.Context) (err error) { value, _, err = s.mine.Switch(ctx, "stop"); return err })
	if n := count(s.records(t, nil), "stop"); (n == 1) != (value == "all") {
		t.Errorf("the switch is %q with %d records", value, n)
	}
}

func retireAggregate(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	arm(func(context.Context) error {
		s.must(t, store.Draft{Payload: []byte("theirs"), Advances: []string{"claim/4"}})
		return nil
	})
	_, err := s.mine.Append(bounded(t), store.Draft{Payload: []byte("mine"), Expects: map[string]uint64{"claim/4": 6}, Retires: []string{"claim/4"}})
	s.stored(t, "mine", err)
	want := uint64(6)
	for _, r := range s.records(t, nil) {
		switch string(r.Payload) {
		case "mine":
			want = 0
		case "theirs":
			want = r.Seq
		}
	}
	if at, err := s.other.Aggregate(bounded(t), "claim/4"); err != nil || at != want {
		t.Errorf("the aggregate stands at %d, want %d: %v", at, want, err)
	}
}

func reportStanding(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	lead, err := etcdlog.NewElector(s.tap.client(t, s.server), s.cluster).Campaign(bounded(t), store.Candidacy{Service: "lifecycle", Identity: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lead.Resign(bounded(t)) }()
	deposed := false
	arm(func(ctx context.Context) error {
		deposed = true
		return etcdlog.NewElector(s.server, s.cluster).Depose(ctx)
	})
	err = lead.Report(bounded(t), map[string]string{"at": "now"})
	leaders, errLeaders := etcdlog.NewElector(s.server, s.cluster).Leaders(bounded(t))
	switch {
	case errLeaders != nil:
		t.Error(errLeaders)
	case deposed && (len(leaders) > 0 || err == nil):
		t.Errorf("the deposed reported, and stands as %+v: %v", leaders, err)
	case !deposed && err == nil && leaders[0].Report["at"] != "now":
		t.Errorf("what was reported is not there: %+v", leaders)
	}
}

// openAgain finds the log that is there, and writes nothing.
func openAgain(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	before, err := s.server.Get(bounded(t), "/millwright/"+s.cluster+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	client := s.tap.client(t, s.server)
	arm(func(context.Context) error { return nil })
	until(t, "open", func(ctx context.Context) error {
		l, err := etcdlog.Open(ctx, etcdlog.Config{Client: client, Cluster: s.cluster})
		if err == nil {
			defer l.Close()
			if l.ID() != s.other.ID() {
				t.Errorf("log %s, want %s", l.ID(), s.other.ID())
			}
		}
		return err
	})
	after, err := s.server.Get(bounded(t), "/millwright/"+s.cluster+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || after.Count != before.Count {
		t.Errorf("%d keys, there were %d: %v", after.Count, before.Count, err)
	}
	for i, kv := range after.Kvs {
		if kv.ModRevision != before.Kvs[i].ModRevision {
			t.Errorf("%s was written", kv.Key)
		}
	}
}

func lookAtTheRoom(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	arm(func(context.Context) error { return s.write(t) })
	until(t, "usage", func(ctx context.Context) error {
		u, err := s.mine.Usage(ctx)
		if err == nil && (u.QuotaBytes <= 0 || u.UsedBytes <= 0 || u.NoSpace) {
			t.Errorf("usage %+v", u)
		}
		return err
	})
	if list := s.records(t, nil); len(list) != 9+int(s.meanwhile.Load()) {
		t.Errorf("%d records after a look", len(list))
	}
}

// makeRoom does what brings back a full database. It may be broken off at any call and is then done again.
func makeRoom(t *testing.T, s *scene, arm func(func(context.Context) error)) {
	arm(func(context.Context) error { return s.write(t) })
	until(t, "make room", func(ctx context.Context) error {
		if err := s.mine.Forget(ctx, 0); err != nil {
			return err
		}
		return firstOf(s.mine.Defragment(ctx), s.mine.Disarm(ctx))
	})
	if u, err := s.other.Usage(bounded(t)); err != nil || u.NoSpace {
		t.Errorf("usage %+v, %v", u, err)
	}
	if list := s.records(t, nil); len(list) != 9+int(s.meanwhile.Load()) {
		t.Errorf("%d records, there were 9 and %d came", len(list), s.meanwhile.Load())
	}
}
