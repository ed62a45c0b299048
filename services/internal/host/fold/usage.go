package fold

import (
	"context"
	"time"

	"millwright/services/internal/clock"
	"millwright/store"
)

const (
	// usageEvery is how often the usage of the log's database is read.
	usageEvery   = 10 * time.Second
	usageTimeout = 5 * time.Second
	// usageSlack keeps explanations from alternating between kept and omitted at the limit.
	usageSlack = 0.05
)

// watchUsage reads the database's usage until ctx ends.
func (s *State) watchUsage(ctx context.Context) error {
	if s.usage == nil {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		if err := s.measure(ctx); err != nil && ctx.Err() == nil {
			s.logger.Debug().Err(err).Msg("usage of the log's database not known")
		}
		_ = clock.Sleep(ctx, usageEvery)
	}
	return nil
}

// measure decides by the used part of the quota, if that is known, whether new records omit explanations.
func (s *State) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	u, err := s.usage(ctx)
	if err != nil {
		return err
	}
	s.metrics.usage.WithLabelValues("quota").Set(float64(u.QuotaBytes))
	s.metrics.usage.WithLabelValues("file").Set(float64(u.FileBytes))
	s.metrics.usage.WithLabelValues("used").Set(float64(u.UsedBytes))
	limit := store.OmitExplanationsFrom
	if s.crowded.Load() {
		limit -= usageSlack
	}
	crowded := u.Level() >= limit && !u.Assumed
	if s.crowded.Swap(crowded) != crowded {
		s.logger.Warn().Bool("omitted", crowded).Int64("used_bytes", u.UsedBytes).Int64("quota_bytes", u.QuotaBytes).
			Msg("explanations of new records")
	}
	s.metrics.explanationsOut.Set(0)
	if crowded {
		s.metrics.explanationsOut.Set(1)
	}
	return nil
}
