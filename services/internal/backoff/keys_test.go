package backoff

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestFailuresPauseTwiceAsLongEachTime(t *testing.T) {
	k := New(time.Second, 5*time.Second)
	now := start
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		k.Failed("a", now)
		if got := k.At("a", now).Sub(now); got != want*time.Second {
			t.Errorf("failure %d pauses %s, want %s", i+1, got, want*time.Second)
		}
		now = k.At("a", now)
	}
	k.Succeeded("a")
	if !k.Due("a", now) {
		t.Error("a success leaves a pause")
	}
}

func TestConflictsSpread(t *testing.T) {
	k := New(time.Second, time.Minute)
	pauses := map[time.Duration]bool{}
	for i := range 100 {
		key := fmt.Sprintf("claim/%d", i)
		k.Conflicted(key, start)
		pause := k.At(key, start).Sub(start)
		if pause < conflictFirst/2 || pause >= conflictFirst {
			t.Fatalf("the first conflict pauses %s", pause)
		}
		pauses[pause] = true
		for range 12 {
			k.Conflicted(key, start)
		}
		if pause = k.At(key, start).Sub(start); pause < conflictMax/2 || pause >= conflictMax {
			t.Fatalf("the 13th conflict pauses %s", pause)
		}
	}
	if len(pauses) < 50 {
		t.Errorf("100 keys come back at %d moments", len(pauses))
	}
}

func TestAHoldCountsNoFailure(t *testing.T) {
	k := New(time.Second, time.Minute)
	k.Failed("a", start)
	k.Hold("a", start.Add(time.Hour), start)
	if k.Due("a", start.Add(time.Minute)) {
		t.Error("a held key is due")
	}
	k.Failed("a", start)
	if got := k.At("a", start).Sub(start); got != 2*time.Second {
		t.Errorf("after a hold the second failure pauses %s", got)
	}
}

func TestOldKeysAreForgotten(t *testing.T) {
	k := New(time.Second, time.Minute)
	now := start
	for i := range 100_000 {
		k.Failed(fmt.Sprintf("pod/%d", i), now)
		now = now.Add(50 * time.Millisecond)
	}
	if k.Len() > 15_000 {
		t.Errorf("%d keys are remembered", k.Len())
	}
}
