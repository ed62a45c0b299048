package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/memlog"
)

// scripted answers each step with the next answer and remembers when it was stepped.
type scripted struct {
	answers []answer
	at      []time.Duration
	start   time.Time
	block   time.Duration
	// released is after how many steps it was told that it does not lead any more, in each time of leading.
	released []int
}

func (s *scripted) Released() { s.released = append(s.released, len(s.at)) }

type answer struct {
	next  time.Duration
	err   error
	panic any
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Step(context.Context) (time.Duration, error) {
	s.at = append(s.at, time.Since(s.start))
	time.Sleep(s.block)
	if len(s.answers) == 0 {
		return 0, nil
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	if a.panic != nil {
		panic(a.panic)
	}
	return a.next, a.err
}

type fakeHost struct {
	led      context.Context
	released bool
	changes  chan struct{}
	leadErr  error
	failed   error
}

func (f *fakeHost) Lead(ctx context.Context, _ store.Leadership) (context.Context, func(context.Context), error) {
	if f.leadErr != nil {
		return nil, nil, f.leadErr
	}
	if f.led == nil {
		f.led = ctx
	}
	return f.led, func(context.Context) { f.released = true }, nil
}

func (f *fakeHost) Failed() error { return f.failed }

func (f *fakeHost) Changes() (<-chan struct{}, func()) { return f.changes, func() {} }

type source chan struct{}

func (s source) Subscribe() (<-chan struct{}, func()) { return s, func() {} }

func newFake(s *scripted) (*Steps, *fakeHost, source) {
	s.start = time.Now()
	host, changed := &fakeHost{changes: make(chan struct{}, 1)}, make(source, 1)
	return NewSteps(s, host, zerolog.Nop(), prometheus.NewRegistry(), changed), host, changed
}

func TestStepsAreTriggered(t *testing.T) {
	cases := map[string]struct {
		answers []answer
		act     func(host *fakeHost, changed source)
		want    []time.Duration
	}{
		"once at the start, then only on change": {want: []time.Duration{0}},
		"after the duration a step returned": {answers: []answer{{next: 3 * time.Second}, {}},
			want: []time.Duration{0, 3 * time.Second}},
		"on a change": {act: func(_ *fakeHost, changed source) { time.Sleep(time.Second); changed <- struct{}{} },
			want: []time.Duration{0, time.Second}},
		"when an effect ended": {act: func(h *fakeHost, _ source) { time.Sleep(time.Second); h.changes <- struct{}{} },
			want: []time.Duration{0, time.Second}},
		"a second later without a valid snapshot": {answers: []answer{{err: fmt.Errorf("no: %w", service.ErrNotReady)}, {}},
			want: []time.Duration{0, time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{answers: c.answers}
				steps, host, changed := newFake(s)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if c.act != nil {
					go c.act(host, changed)
				}
				if err := steps.Lead(ctx, nil); err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(s.at) != fmt.Sprint(c.want) {
					t.Errorf("stepped at %v, want %v", s.at, c.want)
				}
				if !host.released {
					t.Error("the leadership was not released")
				}
				if !slices.Equal(s.released, []int{len(c.want)}) {
					t.Errorf("told that it does not lead any more after steps %v of %d", s.released, len(c.want))
				}
			})
		})
	}
}

// Steps are what Karpenter's controllers call reconciles (reference: operations §2.7).
func TestStepsAreMeasuredAsReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{block: 2 * time.Second, answers: []answer{
			{next: time.Second}, {err: fmt.Errorf("no: %w", service.ErrNotReady)}, {panic: "no such type"}, {err: errors.New("no route to host")}, {}}}
		registry := prometheus.NewRegistry()
		s.start = time.Now()
		steps := NewSteps(s, &fakeHost{changes: make(chan struct{}, 1)}, zerolog.Nop(), registry, make(source, 1))
		active := make(chan float64, 1)
		time.AfterFunc(time.Second, func() { active <- testutil.ToFloat64(steps.reconciles.active) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := steps.Lead(ctx, nil); err != nil {
			t.Fatal(err)
		}
		want := `
# HELP controller_runtime_active_workers 1 while a step of a service runs in this process.
# TYPE controller_runtime_active_workers gauge
controller_runtime_active_workers{controller="scripted"} 0
# HELP controller_runtime_max_concurrent_reconciles Steps of a service that run at a time: 1.
# TYPE controller_runtime_max_concurrent_reconciles gauge
controller_runtime_max_concurrent_reconciles{controller="scripted"} 1
# HELP controller_runtime_reconcile_errors_total Steps of a service that failed.
# TYPE controller_runtime_reconcile_errors_total counter
controller_runtime_reconcile_errors_total{controller="scripted"} 2
# HELP controller_runtime_reconcile_panics_total Steps of a service that panicked; they count as failed too.
# TYPE controller_runtime_reconcile_panics_total counter
controller_runtime_reconcile_panics_total{controller="scripted"} 1
# HELP controller_runtime_reconcile_total Steps of a service by result: success, error, requeue (there was no valid Snapshot), requeue_after (the time of the next step is set).
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="scripted",result="error"} 2
controller_runtime_reconcile_total{controller="scripted",result="requeue"} 1
controller_runtime_reconcile_total{controller="scripted",result="requeue_after"} 1
controller_runtime_reconcile_total{controller="scripted",result="success"} 1
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "controller_runtime_active_workers", "controller_runtime_max_concurrent_reconciles",
			"controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_panics_total", "controller_runtime_reconcile_total"); err != nil {
			t.Error(err)
		}
		var took dto.Metric
		if err := steps.reconciles.duration.Write(&took); err != nil || took.GetHistogram().GetSampleCount() != 5 || took.GetHistogram().GetSampleSum() != 10 {
			t.Errorf("durations %v (%v)", took.GetHistogram(), err)
		}
		if n := <-active; n != 1 {
			t.Errorf("active while it ran: %v", n)
		}
	})
}

// Each service has the name of the controller that does the same in Karpenter.
func TestServicesHaveNamesOfControllers(t *testing.T) {
	for name, want := range map[string]string{"provisioner": "provisioner", "disruptor": "disruption", "terminator": "node.termination", "lifecycle": "nodeclaim.lifecycle", "other": "other"} {
		if got := service.Controller(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A step that panics has failed like others: it is said where, counted, and tried again.
func TestAPanicIsAFailedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []answer{{panic: "no such type"}, {panic: errors.New("index out of range")}, {}}}
		steps, _, _ := newFake(s)
		log := &strings.Builder{}
		steps.logger = zerolog.New(log)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := steps.Lead(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if len(s.at) != 3 || s.at[1] == 0 || s.at[2] == s.at[1] {
			t.Errorf("stepped at %v", s.at)
		}
		if n := testutil.ToFloat64(steps.metrics.outcomes.WithLabelValues("failed")); n != 2 {
			t.Errorf("%v failures are counted", n)
		}
		if text := log.String(); !strings.Contains(text, "no such type") || !strings.Contains(text, "(*scripted).Step") {
			t.Errorf("the log says\n%s", text)
		}
	})
}

// keepChanging makes changes until ctx ends; the function it returns waits for the last.
func keepChanging(ctx context.Context, changed source, every time.Duration) func() {
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			wake(changed)
			time.Sleep(every)
		}
	})
	return group.Wait
}

func TestFailedStepsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		for range 100 {
			s.answers = append(s.answers, answer{err: errors.New("broken")})
		}
		steps, _, changed := newFake(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// Changes all the time do not shorten the backoff.
		defer keepChanging(ctx, changed, 10*time.Millisecond)()
		if err := steps.Lead(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if len(s.at) < 5 || len(s.at) > 40 {
			t.Errorf("%d steps in a minute of errors", len(s.at))
		}
	})
}

func TestABurstOfChangesIsFewSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{block: 20 * time.Millisecond}
		steps, _, changed := newFake(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		defer keepChanging(ctx, changed, time.Millisecond)()
		if err := steps.Lead(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if len(s.at) > 30 {
			t.Errorf("%d steps of 20 ms in a second: much more than half of it", len(s.at))
		}
	})
}

func TestLostLeadershipEndsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps, host, _ := newFake(&scripted{})
		led, lose := context.WithCancelCause(t.Context())
		host.led = led
		go func() { time.Sleep(time.Second); lose(store.ErrFenced) }()
		if err := steps.Lead(t.Context(), nil); !errors.Is(err, store.ErrFenced) {
			t.Errorf("got %v", err)
		}
		if !host.released {
			t.Error("the leadership was not released")
		}
	})
}

func TestAServiceThatCannotGoOnStepsDownForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps, host, changed := newFake(&scripted{})
		elector := memlog.NewElector(memlog.New("test"))
		c := candidate{unit: steps.Unit(), elector: elector, logger: zerolog.Nop(), leads: func(bool) {}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { _ = c.run(ctx) }()
		synctest.Wait()
		host.failed = errors.New("unknown kind")
		wake(changed)
		time.Sleep(time.Minute)
		if leaders, err := elector.Leaders(ctx); err != nil || len(leaders) > 0 {
			t.Errorf("leaders %+v, error %v: another version must be able to lead", leaders, err)
		}
		<-ctx.Done()
	})
}

func TestAServiceThatIsNotYetAtWorkStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps, _, _ := newFake(&scripted{})
		steps.host = waitingHost{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := steps.Lead(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// waitingHost never gets to lead.
type waitingHost struct{}

func (waitingHost) Failed() error { return nil }

func (waitingHost) Changes() (<-chan struct{}, func()) { return nil, func() {} }

func (waitingHost) Lead(ctx context.Context, _ store.Leadership) (context.Context, func(context.Context), error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

func TestAHangingStepIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps, _, _ := newFake(&scripted{block: 5 * time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
		defer cancel()
		go func() { _ = steps.Lead(ctx, nil) }()
		probe := steps.Check().Probe
		time.Sleep(time.Minute)
		if err := probe(); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if probe() == nil {
			t.Error("after three minutes in one step the service counts as healthy")
		}
		<-ctx.Done()
		synctest.Wait()
		if err := probe(); err != nil {
			t.Errorf("after the step: %v", err)
		}
	})
}
