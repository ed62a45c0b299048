package fold

import (
	"context"
	"errors"

	"millwright/events"
	"millwright/planner/world"
)

// newestCheckpoint returns the World of the newest checkpoint from which the stream continues; nil if there
// is none. One that cannot be read is skipped: an older one or none costs only time.
func (s *State) newestCheckpoint(ctx context.Context, st events.StreamState) (*world.World, error) {
	w, _, err := events.LatestCheckpoint(ctx, s.stream.Blobs(), st, st.Last, world.ReadCheckpoint, func(c events.Checkpoint, err error) {
		s.logger.Warn().Err(err).Str("checkpoint", c.Name).Msg("checkpoint refused")
	})
	if errors.Is(err, events.ErrNotFound) {
		return nil, nil
	}
	return w, err
}
