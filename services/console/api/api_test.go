package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/console/consoletest"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// rig is an API over a log with one proposed command, and a cluster with a node and a pod that waits.
type rig struct {
	*testing.T
	*httptest.Server
	console *consoletest.Rig
	log     *memlog.Log
	clock   *consoletest.Clock
	id      string
	out     bytes.Buffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	c := consoletest.New(t, "test")
	id := c.Propose(ledger.CommandProposed{Policies: []string{"ask"}, Command: ledger.CommandStarted{
		Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: "a", Claim: "a-claim", NodePool: "p", Price: 96_000}}, PriceBefore: 96_000}})
	c.Read()
	r := newRigOn(t, c, c.Log)
	r.id = id
	return r
}

// newRigOn is an API that has a log in place of the console's own.
func newRigOn(t *testing.T, c *consoletest.Rig, log store.Log) *rig {
	t.Helper()
	r := &rig{T: t, console: c, log: c.Log, clock: c.Clock}
	mux := http.NewServeMux()
	done := make(chan struct{})
	New(Config{View: c.View, Index: c.Index, Log: log, Reviewer: consoletest.Everybody(), Now: c.Clock.Now, Logger: zerolog.New(&r.out), Done: done, Version: "1"}).Register(mux)
	r.Server = httptest.NewServer(mux)
	t.Cleanup(func() { close(done); r.Server.Close() })
	return r
}

// ask sends a request and returns status, header and body.
func (r *rig) ask(token, method, path, body string, header ...string) (int, http.Header, []byte) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.URL+Prefix+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Header.Set("Accept-Encoding", req.Header.Get("Accept-Encoding")) // nothing is unpacked behind our back
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, resp.Header, b
}

// want demands a status, and strictly decodes what is answered into a value of the route's type.
func (r *rig) want(status int, token, method, path, body string) any {
	r.Helper()
	got, _, b := r.ask(token, method, path, body)
	if got != status {
		r.Fatalf("%s %s as %q: %d, want %d: %s", method, path, token, got, status, b)
	}
	result := reflect.New(reflect.TypeFor[Problem]())
	if status == http.StatusOK {
		if routeOf(r.T, method, path).text != nil { // it is no JSON
			return nil
		}
		result = reflect.New(reflect.TypeOf(routeOf(r.T, method, path).result))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(result.Interface()); err != nil {
		r.Fatalf("%s %s: %v in %s", method, path, err, b)
	}
	return result.Interface()
}

// routeOf finds the route of a path by the mux's own rules.
func routeOf(t *testing.T, method, path string) *route {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	mux, by := http.NewServeMux(), map[string]*route{}
	for i := range routes {
		pattern := routes[i].method + " " + routes[i].path
		by[pattern] = &routes[i]
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	_, pattern := mux.Handler(httptest.NewRequest(method, path, nil))
	if by[pattern] == nil {
		t.Fatalf("no route for %s %s", method, path)
	}
	return by[pattern]
}

// Every operation is asked for by somebody without a token, without the right, and with it.
func TestEveryOperationAndWhoMay(t *testing.T) {
	r := newRig(t)
	const order = `{"reason":"because","level":"voluntary"}`
	asked := map[string]bool{}
	for _, path := range []string{"/status", "/nodes", "/nodes?nodepool=p&state=ready&limit=1", "/pods", "/nodepools", "/decisions?kind=CommandProposed&kind=Genesis&since=1h&decisions=false",
		"/decisions/2", "/why/node/a", "/why/pod/default/waits", "/commands?state=proposed", "/timeline?since=1h&nodepool=p",
		"/summary?since=1h", "/rollouts", "/health?since=24h", "/savings?since=24h", "/savings.csv?since=24h", "/spot-savings.csv?since=24h", "/savings.csv?by=team", "/spot-savings.csv?by=namespace"} {
		r.want(http.StatusUnauthorized, "", http.MethodGet, path, "")
		r.want(http.StatusUnauthorized, "stranger", http.MethodGet, path, "")
		r.want(http.StatusForbidden, "nobody", http.MethodGet, path, "")
		r.want(http.StatusOK, "viewer", http.MethodGet, path, "")
		asked[routeOf(t, http.MethodGet, path).id] = true
		r.clock.Advance(10 * time.Second) // so many strangers would be too many at once
	}
	for _, path := range []string{"/control/stop", "/control/resume", "/commands/" + r.id + "/reject", "/commands/" + r.id + "/approve", "/rollouts/p/resume"} {
		r.want(http.StatusUnauthorized, "", http.MethodPost, path, order)
		r.want(http.StatusForbidden, "viewer", http.MethodPost, path, order)
		if strings.HasSuffix(path, "approve") { // somebody was faster
			r.want(http.StatusConflict, "operator", http.MethodPost, path, order)
		} else if strings.HasPrefix(path, "/rollouts") { // none has halted
			r.want(http.StatusNotFound, "operator", http.MethodPost, path, order)
		} else {
			r.want(http.StatusOK, "operator", http.MethodPost, path, order)
		}
		asked[routeOf(t, http.MethodPost, path).id] = true
	}
	const question = `{"manifests":"kind: NodePool\napiVersion: karpenter.sh/v1\nmetadata: {name: p}\nspec: {template: {spec: {requirements: []}}}"}`
	for token, status := range map[string]int{"": http.StatusUnauthorized, "reader": http.StatusForbidden, "viewer": http.StatusOK} {
		r.want(status, token, http.MethodPost, "/plan", question)
	}
	asked["plan"] = true
	// Its proposal was not planned on a Snapshot; services/console/view has a recording that was.
	for path, status := range map[string]int{"/decisions/2/replay": http.StatusBadRequest, "/decisions/2/facts": http.StatusBadRequest} {
		r.want(http.StatusUnauthorized, "", http.MethodGet, path, "")
		r.want(http.StatusForbidden, "reader", http.MethodGet, path, "")
		r.want(status, "viewer", http.MethodGet, path, "")
		asked[routeOf(t, http.MethodGet, path).id] = true
	}
	r.want(http.StatusOK, "", http.MethodGet, "/openapi.json", "")
	for _, rt := range routes {
		if !asked[rt.id] && !rt.open && rt.stream == nil {
			t.Errorf("%s is never asked for", rt.id)
		}
	}
}

func TestWhatIsAnswered(t *testing.T) {
	r := newRig(t)
	if n := r.want(http.StatusOK, "viewer", http.MethodGet, "/nodes", "").(*Nodes); n.Total != 1 || n.Items[0].Name != "a" || n.Items[0].NodePool != "p" || !strings.Contains(n.Items[0].Stays, "waits for approval until") || n.StaysAsOf.IsZero() {
		t.Errorf("%+v", n)
	}
	if p := r.want(http.StatusOK, "viewer", http.MethodGet, "/pods", "").(*Pods); p.Total != 1 || p.Items[0].Name != "waits" || p.Items[0].Verdict != view.VerdictNone || p.Items[0].Requests.MilliCPU != 3000 {
		t.Errorf("%+v", p)
	}
	if p := r.want(http.StatusOK, "viewer", http.MethodGet, "/nodepools", "").(*NodePools); len(p.Items) != 1 || p.Items[0].Nodes != 1 {
		t.Errorf("%+v", p)
	}
	first := r.want(http.StatusOK, "viewer", http.MethodGet, "/decisions?limit=1", "").(*Decisions)
	second := r.want(http.StatusOK, "viewer", http.MethodGet, "/decisions?limit=1&cursor="+first.Next, "").(*Decisions)
	if first.Items[0].Seq != 2 || second.Items[0].Seq != 1 || second.Next != "" || first.Head != 2 {
		t.Errorf("%+v, then %+v", first, second)
	}
	if d := r.want(http.StatusOK, "viewer", http.MethodGet, "/decisions/2", "").(*view.Decision); d.Kind != "CommandProposed" || !strings.Contains(d.Text, "takes 1 node(s): a") {
		t.Errorf("%+v", d)
	}
	if s := r.want(http.StatusOK, "viewer", http.MethodGet, "/why/node/a", "").(*view.Story); len(s.Lines) != 1 || len(s.Now) == 0 {
		t.Errorf("%+v", s)
	}
	if s := r.want(http.StatusOK, "viewer", http.MethodGet, "/why/pod/default/waits", "").(*view.Story); len(s.Lines) != 0 || len(s.Now) != 1 || !strings.Contains(s.Now[0], "there is a place for it") {
		t.Errorf("%+v", s)
	}
	r.want(http.StatusNotFound, "viewer", http.MethodGet, "/why/pod/default/nobody", "")
	if c := r.want(http.StatusOK, "viewer", http.MethodGet, "/commands", "").(*Commands); len(c.Items) != 1 || c.Items[0].ID != r.id || c.Items[0].State != "Proposed" {
		t.Errorf("%+v", c)
	}
}

// The record of an order names who gave it and why, and so does the console's own log; tokens are in neither.
func TestOrdersAreOnRecord(t *testing.T) {
	r := newRig(t)
	done := r.want(http.StatusOK, "operator", http.MethodPost, "/commands/"+r.id+"/approve", `{"reason":" nobody\nneeds it "}`).(*Recorded)
	stopped := r.want(http.StatusOK, "operator", http.MethodPost, "/control/stop", `{"reason":"fire drill","level":"all"}`).(*Recorded)
	list, err := r.log.Read(t.Context(), done.Record, 2)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	a, err := audit.Decode(list[0])
	if p, ok := a.Payload.(*ledger.ProposalAnswered); err != nil || !ok || !p.Approved || p.By != "operator" || p.Why != "nobody needs it" || p.ID != r.id {
		t.Errorf("%+v, %v", a.Payload, err)
	}
	s, err := audit.Decode(list[1])
	if p, ok := s.Payload.(*ledger.ControlChanged); err != nil || !ok || p.Stop != ledger.StopAll || p.By != "operator" || stopped.Record != s.Seq {
		t.Errorf("%+v, %v", s.Payload, err)
	}
	if got := r.want(http.StatusNotFound, "operator", http.MethodPost, "/commands/cmd-x/reject", `{"reason":"x"}`).(*Problem); !strings.Contains(got.Message, "cmd-x is not proposed") {
		t.Errorf("%+v", got)
	}
	r.want(http.StatusForbidden, "viewer", http.MethodPost, "/control/resume", `{"reason":"me too"}`)
	for _, want := range []string{`"by":"operator"`, `"reason":"nobody needs it"`, `"by":"viewer"`, "may not update control.millwright.sh"} {
		if !strings.Contains(strings.ReplaceAll(r.out.String(), `" nobody\nneeds it "`, `"nobody needs it"`), want) {
			t.Errorf("no %s in\n%s", want, r.out.String())
		}
	}
	if strings.Contains(r.out.String(), "Bearer") {
		t.Errorf("a token is in\n%s", r.out.String())
	}
}

// full is a log that takes no records.
type full struct{ store.Log }

func (full) Append(context.Context, store.Draft) (store.Record, error) {
	return store.Record{}, fmt.Errorf("append: %w: etcdserver: mvcc: database space exceeded", store.ErrRefused)
}

// Who gives an order while etcd takes no writes is told why it is not recorded.
func TestAnOrderThatTheLogDoesNotTake(t *testing.T) {
	c := consoletest.New(t, "test")
	r := newRigOn(t, c, full{c.Log})
	status, _, b := r.ask("operator", http.MethodPost, "/control/stop", `{"reason":"because","level":"all"}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(string(b), "space exceeded") {
		t.Errorf("%d: %s", status, b)
	}
}

func TestBadQuestionsAreRefusedByName(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{
		"/nodes?limit=0": "limit", "/nodes?limit=501": "limit", "/nodes?limit=1&limit=2": "limit", "/nodes?pool=x": "pool", "/decisions?cursor=x": "cursor",
		"/decisions?since=yesterday": "since", "/decisions?since=-1h": "since", "/decisions/0": "0", "/decisions/1/replay": "only decisions", "/decisions/x/facts": "x", "/decisions/99999999999999999999": "sequence", "/decisions/x": "x",
		"/why/secret/x": "secret", "/commands?state=lost": "lost", "/decisions/tail?since=1h": "since", "/decisions/tail?after=now": "after",
	} {
		if p := r.want(http.StatusBadRequest, "viewer", http.MethodGet, path, "").(*Problem); !strings.Contains(p.Message, want) {
			t.Errorf("%s: %q", path, p.Message)
		}
	}
	for body, want := range map[string]string{
		`{"level":"all"}`: "reason", `{"reason":"\n","level":"all"}`: "reason", `{"reason":"x","level":"none"}`: "level", `{"reason":"x","by":"me"}`: "by", `no`: "body",
		`{"reason":"` + strings.Repeat("x", reasonMax+1) + `","level":"all"}`: "reason", `{"reason":"` + strings.Repeat("x", bodyMax) + `"}`: "body",
	} {
		if p := r.want(http.StatusBadRequest, "operator", http.MethodPost, "/control/stop", body).(*Problem); !strings.Contains(p.Message, want) {
			t.Errorf("%.40s: %q", body, p.Message)
		}
	}
	for body, want := range map[string]string{
		`{"manifests":"kind: Pod"}`: "manifests: document 1 (Pod): apiVersion: is missing", `{"alone":true,"manifests":"x: 1"}`: "catalogue", `{"nodeTime":"soon"}`: "nodeTime",
		`{"manifest":"x"}`: "manifest", `{"prices":"prices: [{}]"}`: "prices[0].instanceType: is missing", `{"manifests":"` + strings.Repeat("x", view.PlanInputMax+1) + `"}`: "bytes long",
		`{"manifests":"` + strings.Repeat("x", questionMax) + `"}`: "body",
	} {
		if p := r.want(http.StatusBadRequest, "viewer", http.MethodPost, "/plan", body).(*Problem); !strings.Contains(p.Message, want) {
			t.Errorf("%.40s: %q", body, p.Message)
		}
	}
	if status, _, _ := r.ask("operator", http.MethodPost, "/control/stop", `{"reason":"x","level":"all"}`, "Content-Type", "text/plain"); status != http.StatusBadRequest {
		t.Errorf("an order that a form of another site could send: %d", status)
	}
	if status, _, _ := r.ask("viewer", http.MethodGet, "/nothing", ""); status != http.StatusNotFound {
		t.Errorf("an unknown path: %d", status)
	}
	if head, err := r.log.Head(t.Context()); err != nil || head.Seq != 2 {
		t.Errorf("%d records, %v", head.Seq, err)
	}
}

// Lists take the words that why and the timeline take, and those of records.
func TestObjectsByTheWordsOfUsers(t *testing.T) {
	r := newRig(t)
	for _, object := range []string{"claim/a-claim", "nodeclaim/a-claim", "NodeClaims/a-claim", "nodepool/p", "pool/p", "node/a"} {
		if x := r.want(http.StatusOK, "viewer", http.MethodGet, "/decisions?object="+object, "").(*Decisions); len(x.Items) != 1 {
			t.Errorf("%d records are about %s", len(x.Items), object)
		}
	}
}

func TestAnswersAreCompressedAndNotSentTwice(t *testing.T) {
	r := newRig(t)
	_, header, whole := r.ask("", http.MethodGet, "/openapi.json", "")
	status, zipped, b := r.ask("", http.MethodGet, "/openapi.json", "", "Accept-Encoding", "br, gzip")
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil || status != http.StatusOK || zipped.Get("Content-Encoding") != "gzip" || len(b) >= len(whole) {
		t.Fatalf("%d, %v, %d of %d bytes", status, err, len(b), len(whole))
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("unpacked it differs: %v", err)
	}
	if status, _, b := r.ask("", http.MethodGet, "/openapi.json", "", "If-None-Match", header.Get("ETag")); status != http.StatusNotModified || len(b) > 0 {
		t.Errorf("what is there already: %d, %d bytes", status, len(b))
	}
	if status, _, _ := r.ask("", http.MethodGet, "/openapi.json", "", "If-None-Match", `W/"other"`); status != http.StatusOK {
		t.Errorf("what has changed: %d", status)
	}
}

func TestATailDeliversAndBeginsWhereItEnded(t *testing.T) {
	r := newRig(t)
	read := func(after string, more ...string) *bufio.Scanner {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+Prefix+"/decisions/tail?kind=AlarmRaised"+strings.Join(more, ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer viewer")
		req.Header.Set("Last-Event-ID", after)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(resp, err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return bufio.NewScanner(resp.Body)
	}
	next := func(s *bufio.Scanner) (row index.Row) {
		for s.Scan() {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &row); err != nil {
					t.Fatal(err)
				}
				return row
			}
		}
		t.Fatal(s.Err())
		return row
	}
	live := read("")
	if !live.Scan() {
		t.Fatal(live.Err())
	}
	for _, message := range []string{"one", "two"} {
		d, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{Reason: "r", Message: message}})
		if err != nil {
			t.Fatal(err)
		}
		d.Time, d.Mode = time.Now(), string(ledger.ModeActive)
		if _, err := r.log.Append(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	one, two := next(live), next(live)
	if one.Text != "alarm r: one" || two.Text != "alarm r: two" {
		t.Errorf("%+v, %+v", one, two)
	}
	if again := next(read(fmt.Sprint(one.Seq))); again.Seq != two.Seq {
		t.Errorf("after record %d comes %d", one.Seq, again.Seq)
	}
	if again := next(read("", fmt.Sprintf("&after=%d", one.Seq))); again.Seq != two.Seq {
		t.Errorf("of a page that was made after record %d, record %d comes first", one.Seq, again.Seq)
	}
	if again := next(read(fmt.Sprint(one.Seq), fmt.Sprintf("&after=%d", two.Seq))); again.Seq != two.Seq {
		t.Errorf("whoever comes back after record %d gets %d", one.Seq, again.Seq)
	}
}

// A console that has just started reads the newest records anew: those that a reader has seen, or that were
// there when it began, are not sent as new ones. A log that was restored has others under the same sequences.
func TestATailOfAConsoleThatHasJustStarted(t *testing.T) {
	for after, want := range map[string]string{"": "5", "1": "2", "4": "5", "100": "1"} {
		c := consoletest.New(t, "test")
		alarm := func() { c.Outcome(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "r", Message: "m"}) }
		for range 3 {
			alarm()
		}
		r := newRigOn(t, c, c.Log)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+Prefix+TailPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer viewer")
		req.Header.Set("Last-Event-ID", after)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "retry:") { //nolint:revive // it follows then
		}
		c.Read()
		alarm()
		first := ""
		for found := false; !found && lines.Scan(); {
			first, found = strings.CutPrefix(lines.Text(), "id: ")
		}
		if first != want {
			t.Errorf("after record %q comes %q, want %s", after, first, want)
		}
	}
}

// Who missed more than is sent is told so, and not left to believe that nothing else happened.
func TestATailThatMissedTooMuchSaysSo(t *testing.T) {
	for alarms, lost := range map[int]bool{missedMax: false, missedMax + 1: true} {
		c := consoletest.New(t, "test")
		for range alarms {
			c.Outcome(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "r", Message: "m"})
		}
		c.Read()
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		(&API{cfg: Config{Index: c.Index}}).missed(&stream{w: w, control: http.NewResponseController(w)}, index.Filter{Kinds: []string{"AlarmRaised"}}, "1")
		if got := w.Body.String(); strings.Contains(got, "event: lost") != lost || strings.Count(got, "event: record") != missedMax {
			t.Errorf("of %d records %d are sent, and that some are lost is said: %t", alarms, strings.Count(got, "event: record"), !lost)
		}
	}
}

// Who asks too often has to wait; others do not.
func TestHowOftenOneMayAsk(t *testing.T) {
	r := newRig(t)
	refused := 0
	for range askBurst + 40 {
		if status, header, _ := r.ask("viewer", http.MethodGet, "/commands", ""); status == http.StatusTooManyRequests && header.Get("Retry-After") != "" {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nobody is ever refused")
	}
	r.want(http.StatusOK, "operator", http.MethodGet, "/commands", "")
	last := 0
	for range failuresMax + 5 {
		last, _, _ = r.ask("stranger", http.MethodGet, "/commands", "")
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("who tries tokens gets %d", last)
	}
	r.want(http.StatusOK, "operator", http.MethodGet, "/commands", "")
}
