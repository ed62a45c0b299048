package fold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"millwright/services/internal/clock"
	"millwright/store"
)

const (
	retryIntervalMax = 5 * time.Second
	// steadyAfter is how long a loop must have run for its next interruption to count as the first.
	steadyAfter = 10 * time.Second
)

// errUndecodable: a record that this version cannot fold.
var errUndecodable = errors.New("undecodable record")

// retry calls fn again and again until ctx ends, with backoff. After an error that retrying cannot fix the
// State fails, and retry only waits for the end of ctx: the process keeps answering.
func (s *State) retry(ctx context.Context, what string, fn func(context.Context) error) error {
	b := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(retryIntervalMax))
	for ctx.Err() == nil {
		began := time.Now()
		err := fn(ctx)
		if ctx.Err() != nil {
			break
		}
		if isHopeless(err) {
			s.fail(fmt.Errorf("%s: %w: %w", what, ErrStandDown, err))
			<-ctx.Done()
			break
		}
		if time.Since(began) > steadyAfter {
			b.Reset()
		}
		pause := b.NextBackOff()
		s.logger.Warn().Err(err).Str("what", what).Dur("retry_in", pause).Msg("folding interrupted")
		_ = clock.Sleep(ctx, pause)
	}
	return nil
}

func isHopeless(err error) bool {
	return errors.Is(err, errUndecodable) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrForeignLog)
}
