package backoff

import (
	"testing"
	"time"
)

// Pauses that began while the clock was a month ahead end, and are forgotten, once it is put right; those of
// a moment ago do not.
func TestNoPauseIsAsLongAsAClockWasAhead(t *testing.T) {
	k, ahead := New(time.Second, time.Minute), start.Add(30*24*time.Hour)
	k.Failed("failed", ahead)
	k.Conflicted("met", ahead)
	k.Accepted("accepted", ahead.Add(5*time.Second), ahead)
	for _, key := range []string{"failed", "met", "accepted"} {
		if !k.Due(key, start) {
			t.Errorf("%s is held back until %s", key, k.At(key, start))
		}
	}
	k.Failed("now", start.Add(time.Second))
	if k.Due("now", start) {
		t.Error("a look that began before the failure tries again at once")
	}
	if n := k.Len(); n != 1 {
		t.Errorf("%d keys are remembered, want 1", n)
	}
}
