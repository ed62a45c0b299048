package console

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/services/console/browsertest"
	"millwright/services/console/consoletest"
	"millwright/store/audit"
)

// opened starts a Console and a browser that is signed in to it.
func opened(t *testing.T, cfg Config) *browsertest.Tab {
	t.Helper()
	program := browsertest.Program(t)
	cfg.Dir, cfg.Core, cfg.Settings = filepath.Join(t.TempDir(), "console"), apiServer(), Settings{Address: "127.0.0.1:0"}
	c, _ := startedOver(t, cfg)
	address := c.listens(t)
	certificate, err := c.identity.Get(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.Open(t, program, "https://"+address, certificate.Leaf)
	b.SignIn("good")
	return b
}

// various is a cluster with a node in each state, a pod that waits, an alarm, a proposal, and a stop.
func various(t *testing.T) Config {
	t.Helper()
	r := consoletest.New(t, "test")
	for name, options := range map[string][]func(*karpv1.NodeClaim){"kept": nil, "drains": nil, "sick": nil,
		"boots": {func(c *karpv1.NodeClaim) { c.Status.Conditions = c.Status.Conditions[:1] }},
		"goes":  {func(c *karpv1.NodeClaim) { at := c.CreationTimestamp; c.DeletionTimestamp = &at }}} {
		r.Cluster.See(plannertest.Claim(name+"-claim", name, "p", options...))
		r.Outcome(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: name + "-claim", UID: types.UID("claim-" + name + "-claim"), NodePool: "p", ProviderID: plannertest.ProviderID(name)})
		if name != "boots" {
			r.Outcome(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name + "-claim", Node: name})
		}
	}
	in := plannertest.InPool("p")
	r.Cluster.See(plannertest.Node("kept", in), plannertest.Node("drains", in), plannertest.Node("goes", in), plannertest.Node("sick", in, plannertest.NotReady),
		plannertest.Pod("keeps", plannertest.On("kept"), plannertest.Requests("cpu", "1"), plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
	r.Outcome(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "drains", Claim: "drains-claim", Reason: "Drifted"})
	r.Outcome(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "Odd", Message: "something is odd"})
	r.Propose(ledger.CommandProposed{Policies: []string{"ask"}, Command: ledger.CommandStarted{Reason: "Empty", Method: "emptiness", PriceBefore: 96_000,
		Candidates: []ledger.Candidate{{Node: "a", Claim: "a-claim", NodePool: "p", Price: 96_000}}}})
	r.Outcome(ledger.KindControlChanged, &ledger.ControlChanged{Stop: ledger.StopVoluntary, By: "ann", Why: "tries something"})
	w := r.Cluster.World.Version()
	return Config{Log: r.Log, Versions: func() (*world.World, *ledger.Ledger, error) {
		l, err := audit.PresentLedger(t.Context(), r.Log)
		return w, l, err
	}}
}

// mainPages are looked at, each with a text that it has once it is complete.
var mainPages = map[string]string{"/": "Pods that wait", "/timeline": "Spans of", "/savings": "Savings", "/decisions": "live: new records", "/decisions/1": "Genesis", "/plan": "Nothing is changed", "/commands": "Approve",
	"/shadow": "What happened beside another controller", "/object/node/kept": "Story", "/login": "Token of the cluster"}

// Every page can be used by keyboard, read in the dark, and printed.
func TestPagesInABrowser(t *testing.T) {
	b := opened(t, various(t))
	b.Visit("/")
	b.Says("stays: pod default/keeps")
	for path, text := range mainPages {
		b.Visit(path)
		b.Says(text)
		browsertest.Evaluate[bool](b, `(() => { for (let i = 1; i < 1000; i++) clearInterval(i); document.querySelectorAll("details").forEach((d) => { d.open = true; }); return true; })()`)
		tabsThrough(t, b, path+" forwards")
		tabsThrough(t, b, path+" backwards", chromedp.ModifierShift)
		light := readable(t, b, path+" by day", emulation.SetEmulatedMediaParams{})
		dark := readable(t, b, path+" in the dark", inTheDark)
		if light == dark {
			t.Errorf("%s is as bright in the dark as by day: %s", path, light)
		}
		prints(t, b, path)
	}
	skipsToContent(t, b)
	searches(t, b)
	opensByEnter(t, b)
	b.IsSound("all pages")
}

// tabsThrough has Tab reach every control of a page, each of which shows that it is there, and is not hidden
// behind anything. The marks in the timeline's lanes are left out: the table below leads to the same records.
func tabsThrough(t *testing.T, b *browsertest.Tab, where string, held ...chromedp.Modifier) {
	t.Helper()
	all := browsertest.Evaluate[int](b, `(() => {
		window.controls = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter((e) => !e.closest("svg") && e.getClientRects().length > 0);
		document.activeElement.blur();
		window.getSelection().removeAllRanges();
		window.scrollTo(0, 0);
		return window.controls.length; })()`)
	if all < 3 {
		t.Fatalf("%s: only %d controls", where, all)
	}
	for range all + 20 { // what scrolls is reached by Tab too
		b.Do(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(held...)))
		if fault := browsertest.Evaluate[string](b, `(() => {
			const e = document.activeElement, i = window.controls.indexOf(e);
			if (i < 0) return "";
			window.controls[i] = null;
			const s = getComputedStyle(e), r = e.getClientRects()[0], name = e.outerHTML.slice(0, 120);
			if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) return "it does not show that it has the focus: " + name;
			const top = document.elementFromPoint(r.left + Math.min(r.width / 2, 20), r.top + r.height / 2);
			return top && (e.contains(top) || top.contains(e) && !top.closest("header")) ? "" : "it is hidden where it has the focus, by " + (top ? top.outerHTML.slice(0, 60) : "the edge") + ": " + name;
		})()`); fault != "" {
			t.Errorf("%s: %s", where, fault)
		}
	}
	if missed := browsertest.Evaluate[string](b, `window.controls.filter((e) => e).map((e) => e.outerHTML.slice(0, 120)).join("\n")`); missed != "" {
		t.Errorf("%s: Tab does not reach\n%s", where, missed)
	}
}

// inTheDark is how a browser is that prefers dark pages.
var inTheDark = emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}

func emulate(t *testing.T, b *browsertest.Tab, media emulation.SetEmulatedMediaParams) {
	t.Helper()
	if _, err := chromedp.Call(b.Context, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
}

// pale lists texts whose contrast is below that of WCAG 2.2 for level AA, 1.4.3, for text of whatever size.
const pale = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3]));
	const behind = (e) => {
		if (!e) return [255, 255, 255];
		const c = parse(getComputedStyle(e).backgroundColor);
		return c[3] === 1 ? c.slice(0, 3) : over(c, behind(e.parentElement));
	};
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const faults = new Set();
	const check = (e, color, text) => {
		const back = behind(e), ratio = contrast(over(parse(color), back), back);
		if (ratio < 4.5) faults.add(ratio.toFixed(2) + ": " + color + " on " + back.map(Math.round) + ": <" + e.tagName + " class=" + e.className + "> " + text.trim().slice(0, 40));
	};
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement, r = e.getBoundingClientRect();
		if (texts.currentNode.data.trim() && !e.closest("svg, option") && r.width > 1 && r.height > 1) check(e, getComputedStyle(e).color, texts.currentNode.data);
	}
	for (const e of document.querySelectorAll("input, select, textarea")) {
		if (e.getClientRects().length === 0 || e.type === "checkbox") continue;
		check(e, getComputedStyle(e).color, e.name);
		if (e.placeholder) check(e, getComputedStyle(e, "::placeholder").color, e.placeholder);
	}
	return [...faults].join("\n");
})()`

// readable checks the contrast of a page as it looks to a browser that prefers something, and returns the
// colour behind all of it.
func readable(t *testing.T, b *browsertest.Tab, where string, media emulation.SetEmulatedMediaParams) string {
	t.Helper()
	emulate(t, b, media)
	if faults := browsertest.Evaluate[string](b, pale); faults != "" {
		t.Errorf("%s these are hard to read:\n%s", where, faults)
	}
	return browsertest.Evaluate[string](b, `getComputedStyle(document.documentElement).backgroundColor`)
}

// shown counts what a page is made of, as far as it is visible.
const shown = `(() => ["h1", "h2", "main p", "main table", "main tr", ".tiles div", ".node", ".command", ".row", "main pre", "main dd", "ol.story li"].map((s) => s + " " +
	[...document.querySelectorAll(s)].filter((e) => !e.closest(".act, .control, form, .sign-in") && e.getClientRects().length > 0).length).join(", "))()`

// cut lists what a page of paper would cut off, since nobody can scroll it.
const cut = `(() => {
	const list = [...document.querySelectorAll("main, main *")].filter((e) => !e.closest("svg") && !e.matches(".hidden") && getComputedStyle(e).overflow !== "visible" &&
		(e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)).map((e) => e.outerHTML.slice(0, 80));
	if (document.documentElement.scrollWidth > innerWidth) list.push("the page itself");
	return list.join("\n");
})()`

// prints checks a page as it is printed, on paper that is narrower than a screen and white whatever somebody
// prefers: all of what it says is there and nothing of what only a screen has use for.
func prints(t *testing.T, b *browsertest.Tab, path string) {
	t.Helper()
	before := browsertest.Evaluate[string](b, shown)
	b.Do(chromedp.EmulateViewport(700, 1000))
	if got := readable(t, b, path+" on paper", emulation.SetEmulatedMediaParams{Media: "print", Features: inTheDark.Features}); got != "rgb(255, 255, 255)" {
		t.Errorf("%s is printed on %s", path, got)
	}
	if after := browsertest.Evaluate[string](b, shown); after != before {
		t.Errorf("%s shows\n%s and is printed with\n%s", path, before, after)
	}
	if left := browsertest.Evaluate[string](b, `[...document.querySelectorAll("nav, button, form.find, form.out, form.filters, .skip")].filter((e) => e.getClientRects().length > 0).map((e) => e.outerHTML.slice(0, 80)).join("\n")`); left != "" {
		t.Errorf("%s is printed with\n%s", path, left)
	}
	if lost := browsertest.Evaluate[string](b, cut); lost != "" {
		t.Errorf("%s is printed without the rest of\n%s", path, lost)
	}
	emulate(t, b, emulation.SetEmulatedMediaParams{})
	b.Do(chromedp.EmulateViewport(1280, 760))
}

// skipsToContent goes by the first control past the navigation.
func skipsToContent(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	b.Visit("/commands")
	b.Do(chromedp.KeyEvent(kb.Tab))
	if got := browsertest.Evaluate[string](b, `document.activeElement.innerText + " " + (document.activeElement.getBoundingClientRect().width > 50)`); got != "Skip to content true" {
		t.Errorf("Tab leads to %q", got)
	}
	b.Do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	if !browsertest.Evaluate[bool](b, `document.activeElement !== document.body && document.getElementById("main").contains(document.activeElement)`) {
		t.Error("after Skip to content the next control is not in the content")
	}
}

// searches for a node by nothing but keys.
func searches(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	b.Visit("/commands")
	b.Do(chromedp.KeyEvent("/"), chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)), chromedp.KeyEvent("n"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("kept"), chromedp.KeyEvent(kb.Enter))
	b.Says("stays: pod default/keeps")
	if got := browsertest.Evaluate[string](b, "location.pathname"); got != "/object/node/kept" {
		t.Errorf("the search leads to %s", got)
	}
}

// opensByEnter follows a link, opens what is folded, and approves, with Enter alone.
func opensByEnter(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	b.Visit("/commands")
	focus := func(control string) { b.Do(chromedp.Focus(chromedp.CSS(control))) }
	focus("a[href='/timeline']")
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Says("Spans of")
	b.Visit("/decisions/2")
	focus("summary")
	b.Do(chromedp.KeyEvent(kb.Enter))
	if !browsertest.Evaluate[bool](b, `document.querySelector("details").open`) {
		t.Error("Enter does not open what is folded")
	}
	b.Visit("/commands")
	focus("li.act input[name=reason]")
	b.Do(chromedp.KeyEvent("seen"), chromedp.KeyEvent(kb.Enter))
	b.Says("approved")
}

// The shadow report is made while the browser shows how far it is, and is sound, as is its page without one.
func TestTheShadowReportInABrowser(t *testing.T) {
	log, rec := consoletest.Shadowed(t, "../../store/audit/testdata/v20/TestDeletingByHand.rec")
	now := plannertest.New()
	w, l := now.World.Version(), now.Ledger.Version()
	b := opened(t, Config{Log: log, Stream: rec, Versions: func() (*world.World, *ledger.Ledger, error) { return w, l, nil }})
	b.Visit("/shadow")
	b.Do(chromedp.Focus(chromedp.CSS("form.filters button")), chromedp.KeyEvent(kb.Enter))
	b.Says("nothing was decided in mode shadow")
	b.Visit("/shadow?since=1970-01-01T00:00:00Z")
	for _, text := range []string{"Happened", "The largest differences", "What the comparison leaves out", "differences end with the real nodes"} {
		b.Says(text)
	}
	browsertest.Evaluate[bool](b, `(() => { document.querySelectorAll("details").forEach((d) => { d.open = true; }); return true; })()`)
	tabsThrough(t, b, "the report")
	readable(t, b, "the report by day", emulation.SetEmulatedMediaParams{})
	readable(t, b, "the report in the dark", inTheDark)
	prints(t, b, "the report")
	b.IsSound("the shadow report")
}
