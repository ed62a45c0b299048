package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// orphanAge is how long chunks that no description names must have lain before they are deleted. Writing a
// blob takes blobTimeout at most, and its description comes last.
const orphanAge = time.Hour

// CollectOrphans implements events.OrphanCollector. A writer that crashed leaves chunks and no description,
// one that replaced or deleted a blob may leave the chunks of what was there. Both clocks that are compared
// are the servers'.
func (b *blobs) CollectOrphans(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	deleted, err := b.collectOrphans(ctx, func(now, last time.Time) bool { return now.Sub(last) >= orphanAge })
	if err != nil {
		return deleted, fmt.Errorf("collect chunks of bucket %s: %w", b.cfg.bucket(), err)
	}
	return deleted, nil
}

// collectOrphans looks at the chunks first: a blob that is completed meanwhile is among those described. old
// decides by the times of now and of a writer's last chunk.
func (b *blobs) collectOrphans(ctx context.Context, old func(now, last time.Time) bool) (deleted int, err error) {
	stream, err := b.js.Stream(ctx, b.stream())
	if err != nil {
		return 0, err
	}
	prefix := "$O." + b.cfg.bucket() + "."
	chunks, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+"C.>"))
	if err != nil || len(chunks.State.Subjects) == 0 {
		return 0, err
	}
	described, err := describedChunks(ctx, stream, prefix)
	if err != nil {
		return 0, err
	}
	for _, subject := range slices.Sorted(maps.Keys(chunks.State.Subjects)) {
		if described[strings.TrimPrefix(subject, prefix+"C.")] {
			continue
		}
		last, err := stream.GetLastMsgForSubject(ctx, subject)
		if err != nil {
			return deleted, fmt.Errorf("read the last chunk of %s: %w", subject, err)
		}
		if !old(chunks.TimeStamp, last.Time) {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return deleted, fmt.Errorf("purge chunks %s: %w", subject, err)
		}
		deleted++
	}
	return deleted, nil
}

// describedChunks are the names of the chunks of all blobs that exist. Each description is asked for by
// itself: one that could not be read ends in an error and not in the loss of its blob.
func describedChunks(ctx context.Context, stream jetstream.Stream, prefix string) (map[string]bool, error) {
	descriptions, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+"M.>"))
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for subject := range descriptions.State.Subjects {
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		if err != nil {
			return nil, fmt.Errorf("read description %s: %w", subject, err)
		}
		var info jetstream.ObjectInfo
		if err := json.Unmarshal(m.Data, &info); err != nil {
			return nil, fmt.Errorf("read description %s: %w", subject, err)
		}
		if !info.Deleted {
			named[info.NUID] = true
		}
	}
	return named, nil
}
