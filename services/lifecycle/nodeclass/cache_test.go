package nodeclass

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestACacheHoldsWhatWasAskedForWithinItsTimeToLive(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newCache[int](func() time.Time { return now }, time.Minute)
	for i := range 1000 {
		now = now.Add(time.Second)
		if v, err := c.get(fmt.Sprint(i), func() (int, error) { return i, nil }); v != i || err != nil {
			t.Fatal(v, err)
		}
		if len(c.entries) > 60 {
			t.Fatalf("%d answers are kept, one was given each second", len(c.entries))
		}
	}
	if v, _ := c.get("999", func() (int, error) { return -1, nil }); v != 999 {
		t.Errorf("answer %d, want the one that is kept", v)
	}
	now = now.Add(-30 * 24 * time.Hour)
	if v, _ := c.get("999", func() (int, error) { return -1, nil }); v != -1 || len(c.entries) > 1 {
		t.Errorf("answer %d of %d, want none that a clock that was ahead has dated", v, len(c.entries))
	}
	now = now.Add(time.Minute)
	if _, err := c.get("999", func() (int, error) { return 0, errors.New("no answer") }); err == nil {
		t.Error("an answer outlives its time")
	}
}
