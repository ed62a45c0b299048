package garbage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millwright/planner"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/services/lifecycle/effects"
)

// TidyEvery is how often launch templates nobody uses are deleted, profilesEvery how often instance profiles
// are.
const (
	TidyEvery     = 10 * time.Minute
	profilesEvery = 6 * time.Hour
)

// Templates deletes launch templates that are unused for a while, a shorter one if they are scarce; keep
// holds ids that open attempts name. launch.Builder is one.
type Templates interface {
	CollectTemplates(ctx context.Context, keep map[string]bool, scarce bool) error
}

// Profiles deletes instance profiles that nothing names; the lists are complete. nodeclass.Reconciler is one.
type Profiles interface {
	CollectProfiles(ctx context.Context, classes []*awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) error
}

// tidying is when what was tidied up.
type tidying struct {
	mu sync.Mutex
	// tidyAt is when templates were last tidied up, profilesAt when that was last tried with profiles.
	tidyAt, profilesAt time.Time
	// areScarce: tidying templates is urgent.
	areScarce bool
}

// StepTidy starts the tidying when it is due. The first one waits, so that a restart doesn't begin with it.
func (g *Collector) StepTidy(now time.Time) time.Time {
	if g.deps.Templates == nil && g.deps.Profiles == nil {
		return time.Time{}
	}
	due := planner.Latest(g.started.Add(TidyEvery), g.tidying.tidyDue())
	if g.tidying.scarce() || due.Sub(now) > TidyEvery { // a launch waits for it, or the clock was set back
		due = now
	}
	due = planner.Latest(due, g.effects.Retries.At("tidy", now))
	if now.Before(due) {
		return due
	}
	if g.host.Stop() == ledger.StopAll {
		return time.Time{}
	}
	g.effects.Start("tidy", lane.Tidy, func(ctx context.Context) error {
		if err := g.tidy(ctx, g.tidying.scarce(), g.tidying.profilesDue(g.started, now)); err != nil {
			return g.effects.PutOff("tidy", err)
		}
		g.effects.Retries.Succeeded("tidy")
		return nil
	})
	return now.Add(effects.RetryFirst)
}

func (g *Collector) tidy(ctx context.Context, scarce, profiles bool) error {
	keep := map[string]bool{}
	err := g.host.Ledger(func(l *ledger.Ledger) error {
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
	var ofTemplates, ofProfiles error
	if g.deps.Templates != nil {
		ofTemplates = g.deps.Templates.CollectTemplates(ctx, keep, scarce)
	}
	if ofTemplates == nil {
		g.tidying.templatesTidied(g.host.Now())
	}
	if g.deps.Profiles != nil && profiles {
		ofProfiles = g.deps.Profiles.CollectProfiles(ctx, g.deps.Cache.NodeClasses(), g.deps.Cache.NodeClaims())
		g.tidying.profilesAsked(g.host.Now())
	}
	return errors.Join(ofTemplates, ofProfiles)
}

func (t *tidying) tidyDue() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tidyAt.IsZero() {
		return time.Time{}
	}
	return t.tidyAt.Add(TidyEvery)
}

// profilesDue: it is time to look at the instance profiles, too.
func (t *tidying) profilesDue(started, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !now.Before(planner.Latest(started, t.profilesAt).Add(profilesEvery))
}

// TemplatesScarce: EC2 refused to make a launch template because the account has too many.
func (g *Collector) TemplatesScarce() {
	g.tidying.mu.Lock()
	defer g.tidying.mu.Unlock()
	g.tidying.areScarce = true
}

func (t *tidying) scarce() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.areScarce
}

func (t *tidying) templatesTidied(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidyAt, t.areScarce = at, false
}

// profilesAsked holds profiles back until the next time, also when they could not be tidied up, as without
// rights to IAM: what is left costs nothing, and templates must not wait for it.
func (t *tidying) profilesAsked(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.profilesAt = at
}
