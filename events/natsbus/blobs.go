package natsbus

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// blobs keeps each blob as an object of one bucket.
type blobs struct {
	js    jetstream.JetStream
	cfg   Config
	store atomic.Pointer[jetstream.ObjectStore]
}

// blobTimeout bounds reading or writing one blob, some tens of MiB at most.
const blobTimeout = time.Minute

// storeFull are the server's codes for: the store takes no more, no storage is left.
var storeFull = []jetstream.ErrorCode{10047, 10077}

// open opens the bucket, creating it if it does not exist: it may have been lost with the server's storage.
func (b *blobs) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.RequestTimeout)
	defer cancel()
	store, err := b.js.ObjectStore(ctx, b.cfg.bucket())
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		store, err = b.create(ctx)
	}
	if err == nil {
		err = b.bound(ctx)
	}
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", b.cfg.bucket(), err)
	}
	b.store.Store(&store)
	return nil
}

func (b *blobs) create(ctx context.Context) (store jetstream.ObjectStore, err error) {
	cfg := b.cfg
	setDefault(&cfg.MaxBlobBytes, DefaultMaxBlobBytes)
	err = cfg.withReplicas(func(replicas int) error {
		store, err = b.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: cfg.bucket(), Description: "Checkpoints and catalogues of cluster " + cfg.Cluster,
			Storage: jetstream.FileStorage, MaxBytes: cfg.MaxBlobBytes, Replicas: replicas, Compression: true,
		})
		return err
	})
	if errors.Is(err, jetstream.ErrBucketExists) {
		return b.js.ObjectStore(ctx, cfg.bucket())
	}
	return store, err
}

// bound applies explicit bounds to the bucket as it is.
func (b *blobs) bound(ctx context.Context) error {
	stream, err := b.js.Stream(ctx, "OBJ_"+b.cfg.bucket())
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	bytes, replicas := b.cfg.MaxBlobBytes, b.cfg.Replicas
	if (bytes == 0 || config.MaxBytes == bytes) && (replicas == 0 || config.Replicas == replicas) {
		return nil
	}
	config.MaxBytes, config.Replicas = cmp.Or(bytes, config.MaxBytes), cmp.Or(replicas, config.Replicas)
	_, err = b.js.UpdateStream(ctx, config)
	return err
}

func (b *blobs) bucket() jetstream.ObjectStore { return *b.store.Load() }

func (b *blobs) Put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	err := b.put(ctx, name, data)
	if refused(err, storeFull...) {
		return fmt.Errorf("put blob %s: %w: %w", name, events.ErrNoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	return nil
}

// put tries again when acknowledgements stay away: a server that died takes them along, and its successor takes the same bytes.
func (b *blobs) put(ctx context.Context, name string, data []byte) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, b.cfg.RequestTimeout+time.Duration(len(data)>>20)*time.Second)
		_, err := b.bucket().PutBytes(attempt, name, data)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

func (b *blobs) Get(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	data, err := b.bucket().GetBytes(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fmt.Errorf("blob %s: %w", name, events.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	return data, nil
}

// Delete also purges the mark that the object store keeps of what was deleted: checkpoints come and go for
// years, each under a name of its own.
func (b *blobs) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.RequestTimeout)
	defer cancel()
	err := b.bucket().Delete(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete blob %s: %w", name, err)
	}
	stream, err := b.js.Stream(ctx, "OBJ_"+b.cfg.bucket())
	if err != nil {
		return fmt.Errorf("delete blob %s: %w", name, err)
	}
	mark := "$O." + b.cfg.bucket() + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(mark)); err != nil {
		return fmt.Errorf("purge mark of blob %s: %w", name, err)
	}
	return nil
}

func (b *blobs) List(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.RequestTimeout)
	defer cancel()
	objects, err := b.bucket().List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	var names []string
	for _, o := range objects {
		if strings.HasPrefix(o.Name, prefix) && !o.Deleted {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
