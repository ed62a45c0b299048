package lease

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"millwright/services/internal/service"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// process is a running Keeper.
type process struct {
	*Keeper
	client *client
	log    *bytes.Buffer
	events *events
	reg    *prometheus.Registry
	stop   func()
}

type events struct{ list []service.KubeEvent }

func (e *events) Publish(x service.KubeEvent) { e.list = append(e.list, x) }

// begin runs a Keeper of an installation until the test ends or stop is called.
func begin(t *testing.T, s *server, logID, instance string) *process {
	p := &process{client: s.client(), log: &bytes.Buffer{}, events: &events{}, reg: prometheus.NewRegistry()}
	p.Keeper = New(Config{Leases: p.client, Namespace: "kube-system", Name: NameDefault, LogID: logID, Instance: instance,
		Events: p.events, Logger: zerolog.New(p.log), Registerer: p.reg})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	p.stop = func() { cancel(); <-ended }
	t.Cleanup(p.stop)
	return p
}

// karpenter is another controller that elects its leader by the Lease, with client-go's own lock.
func karpenter(t *testing.T, s *server) (stop func()) {
	lock := &resourcelock.LeaseLock{Client: s.client(), LockConfig: resourcelock.ResourceLockConfig{Identity: "karpenter-7d9f_1"}}
	lock.LeaseMeta.Namespace, lock.LeaseMeta.Name = "kube-system", NameDefault
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: Duration, RenewDeadline: RenewDeadline, RetryPeriod: RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// retry is longer than any pause between two tries.
const retry = 3 * RetryPeriod

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (p *process) must(t *testing.T, held bool, when string) {
	t.Helper()
	if p.Held() != held || (p.Ready() == nil) != held {
		t.Errorf("%s: held %v (%v), want %v", when, p.Held(), p.Ready(), held)
	}
}

func TestAFreeLeaseIsTakenKeptAndGivenBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := begin(t, s, "aaaa", "one")
		after(time.Second)
		p.must(t, true, "a free lease")
		if got := s.holder(); got != "millwright/aaaa" {
			t.Errorf("held by %q", got)
		}
		after(10 * Duration)
		p.must(t, true, "renewed for long")
		p.stop()
		p.must(t, false, "stopped")
		if s.holder() != "" || strings.Contains(fmt.Sprint(s.lease.Annotations), instancesKey) {
			t.Errorf("left behind: %v", s.lease)
		}
	})
}

func TestKarpenterAndMillwrightKeepEachOtherOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		stopKarpenter := karpenter(t, s)
		after(time.Second)
		p := begin(t, s, "aaaa", "one")
		after(10 * Duration)
		p.must(t, false, "while karpenter leads")
		if err := p.Ready(); err == nil || !strings.Contains(err.Error(), `"karpenter-7d9f_1"`) {
			t.Errorf("readiness does not name the holder: %v", err)
		}
		if n := strings.Count(p.log.String(), "held by another"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, p.log)
		}
		if len(p.events.list) == 0 || p.events.list[0].Object.Name != NameDefault || !strings.Contains(p.events.list[0].Message, "karpenter-7d9f_1") {
			t.Errorf("events: %v", p.events.list)
		}
		metric(t, p, "millwright_kube_lease_foreign", 1)
		metric(t, p, "millwright_kube_lease_held", 0)
		stopKarpenter()
		after(retry)
		p.must(t, true, "after karpenter released it")
		metric(t, p, "millwright_kube_lease_foreign", 0)
		metric(t, p, "millwright_kube_lease_held", 1)

		karpenter(t, s)
		after(10 * Duration)
		p.must(t, true, "while karpenter waits")
		p.stop()
		after(retry)
		if got := s.holder(); got != "karpenter-7d9f_1" {
			t.Errorf("handed back to %q", got)
		}
	})
}

func metric(t *testing.T, p *process, name string, want float64) {
	t.Helper()
	families, err := p.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && f.GetMetric()[0].GetGauge().GetValue() == want {
			return
		}
	}
	t.Errorf("%s is not %v", name, want)
}

func TestAHolderThatIsGoneExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.seize("karpenter-dead")
		p := begin(t, s, "aaaa", "one")
		after(Duration - RetryPeriod)
		p.must(t, false, "before it can have expired")
		after(Duration)
		p.must(t, true, "after it expired")
	})
}

func TestALeaseInForeignHandsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := begin(t, s, "aaaa", "one")
		after(time.Second)
		changed, cancel := p.Subscribe()
		defer cancel()
		s.seize("somebody")
		after(retry)
		p.must(t, false, "seized")
		select {
		case <-changed:
		default:
			t.Error("nobody was woken")
		}
	})
}

func TestADeletedLeaseIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := begin(t, s, "aaaa", "one")
		after(time.Second)
		s.remove()
		after(retry)
		p.must(t, true, "deleted")
		if s.holder() != "millwright/aaaa" {
			t.Errorf("held by %q", s.holder())
		}
	})
}

func TestWithoutTheAPIServerTheRightToActEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := begin(t, s, "aaaa", "one")
		after(time.Second)
		p.client.fails(true, false)
		after(Duration - 2*RetryPeriod)
		p.must(t, true, "away for a moment")
		after(2 * RetryPeriod)
		p.must(t, false, "away for the lease's duration")
		p.client.fails(false, false)
		after(retry)
		p.must(t, true, "back")
	})
}

func TestTheProcessesOfAnInstallationHoldTheLeaseTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var list []*process
		for _, name := range []string{"watcher", "provisioner", "disruptor", "terminator", "lifecycle"} {
			list = append(list, begin(t, s, "aaaa", name))
		}
		after(10 * Duration)
		for _, p := range list {
			p.must(t, true, "all of them")
		}
		karpenter(t, s)
		for i, p := range list[:4] {
			p.stop()
			after(Duration / 2)
			for _, q := range list[i+1:] {
				q.must(t, true, fmt.Sprintf("after %d stopped", i+1))
			}
		}
		if s.holder() != "millwright/aaaa" {
			t.Errorf("held by %q while a process is left", s.holder())
		}
		list[4].stop()
		if s.holder() != "" {
			t.Errorf("held by %q when the last process stopped", s.holder())
		}
	})
}

// The installation's other processes renew the Lease as well: that they are faster costs no renewal.
func TestARenewalThatNeighboursGetAheadOfIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := begin(t, s, "aaaa", "one")
		after(time.Second)
		p.client.mu.Lock()
		p.client.everyRenewal = triesMax - 1
		p.client.mu.Unlock()
		for range 10 {
			after(Duration)
			p.must(t, true, "while neighbours are faster")
		}
	})
}

func TestAKilledProcessDoesNotKeepTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		killed, other := begin(t, s, "aaaa", "killed"), begin(t, s, "aaaa", "other")
		after(retry)
		killed.client.fails(true, false) // as far as anybody can see
		after(2 * Duration)
		other.must(t, true, "left alone")
		other.stop()
		if s.holder() != "" {
			t.Errorf("held by %q", s.holder())
		}
	})
}

// TestNeverTwoInstallations plays two installations of two processes each, with API servers that go away and
// lose answers, processes that stop. At no moment may both act.
func TestNeverTwoInstallations(t *testing.T) {
	turns := map[string]int{}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playTwo(t, rand.New(rand.NewPCG(seed, 0)), turns) })
		})
	}
	if turns["aaaa"] == 0 || turns["bbbb"] == 0 {
		t.Errorf("one of them never had its turn: %v", turns)
	}
}

func playTwo(t *testing.T, r *rand.Rand, turns map[string]int) {
	s := &server{}
	owners := []string{"aaaa", "aaaa", "bbbb", "bbbb"}
	list := make([]*process, len(owners))
	for step := range 800 {
		i := r.IntN(len(list))
		switch p := list[i]; {
		case p == nil:
			list[i] = begin(t, s, owners[i], fmt.Sprint(i))
		case r.IntN(20) == 0:
			p.stop()
			list[i] = nil
		default:
			p.client.fails(r.IntN(4) == 0, r.IntN(6) == 0)
		}
		after(time.Duration(r.IntN(4000)) * time.Millisecond)
		held := map[string]bool{}
		for i, p := range list {
			if p != nil && p.Held() {
				held[owners[i]] = true
			}
		}
		for id := range held {
			turns[id]++
		}
		if len(held) > 1 {
			t.Fatalf("step %d: two installations may act; the lease is held by %q", step, s.holder())
		}
	}
}
