package lifecycle

import (
	"testing"
	"time"

	"millwright/services/lifecycle/garbage"
)

// After a clock that was a day ahead is put right, everything is looked at as often as before.
func TestNothingRestsUntilAClockThatWasAheadIsThereAgain(t *testing.T) {
	r := settled(t, 1)
	r.now = r.now.Add(24 * time.Hour)
	r.wait(2 * garbage.ScanEvery)
	r.now = r.now.Add(-24 * time.Hour)
	ahead := r.svc.found.Scanned()
	r.wait(2 * garbage.ScanEvery)
	if at := r.svc.found.Scanned(); at.Equal(ahead) {
		t.Error("EC2 is not asked any more")
	}
	if at := r.svc.agenda.full; at.After(r.now) {
		t.Errorf("all claims were looked at last at %s, and it is %s", at, r.now)
	}
}
