package host

import (
	"context"
	"errors"

	"millwright/events"
	"millwright/planner/world"
)

// newestCheckpoint returns the World of the newest checkpoint from which the stream goes on; nil if there
// is none. One that can't be read is passed over: an older one or none costs time only.
func (s *State) newestCheckpoint(ctx context.Context, st events.StreamState) (*world.World, error) {
	for before := st.Last; ; {
		name, data, sequence, err := events.LoadCheckpointBefore(ctx, s.stream.Blobs(), st, before)
		if errors.Is(err, events.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		w, err := world.Restore(data)
		if err == nil {
			return w, nil
		}
		s.logger.Warn().Err(err).Str("checkpoint", name).Msg("checkpoint refused")
		if sequence == 0 {
			return nil, nil
		}
		before = sequence - 1
	}
}
