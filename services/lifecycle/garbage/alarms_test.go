package garbage

import (
	"testing"
	"time"
)

func TestAlarmsAreRaisedOnceUntilTheyAreOver(t *testing.T) {
	var a alarms
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	steps := []struct {
		after time.Duration
		want  bool
	}{{0, true}, {30 * time.Second, false}, {9 * time.Minute, false}, {9 * time.Minute, false}, {alarmQuiet + 1, true}, {0, false}}
	for i, s := range steps {
		now = now.Add(s.after)
		if got := a.begins("x", now); got != s.want {
			t.Errorf("step %d: %v, want %v", i, got, s.want)
		}
	}
}
