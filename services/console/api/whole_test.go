package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console/consoletest"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
	"millwright/store/audit/shadow"
	"millwright/store/memlog"
)

// wholeRig is an API over a recorded history.
type wholeRig struct {
	*rig
	stream *slow
	done   chan struct{}
}

// slow is a stream that can be told to wait before each message, until the reader goes or it is let go on.
type slow struct {
	audit.Stream
	held    chan struct{}
	waiting chan struct{}
	gone    chan struct{}
}

func (s *slow) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	if s.held != nil {
		s.waiting <- struct{}{}
		select {
		case <-s.held:
		case <-ctx.Done():
			s.gone <- struct{}{}
			return ctx.Err()
		}
	}
	return s.Stream.Consume(ctx, from, fn)
}

func newWholeRig(t *testing.T) *wholeRig {
	t.Helper()
	return wholeRigOf(t, consoletest.Recorded)
}

func wholeRigOf(t *testing.T, recorded func(testing.TB, string) (*memlog.Log, *recording.Recording)) *wholeRig {
	t.Helper()
	log, rec := recorded(t, "../../../store/audit/testdata/v20/TestDeletingByHand.rec")
	x := &wholeRig{rig: &rig{T: t, log: log}, stream: &slow{Stream: rec, waiting: make(chan struct{}, 8), gone: make(chan struct{}, 8)}, done: make(chan struct{})}
	idx := index.New(log.ID(), 0)
	head, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	consoletest.Fill(t, idx, log, head.Seq)
	v := view.New(view.Config{Cluster: "test", Log: log, Stream: x.stream, Index: idx, Now: time.Now,
		Versions: func() (*world.World, *ledger.Ledger, error) { return world.New(), ledger.New(""), nil }})
	mux := http.NewServeMux()
	New(Config{View: v, Index: idx, Log: log, Reviewer: consoletest.Everybody(), Now: time.Now, Logger: zerolog.New(&x.out), Done: x.done, Version: "1"}).Register(mux)
	x.Server = httptest.NewServer(mux)
	t.Cleanup(x.Server.Close)
	return x
}

// toldOf are the events of an answer, by name, each with its last data, and how many there were.
func toldOf(t *testing.T, body []byte) (data map[string]string, count map[string]int) {
	t.Helper()
	data, count = map[string]string{}, map[string]int{}
	lines, event := bufio.NewScanner(bytes.NewReader(body)), ""
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data[event], count[event] = text, count[event]+1
		}
	}
	return data, count
}

func (r *wholeRig) head() store.Head {
	r.Helper()
	h, err := r.log.Head(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return h
}

// A range that is taken again comes out as a replay of the log does, and otherwise with another NodePool.
func TestARangeIsTakenAgain(t *testing.T) {
	r := newWholeRig(t)
	want, err := audit.Replay(t.Context(), r.log, r.stream, audit.Range{From: 1})
	if err != nil || want.Replayed() == 0 {
		t.Fatal(want, err)
	}
	ask := func(status int, token, body string) (x view.RangeReplayed) {
		t.Helper()
		got, header, b := r.ask(token, http.MethodPost, "/replay", body)
		if got != status {
			t.Fatalf("%s as %q: %d %s", body, token, got, b)
		}
		if status != http.StatusOK {
			return x
		}
		data, count := toldOf(t, b)
		if header.Get("Content-Type") != "text/event-stream" || count[EventResult] != 1 || count[view.EventProgress] == 0 {
			t.Fatalf("%s: %s, %v", body, header, data)
		}
		d := json.NewDecoder(strings.NewReader(data[EventResult]))
		d.DisallowUnknownFields()
		if err := d.Decode(&x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	ask(http.StatusUnauthorized, "", "{}")
	ask(http.StatusForbidden, "reader", "{}")
	if x := ask(http.StatusOK, "viewer", "{}"); x.Planned != want.Planned || x.Derived != want.Derived || x.Explained != want.Explained || x.Diverged != 0 || x.From != 1 || x.To != r.head().Seq {
		t.Errorf("%+v, want %+v", x, want)
	}
	half := r.head().Seq / 2
	part, err := audit.Replay(t.Context(), r.log, r.stream, audit.Range{From: half})
	if err != nil {
		t.Fatal(err)
	}
	if x := ask(http.StatusOK, "viewer", fmt.Sprintf(`{"from":%d}`, half)); x.Planned != part.Planned || x.From != half || x.Planned >= want.Planned {
		t.Errorf("%+v, want %+v", x, part)
	}
	if x := ask(http.StatusOK, "viewer", `{"options":["node-cost=5"]}`); x.Instead == nil || x.Instead.Planned != want.Planned {
		t.Errorf("%+v", x)
	}
	for body, about := range map[string]string{`{"from":99999}`: "no record", `{"since":"1h","from":2}`: "say the same", `{"since":"x"}`: "must be a span", `{"options":["x=1"]}`: "must be one of",
		`{"manifests":"kind: Pod"}`: "manifests", `{"until":"99999h"}`: "no record"} {
		if status, _, b := r.ask("viewer", http.MethodPost, "/replay", body); status != http.StatusBadRequest || !strings.Contains(string(b), about) {
			t.Errorf("%s: %d %s", body, status, b)
		}
	}
	if r.head().Seq != want.Head {
		t.Error("a replay has written into the log")
	}
}

// One at a time for each person, two in all; who goes ends what was worked out for them, and so does the end
// of the server.
func TestPlacesOfReplays(t *testing.T) {
	r := newWholeRig(t)
	r.stream.held = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	begin := func(ctx context.Context, token string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+Prefix+"/replay", strings.NewReader("{}"))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	go begin(ctx, "viewer")
	<-r.stream.waiting
	if status, header, b := r.ask("viewer", http.MethodPost, "/replay", "{}"); status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("a second one of the same person: %d %s", status, b)
	}
	go begin(t.Context(), "operator")
	<-r.stream.waiting
	if status, _, b := r.ask("planner", http.MethodPost, "/replay", "{}"); status != http.StatusServiceUnavailable {
		t.Errorf("a third one: %d %s", status, b)
	}
	cancel()
	<-r.stream.gone
	close(r.done)
	<-r.stream.gone
}

// The chain is checked, and every signed head told with the hash that the log has.
func TestTheChainIsVerified(t *testing.T) {
	r := newWholeRig(t)
	status, _, b := r.ask("reader", http.MethodGet, "/verify", "")
	if status != http.StatusForbidden {
		t.Errorf("%d %s", status, b)
	}
	head := r.head()
	d, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindLedgerCheckpoint, Payload: &ledger.LedgerCheckpoint{Seq: head.Seq, Blob: "x",
		Signed: &ledger.SignedHead{Seq: head.Seq, Hash: "as signed", Key: "k", Signature: "s"}}})
	if err == nil {
		_, err = r.log.Append(t.Context(), d)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, b = r.ask("viewer", http.MethodGet, "/verify?record=2", "")
	data, count := toldOf(t, b)
	var h view.Head
	var v view.Verified
	var hash view.RecordHash
	for text, into := range map[string]any{data[view.EventHead]: &h, data[EventResult]: &v, data[view.EventRecord]: &hash} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
	}
	if count[view.EventHead] != 1 || h.Record != head.Seq+1 || h.Signed.Hash != "as signed" || h.Hash != fmt.Sprintf("%x", head.Hash) {
		t.Errorf("%+v", h)
	}
	if v.LogID != r.log.ID() || v.Records != head.Seq+1 || v.First != 1 || v.Broken != "" || hash.Seq != 2 || len(hash.Hash) != 64 {
		t.Errorf("%+v, %+v", v, hash)
	}
	for _, query := range []string{"?record=-1", "?record=x", "?what=1"} {
		if status, _, b := r.ask("viewer", http.MethodGet, "/verify"+query, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, status, b)
		}
	}
}

// The report of the console is that of the log and the observations. It takes a place, as everything that
// lasts does, and ends with who asked.
func TestTheShadowReport(t *testing.T) {
	r := wholeRigOf(t, consoletest.Shadowed)
	ask := func(token, query string) (status int, data map[string]string, body string) {
		t.Helper()
		status, _, b := r.ask(token, http.MethodGet, "/shadow-report"+query, "")
		data, _ = toldOf(t, b)
		return status, data, string(b)
	}
	if status, _, body := ask("reader", ""); status != http.StatusForbidden {
		t.Errorf("without the right to plan: %d %s", status, body)
	}
	for _, query := range []string{"?since=x", "?since=-1h", "?what=1"} {
		if status, _, body := ask("viewer", query); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	want, err := shadow.Compare(t.Context(), r.log, r.stream, time.Unix(0, 0))
	if err != nil || want.Decisions == 0 || want.Actual.USD == 0 || len(want.Differences) == 0 {
		t.Fatalf("%+v, %v", want, err)
	}
	status, data, body := ask("viewer", "?since=1970-01-01T00:00:00Z")
	var got shadow.Report
	d := json.NewDecoder(strings.NewReader(data[EventResult]))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); status != http.StatusOK || err != nil || !cmp.Equal(&got, want, cmpopts.EquateApprox(0, 1e-9)) {
		t.Errorf("%d %s, %v: %s", status, body, err, cmp.Diff(&got, want))
	}
	var p view.Progress
	if err := json.Unmarshal([]byte(data[view.EventProgress]), &p); err != nil || p.LastMessage == 0 {
		t.Errorf("%s, %v", body, err)
	}
	if _, data, body := ask("viewer", ""); !strings.Contains(data[EventError], "nothing was decided in mode shadow") || !strings.Contains(data[EventError], `"status":404`) {
		t.Errorf("of the last day: %s", body)
	}

	r.stream.held = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+Prefix+"/shadow-report?since=1970-01-01T00:00:00Z", nil)
		req.Header.Set("Authorization", "Bearer viewer")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	<-r.stream.waiting
	if status, header, b := r.ask("viewer", http.MethodGet, "/shadow-report", ""); status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("a second one of the same person: %d %s", status, b)
	}
	cancel()
	<-r.stream.gone
}

// A bundle takes a right of its own and is on record; it replays, and a trailer says that it is whole.
func TestABundleIsTaken(t *testing.T) {
	r := newWholeRig(t)
	post := func(token, body string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+Prefix+"/bundles", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, b
	}
	before := r.head().Seq
	for body, want := range map[string]struct {
		token  string
		status int
		about  string
	}{
		`{"since":"1h","reason":"x"}`:                     {"viewer", http.StatusForbidden, "may not get bundles.millwright.sh"},
		`{"since":"999999h"}`:                             {"operator", http.StatusBadRequest, "reason is missing"},
		`{"reason":"x"}`:                                  {"operator", http.StatusBadRequest, "must be a span"},
		`{"reason":"x","since":"1s"}`:                     {"operator", http.StatusNotFound, "nothing since"},
		`{"reason":"x","object":"planet/mars"}`:           {"operator", http.StatusBadRequest, "must be KIND/NAME"},
		`{"reason":"x","object":"node/nowhere"}`:          {"operator", http.StatusNotFound, "nothing about node/nowhere"},
		`{"reason":"x","object":"node/a","since":"-1h"}`:  {"operator", http.StatusBadRequest, "must be a span"},
		`{"reason":"x","object":"node/a","everything":1}`: {"operator", http.StatusBadRequest, "unknown field"},
	} {
		if resp, b := post(want.token, body); resp.StatusCode != want.status || !strings.Contains(string(b), want.about) {
			t.Errorf("%s: %d %s", body, resp.StatusCode, b)
		}
	}
	if r.head().Seq != before {
		t.Error("what was refused is on record")
	}
	resp, b := post("operator", `{"since":"999999h","reason":"for the vendor"}`)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != BundleType || resp.Trailer.Get(ResultHeader) != ResultWhole {
		t.Fatalf("%d %v %v", resp.StatusCode, resp.Header, resp.Trailer)
	}
	file := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, err := recording.OpenBundle(file)
	if err != nil {
		t.Fatal(err)
	}
	defer bundle.Close()
	want, err := audit.Replay(t.Context(), r.log, r.stream, audit.Range{From: 1, To: before})
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.Replay(t.Context(), bundle, bundle, audit.Range{From: bundle.Manifest.From, To: bundle.Manifest.To})
	if err != nil || got.Planned != want.Planned || len(got.Divergences) > 0 || bundle.Manifest.To != before || len(bundle.Manifest.Missing) > 0 {
		t.Errorf("%s, want %s; %+v, %v", got.Counts(), want.Counts(), bundle.Manifest, err)
	}
	page, err := r.log.Read(t.Context(), before+1, 10)
	if err != nil || len(page) != 1 || page[0].Service != ledger.ServiceOperator || !page[0].Ignorable {
		t.Fatalf("%+v, %v", page, err)
	}
	e, err := audit.Decode(page[0])
	if p, ok := e.Payload.(*ledger.BundleTaken); err != nil || !ok || p.By != "operator" || p.Why != "for the vendor" || p.To != before || p.From != bundle.Manifest.From || p.About != "since 999999h" {
		t.Errorf("%+v, %v", e.Payload, err)
	}
	if text := audit.Describe(e, r.log.ID()); !strings.Contains(text, "taken by operator: for the vendor") {
		t.Error(text)
	}
	if !strings.Contains(r.out.String(), "bundle taken") {
		t.Error(r.out.String())
	}
}

// What fails halfway is said in the trailer.
func TestABundleThatFailsHalfway(t *testing.T) {
	r := newWholeRig(t)
	r.stream.Stream = broken{r.stream.Stream}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+Prefix+"/bundles", strings.NewReader(`{"since":"999999h","reason":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer operator")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || resp.Trailer.Get(ResultHeader) != "the console failed; its log says why" {
		t.Errorf("%d, %v, %v", resp.StatusCode, resp.Trailer, err)
	}
	if !strings.Contains(r.out.String(), "the disk is gone") {
		t.Error(r.out.String())
	}
}

type broken struct{ audit.Stream }

func (broken) Consume(context.Context, uint64, func(events.Message) error) error {
	return fmt.Errorf("the disk is gone")
}
