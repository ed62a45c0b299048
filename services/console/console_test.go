package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/pki"
	"millwright/services/internal/servercert"
	"millwright/store/memlog"
)

// apiServer knows one token, "good", whose owner may do everything.
func apiServer() *fake.Clientset {
	core := &fake.Clientset{}
	core.AddReactor("create", "tokenreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		o := a.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		o.Status.Authenticated = o.Spec.Token == "good"
		o.Status.User.Username = "ann"
		return true, o, nil
	})
	core.AddReactor("create", "subjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		o := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		o.Status.Allowed = true
		return true, o, nil
	})
	return core
}

// running is a Console that runs, and the lines that it has logged and nobody has read yet.
type running struct {
	*Console
	lines chan map[string]any
	// ahead is how far its clock is ahead, in nanoseconds.
	ahead atomic.Int64
}

func (r *running) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// Write takes a line of the Console's log. It does not wait for anybody to read it.
func (r *running) Write(line []byte) (int, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, err
	}
	select {
	case r.lines <- fields:
	default:
	}
	return len(line), nil
}

// started is a Console that runs, and how to stop it.
func started(t *testing.T, dir string, s Settings) (*running, func()) {
	t.Helper()
	return startedWith(t, dir, s, apiServer())
}

// startedWith is one with another API server.
func startedWith(t *testing.T, dir string, s Settings, core *fake.Clientset) (*running, func()) {
	t.Helper()
	log := memlog.New("test")
	return startedOver(t, Config{Settings: s, Dir: dir, Core: core, Log: log,
		Versions: func() (*world.World, *ledger.Ledger, error) { return world.New(), ledger.New(log.ID()), nil }})
}

// startedOver is one over another log, and what is made of it.
func startedOver(t *testing.T, cfg Config) (*running, func()) {
	t.Helper()
	c := &running{lines: make(chan map[string]any, 100)}
	cfg.Cluster, cfg.Version, cfg.Now, cfg.Logger, cfg.Registerer = "test", "1", c.now, zerolog.New(c), prometheus.NewRegistry()
	c.Console = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop := func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("it ended with %v", err)
			}
			ended <- nil
		case <-time.After(20 * time.Second):
			t.Fatal("it does not end")
		}
	}
	t.Cleanup(stop)
	return c, stop
}

// await waits until the Console logs a message, and returns the line.
func (r *running) await(t *testing.T, message string) map[string]any {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line := <-r.lines:
			if line[zerolog.MessageFieldName] == message {
				return line
			}
		case <-late:
			t.Fatalf("it does not log %q: %v", message, r.Ready())
		}
	}
}

// listens waits until the Console listens, and returns its address.
func (r *running) listens(t *testing.T) string {
	t.Helper()
	return r.await(t, "listening")["address"].(string)
}

func client(t *testing.T, bundle []byte) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("no CA")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestItServesWithACertificateOfItsOwnAndKeepsIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "console")
	var bundles [2][]byte
	for i := range bundles {
		c, stop := started(t, dir, Settings{Address: "127.0.0.1:0"})
		address := c.listens(t)
		var err error
		if bundles[i], err = os.ReadFile(filepath.Join(dir, pki.KeyCA)); err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/api/v1/commands", nil)
		req.Header.Set("Authorization", "Bearer good")
		resp, err := client(t, bundles[i]).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"items":[]`) || c.Ready() != nil {
			t.Errorf("%d %s, %v", resp.StatusCode, body, c.Ready())
		}
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"} {
			if got := resp.Header.Get(name); !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
				t.Errorf("%s: %q", name, got)
			}
		}
		stop()
		if _, err := net.Dial("tcp", address); err == nil {
			t.Error("it still listens")
		}
	}
	if !bytes.Equal(bundles[0], bundles[1]) {
		t.Error("after a start it has another CA")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

func TestItServesWithACertificateFromFilesAndTakesANewOne(t *testing.T) {
	dir := t.TempDir()
	write := func() []byte {
		a, _, err := pki.Authority{}.Renew(time.Now(), "test")
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := pki.NewLeaf(time.Now(), a.CA, pki.Leaf{CommonName: "x", Names: []string{"localhost"}})
		data := map[string][]byte{}
		if err != nil || leaf.EncodeInto(data) != nil {
			t.Fatal(err)
		}
		for name, b := range data {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return a.Bundle()
	}
	first := write()
	c, _ := started(t, "", Settings{Address: "127.0.0.1:0", CertFile: filepath.Join(dir, pki.KeyLeaf), KeyFile: filepath.Join(dir, pki.KeyLeafKey)})
	address := c.listens(t)
	get := func(bundle []byte) error {
		resp, err := client(t, bundle).Get("https://" + address + "/api/v1/openapi.json")
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(first); err != nil {
		t.Fatal(err)
	}
	second := write()
	c.ahead.Store(int64(servercert.LookEvery)) // as if a minute had passed
	if err := get(second); err != nil {
		t.Error(err)
	}
	if get(first) == nil {
		t.Error("the old certificate is still shown")
	}
}

// A port that is taken, and a certificate that cannot be read, keep the console from serving and nothing else
// from anything: it waits, and serves when it can.
func TestWhatKeepsItFromServingEndsNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := started(t, "", Settings{Address: taken.Addr().String()})
	if line := c.await(t, "console does not serve"); !strings.Contains(line["error"].(string), "in use") || c.Ready() == nil {
		t.Errorf("%v, %v", line, c.Ready())
	}
	taken.Close()
	c.listens(t)
	missing, _ := started(t, "", Settings{Address: "127.0.0.1:0", CertFile: "/no/cert", KeyFile: "/no/key"})
	if line := missing.await(t, "console does not serve"); !strings.Contains(line["error"].(string), "/no/cert") || missing.Ready() == nil {
		t.Errorf("%v, %v", line, missing.Ready())
	}
}

// A page of another site cannot have a browser that is signed in give an order.
func TestOrdersOfOtherSitesAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "console")
	c, _ := started(t, dir, Settings{Address: "127.0.0.1:0"})
	address := c.listens(t)
	bundle, err := os.ReadFile(filepath.Join(dir, pki.KeyCA))
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[[2]string]int{
		{"Sec-Fetch-Site", "cross-site"}:       http.StatusForbidden,
		{"Sec-Fetch-Site", "same-site"}:        http.StatusForbidden,
		{"Origin", "https://evil.example"}:     http.StatusForbidden,
		{"Sec-Fetch-Site", "same-origin"}:      http.StatusOK,
		{"Origin", "https://" + address}:       http.StatusOK,
		{"X-Nothing", "as a program sends it"}: http.StatusOK,
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/api/v1/control/resume", strings.NewReader(`{"reason":"x"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Cookie", "__Host-millwright=good")
		req.Header.Set(header[0], header[1])
		resp, err := client(t, bundle).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%v: %d, want %d", header, resp.StatusCode, want)
		}
	}
}

func TestSettings(t *testing.T) {
	for about, c := range map[string]struct {
		s    Settings
		want string
	}{
		"none":                          {},
		"all addresses":                 {s: Settings{Address: ":8444"}},
		"one address":                   {s: Settings{Address: "[::1]:0"}},
		"no port":                       {s: Settings{Address: "localhost"}, want: "--console-address"},
		"no number":                     {s: Settings{Address: ":https-alt"}, want: "--console-address"},
		"a key without its certificate": {s: Settings{KeyFile: "x"}, want: "--console-tls-cert-file"},
		"the label of a team":           {s: Settings{TeamLabel: "example.com/team"}},
		"no label":                      {s: Settings{TeamLabel: "the team"}, want: "--console-team-label"},
	} {
		err := c.s.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", about, err)
		}
	}
}
