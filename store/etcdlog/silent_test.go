package etcdlog_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
)

// silentWatcher accepts each watch and never reports anything, as an etcd does whose watchers starve.
type silentWatcher struct{ clientv3.Watcher }

func (silentWatcher) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	events := make(chan clientv3.WatchResponse)
	go func() {
		<-ctx.Done()
		close(events)
	}()
	return events
}

// No event ever comes, and all else of etcd works: whoever watches the log has each record within seconds.
func TestAWatchGoesOnThoughNoEventComes(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	deaf := clientv3.NewCtxClient(server.Client.Ctx())
	deaf.KV, deaf.Lease, deaf.Maintenance, deaf.Watcher = server.Client.KV, server.Client.Lease, server.Client.Maintenance, silentWatcher{}
	mine, other := openLog(t, deaf, "test"), openLog(t, server.Client, "test")
	seen := make(chan uint64, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		_ = mine.Watch(ctx, 1, func(r store.Record) error { seen <- r.Seq; return nil })
	}()
	for want := uint64(1); want <= 3; want++ {
		select {
		case seq := <-seen:
			if seq != want {
				t.Fatalf("record %d, want %d", seq, want)
			}
		case <-time.After(15 * time.Second):
			t.Fatalf("record %d never came", want)
		}
		if _, err := other.Append(bounded(t), store.Draft{Payload: []byte("next")}); err != nil {
			t.Fatal(err)
		}
	}
	// Nor does a writer that queues for its turn wait for an event forever.
	if _, err := mine.Append(bounded(t), store.Draft{Payload: []byte("mine")}); err != nil {
		t.Error(err)
	}
}
