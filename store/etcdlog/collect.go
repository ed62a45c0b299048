package etcdlog

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// blobsPage is how many chunks are listed at a time.
const blobsPage = 1000

// Blobs returns the blobs that exist, each with the revision of etcd at which it was last put.
func (l *Log) Blobs(ctx context.Context) (map[string]int64, error) {
	prefix := l.keys.prefix + "blob/"
	blobs := map[string]int64{}
	for from := prefix; ; {
		resp, err := l.kv.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithKeysOnly(), clientv3.WithLimit(blobsPage))
		if err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		for _, kv := range resp.Kvs {
			hash, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
			blobs[hash] = max(blobs[hash], kv.ModRevision)
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return blobs, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// DeleteBlob deletes a blob unless it was put again after the revision; it reports whether it did. The caller
// knows that no record names the blob.
func (l *Log) DeleteBlob(ctx context.Context, hash string, revision int64) (bool, error) {
	resp, err := l.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(l.keys.blob(hash)), "<", revision+1).WithPrefix()).
		Then(clientv3.OpDelete(l.keys.blob(hash), clientv3.WithPrefix())).Commit()
	if err != nil {
		return false, fmt.Errorf("delete blob %s: %w", hash, err)
	}
	return resp.Succeeded, nil
}

// renewBlob puts the first chunk of a blob again unchanged, so that nobody collects it before a record names
// it; false if it does not exist.
func (l *Log) renewBlob(ctx context.Context, hash string) (bool, error) {
	first := l.keys.chunk(hash, 0)
	resp, err := l.kv.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(first), ">", 0)).
		Then(clientv3.OpPut(first, "", clientv3.WithIgnoreValue())).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}
