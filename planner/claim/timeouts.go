package claim

import "time"

// expiry, launchDeadline and registrationDeadline are zero if there is none.
func (v view) expiry() time.Time {
	if v.object == nil || v.object.ExpireAfter == nil {
		return time.Time{}
	}
	return v.object.Created.Add(*v.object.ExpireAfter)
}

func (v view) launchDeadline() time.Time {
	from := v.object.LaunchedSince
	if v.LaunchFrom.After(from) {
		from = v.LaunchFrom
	}
	return deadline(from, v.LaunchTimeout)
}

func (v view) registrationDeadline() time.Time {
	return deadline(v.object.RegisteredSince, v.RegistrationTimeout)
}

func deadline(from time.Time, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return from.Add(d)
}

// passed reports now ≥ t; a zero t never passes.
func passed(now, t time.Time) bool { return !t.IsZero() && !now.Before(t) }

// wakeup is the first time after Now at which Next may say something else although no fact changed.
func (v view) wakeup() time.Time {
	times := []time.Time{v.RetryAt}
	for _, until := range v.Paced {
		times = append(times, until)
	}
	behind := v.Now.Sub(v.certain()) // as-of moves on by heartbeats
	if v.Ledger != nil && v.Ledger.Deadline.IsZero() {
		times = append(times, v.blockLeaves())
	}
	if v.Ledger != nil && v.Unhealthy != nil && v.Unhealthy.Blocked == "" {
		times = append(times, v.Unhealthy.Until)
	}
	if v.Ledger != nil && v.object != nil && !v.deleting() {
		times = append(times, v.expiry(), v.eventBegins())
		switch v.state {
		case Created:
			times = append(times, v.launchDeadline(), v.registrationDeadline(), v.object.Created.Add(nodeClassGrace))
		case Launching:
			times = append(times, v.launchDeadline())
		case Launched:
			times = append(times, v.registrationDeadline())
		}
	}
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && !t.After(v.Now) {
			t = t.Add(behind)
		}
		if t.After(v.Now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
