package pages

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console/access"
	"millwright/services/console/api"
	"millwright/services/console/consoletest"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store/audit"
	"millwright/store/audit/shadow"
)

// held is a stream whose messages come once it is let go.
type held struct {
	audit.Stream
	goOn chan struct{}
}

func (s *held) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	select {
	case <-s.goOn:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Stream.Consume(ctx, from, fn)
}

// shadowRig serves the pages over a history that was decided in mode shadow.
func shadowRig(t *testing.T) (*httptest.Server, *held) {
	t.Helper()
	log, rec := consoletest.Shadowed(t, "../../../store/audit/testdata/v20/TestDeletingByHand.rec")
	stream := &held{rec, make(chan struct{})}
	idx := index.New(log.ID(), 0)
	v := view.New(view.Config{Cluster: "test", Log: log, Stream: stream, Index: idx, Now: time.Now,
		Versions: func() (*world.World, *ledger.Ledger, error) { return world.New(), ledger.New(""), nil }})
	everybody := consoletest.Everybody()
	mux := http.NewServeMux()
	a := api.New(api.Config{View: v, Index: idx, Log: log, Reviewer: everybody, Now: time.Now, Logger: zerolog.Nop(), Done: make(chan struct{})})
	New(Config{Cluster: "test", View: v, Index: idx, API: a, Reviewer: everybody, Now: time.Now, Logger: zerolog.Nop(), Counted: func(string, int, time.Duration) {}}).Register(mux)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s, stream
}

func getPage(t *testing.T, s *httptest.Server, token, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", access.CookieName+"="+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// The page says how far it is before there is a report, and then shows it whole: both sides, the curves, what
// made the difference, and the caveats.
func TestTheShadowReportIsSentAsItIsMade(t *testing.T) {
	s, stream := shadowRig(t)
	resp := getPage(t, s, "viewer", "/shadow?since=1970-01-01T00:00:00Z")
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	body, begin := bufio.NewReader(resp.Body), ""
	for !strings.Contains(begin, "Comparing: observation") {
		line, err := body.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %s", err, begin)
		}
		begin += line
	}
	if !strings.Contains(begin, `<nav aria-label="Main">`) || strings.Contains(begin, "Happened") {
		t.Errorf("it begins with %s", begin)
	}
	close(stream.goOn)
	rest, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(rest)
	for _, want := range []string{">Happened</th>", "<td>evictions</td>", "<td>in the middle for</td>", `class="curve nodes" d="M0 `, `class="curve cost" d="M0 `, `<a href="/decisions/`, "<b>Millwright:</b>",
		"differences end with the real nodes", "</html>"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// What keeps a report from being made is said, in the page or by the status if nothing was sent yet.
func TestWhenThereIsNoShadowReport(t *testing.T) {
	s, stream := shadowRig(t)
	close(stream.goOn)
	for path, want := range map[string]struct {
		token  string
		status int
		text   string
	}{
		"/shadow":            {"viewer", http.StatusOK, "<button>Compare</button>"},
		"/shadow?":           {"reader", http.StatusOK, "but not have reports made"},
		"/shadow?since=1h":   {"viewer", http.StatusOK, "nothing was decided in mode shadow"},
		"/shadow?since=soon": {"viewer", http.StatusBadRequest, "must be a span"},
		"/shadow?since=2h":   {"reader", http.StatusForbidden, "plans.millwright.sh"},
	} {
		resp := getPage(t, s, want.token, path)
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want.status || !strings.Contains(string(text), want.text) || !strings.Contains(string(text), "</html>") {
			t.Errorf("%s as %s: %d, %v: %s", path, want.token, resp.StatusCode, err, text)
		}
	}
}

// Whatever nodes are called in a report is text.
func TestAShadowReportIsText(t *testing.T) {
	p := New(Config{Now: time.Now, Counted: func(string, int, time.Duration) {}})
	var out bytes.Buffer
	err := p.templates["shadow"].ExecuteTemplate(&out, "end", page{Data: &shadowPage{Problem: hostile, WhyShown: shadowWhyShown, Report: &shadow.Report{
		Differences: []shadow.Difference{{Record: 1, SavedUSD: -0.5, Decided: hostile, Instead: hostile, Why: []string{hostile, "2", "3", "4", "5", "6", "7"}}}, Caveats: []string{hostile}}}})
	if err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Count(text, "&lt;script&gt;alert(1)&lt;/script&gt;") != 5 || regexp.MustCompile(`<(script|img)`).MatchString(text) {
		t.Error(text)
	}
	if !strings.Contains(text, "costs $0.5000 more") || !strings.Contains(text, "and 1 line more in the record") {
		t.Error(text)
	}
}
