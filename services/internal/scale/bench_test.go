package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/services/internal/process"
	"millwright/services/internal/service"
	"millwright/services/provisioner"
	"millwright/tools/workload"
)

var served = []string{ledger.ServiceProvisioner, ledger.ServiceDisruptor, ledger.ServiceTerminator, ledger.ServiceLifecycle}

var kindsOfEvents = []struct {
	name  string
	event podEvent
}{{"status", statusChanges}, {"replaced", replaced}}

// BenchmarkStep is the CPU time of a service's steps for one pod event that is folded, at 20 events a second
// and a heartbeat each second: the work that is paced is in it with its share.
func BenchmarkStep(b *testing.B) {
	r := settledRig(b)
	for _, name := range served {
		for _, kind := range kindsOfEvents {
			b.Run(fmt.Sprint(name, "/", kind.name), func(b *testing.B) {
				runtime.LockOSThread() // steps run on this thread alone
				defer runtime.UnlockOSThread()
				s := r.begin(b, name)
				writes := r.cluster.written()
				var spent time.Duration
				i := 0
				for b.Loop() {
					began := time.Now()
					r.happen(b, kind.event(r, i))
					if i++; i%20 == 0 {
						_ = r.beat()
					}
					r.folded()
					before := used(rusageThread)
					step(b, r, s)
					spent += used(rusageThread) - before
					time.Sleep(50*time.Millisecond - time.Since(began))
				}
				b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "µs-cpu/event")
				if n := r.cluster.written(); n != writes && kind.name == "status" {
					b.Errorf("%d objects of the settled cluster were written", n-writes)
				}
			})
		}
	}
}

// begin returns a service that has looked at the whole cluster already: that is not rest.
func (r *rig) begin(b *testing.B, name string) service.Service {
	s := r.service(name)
	if err := r.beat(); err != nil {
		b.Fatal(err)
	}
	r.folded()
	step(b, r, s)
	for before, since := r.cluster.written(), time.Now(); name == ledger.ServiceLifecycle && time.Since(since) < 2*time.Second; {
		time.Sleep(20 * time.Millisecond)
		step(b, r, s)
		if now := r.cluster.written(); now != before { // what it completes about objects that others made
			before, since = now, time.Now()
		}
	}
	return s
}

func step(b *testing.B, r *rig, s service.Service) {
	if _, err := s.Step(context.Background()); err != nil && !errors.Is(err, service.ErrNotReady) {
		b.Fatal(err)
	}
}

// rusageThread asks for what the calling thread used; syscall does not name it.
const rusageThread = 1

// used is the CPU time of the process or of the calling thread.
func used(who int) time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(who, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func cpu() time.Duration { return used(syscall.RUSAGE_SELF) }

// BenchmarkRest is the share of a core that a process uses with one service and its fold, for so many pod
// events a second.
func BenchmarkRest(b *testing.B) {
	r := settledRig(b)
	for _, name := range append([]string{"none"}, served...) {
		for _, perSecond := range []int{0, 20} {
			b.Run(fmt.Sprint(name, "/", perSecond), func(b *testing.B) {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				if name != "none" {
					steps := process.NewSteps(r.begin(b, name), steady{r.hosts[name]}, zerolog.Nop(), nil, r.state)
					go func() { _ = steps.Lead(ctx, nil) }()
				}
				r.rest(b, 3*time.Second, perSecond, statusChanges)
				runtime.GC()
				before, began := cpu(), time.Now()
				for range b.N {
					r.rest(b, 10*time.Second, perSecond, statusChanges)
				}
				b.ReportMetric(100*float64(cpu()-before)/float64(time.Since(began)), "%core")
			})
		}
	}
}

// rest passes time.
func (r *rig) rest(b *testing.B, d time.Duration, perSecond int, event podEvent) {
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		if err := r.beat(); err != nil {
			b.Fatal(err)
		}
		next := time.Now().Add(time.Second)
		for j := range perSecond {
			r.happen(b, event(r, i*perSecond+j))
			time.Sleep(time.Second / time.Duration(perSecond+1))
		}
		time.Sleep(time.Until(next))
	}
}

// BenchmarkPlan is the price of what looks at the whole cluster, as CPU time.
func BenchmarkPlan(b *testing.B) {
	r := settledRig(b)
	for _, x := range []struct {
		name string
		do   func(s *planner.Snapshot)
	}{
		{"provision", func(s *planner.Snapshot) { provision.Plan(s) }},
		{"prompt", func(s *planner.Snapshot) { disrupt.PlanPrompt(s) }},
		{"disrupt", func(s *planner.Snapshot) {
			if d, _ := disrupt.Plan(s); d != nil {
				b.Fatalf("the cluster is not settled: %+v", d.Explanation)
			}
		}},
		{"nodes", func(s *planner.Snapshot) { s.StateNodes() }},
		{"sums", func(s *planner.Snapshot) { s.World.Sums() }},
	} {
		b.Run(x.name, func(b *testing.B) {
			r.snapshot(b)
			before := cpu()
			for b.Loop() {
				x.do(r.snapshot(b))
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N)/1000, "cpu-ms")
		})
	}
}

// BenchmarkFold is the price of one pod event, from its bytes until it is in the World.
func BenchmarkFold(b *testing.B) {
	r := settledRig(b)
	for _, kind := range kindsOfEvents {
		b.Run(kind.name, func(b *testing.B) {
			before, i := cpu(), 0
			for b.Loop() {
				r.happen(b, kind.event(r, i))
				i++
			}
			r.folded()
			b.ReportMetric(float64(cpu()-before)/float64(time.Microsecond)/float64(b.N), "µs-cpu/event")
		})
	}
}

// BenchmarkLedgerRead is how long a read of the Ledger and of a Snapshot waits while a plan of the whole
// cluster runs beside it and observations are folded.
func BenchmarkLedgerRead(b *testing.B) {
	r := settledRig(b)
	ctx, cancel := context.WithCancel(b.Context())
	var beside sync.WaitGroup
	beside.Go(func() {
		for ctx.Err() == nil {
			disrupt.Plan(r.snapshot(b))
		}
	})
	beside.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			r.happen(b, replaced(r, i))
			time.Sleep(time.Millisecond)
		}
	})
	h := r.hosts[ledger.ServiceTerminator]
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		err := errors.Join(
			h.Ledger(func(l *ledger.Ledger) error { l.Claim(r.claims[17]); return nil }),
			h.Snapshot(service.ForEffects, func(s *planner.Snapshot) error { s.World.Node(workload.SettledNode(17)); return nil }))
		took = append(took, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond)
	}
	cancel()
	beside.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}

// BenchmarkScrape is a scrape of the process of the provisioner that leads, compressed as Prometheus asks for
// it: series, bytes, CPU time. With pods there is a series for each.
func BenchmarkScrape(b *testing.B) {
	r := settledRig(b)
	for _, pods := range []bool{false, true} {
		b.Run(map[bool]string{false: "nodes", true: "pods"}[pods], func(b *testing.B) {
			registry := prometheus.NewRegistry()
			s := provisioner.New(r.hosts[ledger.ServiceProvisioner], provisioner.Deps{Logger: zerolog.Nop(), Kube: nobody{}, Registerer: registry, PodMetrics: pods})
			if err := r.beat(); err != nil {
				b.Fatal(err)
			}
			r.folded()
			step(b, r, s)
			handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			scrape := func() *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, request)
				return w
			}
			plain := scrape().Body.Bytes()
			request.Header.Set("Accept-Encoding", "gzip")
			spent, sent := time.Duration(0), 0
			for b.Loop() {
				step(b, r, s) // only who leads has the series
				before := cpu()
				sent = scrape().Body.Len()
				spent += cpu() - before
				if sent < len(plain)/100 {
					b.Fatalf("%d bytes were sent of %d", sent, len(plain))
				}
			}
			comments := bytes.Count(plain, []byte("\n# ")) + 1
			b.ReportMetric(float64(bytes.Count(plain, []byte("\n"))-comments), "series")
			b.ReportMetric(float64(len(plain))/(1<<20), "MiB")
			b.ReportMetric(float64(sent)/(1<<20), "sent-MiB")
			b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "cpu-ms")
		})
	}
}
