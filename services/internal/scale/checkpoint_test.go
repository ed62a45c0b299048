package scale

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/service"
	"millwright/store/audit"
	"millwright/tools/workload"
)

// BenchmarkCheckpoint is what Ledger and World of the settled cluster take in memory and as checkpoints, and
// how long it takes to write one.
func BenchmarkCheckpoint(b *testing.B) {
	r := settledRig(b)
	b.Run("ledger", func(b *testing.B) {
		before := heap()
		l := r.ledger(b)
		held := heap() - before
		v := l.Version()
		spent, stored := cpu(), 0
		for b.Loop() {
			_, blob, err := audit.CheckpointOf(v)
			if err != nil {
				b.Fatal(err)
			}
			stored = len(blob)
		}
		b.ReportMetric(float64(stored)/(1<<20), "stored-MiB")
		b.ReportMetric(float64(held)/(1<<20), "heap-MiB")
		b.ReportMetric(float64((cpu()-spent).Milliseconds())/float64(b.N), "cpu-ms")
		if got := len(l.Claims()); got != nodes {
			b.Errorf("%d claims", got)
		}
	})
	b.Run("world", func(b *testing.B) {
		v := r.snapshot(b).World
		data, err := v.Checkpoint()
		if err != nil {
			b.Fatal(err)
		}
		before := heap()
		w, err := world.Restore(data)
		if err != nil {
			b.Fatal(err)
		}
		held := heap() - before
		spent, stored := cpu(), int64(0)
		for b.Loop() {
			stored = writeWorld(b, v)
		}
		b.ReportMetric(float64(stored)/(1<<20), "stored-MiB")
		b.ReportMetric(float64(held)/(1<<20), "heap-MiB")
		b.ReportMetric(float64((cpu()-spent).Milliseconds())/float64(b.N), "cpu-ms")
		runtime.KeepAlive(w)
	})
}

// ledger folds the log anew.
func (r *rig) ledger(b *testing.B) *ledger.Ledger {
	l := ledger.New("")
	for {
		records, err := r.log.Read(b.Context(), l.Seq()+1, 1000)
		if err != nil {
			b.Fatal(err)
		}
		if len(records) == 0 {
			return l
		}
		for _, rec := range records {
			e, err := audit.Decode(rec)
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Apply(e); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// counted counts what is written.
type counted int64

func (c *counted) Write(p []byte) (int, error) {
	*c += counted(len(p))
	return len(p), nil
}

var _ io.Writer = new(counted)

// writeWorld writes a checkpoint, compressed as it is stored, and returns its bytes.
func writeWorld(b *testing.B, w *world.World) int64 {
	var n counted
	z, err := zstd.NewWriter(&n, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		b.Fatal(err)
	}
	if err := w.WriteCheckpoint(z); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	return int64(n)
}

// BenchmarkPause is how long folding an event, a read of Ledger and Snapshot and a look for empty and drifted
// nodes take at most, alone and while checkpoints of World and Ledger are written one after the other.
func BenchmarkPause(b *testing.B) {
	r := settledRig(b)
	for _, name := range []string{"alone", "beside"} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			var beside sync.WaitGroup
			defer beside.Wait()
			defer cancel()
			if name == "beside" {
				beside.Go(func() {
					for ctx.Err() == nil {
						writeWorld(b, r.snapshot(b).World)
						_, _, err := audit.CheckpointOf(r.snapshot(b).Ledger)
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			var fold, read, plan []time.Duration
			i := 0
			for b.Loop() {
				fold = append(fold, taken(func() {
					r.happen(b, replaced(r, i))
					r.folded()
				}))
				read = append(read, taken(func() { r.read(b) }))
				if i++; i%20 == 0 {
					plan = append(plan, taken(func() { disrupt.PlanPrompt(r.snapshot(b)) }))
				}
				time.Sleep(time.Millisecond)
			}
			report(b, "fold", fold)
			report(b, "read", read)
			report(b, "plan", plan)
		})
	}
}

func taken(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func report(b *testing.B, what string, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), what+"-p50-ms")
	b.ReportMetric(ms(took[len(took)-1]), what+"-max-ms")
}

// read looks at one claim of the Ledger and one node of a Snapshot.
func (r *rig) read(b *testing.B) {
	h := r.hosts[ledger.ServiceTerminator]
	err := h.Ledger(func(l *ledger.Ledger) error { l.Claim(r.claims[17]); return nil })
	if err != nil {
		b.Fatal(err)
	}
	err = h.Snapshot(service.ForEffects, func(s *planner.Snapshot) error { s.World.Node(workload.SettledNode(17)); return nil })
	if err != nil {
		b.Fatal(err)
	}
}
