package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const checkpointPrefix = "checkpoint/"

// Checkpoint of a World: the fold of one incarnation up to and including Sequence.
type Checkpoint struct {
	Name        string
	Incarnation string
	Sequence    uint64
}

// CheckpointPrefix is what the names of the checkpoints of an incarnation begin with.
func CheckpointPrefix(incarnation string) string { return checkpointPrefix + incarnation + "/" }

// CheckpointName is the blob's name; the order of names of one incarnation is that of sequences.
func CheckpointName(incarnation string, sequence uint64) string {
	return fmt.Sprintf("%s%020d", CheckpointPrefix(incarnation), sequence)
}

// Checkpoints lists all checkpoints, by incarnation and sequence. Blobs with other names are left out.
func Checkpoints(ctx context.Context, blobs Blobs) ([]Checkpoint, error) {
	names, err := blobs.List(ctx, checkpointPrefix)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var list []Checkpoint
	for _, name := range names {
		incarnation, digits, ok := strings.Cut(strings.TrimPrefix(name, checkpointPrefix), "/")
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && CheckpointName(incarnation, n) == name {
			list = append(list, Checkpoint{Name: name, Incarnation: incarnation, Sequence: n})
		}
	}
	return list, nil
}

// LoadLatestCheckpoint returns the newest checkpoint from which the stream goes on without a gap: folding
// starts at its Sequence + 1. ErrNotFound: there is none, fold from the first retained message.
func LoadLatestCheckpoint(ctx context.Context, s Stream) (name string, data []byte, sequence uint64, err error) {
	state, err := s.State(ctx)
	if err != nil {
		return "", nil, 0, fmt.Errorf("load checkpoint: %w", err)
	}
	return LoadCheckpointBefore(ctx, s.Blobs(), state, state.Last)
}

// LoadCheckpointBefore is LoadLatestCheckpoint for a fold that must not pass a sequence, as in replay.
func LoadCheckpointBefore(ctx context.Context, blobs Blobs, state StreamState, sequence uint64) (string, []byte, uint64, error) {
	list, err := Checkpoints(ctx, blobs)
	if err != nil {
		return "", nil, 0, err
	}
	for _, c := range slices.Backward(list) {
		if c.Incarnation != state.Incarnation || c.Sequence > min(sequence, state.Last) || c.Sequence+1 < state.First {
			continue
		}
		data, err := blobs.Get(ctx, c.Name)
		if errors.Is(err, ErrNotFound) {
			continue // just replaced by a newer one
		}
		return c.Name, data, c.Sequence, err
	}
	return "", nil, 0, fmt.Errorf("checkpoint of %s: %w", state.Incarnation, ErrNotFound)
}
