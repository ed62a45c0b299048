package natsbus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// blobs keeps each blob as an object of one bucket.
type blobs struct {
	*readBlobs
	js    jetstream.JetStream
	cfg   Config
	store atomic.Pointer[jetstream.ObjectStore]
}

// blobTimeout bounds reading or writing one blob, some tens of MiB at most.
const blobTimeout = time.Minute

// storeFull are the server's codes for a full store and for no storage left.
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
	stream, err := b.js.Stream(ctx, b.stream())
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

// Put writes nothing if the blob is there with the same content: whoever reads it meanwhile would find its
// chunks gone.
func (b *blobs) Put(ctx context.Context, name string, data []byte) error {
	if b.holds(ctx, name, data) {
		return nil
	}
	return b.Write(ctx, name, func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	})
}

// holds reports that a blob is stored as a whole with this content. Where the server does not answer, it is
// not known to be.
func (b *blobs) holds(ctx context.Context, name string, data []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.RequestTimeout)
	defer cancel()
	o, err := b.findBlob(ctx, name)
	sum := sha256.Sum256(data)
	if err != nil || o.info.Size != uint64(len(data)) || o.info.Digest != digest(sum[:]) {
		return false
	}
	stream, err := b.js.Stream(ctx, b.stream())
	if err != nil {
		return false
	}
	chunks := b.chunksOf(o.info.NUID)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(chunks))
	return err == nil && info.State.Subjects[chunks] == uint64(o.info.Chunks)
}

func (b *blobs) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	err := b.write(ctx, name, write)
	if refused(err, storeFull...) {
		return fmt.Errorf("put blob %s: %w: %w", name, events.ErrNoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	return nil
}

// write tries again when acknowledgements do not arrive: a server that died takes them along, and its
// successor accepts the same bytes.
func (b *blobs) write(ctx context.Context, name string, write func(io.Writer) error) error {
	for {
		err := b.attempt(ctx, name, write)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// attempt gives up when nothing was accepted or acknowledged for the timeout of a request plus a second for
// each MiB that may be in flight.
func (b *blobs) attempt(ctx context.Context, name string, write func(io.Writer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(b.cfg.RequestTimeout, func() { cancel(context.DeadlineExceeded) })
	defer idle.Stop()
	out, in := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(in)
		in.CloseWithError(err)
		written <- err
	}()
	moved := 0
	_, err := b.bucket().Put(ctx, jetstream.ObjectMeta{Name: name}, &chunks{in: out, taken: func(n int) {
		moved += n
		idle.Reset(b.cfg.RequestTimeout + time.Duration(moved>>20)*time.Second)
	}})
	out.CloseWithError(errNotTaken) // ends write if it has not returned yet
	if own := <-written; own != nil && !errors.Is(own, errNotTaken) {
		return own
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}

// errNotTaken is what a blob's writer sees when the store has given up on it.
var errNotTaken = errors.New("the store takes no more of the blob")

// chunks fills each buffer of the object store, which turns the result of each Read into a message.
type chunks struct {
	in    io.Reader
	taken func(int)
}

func (c *chunks) Read(b []byte) (int, error) {
	n, err := io.ReadFull(c.in, b)
	c.taken(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Delete also purges the tombstone that the object store keeps of a deleted object: checkpoints come and go
// for years, each under a name of its own.
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
	stream, err := b.js.Stream(ctx, b.stream())
	if err != nil {
		return fmt.Errorf("delete blob %s: %w", name, err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(b.subjectOf(name))); err != nil {
		return fmt.Errorf("purge mark of blob %s: %w", name, err)
	}
	return nil
}

func (b *blobs) List(ctx context.Context, prefix string) ([]string, error) {
	var objects []*jetstream.ObjectInfo
	err := b.ask(ctx, func(ctx context.Context) (err error) {
		objects, err = b.bucket().List(ctx)
		return err
	})
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
