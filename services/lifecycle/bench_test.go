package lifecycle

import (
	"testing"
)

// BenchmarkMarksOfSettledClaims is the price of finding out that nothing has drifted; it is paid once a
// second.
func BenchmarkMarksOfSettledClaims(b *testing.B) {
	r := newRig(b)
	r.readyClaims(1000)
	for b.Loop() {
		r.svc.effects.Retries.Succeeded("marks")
		if err := r.svc.status.StepMarks(b.Context(), r.now); err != nil {
			b.Fatal(err)
		}
	}
}
