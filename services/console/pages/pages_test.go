package pages

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/console/access"
	"millwright/services/console/api"
	"millwright/services/console/consoletest"
	"millwright/services/console/view"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// hostile is what somebody may call an object, or give as a reason, to have a script run.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'{{.}}`

// rig is the pages over a log in which everything that people choose is hostile.
type rig struct {
	*testing.T
	*httptest.Server
	log   *memlog.Log
	clock *consoletest.Clock
	id    string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	c := consoletest.New(t, hostile)
	r := &rig{T: t, log: c.Log, clock: c.Clock}
	propose := func(policy string) string {
		return c.Propose(ledger.CommandProposed{Policies: []string{policy}, Command: ledger.CommandStarted{
			Reason: "Empty", Method: hostile, Candidates: []ledger.Candidate{{Node: hostile, Claim: hostile, NodePool: hostile, Price: 96_000}}, PriceBefore: 96_000}})
	}
	c.Outcome(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: hostile, Message: hostile})
	c.Outcome(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: hostile, Node: hostile})
	c.Outcome(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: hostile, Reason: hostile, Message: hostile})
	answered := propose(hostile)
	r.id = propose("ask")
	c.Outcome(ledger.KindProposalAnswered, &ledger.ProposalAnswered{ID: answered, By: hostile, Why: hostile, Until: c.Clock.Now().Add(time.Hour)})
	started := c.Outcome(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: hostile, PriceBefore: 50_000,
		Candidates: []ledger.Candidate{{Node: hostile, Claim: hostile, NodePool: hostile, Price: 50_000, Pods: []ledger.PodRef{{Namespace: hostile, Name: hostile}}}}})
	c.Outcome(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(c.Log.ID(), started.Seq)})
	planned := c.Outcome(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: hostile}}})
	c.Outcome(ledger.KindLaunched, &ledger.Launched{Claim: ledger.ClaimName(c.Log.ID(), hostile, planned.Seq, 0), CapacityType: "spot", Price: 30_000, OnDemandPrice: 96_000})
	c.Outcome(ledger.KindSharesObserved, &ledger.SharesObserved{Label: hostile, Hour: c.Clock.Now().Truncate(time.Hour), Spot: []ledger.SpotShare{{NodePool: hostile, Namespace: hostile, Team: hostile, OnDemand: 2, Cost: 1}},
		Moved: []ledger.MovedPods{{Command: ledger.CommandID(c.Log.ID(), started.Seq), Claim: hostile, Teams: map[string]int{hostile: 1}}}})
	c.Clock.Advance(time.Minute)
	c.Read()
	mux := http.NewServeMux()
	everybody := consoletest.Everybody()
	a := api.New(api.Config{View: c.View, Index: c.Index, Log: c.Log, Reviewer: everybody, Now: c.Clock.Now, Logger: zerolog.Nop(), Done: make(chan struct{})})
	a.Register(mux)
	New(Config{Cluster: hostile, View: c.View, Index: c.Index, API: a, Reviewer: everybody, Now: c.Clock.Now, Logger: zerolog.Nop(), Counted: func(string, int, time.Duration) {}}).Register(mux)
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Server.Close)
	return r
}

// send asks for a page, or sends a form to one, and follows no redirect.
func (r *rig) send(token, path string, form url.Values, header ...string) (int, http.Header, string) {
	r.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Cookie", access.CookieName+"="+token)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	script    = regexp.MustCompile(`<script[^>]*>`)
	handler   = regexp.MustCompile(`<[^>]*\son\w+\s*=`)
	style     = regexp.MustCompile(`<[^>]*\sstyle\s*=|<style`)
	elsewhere = regexp.MustCompile(`(?:src|href|action)="(https?:|//|javascript:|data:)`)
	links     = regexp.MustCompile(`href="(/[^"]*)"`)
)

// Every page with hostile names and reasons: the texts are there, and are nothing but texts. There are no
// scripts but our own, no styles that the policy would refuse, and nothing from elsewhere.
func TestWhateverThingsAreCalledIsText(t *testing.T) {
	r := newRig(t)
	escaped := "&lt;script&gt;alert(1)&lt;/script&gt;"
	for path, shows := range map[string]bool{
		"/": true, "/decisions": true, "/decisions?object=" + url.QueryEscape(hostile) + "&since=1h&kind=" + url.QueryEscape(hostile): true, "/decisions/2": true, "/decisions/3": true,
		"/decisions/5": true, objectPath("node", hostile): true, objectPath("nodepool", hostile): true, objectPath("nodeclaim", hostile): true, objectPath("command", r.id): true,
		"/plan": true, "/plan?record=5": true, "/shadow": true, "/decisions/5/replay": true, "/decisions/5/facts": true, "/timeline": true, "/timeline?nodepool=" + url.QueryEscape(hostile) + "&since=1h": true, "/timeline?kind=launched&reason=" + url.QueryEscape(hostile): true,
		"/timeline?object=" + url.QueryEscape("node/"+hostile): true, "/timeline?object=" + url.QueryEscape(hostile): true, "/savings": true,
		"/commands": true, "/commands?said=" + url.QueryEscape(hostile): true, "/login?next=" + url.QueryEscape("/"+hostile): true, objectPath("pod", hostile): true, objectPath("secret", hostile): true,
	} {
		status, header, body := r.send("operator", path, nil)
		if status >= 500 || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			t.Fatalf("%s: %d %s", path, status, body)
		}
		if shows && !strings.Contains(body, escaped) {
			t.Errorf("%s does not show the hostile text:\n%s", path, body)
		}
		for _, found := range script.FindAllString(body, -1) {
			if !regexp.MustCompile(`^<script src="/static/app\.js\?v=[0-9a-f]+" defer>$`).MatchString(found) {
				t.Errorf("%s has %s", path, found)
			}
		}
		// A value in quotes can end nowhere else, since quotes in it are escaped.
		bare := quoted.ReplaceAllString(body, `""`)
		for _, found := range []string{handler.FindString(bare), style.FindString(bare), elsewhere.FindString(body)} {
			if found != "" {
				t.Errorf("%s has %s", path, found)
			}
		}
		if strings.Contains(body, "<img") {
			t.Errorf("%s has an image", path)
		}
	}
}

// The timeline follows what happens, less often where that takes reading a story; what one is about to ask
// for stays as it was typed.
func TestTheTimelineFollows(t *testing.T) {
	r := newRig(t)
	for path, every := range map[string]string{"/timeline": "10", "/timeline?object=" + url.QueryEscape("node/"+hostile): "60"} {
		_, _, body := r.send("viewer", path, nil)
		form, begin := strings.Index(body, `name="nodepool"`), strings.Index(body, `<div id="live" data-refresh="`+every+`">`)
		if table := strings.Index(body, "<table>"); form < 0 || begin < form || table < begin {
			t.Errorf("%s: form at %d, what follows from %d on, the table at %d", path, form, begin, table)
		}
	}
}

// What is written after a page was made and before its tail begins comes by the tail, also where nothing is
// on the page yet.
func TestATailBeginsWhereItsPageEnds(t *testing.T) {
	r := newRig(t)
	head, err := r.log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?kind=DrainStarted"} {
		_, _, body := r.send("viewer", "/decisions"+query, nil)
		if want := fmt.Sprintf(`tail?after=%d`, head.Seq); !strings.Contains(body, want) {
			t.Errorf("/decisions%s does not have %s:\n%s", query, want, body)
		}
	}
}

// Now says of a node that is ready that it is to go, and once somebody asks for something else why it stays.
func TestNowSaysWhyNodesStay(t *testing.T) {
	c := consoletest.New(t, "test")
	p := New(Config{Cluster: "test", View: c.View, Now: c.Clock.Now, Counted: func(string, int, time.Duration) {}})
	shows := func() string {
		_, x, err := p.now(t.Context(), &request{Request: httptest.NewRequest(http.MethodGet, "/", nil)})
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		if err := p.templates["now"].Execute(&body, page{Data: x}); err != nil {
			t.Fatal(err)
		}
		return body.String()
	}
	if body := shows(); !strings.Contains(body, `<span class="state s-going">to go</span>`) || strings.Contains(body, "stays: ") {
		t.Error(body)
	}
	c.Cluster.See(plannertest.Pod("b", plannertest.On("a"), plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
	c.Clock.Advance(time.Minute)
	if body := shows(); strings.Contains(body, "to go</span>") || !strings.Contains(body, `">stays: pod default/b: `) {
		t.Error(body)
	}
}

// The page of savings tells what spot saves now, and where the table is.
func TestSavingsTellOfSpot(t *testing.T) {
	_, _, body := newRig(t).send("viewer", "/savings?since=1h", nil)
	for _, want := range []string{`<td class="num">$0.0660/h</td>`, `href="/api/v1/spot-savings.csv?since=1h"`,
		`href="/api/v1/spot-savings.csv?since=1h&amp;by=team"`, `href="/api/v1/spot-savings.csv?since=1h&amp;by=namespace"`, `href="/api/v1/savings.csv?since=1h&amp;by=team"`} {
		if !strings.Contains(body, want) {
			t.Errorf("it lacks %s:\n%s", want, body)
		}
	}
}

// Every link of every page leads to a page.
func TestLinksLeadSomewhere(t *testing.T) {
	r := newRig(t)
	seen, todo := map[string]bool{"/": true}, []string{"/"}
	for len(todo) > 0 && len(seen) < 200 {
		path := todo[0]
		todo = todo[1:]
		status, _, body := r.send("operator", path, nil)
		if status == http.StatusTooManyRequests {
			r.clock.Advance(time.Second)
			todo = append(todo, path)
			continue
		}
		gone := status == http.StatusNotFound && strings.HasPrefix(path, "/object/") // the world of the test does not have them
		if status != http.StatusOK && !gone {
			t.Errorf("%s: %d", path, status)
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			next := strings.NewReplacer("&amp;", "&", "&#43;", "+", "&#39;", "'").Replace(m[1])
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d links: %v", len(seen), seen)
	}
}

func TestSigningIn(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{"/": "/login?next=%2F", "/decisions?kind=Launched": "/login?next=%2Fdecisions%3Fkind%3DLaunched"} {
		if status, header, _ := r.send("", path, nil); status != http.StatusSeeOther || header.Get("Location") != want {
			t.Errorf("%s: %d %s", path, status, header.Get("Location"))
		}
	}
	if status, _, body := r.send("", "/decisions/2", nil, "Sec-Fetch-Site", "cross-site"); status != http.StatusOK || !strings.Contains(body, `http-equiv="refresh" content="0;url=/decisions/2"`) {
		t.Errorf("by a link from elsewhere: %d %s", status, body)
	}
	status, header, _ := r.send("", "/login", url.Values{"token": {" viewer\n"}, "next": {"/commands"}})
	cookie := header.Get("Set-Cookie")
	if status != http.StatusSeeOther || header.Get("Location") != "/commands" {
		t.Errorf("%d %v", status, header)
	}
	for _, want := range []string{"__Host-millwright=viewer", "Path=/", "HttpOnly", "Secure", "SameSite=Strict"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q", cookie)
		}
	}
	for _, next := range []string{"//evil.example", `/\evil.example`, "https://evil.example", "javascript:alert(1)", ""} {
		if _, header, _ := r.send("", "/login", url.Values{"token": {"viewer"}, "next": {next}}); header.Get("Location") != "/" {
			t.Errorf("next %q leads to %s", next, header.Get("Location"))
		}
	}
	if status, header, body := r.send("", "/login", url.Values{"token": {"stolen-token"}}); status != http.StatusUnauthorized || header.Get("Set-Cookie") != "" || strings.Contains(body, "stolen-token") {
		t.Errorf("an unknown token: %d %s", status, header.Get("Set-Cookie"))
	}
	if status, _, body := r.send("nobody", "/", nil); status != http.StatusForbidden || !strings.Contains(body, "nobody may not get decisions.millwright.sh") {
		t.Errorf("without the right: %d", status)
	}
	if _, header, _ := r.send("viewer", "/logout", url.Values{}); !strings.Contains(header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signed out: %s", header.Get("Set-Cookie"))
	}
}

// Who may answers a command by a form, and it is on record by name; who may not sees no form, and is refused.
func TestOrdersByForms(t *testing.T) {
	r := newRig(t)
	if _, _, body := r.send("viewer", "/commands", nil); strings.Contains(body, `action="/commands`) || strings.Contains(body, `action="/control`) {
		t.Error("a viewer is shown forms")
	}
	if _, _, body := r.send("operator", "/commands", nil); !strings.Contains(body, "/commands/"+r.id+"/approve") || !strings.Contains(body, "/control/all") {
		t.Error("an operator is shown no forms")
	}
	why := url.Values{"reason": {"nobody needs it"}}
	if status, _, _ := r.send("viewer", "/commands/"+r.id+"/approve", why); status != http.StatusForbidden {
		t.Errorf("a viewer approves: %d", status)
	}
	if status, _, _ := r.send("operator", "/commands/"+r.id+"/approve", url.Values{"reason": {" "}}); status != http.StatusBadRequest {
		t.Errorf("without a reason: %d", status)
	}
	if status, _, _ := r.send("operator", "/commands/"+r.id+"/perhaps", why); status != http.StatusNotFound {
		t.Errorf("another answer: %d", status)
	}
	status, header, _ := r.send("operator", "/commands/"+r.id+"/approve", why)
	if status != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/commands?said=approved") {
		t.Errorf("%d %s", status, header.Get("Location"))
	}
	if status, _, body := r.send("operator", "/commands/"+r.id+"/reject", why); status != http.StatusConflict || !strings.Contains(body, "answered already by operator: nobody needs it") {
		t.Errorf("a second answer: %d", status)
	}
	for _, level := range []string{"voluntary", "all", "resume"} {
		if status, _, _ := r.send("operator", "/control/"+level, why); status != http.StatusSeeOther {
			t.Errorf("%s: %d", level, status)
		}
	}
	l, err := audit.PresentLedger(t.Context(), r.log)
	if err != nil {
		t.Fatal(err)
	}
	if a := l.Proposal(r.id).Answer; a == nil || !a.Approved || a.By != "operator" || a.Why != "nobody needs it" {
		t.Errorf("%+v", a)
	}
	if c := l.Control(); c == nil || c.Stop != ledger.StopNone || c.By != "operator" {
		t.Errorf("%+v", c)
	}
}

// The form of a plan works without scripts, by pasting and by uploading; who may not plan sees none. What is
// asked comes back as text.
func TestAPlanByForm(t *testing.T) {
	r := newRig(t)
	if status, _, body := r.send("reader", "/plan", nil); status != http.StatusOK || strings.Contains(body, `action="/plan"`) || !strings.Contains(body, "right to create plans") {
		t.Errorf("a reader: %d", status)
	}
	if status, _, _ := r.send("reader", "/plan", url.Values{}); status != http.StatusForbidden {
		t.Errorf("a reader plans: %d", status)
	}
	if status, _, body := r.send("viewer", "/plan?nodepool=p", nil); status != http.StatusOK || !strings.Contains(body, "kind: NodePool") || !strings.Contains(body, "What if NodePool p") && !strings.Contains(body, "what if NodePool p were different") {
		t.Errorf("with a NodePool to begin with: %d %s", status, body)
	}
	pod := "apiVersion: v1\r\nkind: Pod\r\nmetadata: {name: big}\r\nspec: {containers: [{name: c, resources: {requests: {cpu: '7'}}}]}"
	status, _, body := r.send("viewer", "/plan", url.Values{"manifests": {pod}})
	if status != http.StatusOK || !strings.Contains(body, "default/big") || !strings.Contains(body, "At rest, with the change") {
		t.Errorf("%d %s", status, body)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("manifests-file", "pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte(pod))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, "/plan", &form)
	req.Header.Set("Content-Type", w.FormDataContentType())
	var asked view.PlanRequest
	if err := readPlan(req, &asked); err != nil || asked.Manifests != pod {
		t.Errorf("uploaded: %q, %v", asked.Manifests, err)
	}
	status, _, body = r.send("viewer", "/plan", url.Values{"manifests": {hostile}, "prices": {hostile}, "nodeTime": {hostile}, "catalog": {hostile}})
	if status != http.StatusBadRequest || !strings.Contains(body, "&lt;script&gt;alert(1)&lt;/script&gt;") || len(script.FindAllString(body, -1)) != 1 || strings.Contains(body, "<img") {
		t.Errorf("hostile manifests: %d %s", status, body)
	}
}

// A page that cannot be made yet asks for itself again, without scripts; one that is refused does not.
func TestAPageThatIsNotReadyComesAgain(t *testing.T) {
	p := New(Config{Now: time.Now, Logger: zerolog.Nop(), Counted: func(string, int, time.Duration) {}})
	for _, tc := range []struct {
		method string
		err    error
		again  bool
	}{{http.MethodGet, view.ErrNotReady, true}, {http.MethodPost, view.ErrNotReady, false}, {http.MethodGet, view.ErrNotFound, false}} {
		w := httptest.NewRecorder()
		p.fail(w, httptest.NewRequest(tc.method, "/", nil), nil, tc.err)
		if got := strings.Contains(w.Body.String(), `<meta http-equiv="refresh" content="4">`); got != tc.again {
			t.Errorf("%s, %v: asks again %t", tc.method, tc.err, got)
		}
	}
}

func TestFormats(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for got, want := range map[string]string{
		price(96_000): "$0.0960/h", price(0): "price not known", saving(-100): "costs $0.0001/h more", rate(-1_234_500): "−$1.2345/h", dollars(20_000): "$0.0200", dollars(-20_000): "−$0.0200", cpu(2000): "2", cpu(1500): "1.5",
		memory(3 << 29): "1.5 GiB", memory(5 << 20): "5 MiB", age(now, now.Add(-90*time.Second)): "90s", age(now, now.Add(-3*time.Hour)): "3h",
		age(now, now.Add(49*time.Hour)): "in 2d", age(now, time.Time{}): "",
		ago(now, now): "now", ago(now, now.Add(-3*time.Hour)): "3h ago", ago(now, now.Add(3*time.Hour)): "in 3h",
		person("system:serviceaccount:shop:vera"): "shop/vera", person("ann@example.com"): "ann@example.com", linkOf("claim/a"): "/object/nodeclaim/a", linkOf("pod/a/b c"): "/object/pod/a/b%20c",
		linkOf("control"): "/decisions", tone("rejected as dearer: x"): "t-muted", clip("äöü", 2): "äö…",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if width(5, 0) != 0 || width(9, 3) != 100 || width(1, 4) != 25 {
		t.Error("widths")
	}
}
