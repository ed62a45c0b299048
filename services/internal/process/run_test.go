package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/store"
	"millwright/store/memlog"
)

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// journal notes what happens in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) addLine(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// until waits for the end of ctx and notes it.
func (j *journal) until(what string) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		j.addLine(what + " ended")
		return nil
	}
}

func get(t *testing.T, port int, path string) (int, string) {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A misspelt gate is named once when the process starts, with those that there are; gates that are always on
// are no reason to warn.
func TestUnknownFeatureGatesAreNamedAtStartUp(t *testing.T) {
	for gates, unknown := range map[string]string{
		"": "", "ReservedCapacity=true,StaticCapacity=false, SpotToSpotConsolidation=true,NodeRepair=true,NodeOverlay=false,CapacityBuffer=1,Drift=true": "",
		"NodeOverlays=true,NodeRepair=true, nodeRepair=false,NodeOverlays=false": `["NodeOverlays","nodeRepair"]`,
	} {
		var out bytes.Buffer
		ended := errors.New("ended")
		err := Run(t.Context(), Config{Settings: Settings{FeatureGates: gates}, Logger: zerolog.New(&out), Registry: prometheus.NewRegistry(),
			Build: func(context.Context) (*Parts, error) { return nil, ended }})
		if !errors.Is(err, ended) {
			t.Fatalf("%s: %v", gates, err)
		}
		var warnings []string
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, `"level":"warn"`) {
				warnings = append(warnings, line)
			}
		}
		switch {
		case unknown == "" && len(warnings) > 0, unknown != "" && len(warnings) != 1:
			t.Errorf("%q: %q", gates, warnings)
		case unknown != "" && !(strings.Contains(warnings[0], `"unknown":`+unknown) && strings.Contains(warnings[0], `"CapacityBuffer","Drift","NodeOverlay"`)):
			t.Errorf("%q: %s", gates, warnings[0])
		}
	}
}

func TestRunStartsAndStopsInOrder(t *testing.T) {
	j, leading := &journal{}, make(chan struct{})
	settings := Settings{HealthProbePort: freePort(t), MetricsPort: freePort(t), Identity: "me"}
	notReady := &flag{text: "log is folded up to 1 of 2"}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{Settings: settings, Version: "test", Logger: zerolog.Nop(), Registry: prometheus.NewRegistry(),
			Build: func(context.Context) (*Parts, error) {
				return &Parts{
					Elector: memlog.NewElector(memlog.New("test")), Background: []func(context.Context) error{j.until("folding")},
					Units: []Unit{{Name: "unit", Lead: func(ctx context.Context, _ store.Leadership) error {
						close(leading)
						return j.until("unit")(ctx)
					}}},
					Ready: []Check{{"log", notReady.check}},
					Close: func() error {
						if code, _ := get(t, settings.HealthProbePort, "/healthz"); code != http.StatusOK {
							j.addLine("health server ended")
						}
						j.addLine("closed")
						return nil
					},
				}, nil
			}})
	}()
	<-leading
	if code, body := get(t, settings.HealthProbePort, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "log is folded up to 1 of 2") {
		t.Errorf("not ready: %d %s", code, body)
	}
	notReady.set()
	for path, want := range map[string]int{"/readyz": 200, "/readyz/log": 200, "/readyz/nothing": 404, "/healthz": 200} {
		if code, body := get(t, settings.HealthProbePort, path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	if code, body := get(t, settings.MetricsPort, "/metrics"); code != 200 || !strings.Contains(body, `karpenter_build_info{`) {
		t.Errorf("metrics: %d %s", code, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if got, want := j.all(), []string{"unit ended", "folding ended", "closed"}; !slices.Equal(got, want) {
		t.Errorf("stopped in the order %q, want %q", got, want)
	}
	if code, _ := get(t, settings.HealthProbePort, "/healthz"); code != 0 {
		t.Error("the health server is left")
	}
}

func TestRunEnds(t *testing.T) {
	broken := errors.New("broken")
	cases := map[string]struct {
		build func(context.Context) (*Parts, error)
		want  string
	}{
		"when it can't be built": {want: "broken", build: func(context.Context) (*Parts, error) { return nil, broken }},
		"when a background task fails": {want: "broken", build: func(context.Context) (*Parts, error) {
			return &Parts{Background: []func(context.Context) error{func(context.Context) error { return broken }}}, nil
		}},
		"when a background task ends early": {want: "ended early", build: func(context.Context) (*Parts, error) {
			return &Parts{Background: []func(context.Context) error{func(context.Context) error { return nil }}}, nil
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := Run(t.Context(), Config{Logger: zerolog.Nop(), Registry: prometheus.NewRegistry(), Build: c.build})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAPortInUseIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	settings := Settings{MetricsPort: l.Addr().(*net.TCPAddr).Port}
	err = Run(t.Context(), Config{Settings: settings, Logger: zerolog.Nop(), Registry: prometheus.NewRegistry(),
		Build: func(context.Context) (*Parts, error) { t.Error("built all the same"); return &Parts{}, nil }})
	if err == nil || !strings.Contains(err.Error(), "listen for metrics") {
		t.Errorf("got %v", err)
	}
}

func TestAnotherInstanceTakesOver(t *testing.T) {
	elector := memlog.NewElector(memlog.New("test"))
	var began, ended atomic.Int32
	working := make(chan string, 100)
	candidateOf := func(name string) candidate {
		return candidate{elector: elector, identity: name, logger: zerolog.Nop(), leads: func(bool) {}, unit: Unit{Name: "unit", Lead: WhileLeading(func(ctx context.Context) error {
			began.Add(1)
			defer ended.Add(1)
			working <- name
			<-ctx.Done()
			return nil
		})}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = candidateOf("a").run(ctx) })
	if got := <-working; got != "a" {
		t.Fatalf("%s works", got)
	}
	group.Go(func() { _ = candidateOf("b").run(ctx) })
	for range 5 {
		elector.Expire("unit")
		select {
		case <-working:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody works after the lease was lost")
		}
	}
	cancel()
	group.Wait()
	if began.Load() != ended.Load() || began.Load() < 6 {
		t.Errorf("%d terms began, %d ended", began.Load(), ended.Load())
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, "info")
	if err != nil {
		t.Fatal(err)
	}
	logger.Debug().Msg("hidden")
	logger.Info().Str("node", "n").Msg("shown")
	if text := out.String(); strings.Contains(text, "hidden") || !strings.Contains(text, `"node":"n"`) || !strings.Contains(text, `"message":"shown"`) {
		t.Errorf("logged %q", text)
	}
	if _, err := NewLogger(&out, "loud"); err == nil {
		t.Error("an unknown level was accepted")
	}
}

func TestLibraryLinesAreSorted(t *testing.T) {
	var out bytes.Buffer
	w := libraryWriter{zerolog.New(&out).Level(zerolog.InfoLevel)}
	for _, line := range []string{"I0102 quiet\n", "W0102 quiet too\n", "E0102 loud\n"} {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if text := out.String(); strings.Contains(text, "quiet") || !strings.Contains(text, "loud") {
		t.Errorf("logged %q", text)
	}
}

// Profiles are served only if they are asked for, and never on the port of the metrics.
func TestProfilesAreServedOnLoopbackOnlyIfAskedFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		s := Settings{HealthProbePort: freePort(t), MetricsPort: freePort(t), EnableProfiling: asked, ProfilingAddress: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
		v, err := listen(s, prometheus.NewRegistry(), &checks{}, &checks{}, nil, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range []int{s.HealthProbePort, s.MetricsPort} {
			if code, _ := get(t, port, "/debug/pprof/cmdline"); code != http.StatusNotFound {
				t.Errorf("asked for: %t, port %d answers %d", asked, port, code)
			}
		}
		at := netip.MustParseAddrPort(s.ProfilingAddress)
		if code, text := get(t, int(at.Port()), "/debug/pprof/cmdline"); (code == http.StatusOK) != asked {
			t.Errorf("asked for: %t, answer %d %s", asked, code, text)
		}
		v.shutdown()
	}
}
