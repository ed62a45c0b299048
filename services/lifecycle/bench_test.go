package lifecycle

import (
	"testing"

	"millwright/planner/ledger"
)

// BenchmarkMarksOfSettledClaims is the price of finding out that nothing has drifted; it is paid once a
// second.
func BenchmarkMarksOfSettledClaims(b *testing.B) {
	r := newRig(b)
	for range 1000 {
		r.plan()
	}
	r.run("all ready", func() bool { return r.count(ledger.KindClaimInitialized) == 1000 })
	for b.Loop() {
		r.svc.effects.Retries.Succeeded("marks")
		if err := r.svc.status.StepMarks(b.Context(), r.now); err != nil {
			b.Fatal(err)
		}
	}
}
