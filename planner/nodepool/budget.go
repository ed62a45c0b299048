package nodepool

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	karpv1 "millwright/api/karpenter/v1"
)

// Unlimited is what budgets allow that are not about a reason, or not now.
const Unlimited = math.MaxInt32

// Allowed is the minimum over the budgets for the reason; any invalid budget allows nothing at all. No
// budgets mean no limit: the API server fills in 10 % where the field is absent, so none is what the user
// wrote.
func Allowed(budgets []karpv1.Budget, reason karpv1.DisruptionReason, nodes int, now time.Time) (int, error) {
	least := Unlimited
	for i, b := range budgets {
		n, err := budgetValue(b, nodes, now)
		if err != nil {
			return 0, fmt.Errorf("budget %d: %w", i, err)
		}
		if names(b, reason) {
			least = min(least, n)
		}
	}
	return least, nil
}

// names reports that a budget is about the reason. Absent reasons are all of them, an empty list is none
// (reference: api §1.1).
func names(b karpv1.Budget, reason karpv1.DisruptionReason) bool {
	return b.Reasons == nil || slices.Contains(b.Reasons, reason)
}

// CheckBudget returns what is wrong with a budget, each error beginning with its field. A budget that cannot
// be read would otherwise allow nothing, for any reason, without a word (reference: api §8).
func CheckBudget(b karpv1.Budget) []error {
	var errs []error
	if _, err := share(b.Nodes, 0); err != nil {
		errs = append(errs, fmt.Errorf("nodes: %w", err))
	}
	if (b.Schedule == nil) != (b.Duration == nil) {
		errs = append(errs, errors.New("schedule: 'schedule' must be set with 'duration'"))
	}
	if b.Schedule != nil {
		if s, err := ParseSchedule(*b.Schedule); err != nil {
			errs = append(errs, fmt.Errorf("schedule: %w", err))
		} else if s.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			errs = append(errs, fmt.Errorf("schedule: parse schedule %q: it names no time that ever comes", *b.Schedule))
		}
	}
	if b.Duration != nil && b.Duration.Duration <= 0 {
		errs = append(errs, fmt.Errorf("duration: must be more than 0, got %s", b.Duration.Duration))
	}
	return errs
}

func budgetValue(b karpv1.Budget, nodes int, now time.Time) (int, error) {
	value, err := share(b.Nodes, nodes)
	if err != nil {
		return 0, err
	}
	active, err := isActive(b, now)
	if err != nil {
		return 0, err
	}
	if !active {
		return Unlimited, nil
	}
	return value, nil
}

// share is a number, or a percentage of the nodes rounded up.
func share(text string, nodes int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || percent && n > 100 {
		return 0, fmt.Errorf("parse nodes %q", text)
	}
	if percent {
		return (nodes*n + 99) / 100, nil
	}
	return min(n, Unlimited), nil
}

// isActive: without a schedule always, else in the windows [hit, hit+duration) in UTC.
func isActive(b karpv1.Budget, now time.Time) (bool, error) {
	if b.Schedule == nil && b.Duration == nil {
		return true, nil
	}
	if b.Schedule == nil || b.Duration == nil {
		return false, fmt.Errorf("schedule must be set with duration")
	}
	schedule, err := ParseSchedule(*b.Schedule)
	if err != nil {
		return false, err
	}
	next := schedule.Next(now.UTC().Add(-b.Duration.Duration))
	return !next.IsZero() && !next.After(now), nil
}

// ParseSchedule refuses time zones, which the API does not have, and @every, which depends on the start.
func ParseSchedule(text string) (cron.Schedule, error) {
	if strings.Contains(text, "TZ=") || strings.HasPrefix(text, "@every") {
		return nil, fmt.Errorf("parse schedule %q: not a cron expression in UTC", text)
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("parse schedule %q: %w", text, err)
	}
	return s, nil
}

// NextChange is the next time at which a budget's window opens or closes; zero if none of them has one.
func NextChange(budgets []karpv1.Budget, now time.Time) time.Time {
	var next time.Time
	for _, b := range budgets {
		if b.Schedule == nil || b.Duration == nil {
			continue
		}
		s, err := ParseSchedule(*b.Schedule)
		if err != nil {
			continue
		}
		opened := s.Next(now.UTC().Add(-b.Duration.Duration))
		for _, at := range []time.Time{opened.Add(b.Duration.Duration), s.Next(now.UTC())} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next
}
