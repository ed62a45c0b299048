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

// tidyEvery is how often launch templates nobody uses are deleted, profilesEvery how often instance profiles are.
const (
	tidyEvery     = 10 * time.Minute
	profilesEvery = 6 * time.Hour
)

// Templates deletes launch templates that are unused for a while, a shorter one if they are scarce; keep holds ids that open attempts
// name. launch.Builder is one.
type Templates interface {
	CollectTemplates(ctx context.Context, keep map[string]bool, scarce bool) error
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
	due := latest(s.started.Add(tidyEvery), s.mem.tidyDue())
	if s.mem.scarce() {
		due = now // a launch waits for it
	}
	due = latest(due, s.mem.retries.At("tidy"))
	if now.Before(due) {
		return due
	}
	if s.host.Stop() == ledger.StopAll {
		return time.Time{}
	}
	s.effect("tidy", lane.Tidy, func(ctx context.Context) error {
		profiles := s.mem.profilesDue(s.started, now)
		if err := s.tidy(ctx, s.mem.scarce(), profiles); err != nil {
			return s.putOff("tidy", err)
		}
		s.mem.tidied(s.host.Now(), profiles)
		s.mem.retries.Succeeded("tidy")
		return nil
	})
	return now.Add(retryFirst)
}

func (s *Service) tidy(ctx context.Context, scarce, profiles bool) error {
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
		errs = append(errs, s.deps.Templates.CollectTemplates(ctx, keep, scarce))
	}
	if s.deps.Profiles != nil && profiles {
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

// profilesDue: it is time to look at the instance profiles, too.
func (m *memory) profilesDue(started, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !now.Before(latest(started, m.profilesAt).Add(profilesEvery))
}

// templatesScarce: EC2 refused to make a launch template because the account has too many.
func (m *memory) templatesScarce() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.templatesAreScarce = true
}

func (m *memory) scarce() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.templatesAreScarce
}

func (m *memory) tidied(at time.Time, profiles bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tidyAt, m.templatesAreScarce = at, false
	if profiles {
		m.profilesAt = at
	}
}
