// Package browsertest opens the console in a real browser, for tests. They are skipped where there is none.
package browsertest

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take to show something.
const patience = 150 * time.Second

// Program finds the browser, or skips the test.
func Program(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("skipped: no Chromium is installed")
	return ""
}

// Tab of a browser, and what it complained of.
type Tab struct {
	// Console is its URL, without a path.
	Console string
	// Context for steps of chromedp.
	Context context.Context

	t        testing.TB
	mu       sync.Mutex
	problems []string
}

// Open starts a browser that trusts a certificate of the console and no other.
func Open(t testing.TB, program, console string, certificate *x509.Certificate) *Tab {
	t.Helper()
	key := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])))...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b := &Tab{Console: console, Context: ctx, t: t}
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context of the first step
		t.Fatal(err)
	}
	b.watch(strings.TrimPrefix(console, "https://"))
	b.Do(chromedp.EmulateViewport(1280, 760))
	return b
}

// SignIn pastes a token.
func (b *Tab) SignIn(token string) {
	b.t.Helper()
	b.Visit("/login")
	b.Do(chromedp.SetValue(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS(".sign-in button")), chromedp.WaitVisible(chromedp.CSS("nav")))
}

// watch notes what the browser's console says, and requests to other hosts.
func (b *Tab) watch(address string) {
	note := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, fmt.Sprintf(format, args...))
	}
	messages, requests := chromedp.Console(b.Context), chromedp.Events(b.Context, network.RequestWillBeSent)
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

// Do takes steps, or fails the test.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// Visit opens a page by its path.
func (b *Tab) Visit(path string) { b.t.Helper(); b.Do(chromedp.Navigate(b.Console + path)) }

// Says waits until the page, as it is shown, has a text.
func (b *Tab) Says(text string) {
	b.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		shown, err := chromedp.Run(b.Context, chromedp.Evaluate[string]("document.body.innerText"))
		if err == nil && strings.Contains(shown, text) {
			return
		}
		if time.Now().After(until) {
			b.t.Fatalf("the page does not say %s: %v, %s", text, err, shown)
		}
	}
}

// Evaluate returns what an expression comes to in the page.
func Evaluate[T any](b *Tab, expression string) T {
	b.t.Helper()
	x, err := chromedp.Run(b.Context, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatal(err)
	}
	return x
}

// IsSound fails for what the browser complained of so far, and if a page ran what was to be text: a script
// that sets window.hurt.
func (b *Tab) IsSound(where string) {
	b.t.Helper()
	if Evaluate[bool](b, "window.hurt === 1") {
		b.t.Errorf("%s: a script of somebody else ran", where)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("%s: %s", where, p)
	}
	b.problems = nil
}
