package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Folder is where Fold puts what it reads.
type Folder struct {
	// Apply is called with each decoded observation, in order. A CatalogRef is resolved, unless it is held or
	// its blob is gone or damaged.
	Apply func(sequence uint64, o Observation) error
	// Held reports that the content of a reference is known, so that its blob is not read again. May be nil.
	Held func(*CatalogRef) bool
	// Refused is called for each message that could not be decoded (it is skipped: the World sees the gap in
	// the counter), for each of an unknown kind (it is applied without its object), and for each catalogue
	// whose blob is gone or damaged (it is applied unresolved, and the World sees that it lacks one). May be
	// nil.
	Refused func(sequence uint64, err error)
}

// Fold consumes the stream from a sequence on until ctx ends, Apply returns an error, or Consume does
// (ErrCompacted, ErrRenewed: start over from a checkpoint). An unavailable blob store only delays it.
func Fold(ctx context.Context, s Stream, from uint64, f Folder) error {
	return s.Consume(ctx, from, func(m Message) error {
		o, err := Decode(m.Data)
		if err != nil {
			f.refuse(m.Sequence, err)
		}
		if err != nil && !errors.Is(err, ErrUnknownKind) {
			return nil
		}
		if err := resolvePatiently(ctx, s.Blobs(), &o, f.Held); BlobLost(err) {
			f.refuse(m.Sequence, err)
		} else if err != nil {
			return err
		}
		return f.Apply(m.Sequence, o)
	})
}

func (f Folder) refuse(sequence uint64, err error) {
	if f.Refused != nil {
		f.Refused(sequence, fmt.Errorf("message %d: %w", sequence, err))
	}
}

// resolvePatiently retries until the blob is there, is known to be gone or damaged, or ctx ends.
func resolvePatiently(ctx context.Context, blobs Blobs, o *Observation, held func(*CatalogRef) bool) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := ResolveCatalog(ctx, blobs, o, held)
		if err == nil || BlobLost(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// BlobLost reports that a blob is gone or damaged: asking for it again does not help.
func BlobLost(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) }
