package etcdlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/etcdlog"
)

// Answers are lost after etcd stored the records: none may be stored twice, and each append must learn the
// truth.
func TestLostAnswersStoreNothingTwice(t *testing.T) {
	server := startEtcd(t)
	proxy := startProxy(t, server.Endpoints[0])
	l, err := etcdlog.Open(t.Context(), etcdlog.Config{
		Client: dial(t, proxy.endpoint), Cluster: "test", TxnTimeout: 300 * time.Millisecond, Patience: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := openLog(t, server.Client, "test") // moves the head in between
	const rounds, each = 6, 10
	for round := range rounds {
		// After this append the client knows the head, so that its next transaction succeeds, unheard.
		if _, err := l.Append(t.Context(), store.Draft{Payload: fmt.Appendf(nil, "before %d", round)}); err != nil {
			t.Fatal(err)
		}
		proxy.setMute(true)
		var wg sync.WaitGroup
		for i := range each {
			wg.Go(func() {
				if _, err := l.Append(t.Context(), store.Draft{Payload: fmt.Appendf(nil, "%d/%d", round, i)}); err != nil {
					t.Errorf("append %d/%d: %v", round, i, err)
				}
			})
		}
		awaitGrowth(t, server.Client, "test", round*(each+2)+3)
		if _, err := other.Append(t.Context(), store.Draft{Payload: fmt.Appendf(nil, "other %d", round)}); err != nil {
			t.Fatal(err)
		}
		proxy.setMute(false)
		proxy.cut()
		wg.Wait()
	}
	records, err := l.Read(t.Context(), 2, 1000)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range records {
		seen[string(r.Payload)]++
	}
	if len(records) != rounds*(each+2) || len(seen) != len(records) {
		t.Fatalf("%d records, %d different, want %d: %v", len(records), len(seen), rounds*(each+2), seen)
	}
	if _, err := l.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// awaitGrowth waits until the log has n records: the muted client's transaction has been carried out.
func awaitGrowth(t *testing.T, c *clientv3.Client, cluster string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events := c.Watch(ctx, "/millwright/"+cluster+"/head", clientv3.WithCreatedNotify())
	for range events {
		resp, err := c.Get(ctx, "/millwright/"+cluster+"/log/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && resp.Count >= int64(n) {
			return
		}
	}
	t.Fatalf("the log never had %d records", n)
}

// etcd cannot be reached: an append fails in bounded time, and the log works again afterwards.
func TestAppendGivesUpAndRecovers(t *testing.T) {
	server := startEtcd(t)
	proxy := startProxy(t, server.Endpoints[0])
	l, err := etcdlog.Open(t.Context(), etcdlog.Config{
		Client: dial(t, proxy.endpoint), Cluster: "test", TxnTimeout: 200 * time.Millisecond, Patience: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	proxy.setMute(true)
	if _, err := l.Append(t.Context(), store.Draft{}); err == nil {
		t.Fatal("appended without an answer")
	}
	proxy.setMute(false)
	proxy.cut()
	var last error
	for range 20 {
		if _, last = l.Append(t.Context(), store.Draft{}); last == nil {
			break
		}
	}
	if last != nil {
		t.Fatalf("the log did not recover: %v", last)
	}
	if _, err := l.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A writer died while it was its turn: the others go on.
func TestDeadWriterAtTheHeadOfTheQueue(t *testing.T) {
	server := startEtcd(t)
	logs := []*etcdlog.Log{openLog(t, server.Client, "test"), openLog(t, dial(t, server.Endpoints[0]), "test")}
	for i := range 3 {
		if _, err := server.Client.Put(t.Context(), fmt.Sprintf("/millwright/test/head/turn/dead-%d", i), ""); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				if _, err := logs[n%2].Append(t.Context(), store.Draft{}); err != nil {
					t.Errorf("append: %v", err)
				}
			})
		}
		wg.Wait()
	}
	awaitNobodyQueued(t, server.Client)
}

// awaitNobodyQueued waits until the queue is empty: a writer that queued ahead leaves when its turn comes.
func awaitNobodyQueued(t *testing.T, c *clientv3.Client) {
	t.Helper()
	const queue = "/millwright/test/head/turn/"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range c.Watch(ctx, queue, clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		if resp, err := c.Get(ctx, queue, clientv3.WithPrefix()); err == nil && resp.Count == 0 {
			return
		}
	}
	t.Fatal("writers are still queued")
}

// Five writers are busy, each queues for its next append with the last one. One of them loses answers:
// whether it is queued again is among what it does not hear. Every record is stored once, and in the end
// nobody holds a place.
func TestBusyWritersQueueAhead(t *testing.T) {
	server := startEtcd(t)
	proxy := startProxy(t, server.Endpoints[0])
	deaf, err := etcdlog.Open(t.Context(), etcdlog.Config{
		Client: dial(t, proxy.endpoint), Cluster: "test", TxnTimeout: 300 * time.Millisecond, Patience: 60 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	logs := []*etcdlog.Log{deaf}
	for range 4 {
		logs = append(logs, openLog(t, dial(t, server.Endpoints[0]), "test"))
	}
	const callers, each = 20, 40
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range each {
				if _, err := logs[i%len(logs)].Append(t.Context(), store.Draft{Payload: fmt.Appendf(nil, "%d/%d", i, n)}); err != nil {
					t.Errorf("append %d/%d: %v", i, n, err)
				}
				if i == 1 && n%10 == 5 { // a caller of another log, which goes on
					proxy.setMute(true)
				}
				if i == 1 && n%10 == 8 {
					proxy.setMute(false)
					proxy.cut()
				}
			}
		})
	}
	wg.Wait()
	awaitNobodyQueued(t, server.Client)
	records, err := logs[1].Read(t.Context(), 2, 10*callers*each)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range records {
		seen[string(r.Payload)]++
	}
	if len(records) != callers*each || len(seen) != len(records) {
		t.Fatalf("%d records, %d different, want %d", len(records), len(seen), callers*each)
	}
	if _, err := logs[1].Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Drafts whose callers stop waiting at every possible moment are stored once or not at all.
func TestImpatientCallers(t *testing.T) {
	server := startEtcd(t)
	l := openLog(t, server.Client, "test")
	var acknowledged sync.Map
	var count atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*200*time.Microsecond)
			defer cancel()
			if r, err := l.Append(ctx, store.Draft{Payload: fmt.Appendf(nil, "%d", i)}); err == nil {
				acknowledged.Store(string(r.Payload), true)
				count.Add(1)
			}
		})
	}
	wg.Wait()
	if _, err := l.Append(t.Context(), store.Draft{Payload: []byte("last")}); err != nil {
		t.Fatal(err)
	}
	records, err := l.Read(t.Context(), 2, 1000)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range records {
		if seen[string(r.Payload)] {
			t.Fatalf("%s is stored twice", r.Payload)
		}
		seen[string(r.Payload)] = true
	}
	acknowledged.Range(func(payload, _ any) bool {
		if !seen[payload.(string)] {
			t.Errorf("%v was acknowledged and is not there", payload)
		}
		return true
	})
}

// etcd is restored from a backup while a watch has delivered nothing yet: the records that follow are none of
// the chain that its caller knows, and are not delivered as if they were.
func TestAWatchThatHasDeliveredNothingNoticesARestore(t *testing.T) {
	server := startEtcd(t)
	l := openLog(t, server.Client, "test")
	heads := []string{""}
	for i := range 5 {
		rec, err := l.Append(t.Context(), store.Draft{Payload: fmt.Appendf(nil, "lost %d", i)})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client.Get(t.Context(), "/millwright/test/head")
		if err != nil || rec.Seq != uint64(i+2) {
			t.Fatal(rec.Seq, err)
		}
		heads = append(heads, string(resp.Kvs[0].Value))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- l.Watch(ctx, 7, func(r store.Record) error { return fmt.Errorf("record %d of another chain is delivered", r.Seq) })
	}()
	time.Sleep(500 * time.Millisecond) // the watch waits for record 7
	restored := clientv3.OpDelete("/millwright/test/log/00000000000000000005", clientv3.WithRange("/millwright/test/log/00000000000000000009"))
	if _, err := server.Client.Txn(ctx).Then(restored, clientv3.OpPut("/millwright/test/head", heads[3])).Commit(); err != nil {
		t.Fatal(err)
	}
	other := openLog(t, server.Client, "test")
	for i := range 5 {
		if _, err := other.Append(ctx, store.Draft{Payload: fmt.Appendf(nil, "other %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("the watch ended with %v, want %v", err, store.ErrCorrupt)
	}
}
