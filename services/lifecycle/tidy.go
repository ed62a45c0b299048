package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/lane"
)

// tidyEvery is how often launch templates and instance profiles nobody uses are deleted.
const tidyEvery = 6 * time.Hour

// Templates deletes launch templates that are long unused; keep holds ids that open attempts name.
// launch.Builder is one.
type Templates interface {
	CollectTemplates(ctx context.Context, keep map[string]bool) error
}

// Profiles deletes instance profiles that nothing names; the lists are complete. nodeclass.Reconciler is one.
type Profiles interface {
	CollectProfiles(ctx context.Context, classes []*awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) error
}

// stepTidy starts the tidying when it is due. The first one waits, so that a restart doesn't begin with it.
func (s *Service) stepTidy(now time.Time) time.Time {
	if s.deps.Templates == nil && s.deps.Profiles == nil {
		return time.Time{}
	}
	due := latest(s.started.Add(tidyEvery), latest(s.mem.tidyDue(), s.mem.retries.At("tidy")))
	if now.Before(due) {
		return due
	}
	if s.host.Stop() == ledger.StopAll {
		return time.Time{}
	}
	s.effect("tidy", lane.Tidy, func(ctx context.Context) error {
		if err := s.tidy(ctx); err != nil {
			return s.putOff("tidy", err)
		}
		s.mem.tidied(s.host.Now())
		s.mem.retries.Succeeded("tidy")
		return nil
	})
	return now.Add(retryFirst)
}

func (s *Service) tidy(ctx context.Context) error {
	keep := map[string]bool{}
	err := s.host.Ledger(func(l *ledger.Ledger) error {
		for _, c := range l.Claims() {
			if c.Open == nil {
				continue
			}
			for _, t := range c.Open.LaunchTemplates {
				keep[t.ID] = true
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	var errs []error
	if s.deps.Templates != nil {
		errs = append(errs, s.deps.Templates.CollectTemplates(ctx, keep))
	}
	if s.deps.Profiles != nil {
		errs = append(errs, s.deps.Profiles.CollectProfiles(ctx, s.deps.Cache.NodeClasses(), s.deps.Cache.NodeClaims()))
	}
	return errors.Join(errs...)
}

func (m *memory) tidyDue() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tidyAt.IsZero() {
		return time.Time{}
	}
	return m.tidyAt.Add(tidyEvery)
}

func (m *memory) tidied(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tidyAt = at
}
