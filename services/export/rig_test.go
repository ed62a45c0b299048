package export_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"millwright/planner/ledger"
	"millwright/services/export"
	"millwright/store"
	"millwright/store/memlog"
)

// patience bounds what must happen sooner or later; nothing asserts that it happens fast.
const patience = time.Minute

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// settings are the defaults, with a change.
func settings(t *testing.T, change func(*export.Settings)) export.Settings {
	t.Helper()
	var s export.Settings
	s.Bind(pflag.NewFlagSet("test", pflag.ContinueOnError))
	s.From = export.FromBeginning
	change(&s)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// bench is a log that is exported.
type bench struct {
	t        *testing.T
	log      store.Log
	live     store.Log
	cursors  store.Cursors
	elector  store.Elector
	registry *prometheus.Registry
	logged   *logged
}

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newBench(t *testing.T) *bench {
	log := memlog.New("test")
	return &bench{t: t, log: log, live: log, cursors: log, elector: memlog.NewElector(log), logged: &logged{}}
}

// run exports until stop is called, which waits for the end.
func (b *bench) run(s export.Settings) (stop func()) {
	b.t.Helper()
	b.registry = prometheus.NewRegistry()
	e := export.New(export.Config{Settings: s, Cluster: "test", Version: "1", Log: b.log, Live: b.live, Cursors: b.cursors, Now: time.Now,
		Logger: zerolog.New(b.logged), Registerer: b.registry})
	if err := e.Open(); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lead, err := b.elector.Campaign(ctx, store.Candidacy{Service: export.Name, Identity: "me", Deposable: true})
		if err != nil {
			return
		}
		if err := e.Lead(ctx, lead); err != nil {
			fmt.Fprintln(b.logged, "ended:", err)
		}
		_ = lead.Resign(context.WithoutCancel(ctx))
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	b.t.Cleanup(stop)
	return stop
}

// record appends a record of a kind.
func (b *bench) record(kind ledger.Kind, payload any, subjects ...string) store.Record {
	b.t.Helper()
	return b.recordAt(start, kind, payload, subjects...)
}

func (b *bench) recordAt(at time.Time, kind ledger.Kind, payload any, subjects ...string) store.Record {
	b.t.Helper()
	data, err := json.Marshal(payload)
	if err != nil {
		b.t.Fatal(err)
	}
	rec, err := b.log.Append(b.t.Context(), store.Draft{Time: at, Service: "lifecycle", Mode: "active", Kind: uint16(kind), Payload: data, Subjects: subjects})
	if err != nil {
		b.t.Fatal(err)
	}
	return rec
}

// closed appends n records.
func (b *bench) closed(n int) (records []store.Record) {
	for i := range n {
		records = append(records, b.record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: fmt.Sprint("c", i), Reason: "test"}, fmt.Sprint("claim/c", i)))
	}
	return records
}

func (b *bench) metric(name, sink string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "millwright_export_"+name && l.GetName() == "sink" && l.GetValue() == sink {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

// settled waits until the answers to what came have been read too.
func (b *bench) settled() {
	b.t.Helper()
	until(b.t, "nothing waits", func() bool { return b.metric("lag_records", "cloudevents") == 0 })
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("it has not come to this: %s", what)
		}
	}
}

// receiver is a server that takes CloudEvents as their SDK reads them.
type receiver struct {
	mu     sync.Mutex
	events []event.Event
	heads  []http.Header
	// answer decides about a request; nil or 0: it is taken. It runs without the lock.
	answer func(events []event.Event) int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var list []event.Event
	var err error
	if cehttp.IsHTTPBatch(q.Header) {
		list, err = cehttp.NewEventsFromHTTPRequest(q)
	} else {
		var e *event.Event
		if e, err = cehttp.NewEventFromHTTPRequest(q); err == nil {
			list = []event.Event{*e}
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for i := range list {
		if err := list[i].Validate(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if r.answer != nil {
		if status := r.answer(list); status != 0 {
			http.Error(w, "no, because <b>of</b> it", status)
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, list...)
	r.heads = append(r.heads, q.Header)
}

// sequences are the records that came, in order, and whether each came once.
func (r *receiver) sequences() (list []string, distinct int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, e := range r.events {
		seen[e.ID()] = true
		list = append(list, strings.Split(e.ID(), ".")[1])
	}
	return list, len(seen)
}

func (r *receiver) taken() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event.Event(nil), r.events...)
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
