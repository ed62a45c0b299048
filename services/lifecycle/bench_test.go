package lifecycle

import (
	"context"
	"testing"

	"millwright/planner/ledger"
)

// BenchmarkStepOverSettledClaims is the price of a step while nothing changes, per 1,000 claims.
func BenchmarkStepOverSettledClaims(b *testing.B) {
	r := newRig(b)
	var names []string
	for range 1000 {
		names = append(names, r.plan())
	}
	r.run("all ready", func() bool { return r.ready(names[999])() && r.ready(names[0])() })
	r.run("settled", func() bool { _, err := r.svc.Step(context.Background()); return err == nil && len(r.queue) == 0 })
	b.ResetTimer()
	for b.Loop() {
		r.svc.touched.Store(true) // else the step returns at once
		if _, err := r.svc.Step(context.Background()); err != nil {
			b.Fatal(err)
		}
		r.queue = nil
	}
}

// BenchmarkMarksOfSettledClaims is the price of finding out that nothing has drifted, per 1,000 claims; it is paid once a second.
func BenchmarkMarksOfSettledClaims(b *testing.B) {
	r := newRig(b)
	for range 1000 {
		r.plan()
	}
	r.run("all ready", func() bool { return r.count(ledger.KindClaimInitialized) == 1000 })
	for b.Loop() {
		r.svc.mem.retries.Succeeded("marks")
		r.svc.stepMarks(r.now)
	}
}
