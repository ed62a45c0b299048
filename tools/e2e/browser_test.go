package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"millwright/services/console/browsertest"
	"millwright/tools/clustertest"
)

// hostileText would run a script if a page took it for more than text.
const hostileText = `"><script>window.hurt=1</script><img src=x onerror="window.hurt=1">`

// tab of a browser that is signed in.
type tab struct{ *browsertest.Tab }

// openTab starts a browser that trusts the console's certificate and no other, and signs in.
func (e *env) openTab(program, token string) tab {
	e.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(e.stack.ConsoleURL(), "https://"), e.browser().Transport.(*http.Transport).TLSClientConfig.Clone())
	if err != nil {
		e.Fatal(err)
	}
	defer conn.Close()
	b := browsertest.Open(e.T, program, e.stack.ConsoleURL(), conn.ConnectionState().PeerCertificates[0])
	b.SignIn(token)
	return tab{b}
}

// asks sends the form of the page Plan with manifests.
func (b tab) asks(manifests string) {
	b.Visit("/plan")
	b.Do(chromedp.SetValue(chromedp.CSS("#manifests"), manifests), chromedp.Click(chromedp.CSS("form.question button")), chromedp.WaitVisible(chromedp.CSS("main .banner, main .tiles")))
}

// picture writes a screenshot to .local/screenshots.
func (b tab) picture(t *testing.T, name string) {
	t.Helper()
	png, err := chromedp.Run(b.Context, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(clustertest.Root(), ".local", "screenshots")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// In a real browser: every page shows what it is about, with scripts and without; the browser complains of
// nothing and asks nobody else; what others wrote stays text; Now follows the cluster by itself; a viewer
// cannot approve, and an operator can.
func TestConsoleInABrowser(t *testing.T) {
	program := browsertest.Program(t)
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
	b.Visit("/")
	b.Says(hostileText)
	if got := e.console(c, operator, http.MethodPost, "/control/resume", `{"reason":"seen"}`, nil); got != http.StatusOK {
		t.Errorf("resume: %d", got)
	}
	e.deploy("web", 2, "1", "1Gi")
	b.Says("ready") // without a reload of ours
	e.running("web", 2)
	node := e.nodes()[0].Name
	pages := map[string]string{"/": node, "/timeline": "Timeline", "/timeline?kind=launched&object=node/" + node: "the records of the story of node/" + node, "/savings": "Savings", "/shadow": "What happened beside another controller", "/decisions": "Launched", "/decisions/1": "Genesis",
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
		if _, err := chromedp.Call(b.Context, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts}); err != nil {
			t.Fatal(err)
		}
		for path, text := range pages {
			b.Visit(path)
			b.Says(text)
		}
	}
	if _, err := chromedp.Call(b.Context, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{}); err != nil {
		t.Fatal(err)
	}
	for path, name := range map[string]string{"/": "now", "/timeline": "timeline", "/object/node/" + node: "why", "/decisions": "decisions"} {
		b.Visit(path)
		b.picture(t, name)
	}
	b.asks("apiVersion: v1\nkind: Pod\nmetadata: {name: huge}\nspec: {containers: [{name: c, resources: {requests: {cpu: '900'}}}]}\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: big}\nspec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}\n")
	b.Says("Pods that fit nowhere")
	b.Says("default/big")
	b.picture(t, "plan")
	b.Do(chromedp.EmulateViewport(400, 900))
	for path, name := range map[string]string{"/": "now-narrow", "/timeline": "timeline-narrow", decision: "decision-narrow"} {
		b.Visit(path)
		if wide := browsertest.Evaluate[int](b.Tab, "document.documentElement.scrollWidth"); wide > 400 {
			t.Errorf("%s is %d wide on a screen of 400", path, wide)
		}
		b.picture(t, name)
	}
	b.Do(chromedp.EmulateViewport(1280, 760))
	b.IsSound("pages of a viewer")

	e.scale("web", 0)
	var commands struct{ Items []struct{ ID string } }
	e.eventually("a proposal", func() string {
		if e.console(c, viewer, http.MethodGet, "/commands?state=proposed", "", &commands); len(commands.Items) != 1 {
			return "none is listed"
		}
		return ""
	})
	b.Visit("/commands")
	b.Says("You may look, but not approve")
	o := e.openTab(program, operator)
	o.Visit("/commands")
	o.picture(t, "commands")
	o.Do(chromedp.SetValue(chromedp.CSS("li.act input[name=reason]"), hostileText), chromedp.Click(chromedp.CSS("li.act button")))
	o.Says("approved")
	o.IsSound("pages of an operator")
	e.clean()
	e.sound()
}
