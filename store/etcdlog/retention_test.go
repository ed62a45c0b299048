package etcdlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/etcdlog"
	"millwright/store/etcdlog/embedded"
)

func openSmall(t *testing.T, quota int64) *etcdlog.Log {
	t.Helper()
	server, err := embedded.Start(t.TempDir(), embedded.Options{QuotaBytes: quota})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	log, err := etcdlog.Open(context.Background(), etcdlog.Config{Client: server.Client, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

func TestUsageFallsByCompactionAndDefragmentation(t *testing.T) {
	ctx := context.Background()
	log := openSmall(t, 64<<20)
	payload := make([]byte, 100<<10)
	for i := range 120 {
		payload[0] = byte(i)
		if _, err := log.Append(ctx, store.Draft{Kind: 10, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	full, err := log.Usage(ctx)
	for wait := 0; err == nil && full.UsedBytes < 11<<20 && wait < 100; wait++ { // etcd writes its file a little later
		time.Sleep(50 * time.Millisecond)
		full, err = log.Usage(ctx)
	}
	if err != nil || full.QuotaBytes != 64<<20 || full.UsedBytes < 11<<20 || full.NoSpace {
		t.Fatalf("usage %+v, %v", full, err)
	}
	last, err := log.Read(ctx, 115, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Compact(ctx, store.Head{Seq: 115, Hash: last[0].Hash}); err != nil {
		t.Fatal(err)
	}
	if err := log.Defragment(ctx); err != nil {
		t.Fatal(err)
	}
	empty, err := log.Usage(ctx)
	if err != nil || empty.FileBytes > full.FileBytes/2 || empty.Level() > full.Level()/2 {
		t.Fatalf("from %+v to %+v, %v", full, empty, err)
	}
	if base, err := log.Base(ctx); err != nil || base.Seq != 115 {
		t.Fatalf("base %+v, %v", base, err)
	}
}

func TestFullServerIsBroughtBack(t *testing.T) {
	ctx := context.Background()
	log := openSmall(t, 16<<20)
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = log.Append(ctx, store.Draft{Kind: 10, Payload: append(make([]byte, 100<<10), byte(i), byte(i>>8))})
	}
	if !errors.Is(err, store.ErrRefused) {
		t.Fatalf("a small server took everything, or it is not known what: %v", err)
	}
	for what, size := range map[string]int{"a small record": 10, "a payload of its own": 2 << 20} {
		if _, err := log.Append(ctx, store.Draft{Kind: 10, Payload: make([]byte, size)}); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if u, err := log.Usage(ctx); err != nil || !u.NoSpace {
		t.Fatalf("usage %+v, %v", u, err)
	}
	if err := errors.Join(log.Forget(ctx, 0), log.Defragment(ctx), log.Disarm(ctx)); err != nil {
		t.Fatal(err)
	}
	if u, err := log.Usage(ctx); err != nil || u.NoSpace {
		t.Fatalf("usage %+v, %v", u, err)
	}
}

func TestBlobIsCollectedUnlessItIsPutAgain(t *testing.T) {
	ctx := context.Background()
	log := openSmall(t, 64<<20)
	hash, err := log.PutBlob(ctx, make([]byte, 3<<20))
	if err != nil {
		t.Fatal(err)
	}
	list := func() map[string]int64 {
		blobs, err := log.Blobs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return blobs
	}
	seen := list()
	if len(seen) != 1 {
		t.Fatalf("blobs %v", seen)
	}
	if _, err := log.PutBlob(ctx, make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if deleted, err := log.DeleteBlob(ctx, hash, seen[hash]); err != nil || deleted {
		t.Fatalf("a blob that was put again is deleted: %v, %v", deleted, err)
	}
	if deleted, err := log.DeleteBlob(ctx, hash, list()[hash]); err != nil || !deleted {
		t.Fatalf("deleted %v, %v", deleted, err)
	}
	if _, err := log.GetBlob(ctx, hash); !errors.Is(err, store.ErrNotFound) || len(list()) != 0 {
		t.Fatalf("still there: %v", err)
	}
	if _, err := log.PutBlob(ctx, make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if data, err := log.GetBlob(ctx, hash); err != nil || len(data) != 3<<20 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
}

// A chunk of a blob is gone, as after somebody has deleted keys by hand: that is an error, and no endless
// search for it.
func TestABlobThatLacksAChunkIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	server := startEtcd(t)
	log := openLog(t, server.Client, "test")
	for chunk, want := range map[int]error{0: store.ErrNotFound, 1: store.ErrCorrupt, 7: store.ErrCorrupt} {
		hash, err := log.PutBlob(ctx, append(make([]byte, 8<<20-1), byte(chunk)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Client.Delete(ctx, fmt.Sprintf("/millwright/test/blob/%s/%06d", hash, chunk)); err != nil {
			t.Fatal(err)
		}
		if _, err := log.GetBlob(ctx, hash); !errors.Is(err, want) {
			t.Errorf("without chunk %d: %v, want %v", chunk, err, want)
		}
	}
}
