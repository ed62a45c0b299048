package etcdlog_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	wire "millwright/proto"
	"millwright/store"
	"millwright/store/etcdlog"
	"millwright/store/etcdlog/embedded"
	"millwright/store/record"
	"millwright/store/storetest"
)

func TestConformance(t *testing.T) {
	server := startEtcd(t)
	proxy := startProxy(t, server.Endpoints[0])
	var clusters atomic.Int32
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		cluster := fmt.Sprintf("test-%d", clusters.Add(1))
		l := openLog(t, server.Client, cluster)
		return storetest.Harness{
			Cluster: cluster, Log: l,
			Open:    func() store.Log { return openLog(t, dial(t, proxy.endpoint), cluster) },
			Elector: func() store.Elector { return etcdlog.NewElector(dial(t, proxy.endpoint), cluster) },
			Expire:  func(x store.Leadership) { revoke(t, server.Client, x.Lease()) },
			Compact: l.Compact,
			Tamper:  tamper{t, server.Client, cluster},
			Disturb: proxy.cut,
		}
	})
}

func TestLogOfAnotherClusterIsRefused(t *testing.T) {
	server, ctx := startEtcd(t), t.Context()
	openLog(t, server.Client, "one")
	// As after a restore into the wrong place: the records of "one" under the keys of "two".
	for _, key := range []string{"log/00000000000000000001", "head"} {
		resp, err := server.Client.Get(ctx, "/millwright/one/"+key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Client.Put(ctx, "/millwright/two/"+key, string(resp.Kvs[0].Value)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := etcdlog.Open(ctx, etcdlog.Config{Client: server.Client, Cluster: "two"})
	wantError(t, err, store.ErrForeignLog)
}

func TestLogSurvivesRestartOfEtcd(t *testing.T) {
	dir := t.TempDir()
	server, err := embedded.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := openLog(t, server.Client, "test")
	id := l.ID()
	for range 20 {
		if _, err := l.Append(t.Context(), store.Draft{Advances: []string{"pool/a"}}); err != nil {
			t.Fatal(err)
		}
	}
	want, _ := l.Head(t.Context())
	_ = l.Close()
	_ = server.Close()
	if server, err = embedded.Start(dir); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l = openLog(t, server.Client, "test")
	got, err := l.Head(t.Context())
	if err != nil || got != want || l.ID() != id {
		t.Fatalf("head %v of log %s, %v; want %v of %s", got, l.ID(), err, want, id)
	}
	if at, err := l.Aggregate(t.Context(), "pool/a"); err != nil || at != 21 {
		t.Fatalf("aggregate at %d, %v", at, err)
	}
}

func startEtcd(t testing.TB) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openLog(t testing.TB, client *clientv3.Client, cluster string) *etcdlog.Log {
	t.Helper()
	l, err := etcdlog.Open(context.Background(), etcdlog.Config{Client: client, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func revoke(t *testing.T, c *clientv3.Client, lease store.Lease) {
	t.Helper()
	resp, err := c.Get(t.Context(), lease.Key)
	if err != nil || len(resp.Kvs) == 0 {
		t.Fatalf("leader key %s: %v", lease.Key, err)
	}
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}

// tamper implements storetest.Tamper by writing to etcd directly.
type tamper struct {
	t       *testing.T
	client  *clientv3.Client
	cluster string
}

func (x tamper) key(seq uint64) string {
	return fmt.Sprintf("/millwright/%s/log/%020d", x.cluster, seq)
}

func (x tamper) get(seq uint64) []byte {
	x.t.Helper()
	resp, err := x.client.Get(context.Background(), x.key(seq))
	if err != nil || len(resp.Kvs) != 1 {
		x.t.Fatalf("get record %d: %v", seq, err)
	}
	return resp.Kvs[0].Value
}

func (x tamper) put(seq uint64, data []byte) {
	x.t.Helper()
	if _, err := x.client.Put(context.Background(), x.key(seq), string(data)); err != nil {
		x.t.Fatal(err)
	}
}

func (x tamper) Change(seq uint64) {
	var m wire.Record
	if err := proto.Unmarshal(x.get(seq), &m); err != nil {
		x.t.Fatal(err)
	}
	m.Service = "mallory"
	data, _ := proto.Marshal(&m)
	x.put(seq, data)
}

func (x tamper) Reseal(seq uint64) {
	s, err := record.Unmarshal(seq, x.get(seq))
	if err != nil {
		x.t.Fatal(err)
	}
	d := s.Draft
	d.Service = "mallory"
	p, err := record.Prepare(d)
	if err != nil {
		x.t.Fatal(err)
	}
	data, _ := record.Marshal(p.Seal(record.Place{Head: store.Head{Seq: seq - 1, Hash: s.PrevHash}}))
	x.put(seq, data)
}

func (x tamper) Garble(seq uint64) { x.put(seq, []byte("\x08\xff\xff not a record")) }

func (x tamper) Remove(seq uint64) {
	if _, err := x.client.Delete(context.Background(), x.key(seq)); err != nil {
		x.t.Fatal(err)
	}
}

func (x tamper) Swap(a, b uint64) {
	da, db := x.get(a), x.get(b)
	x.put(a, db)
	x.put(b, da)
}
