package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"millwright/tools/clustertest"
)

// hostileText would run a script if a page took it for more than text.
const hostileText = `"><script>window.hurt=1</script><img src=x onerror="window.hurt=1">`

// tab of a browser that is signed in, and what it complained of.
type tab struct {
	*env
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// chromium finds the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("skipped: no Chromium is installed")
	return ""
}

// openTab starts a browser that trusts the console's certificate and no other, and signs in.
func (e *env) openTab(program, token string) *tab {
	e.Helper()
	address := strings.TrimPrefix(e.stack.ConsoleURL(), "https://")
	conn, err := tls.Dial("tcp", address, e.browser().Transport.(*http.Transport).TLSClientConfig.Clone())
	if err != nil {
		e.Fatal(err)
	}
	key := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	_ = conn.Close()
	allocator, stop := chromedp.NewExecAllocator(e.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.UserDataDir(e.TempDir()), chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])))...)
	e.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	e.Cleanup(closeTab)
	b := &tab{env: e, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context of the first step
		e.Fatal(err)
	}
	b.watch(address)
	b.do(chromedp.EmulateViewport(1280, 760))
	b.visit("/login")
	b.do(chromedp.SetValue(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS(".sign-in button")), chromedp.WaitVisible(chromedp.CSS("nav")))
	return b
}

// watch notes what the browser's console says, and requests to other hosts.
func (b *tab) watch(address string) {
	b.Helper()
	note := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, fmt.Sprintf(format, args...))
	}
	messages, requests := chromedp.Console(b.ctx), chromedp.Events(b.ctx, network.RequestWillBeSent)
	go func() {
		for m, err := range messages {
			if err == nil && (m.Type == chromedp.ConsoleError || m.IsException()) {
				note("the browser's console: %s (%s)", m, m.URL)
			}
		}
	}()
	go func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			if u, err := url.Parse(r.Request.URL); err != nil || u.Scheme != "data" && u.Host != address {
				note("a request to %s", r.Request.URL)
			}
		}
	}()
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, convergence)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) visit(path string) { b.Helper(); b.do(chromedp.Navigate(b.stack.ConsoleURL() + path)) }

// says waits until the page, as it is shown, has a text.
func (b *tab) says(text string) {
	b.Helper()
	b.eventually("the page says "+text, func() string {
		shown, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		if err != nil || !strings.Contains(shown, text) {
			return fmt.Sprint(shown, err)
		}
		return ""
	})
}

// asks sends the form of the page Plan with manifests.
func (b *tab) asks(manifests string) {
	b.Helper()
	b.visit("/plan")
	b.do(chromedp.SetValue(chromedp.CSS("#manifests"), manifests), chromedp.Click(chromedp.CSS("form.question button")), chromedp.WaitVisible(chromedp.CSS("main .banner, main .tiles")))
}

// picture writes a screenshot to .local/screenshots.
func (b *tab) picture(name string) {
	b.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(clustertest.Root(), ".local", "screenshots")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)); err != nil {
		b.Fatal(err)
	}
}

// isSound fails for what the browser complained of so far, and if a page ran what was to be text.
func (b *tab) isSound(where string) {
	b.Helper()
	hurt, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("window.hurt === 1"))
	if err != nil || hurt {
		b.Errorf("%s: a script of somebody else ran: %t, %v", where, hurt, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.Errorf("%s: %s", where, p)
	}
	b.problems = nil
}

// In a real browser: every page shows what it is about, with scripts and without; the browser complains of
// nothing and asks nobody else; what others wrote stays text; Now follows the cluster by itself; a viewer
// cannot approve, and an operator can.
func TestConsoleInABrowser(t *testing.T) {
	program := chromium(t)
	e := start(t, nil)
	e.apply(strings.Replace(policyManifest, "ZONE", "Europe/Berlin", 1))
	e.apply(defaultClass)
	e.apply(defaultPool)
	c, viewer, operator := e.browser(), e.person("vera", "millwright-viewer"), e.person("otto", "millwright-operator")
	e.eventually("rights are known", func() string {
		if got := e.console(c, operator, http.MethodPost, "/control/stop", `{"level":"voluntary","reason":`+strconv.Quote(hostileText)+`}`, nil); got != http.StatusOK {
			return fmt.Sprint(got)
		}
		return ""
	})
	e.eventually("the console has seen the cluster", func() string {
		if got := e.console(c, viewer, http.MethodGet, "/nodes", "", nil); got != http.StatusOK {
			return fmt.Sprint(got)
		}
		return ""
	})
	b := e.openTab(program, viewer)
	b.visit("/")
	b.says(hostileText)
	if got := e.console(c, operator, http.MethodPost, "/control/resume", `{"reason":"seen"}`, nil); got != http.StatusOK {
		t.Errorf("resume: %d", got)
	}
	e.deploy("web", 2, "1", "1Gi")
	b.says("ready") // without a reload of ours
	e.running("web", 2)
	node := e.nodes()[0].Name
	pages := map[string]string{"/": node, "/timeline": "Timeline", "/timeline?kind=launched&object=node/" + node: "the records of the story of node/" + node, "/savings": "Savings", "/decisions": "Launched", "/decisions/1": "Genesis",
		"/commands": "Running, or answered already", "/object/node/" + node: node, "/object/nodepool/default": "What if it were different?",
		"/plan": "Nothing is changed", "/plan?nodepool=default": "what if NodePool default were different"}
	var planned struct{ Items []struct{ Seq uint64 } }
	if got := e.console(c, viewer, http.MethodGet, "/decisions?kind=ProvisioningPlanned", "", &planned); got != http.StatusOK || len(planned.Items) == 0 {
		t.Fatalf("decisions: %d, %+v", got, planned)
	}
	decision := fmt.Sprintf("/decisions/%d", planned.Items[0].Seq)
	pages[decision], pages[decision+"/facts"], pages[decision+"/replay"] = "Replay this", "Pods it is about", "Identical"
	pages[strings.Replace(decision, "/decisions/", "/plan?record=", 1)] = "change a line"
	for _, scripts := range []bool{true, false} {
		if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts}); err != nil {
			t.Fatal(err)
		}
		for path, text := range pages {
			b.visit(path)
			b.says(text)
		}
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{}); err != nil {
		t.Fatal(err)
	}
	for path, name := range map[string]string{"/": "now", "/timeline": "timeline", "/object/node/" + node: "why", "/decisions": "decisions"} {
		b.visit(path)
		b.picture(name)
	}
	b.asks("apiVersion: v1\nkind: Pod\nmetadata: {name: huge}\nspec: {containers: [{name: c, resources: {requests: {cpu: '900'}}}]}\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: big}\nspec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}\n")
	b.says("Pods that fit nowhere")
	b.says("default/big")
	b.picture("plan")
	b.do(chromedp.EmulateViewport(400, 900))
	for path, name := range map[string]string{"/": "now-narrow", "/timeline": "timeline-narrow", decision: "decision-narrow"} {
		b.visit(path)
		wide, err := chromedp.Run(b.ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth"))
		if err != nil || wide > 400 {
			t.Errorf("%s is %d wide on a screen of 400, %v", path, wide, err)
		}
		b.picture(name)
	}
	b.do(chromedp.EmulateViewport(1280, 760))
	b.isSound("pages of a viewer")

	e.scale("web", 0)
	var commands struct{ Items []struct{ ID string } }
	e.eventually("a proposal", func() string {
		if e.console(c, viewer, http.MethodGet, "/commands?state=proposed", "", &commands); len(commands.Items) != 1 {
			return "none is listed"
		}
		return ""
	})
	b.visit("/commands")
	b.says("You may look, but not approve")
	o := e.openTab(program, operator)
	o.visit("/commands")
	o.picture("commands")
	o.do(chromedp.SetValue(chromedp.CSS("li.act input[name=reason]"), hostileText), chromedp.Click(chromedp.CSS("li.act button")))
	o.says("approved")
	o.isSound("pages of an operator")
	e.clean()
	e.sound()
}
