package disrupt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/planner/condition"

	"github.com/robfig/cron/v3"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
)

// unlimited is what a budget that is not active allows.
const unlimited = math.MaxInt32

// Reasons in the order reports list them.
var Reasons = []karpv1.DisruptionReason{
	karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonUnderutilized,
}

// Budgets returns what the budgets of a NodePool allow at the Snapshot's Now, for one reason. Nodes that are
// going for whatever cause, or not ready, use them up.
func Budgets(s *planner.Snapshot, pool *karpv1.NodePool, reason karpv1.DisruptionReason) PoolReport {
	r := PoolReport{NodePool: pool.Name, Reason: reason}
	r.Nodes, r.Consuming = consuming(s, pool.Name)
	allowed, err := allowed(pool.Spec.Disruption.Budgets, reason, r.Nodes, s.Now)
	if err != nil {
		r.Invalid = err.Error()
	}
	r.Allowed, r.Unlimited = allowed, allowed == unlimited
	r.Remaining = max(0, allowed-r.Consuming)
	return r
}

// consuming counts a pool's managed, initialized nodes that are not yet terminating, and those of them
// that are not ready or marked for deletion.
func consuming(s *planner.Snapshot, pool string) (nodes, used int) {
	for _, n := range s.StateNodes() {
		if n.NodePool != pool || !n.Managed || !n.Initialized || n.Node == nil || terminating(n) {
			continue
		}
		nodes++
		if n.MarkedForDeletion || !n.Ready() {
			used++
		}
	}
	return nodes, used
}

func terminating(n *planner.StateNode) bool {
	if n.Claim == nil {
		return false
	}
	c := condition.Get(n.Claim.Status.Conditions, karpv1.ConditionTypeInstanceTerminating)
	return c != nil && c.Status == "True"
}

// allowed is the minimum over the budgets for the reason; any invalid budget allows nothing at all. No
// budgets mean no limit: the API server fills in 10 % where the field is absent, so none is what the user wrote.
func allowed(budgets []karpv1.Budget, reason karpv1.DisruptionReason, nodes int, now time.Time) (int, error) {
	least := unlimited
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

// names reports that a budget is about the reason. Absent reasons are all of them, an empty list is none (reference:
// api §1.1).
func names(b karpv1.Budget, reason karpv1.DisruptionReason) bool {
	return b.Reasons == nil || slices.Contains(b.Reasons, reason)
}

// CheckBudget returns what is wrong with a budget, each error beginning with its field. A budget that cannot be
// read would otherwise allow nothing, for any reason, without a word (reference: api §8).
func CheckBudget(b karpv1.Budget) []error {
	var errs []error
	if _, err := share(b.Nodes, 0); err != nil {
		errs = append(errs, fmt.Errorf("nodes: %w", err))
	}
	if (b.Schedule == nil) != (b.Duration == nil) {
		errs = append(errs, errors.New("schedule: 'schedule' must be set with 'duration'"))
	}
	if b.Schedule != nil {
		if s, err := parseSchedule(*b.Schedule); err != nil {
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
		return unlimited, nil
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
	return min(n, unlimited), nil
}

// isActive: without a schedule always, else in the windows [hit, hit+duration) in UTC.
func isActive(b karpv1.Budget, now time.Time) (bool, error) {
	if b.Schedule == nil && b.Duration == nil {
		return true, nil
	}
	if b.Schedule == nil || b.Duration == nil {
		return false, fmt.Errorf("schedule must be set with duration")
	}
	schedule, err := parseSchedule(*b.Schedule)
	if err != nil {
		return false, err
	}
	next := schedule.Next(now.UTC().Add(-b.Duration.Duration))
	return !next.IsZero() && !next.After(now), nil
}

// parseSchedule refuses time zones, which the API does not have, and @every, which depends on the start.
func parseSchedule(text string) (cron.Schedule, error) {
	if strings.Contains(text, "TZ=") || strings.HasPrefix(text, "@every") {
		return nil, fmt.Errorf("parse schedule %q: not a cron expression in UTC", text)
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("parse schedule %q: %w", text, err)
	}
	return s, nil
}

// nextChange is the next time at which a budget's window opens or closes; zero if none of them has one.
func nextChange(budgets []karpv1.Budget, now time.Time) time.Time {
	var next time.Time
	for _, b := range budgets {
		if b.Schedule == nil || b.Duration == nil {
			continue
		}
		s, err := parseSchedule(*b.Schedule)
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
