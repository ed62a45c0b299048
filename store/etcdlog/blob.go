package etcdlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/record"
)

// chunkBytes is how much one key of a blob holds; etcd accepts requests of up to 1.5 MiB.
const chunkBytes = 1 << 20

// PutBlob implements store.Log. The first chunk is written last, so that a blob exists completely or not at
// all.
func (l *Log) PutBlob(ctx context.Context, data []byte) (string, error) {
	if len(data) > store.MaxBlobBytes {
		return "", fmt.Errorf("put blob of %d bytes: %w", len(data), store.ErrTooLarge)
	}
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	there, err := l.renewBlob(ctx, hash)
	if err != nil {
		return "", fmt.Errorf("put blob %s: %w", hash, err)
	}
	if there {
		return hash, nil
	}
	chunks := slices.Collect(slices.Chunk(data, chunkBytes))
	if len(chunks) == 0 {
		chunks = [][]byte{nil}
	}
	for n := len(chunks) - 1; n >= 0; n-- {
		if _, err := l.kv.Put(ctx, l.keys.chunk(hash, n), string(chunks[n])); err != nil {
			return "", fmt.Errorf("put chunk %d of blob %s: %w", n, hash, err)
		}
	}
	return hash, nil
}

// GetBlob implements store.Log.
func (l *Log) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	var data []byte
	n := 0
	for {
		resp, err := l.kv.Get(ctx, l.keys.chunk(hash, n), clientv3.WithRange(clientv3.GetPrefixRangeEnd(l.keys.blob(hash))), clientv3.WithLimit(4))
		if err != nil {
			return nil, fmt.Errorf("get blob %s: %w", hash, err)
		}
		whole := true
		for _, kv := range resp.Kvs {
			if whole = string(kv.Key) == l.keys.chunk(hash, n); !whole {
				break // what is behind a hole is not asked for again and again
			}
			data = append(data, kv.Value...)
			n++
		}
		if !resp.More || !whole {
			break
		}
		if len(data) > store.MaxBlobBytes {
			return nil, fmt.Errorf("blob %s is over %d bytes: %w", hash, store.MaxBlobBytes, store.ErrCorrupt)
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("get blob %s: %w", hash, store.ErrNotFound)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("blob %s: hash does not match: %w", hash, store.ErrCorrupt)
	}
	return data, nil
}

// resolve fetches the blobs of the record. A missing payload is an error; a missing explanation is not,
// because explanations may be dropped to save room.
func (l *Log) resolve(ctx context.Context, s record.Stored) (store.Record, error) {
	r := s.Record
	var err error
	if s.PayloadContent.Blob {
		if r.Payload, err = l.GetBlob(ctx, s.PayloadContent.BlobName()); err != nil {
			return r, l.missing(ctx, s.Seq, "payload", err)
		}
	}
	if s.ExplanationContent.Blob {
		r.Explanation, err = l.GetBlob(ctx, s.ExplanationContent.BlobName())
		if err != nil && !isNotFound(err) {
			return r, l.missing(ctx, s.Seq, "explanation", err)
		}
	}
	return r, nil
}
