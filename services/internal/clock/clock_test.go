package clock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"millwright/services/internal/clock"
)

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// machine is a world in which time passes, with a wall clock that may be wrong.
type machine struct {
	*clock.Clock
	passed time.Duration
	wrong  time.Duration
}

func boot(wrong time.Duration) *machine {
	m := &machine{wrong: wrong}
	m.Clock = clock.New(clock.Config{Wall: func() time.Time { return start.Add(m.passed + m.wrong) }, Monotonic: func() time.Duration { return m.passed }})
	m.passed += time.Second
	return m
}

func (m *machine) now() time.Time { return start.Add(m.passed) }

// ask has a witness answer after a while, half way.
func (m *machine) ask(name string, took time.Duration, itsError time.Duration) {
	asked := m.Monotonic()
	m.passed += took / 2
	date := m.now().Add(itsError).Truncate(time.Second)
	m.passed += took - took/2
	m.Witness(name, asked, date)
}

func TestCheck(t *testing.T) {
	const day = 24 * time.Hour
	cases := map[string]struct {
		wrong time.Duration
		do    func(m *machine)
		want  string
	}{
		"nobody was asked":                    {0, func(*machine) {}, "not been compared"},
		"a right clock":                       {0, func(m *machine) { m.ask(clock.APIServer, time.Millisecond, 0) }, ""},
		"a right clock and a slow answer":     {0, func(m *machine) { m.ask(clock.APIServer, time.Minute, 0) }, ""},
		"a clock that is 4 s fast":            {4 * time.Second, func(m *machine) { m.ask(clock.APIServer, time.Millisecond, 0) }, ""},
		"a clock that is 7 s fast":            {7 * time.Second, func(m *machine) { m.ask(clock.APIServer, time.Millisecond, 0) }, "ahead of that of api-server"},
		"a clock that is 7 s slow":            {-7 * time.Second, func(m *machine) { m.ask(clock.APIServer, time.Millisecond, 0) }, "behind that of api-server"},
		"a clock that is 31 days fast":        {31 * day, func(m *machine) { m.ask(clock.APIServer, time.Millisecond, 0) }, "ahead"},
		"a clock that is 31 days slow":        {-31 * day, func(m *machine) { m.ask(clock.APIServer, time.Millisecond, 0) }, "behind"},
		"witnesses that differ":               {0, func(m *machine) { m.ask(clock.APIServer, 1, 0); m.ask(clock.AWS, 1, time.Hour) }, "behind that of aws"},
		"a witness that has its clock set":    {0, func(m *machine) { m.ask(clock.AWS, 1, time.Hour); m.ask(clock.AWS, 1, 0) }, ""},
		"a quick answer and then a slow one":  {10 * time.Second, func(m *machine) { m.ask(clock.AWS, 1, 0); m.ask(clock.AWS, 30*time.Second, 0) }, "ahead of that of aws"},
		"the clock is set after the question": {0, func(m *machine) { m.ask(clock.APIServer, 1, 0); m.wrong = day }, "ahead of that of api-server"},
		"the clock is set long after it": {0, func(m *machine) {
			m.ask(clock.APIServer, 1, 0)
			m.passed += time.Hour
			m.wrong = -day
		}, "was set by -24h"},
		"the clock is set right":         {day, func(m *machine) { m.ask(clock.APIServer, 1, 0); m.wrong = 0; m.ask(clock.APIServer, 1, 0) }, ""},
		"nobody answers for an hour":     {0, func(m *machine) { m.ask(clock.APIServer, 1, 0); m.passed += time.Hour }, ""},
		"the machine slept for an hour":  {0, func(m *machine) { m.ask(clock.APIServer, 1, 0); m.wrong = time.Hour }, "ahead"},
		"it slept, and somebody says so": {time.Hour, func(m *machine) { m.passed += time.Minute; m.ask(clock.APIServer, 1, time.Hour) }, ""},
		"only the other witness is old news": {0, func(m *machine) {
			m.ask(clock.AWS, 1, time.Hour)
			m.passed += 6 * time.Minute
			m.ask(clock.APIServer, 1, 0)
		}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := boot(c.wrong)
			c.do(m)
			err := m.Check()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestASetClockNeverShows(t *testing.T) {
	m := boot(time.Second)
	m.ask(clock.APIServer, time.Millisecond, 0)
	for _, wrong := range []time.Duration{31 * 24 * time.Hour, -time.Hour, 6 * time.Second} {
		m.wrong, m.passed = wrong, m.passed+time.Minute
		m.ask(clock.APIServer, time.Millisecond, 0)
		if got, want := m.Now(), m.now().Add(time.Second); !got.Equal(want) {
			t.Errorf("wrong by %s: now %s, want %s", wrong, got, want)
		}
	}
	m.wrong = 2 * time.Second
	m.ask(clock.APIServer, time.Millisecond, 0)
	if got, want := m.Now(), m.now().Add(2*time.Second); !got.Equal(want) {
		t.Errorf("confirmed anew: now %s, want %s", got, want)
	}
}

func TestTransport(t *testing.T) {
	date, age := time.Now(), ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		if age != "" {
			w.Header().Set("Age", age)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	c := clock.New(clock.Config{})
	get := func(client clock.Doer) {
		t.Helper()
		r, _ := http.NewRequest(http.MethodGet, server.URL, nil)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	watched := &http.Client{Transport: c.Transport(clock.APIServer, nil)}
	date, age = date.Add(-time.Hour), "3600"
	get(watched)
	if err := c.Check(); !errors.Is(err, clock.ErrUnwitnessed) {
		t.Errorf("what a cache kept is a witness: %v", err)
	}
	date, age = time.Now(), ""
	get(watched)
	if err := c.Check(); err != nil {
		t.Errorf("a right clock: %v", err)
	}
	date = date.Add(-time.Hour)
	get(c.Client(clock.AWS, http.DefaultClient))
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "ahead of that of aws") {
		t.Errorf("a clock that is an hour ahead: %v", err)
	}
	r := prometheus.NewRegistry()
	clock.Register(r, c)
	if err := testutil.GatherAndCompare(r, strings.NewReader("# HELP millwright_clock_unreliable Whether the clock of the process cannot be relied on (1), so that it leads, decides and begins nothing, or can (0).\n# TYPE millwright_clock_unreliable gauge\nmillwright_clock_unreliable 1\n"), "millwright_clock_unreliable"); err != nil {
		t.Error(err)
	}
}

// AWS said a wrong time, as after a machine slept, and nobody calls it any more since the process stands
// down: the keeper does, and finds out that all is well long before what was said is forgotten.
func TestAWitnessThatDoubtsIsAskedAgain(t *testing.T) {
	var wrong atomic.Int64
	asked := make(chan string, 100)
	aws := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		w.Header().Set("Date", time.Now().Add(time.Duration(wrong.Load())).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer aws.Close()
	c := clock.New(clock.Config{})
	wrong.Store(int64(time.Hour))
	r, _ := http.NewRequest(http.MethodPost, aws.URL+"/?Action=X", nil)
	answer, err := c.Client(clock.AWS, http.DefaultClient).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	k := &clock.Keeper{Clock: c, Probe: func(context.Context) error {
		c.Witness(clock.APIServer, c.Monotonic(), time.Now())
		return nil
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Run(ctx)
	}()
	if what := <-asked; what != "HEAD /" || c.Check() == nil {
		t.Errorf("asked again by %s, and the clock is said to be right: %v", what, c.Check())
	}
	wrong.Store(0)
	for c.Check() != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.Check(); err != nil {
		t.Errorf("after 30 s: %v", err)
	}
	cancel()
	<-ended
}

// A process that asks nobody anything asks for the time, and asks again until it knows.
func TestKeeperAsks(t *testing.T) {
	synctest.Test(t, keeperAsks)
}

func keeperAsks(t *testing.T) {
	c := clock.New(clock.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	asked := 0
	k := &clock.Keeper{Clock: c, Probe: func(context.Context) error {
		if asked++; asked == 1 {
			return errors.New("refused")
		}
		c.Witness(clock.APIServer, c.Monotonic(), time.Now())
		cancel()
		return nil
	}}
	if err := k.Run(ctx); err != nil || asked != 2 || c.Check() != nil {
		t.Errorf("asked %d times: %v, %v", asked, err, c.Check())
	}
}
