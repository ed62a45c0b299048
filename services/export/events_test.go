package export_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"millwright/planner/ledger"
	"millwright/services/export"
	"millwright/store"
	"millwright/store/audit/line"
)

// to serves a receiver and returns settings that export to it.
func to(t *testing.T, r http.Handler, change ...func(*export.Settings)) export.Settings {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return settings(t, func(s *export.Settings) {
		s.URL = server.URL + "/in"
		for _, c := range change {
			c(s)
		}
	})
}

func TestEveryRecordArrivesAsACloudEventWithItsReasons(t *testing.T) {
	for _, mode := range []string{export.ModeStructured, export.ModeBinary, export.ModeBatch} {
		t.Run(mode, func(t *testing.T) {
			b, r := newBench(t), &receiver{}
			rec := b.record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: "general-1", Reason: "expired", Message: "it was ü<b>old</b>"}, "claim/general-1")
			b.record(ledger.KindSegmentArchived, &ledger.SegmentArchived{First: 1, Last: 2})
			b.closed(20)
			b.run(to(t, r, func(s *export.Settings) { s.Mode = mode }))
			until(t, "all are there", func() bool { _, n := r.sequences(); return n == 22 }) // with the genesis
			e := r.taken()[1]
			if e.Type() != "sh.millwright.outcome.ClaimDoomed" || e.Source() != "/millwright/clusters/test" || e.Subject() != "claim/general-1" ||
				!e.Time().Equal(rec.Time) || e.DataSchema() != export.DataSchema || e.Extensions()["sequence"] != "00000000000000000002" || e.Extensions()["mode"] != "active" ||
				!strings.HasPrefix(e.ID(), b.log.ID()+".2.") {
				t.Errorf("%s", e)
			}
			var l line.Line
			if err := e.DataAs(&l); err != nil || l.Seq != 2 || l.Kind != "ClaimDoomed" || !strings.Contains(string(l.Payload), "it was ü<b>old</b>") && !strings.Contains(string(l.Payload), `\u003cb`) ||
				!strings.Contains(l.Text, "general-1") {
				t.Errorf("%+v, %v", l, err)
			}
			if list, _ := r.sequences(); !slices.IsSortedFunc(list, func(a, b string) int { x, _ := strconv.Atoi(a); y, _ := strconv.Atoi(b); return x - y }) || slices.Contains(list, "3") {
				t.Errorf("they came as %v", list)
			}
		})
	}
}

func TestARestartSendsAgainUnderTheSameIDAndLosesNothing(t *testing.T) {
	b, r := newBench(t), &receiver{}
	s := to(t, r)
	b.closed(30)
	stop := b.run(s)
	until(t, "some are there", func() bool { _, n := r.sequences(); return n > 3 })
	stop()
	b.closed(30)
	stop = b.run(s)
	until(t, "all are there", func() bool { _, n := r.sequences(); return n == 61 })
	b.settled()
	stop()
	// A crash keeps the cursor of seconds before.
	lead, err := b.elector.Campaign(t.Context(), store.Candidacy{Service: export.Name, Identity: "crash"})
	if err != nil {
		t.Fatal(err)
	}
	var kept map[string]any
	text, err := b.cursors.Cursor(t.Context(), "cloudevents")
	if err != nil || json.Unmarshal([]byte(text), &kept) != nil || kept["seq"] != 61.0 {
		t.Fatalf("%s, %v", text, err)
	}
	records, _ := b.log.Read(t.Context(), 50, 1)
	old, _ := json.Marshal(map[string]any{"seq": 50, "hash": hexOf(records[0].Hash[:])})
	if err := b.cursors.SetCursor(t.Context(), lead.Lease(), "cloudevents", string(old)); err != nil {
		t.Fatal(err)
	}
	_ = lead.Resign(t.Context())
	before, _ := r.sequences()
	b.closed(1)
	b.run(s)
	until(t, "the last is there", func() bool { list, _ := r.sequences(); return slices.Contains(list, "62") })
	if list, distinct := r.sequences(); distinct != 62 || len(list) != len(before)+12 {
		t.Errorf("%d events, %d before, %d of them different", len(list), len(before), distinct)
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

func TestANewSinkBeginsNow(t *testing.T) {
	b, r := newBench(t), &receiver{}
	b.closed(5)
	stop := b.run(to(t, r, func(s *export.Settings) { s.From = export.FromNow }))
	until(t, "its place is kept", func() bool { text, _ := b.cursors.Cursor(t.Context(), "cloudevents"); return text != "" })
	b.closed(1)
	until(t, "what is new is there", func() bool { list, _ := r.sequences(); return slices.Equal(list, []string{"7"}) })
	stop()
}

func TestOneEventThatIsRefusedStopsTheOthersOnlyUntilAnotherIsTaken(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusInternalServerError} {
		for _, mode := range []string{export.ModeBinary, export.ModeBatch} {
			b := newBench(t)
			r := &receiver{answer: func(list []event.Event) int {
				for _, e := range list {
					if e.Subject() == "claim/c3" || e.Subject() == "claim/c4" {
						return status
					}
				}
				return 0
			}}
			b.closed(10)
			stop := b.run(to(t, r, func(s *export.Settings) { s.Mode = mode }))
			until(t, "the others are there", func() bool { _, n := r.sequences(); return n == 9 })
			until(t, "two are given up", func() bool { return b.metric("dead_letters_total", "cloudevents") == 2 })
			if list, _ := r.sequences(); len(list) != 9 || slices.Contains(list, "5") || slices.Contains(list, "6") {
				t.Errorf("%d: %v", status, list)
			}
			b.settled()
			stop()
			if text, _ := b.cursors.Cursor(t.Context(), "cloudevents"); !strings.Contains(text, `"deadLetters":2`) || !strings.Contains(text, `"seq":11`) {
				t.Errorf("the cursor is %s", text)
			}
			if log := b.logged.String(); !strings.Contains(log, `"revision":5`) || !strings.Contains(log, "because <b>of</b> it") && !strings.Contains(log, `\u003cb`) {
				t.Errorf("nobody is told: %s", log)
			}
		}
	}
}

// Of a series that began with the first loss an alert could tell no increase.
func TestLossesOfASinkAreServedBeforeThereAreAny(t *testing.T) {
	b, r := newBench(t), &receiver{}
	b.closed(1)
	b.run(to(t, r))
	until(t, "all are there", func() bool { _, n := r.sequences(); return n == 2 })
	for _, name := range []string{"millwright_export_dead_letters_total", "millwright_export_skipped_records_total"} {
		if n, err := testutil.GatherAndCount(b.registry, name); err != nil || n != 1 {
			t.Errorf("%d series of %s, %v", n, name, err)
		}
	}
}

func TestAnOutageLosesNothingWhateverTheAnswer(t *testing.T) {
	for name, status := range map[string]int{"wrong token": http.StatusUnauthorized, "wrong path": http.StatusNotFound, "all are bad": http.StatusBadRequest, "down": http.StatusBadGateway} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var down atomic.Bool
			var asked atomic.Int64
			down.Store(true)
			r := &receiver{answer: func([]event.Event) int {
				asked.Add(1)
				if down.Load() {
					return status
				}
				return 0
			}}
			b.closed(40)
			b.run(to(t, r))
			until(t, "it was asked often", func() bool { return asked.Load() > 3 })
			if b.metric("lag_records", "cloudevents") != 41 || b.metric("dead_letters_total", "cloudevents") != 0 {
				t.Errorf("%v wait, %v given up", b.metric("lag_records", "cloudevents"), b.metric("dead_letters_total", "cloudevents"))
			}
			down.Store(false)
			until(t, "all are there", func() bool { _, n := r.sequences(); return n == 41 })
		})
	}
}

func TestASinkThatHangsIsGivenItsTimeAndAskedAgain(t *testing.T) {
	b := newBench(t)
	var asked atomic.Int64
	r := &receiver{}
	hangs := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if asked.Add(1) <= 2 {
			_, _ = io.Copy(io.Discard, q.Body) // else the server does not find out that the client has gone
			<-q.Context().Done()
			return
		}
		r.ServeHTTP(w, q)
	})
	b.closed(3)
	b.run(to(t, hangs, func(s *export.Settings) { s.Timeout = 50 * time.Millisecond }))
	until(t, "all are there", func() bool { _, n := r.sequences(); return n == 4 })
	if b.metric("dead_letters_total", "cloudevents") != 0 {
		t.Error("what nobody answered was given up")
	}
}

func TestAnExporterThatWasReplacedMovesNoCursor(t *testing.T) {
	b, r := newBench(t), &receiver{}
	s := to(t, r)
	b.closed(2)
	elector := b.elector
	b.elector = &watched{Elector: elector}
	b.run(s)
	until(t, "all are there", func() bool { _, n := r.sequences(); return n == 3 })
	lead := b.elector.(*watched).lead.Load()
	if err := (*lead).Resign(context.Background()); err != nil {
		t.Fatal(err)
	}
	until(t, "it ends", func() bool { return strings.Contains(b.logged.String(), "ended: export: lease lost") })
}

// watched keeps the leadership that was won.
type watched struct {
	store.Elector
	lead atomic.Pointer[store.Leadership]
}

func (w *watched) Campaign(ctx context.Context, c store.Candidacy) (store.Leadership, error) {
	l, err := w.Elector.Campaign(ctx, c)
	if err == nil {
		w.lead.Store(&l)
	}
	return l, err
}

func TestHeadersAndRootsComeFromFilesAndGoNowhereElse(t *testing.T) {
	b, r := newBench(t), &receiver{}
	elsewhere := &receiver{}
	other := httptest.NewServer(elsewhere)
	defer other.Close()
	var redirect atomic.Bool
	redirect.Store(true)
	var asked atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked.Add(1)
		if redirect.Load() {
			http.Redirect(w, q, other.URL, http.StatusTemporaryRedirect)
			return
		}
		r.ServeHTTP(w, q)
	}))
	defer server.Close()
	ca := file(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	headers := file(t, "headers", "# of the broker\nAuthorization: Bearer s3cret\n\nX-Tenant:  blue \n")
	b.closed(1)
	b.run(settings(t, func(s *export.Settings) { s.URL, s.CAFile, s.HeadersFile = server.URL, ca, headers }))
	until(t, "it was asked", func() bool { return asked.Load() > 1 })
	if err := os.WriteFile(headers, []byte("Authorization: Bearer n3w\nX-Tenant: blue\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redirect.Store(false)
	until(t, "all are there", func() bool { _, n := r.sequences(); return n == 2 })
	if h := r.heads[1]; h.Get("Authorization") != "Bearer n3w" || h.Get("X-Tenant") != "blue" || h.Get("User-Agent") != "millwright/1" {
		t.Errorf("%v", h)
	}
	if len(elsewhere.taken()) > 0 || strings.Contains(b.logged.String(), "s3cret") {
		t.Error("the token went elsewhere")
	}
}

func TestALongRecordGoesWithoutWhatMakesItLong(t *testing.T) {
	b, r := newBench(t), &receiver{}
	long := strings.Repeat("x", 2<<20)
	if _, err := b.log.Append(t.Context(), store.Draft{Time: start, Service: "provisioner", Mode: "active", Kind: uint16(ledger.KindAlarmRaised),
		Payload: []byte(`{"reason":"r","message":"m"}`), Explanation: []byte(`"` + long + `"`)}); err != nil {
		t.Fatal(err)
	}
	b.record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: long})
	b.record(ledger.Kind(999), "unknown")
	b.run(to(t, r))
	until(t, "all are there", func() bool { _, n := r.sequences(); return n == 4 })
	for i, e := range r.taken()[1:] {
		if len(e.Data()) > 1<<20+4096 || i == 0 && !strings.Contains(string(e.Data()), `"message":"m"`) {
			t.Errorf("record %d has %d bytes: %.300s", i+2, len(e.Data()), e.Data())
		}
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*export.Settings){
		"without TLS":        func(s *export.Settings) { s.URL = "http://events.example.com/x" },
		"want a URL":         func(s *export.Settings) { s.URL = "events.example.com" },
		"structured, binary": func(s *export.Settings) { s.Mode = "xml" },
		"go together":        func(s *export.Settings) { s.WebhookTemplate = "x" },
		"no kind":            func(s *export.Settings) { s.Kinds = []string{"commandstarted"} },
		"now or beginning":   func(s *export.Settings) { s.From = "yesterday" },
		"export-timeout":     func(s *export.Settings) { s.Timeout = 0 },
	} {
		s := settings(t, func(*export.Settings) {})
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
