package view

import (
	"testing"
	"time"

	"millwright/services/console/history"
)

// Who asks for the same again and again has it made once; what is remembered is bounded.
func TestSavingsAreMadeOnceForAMoment(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	made := 0
	var s savings
	get := func(since time.Time) *history.Savings {
		return s.get(since, func() time.Time { return now }, func(since time.Time) *history.Savings {
			made++
			now = now.Add(100 * time.Millisecond) // it takes its time
			return &history.Savings{Since: since}
		})
	}
	for range 5 {
		get(now.Truncate(time.Hour))
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	now = now.Add(2*time.Second - time.Millisecond)
	if get(now.Truncate(time.Hour)); made != 1 {
		t.Error("one that took long is made again too soon")
	}
	now = now.Add(time.Millisecond)
	if get(now.Truncate(time.Hour)); made != 2 {
		t.Error("an old one is told")
	}
	now = now.Add(30 * 24 * time.Hour)
	since := now.Truncate(time.Hour)
	get(since)
	now = now.Add(-30 * 24 * time.Hour)
	if made = 0; get(since) == nil || made != 1 {
		t.Error("one is told that a clock that was ahead has dated")
	}
	for i := range 100 {
		since := now.Truncate(time.Hour).Add(-time.Duration(i) * time.Hour)
		if got := get(since); !got.Since.Equal(since) || len(s.made) > savingsKept {
			t.Fatalf("%s, %d are remembered", got.Since, len(s.made))
		}
	}
}
