package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"millwright/planner/ledger"
	"millwright/store"
)

// CheckpointLog is what checkpoints of the Ledger are read from; store.Log is one.
type CheckpointLog interface {
	Log
	Aggregate(ctx context.Context, name string) (uint64, error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
}

// ErrNoCheckpoint: the log holds no checkpoint of the Ledger that this version can use.
var ErrNoCheckpoint = errors.New("no usable checkpoint of the ledger")

// checkpointBytesMax bounds a decoded checkpoint, checkpointWindowMax what decompressing it takes.
const (
	checkpointBytesMax  = 1 << 30
	checkpointWindowMax = 64 << 20
)

// CheckpointOf returns the record of a checkpoint, without the blob's name, and the blob. It holds no more in
// memory than the compressed blob; l is a version.
func CheckpointOf(l *ledger.Ledger) (ledger.LedgerCheckpoint, []byte, error) {
	var blob bytes.Buffer
	// A window of 1 MiB: a larger one saves little and takes its size several times.
	z, err := zstd.NewWriter(&blob, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return ledger.LedgerCheckpoint{}, nil, fmt.Errorf("compress checkpoint of the ledger: %w", err)
	}
	digest := ledger.NewDigester()
	if err := errors.Join(l.WriteCheckpoint(io.MultiWriter(digest, z)), z.Close()); err != nil {
		return ledger.LedgerCheckpoint{}, nil, err
	}
	return ledger.LedgerCheckpoint{
		Seq: l.Seq(), Digest: digest.Digest(), Version: ledger.StateVersion, Previous: l.Aggregate(ledger.CheckpointAggregate),
	}, blob.Bytes(), nil
}

// DecodeCheckpoint returns the Ledger that a blob holds, after comparing it with the record's digest.
func DecodeCheckpoint(p ledger.LedgerCheckpoint, blob []byte) (*ledger.Ledger, error) {
	if p.Version < ledger.StateVersionOldest || p.Version > ledger.StateVersion {
		return nil, fmt.Errorf("checkpoint of the ledger at %d: version %d, this program reads %d to %d",
			p.Seq, p.Version, ledger.StateVersionOldest, ledger.StateVersion)
	}
	r, err := zstd.NewReader(bytes.NewReader(blob), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(checkpointWindowMax))
	if err != nil {
		return nil, fmt.Errorf("decompress ledger at %d: %w", p.Seq, err)
	}
	defer r.Close()
	digest := ledger.NewDigester()
	in := io.TeeReader(io.LimitReader(r, checkpointBytesMax), digest)
	l, err := ledger.ReadCheckpoint(in)
	if err != nil {
		return nil, fmt.Errorf("checkpoint of the ledger at %d: %w", p.Seq, err)
	}
	if digest.Digest() != p.Digest {
		return nil, fmt.Errorf("checkpoint of the ledger at %d: digest does not match", p.Seq)
	}
	if l.Seq() != p.Seq {
		return nil, fmt.Errorf("checkpoint of the ledger at %d holds %d", p.Seq, l.Seq())
	}
	return l, nil
}

// NewestLedger restores the newest checkpoint of a Ledger that is not beyond upTo (0: any). If one cannot be
// used, passed is called with the reason and the one before it is tried. It returns ErrNoCheckpoint if none
// is left.
func NewestLedger(ctx context.Context, log CheckpointLog, upTo uint64, passed func(error)) (*ledger.Ledger, error) {
	var found *ledger.Ledger
	err := EachCheckpoint(ctx, log, func(c Checkpoint) bool {
		if upTo > 0 && c.Seq > upTo {
			return true
		}
		l, err := restore(ctx, log, c.LedgerCheckpoint)
		if err != nil {
			passed(err)
			return ctx.Err() == nil
		}
		found = l
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case found == nil:
		return nil, ErrNoCheckpoint
	}
	return found, nil
}

// Checkpoint is a LedgerCheckpoint and when it was written.
type Checkpoint struct {
	ledger.LedgerCheckpoint
	// Record is its sequence.
	Record uint64
	Time   time.Time
}

// EachCheckpoint calls fn for the checkpoints on record, newest first, until it returns false or one is not
// in the log.
func EachCheckpoint(ctx context.Context, log CheckpointLog, fn func(Checkpoint) bool) error {
	seq, err := log.Aggregate(ctx, ledger.CheckpointAggregate)
	if err != nil {
		return fmt.Errorf("find checkpoint: %w", err)
	}
	for seq > 0 {
		c, err := checkpointAt(ctx, log, seq)
		switch {
		case errors.Is(err, store.ErrCompacted):
			return nil
		case err != nil:
			return err
		case c.Previous >= seq:
			return fmt.Errorf("record %d: names a later checkpoint %d before it: %w", seq, c.Previous, store.ErrCorrupt)
		case !fn(c):
			return nil
		}
		seq = c.Previous
	}
	return nil
}

func checkpointAt(ctx context.Context, log Log, seq uint64) (Checkpoint, error) {
	records, err := log.Read(ctx, seq, 1)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	if len(records) != 1 || ledger.Kind(records[0].Kind) != ledger.KindLedgerCheckpoint {
		return Checkpoint{}, fmt.Errorf("record %d: is no checkpoint of the ledger: %w", seq, store.ErrCorrupt)
	}
	c := Checkpoint{Record: seq, Time: records[0].Time}
	if err := json.Unmarshal(records[0].Payload, &c.LedgerCheckpoint); err != nil {
		return c, fmt.Errorf("record %d: %w: %w", seq, ErrPayload, err)
	}
	return c, nil
}

func restore(ctx context.Context, log CheckpointLog, p ledger.LedgerCheckpoint) (*ledger.Ledger, error) {
	blob, err := log.GetBlob(ctx, p.Blob)
	if err != nil {
		return nil, fmt.Errorf("checkpoint of the ledger at %d: %w", p.Seq, err)
	}
	return DecodeCheckpoint(p, blob)
}
