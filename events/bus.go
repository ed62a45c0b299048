package events

import (
	"context"
	"errors"
	"io"
)

// Errors of a Stream. ErrFull: the bounded queue of unacknowledged publishes is full, retry after a Flush.
var (
	ErrFull     = errors.New("publish queue full")
	ErrNotFound = errors.New("not found")
	// ErrDamaged: a blob is not what was stored; retrying is useless.
	ErrDamaged = errors.New("damaged")
	// ErrNoSpace: the store of blobs takes no more until some are deleted.
	ErrNoSpace = errors.New("no space left for blobs")
	// ErrCompacted: the sequence asked for is no longer retained; start from a checkpoint.
	ErrCompacted = errors.New("sequence no longer retained")
	// ErrRenewed: the stream has lost messages that were read, even if others took their place, or was
	// replaced by a new incarnation. State names the one in force from now on; start from its checkpoint or
	// its first message.
	ErrRenewed = errors.New("stream has a new incarnation")
)

// Message as the stream holds it.
type Message struct {
	// Sequence starts at 1 and rises by one.
	Sequence uint64
	Data     []byte
}

// StreamState bounds what the stream retains. First > Last when it is empty.
type StreamState struct {
	// Incarnation names the stream (see Position).
	Incarnation string
	First, Last uint64
}

// Stream is the one ordered stream of observations. Implementations: membus, natsbus.
type Stream interface {
	// State asks the server.
	State(ctx context.Context) (StreamState, error)
	// Publish queues data and returns without waiting; ErrFull when the bound is reached. A failed
	// publish is reported by the next Flush.
	Publish(ctx context.Context, data []byte) error
	// Flush waits until all queued publishes are acknowledged as stored.
	Flush(ctx context.Context) error
	// Consume calls fn for each retained message from sequence `from` on, in order, and then for each new
	// one, until ctx ends or fn returns an error, which Consume returns. It reconnects by itself. It returns
	// ErrCompacted if `from` is below what is retained or messages were discarded before it got to them, and
	// ErrRenewed as said there. What a server lost in the middle of the stream is passed over. `from` 0 means
	// the first that is retained.
	Consume(ctx context.Context, from uint64, fn func(Message) error) error
	// Renew abandons the stream for a new, empty incarnation and returns its state. Only the watcher does
	// this.
	Renew(ctx context.Context) (StreamState, error)
	// Blobs is the object store beside the stream. It is shared by all incarnations.
	Blobs() Blobs
	Close() error
}

// Blobs holds checkpoints and content-addressed catalogues by name.
type Blobs interface {
	// Put returns ErrNoSpace if the store is full.
	Put(ctx context.Context, name string, data []byte) error
	// Write stores what write writes, as a whole or not at all, and never holds all of it. After a fault of
	// the store it may call write again, which must write the same. Errors as of Put, and write's own.
	Write(ctx context.Context, name string, write func(io.Writer) error) error
	// Get returns ErrNotFound if there is none, ErrDamaged if it is not what was put.
	Get(ctx context.Context, name string) ([]byte, error)
	// Open returns a blob to be read to its end and closed; what it reads is right only if the end is reached
	// without an error. Errors, of Open and of reading, as of Get.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	Delete(ctx context.Context, name string) error
	// List returns the names with the prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
}

// OrphanCollector is implemented by Blobs that keep parts of blobs whose writer crashed. CollectOrphans
// deletes those that are so old that nobody can be writing them any more, and returns of how many blobs.
type OrphanCollector interface {
	CollectOrphans(ctx context.Context) (deleted int, err error)
}
