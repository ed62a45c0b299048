package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
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

	"millwright/services/internal/pki"
	"millwright/services/internal/servercert"
)

// apiServer knows the tokens "monitoring", which may get /metrics, and "other", which may not.
func apiServer() *fake.Clientset {
	core := &fake.Clientset{}
	core.AddReactor("create", "tokenreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		o := a.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		o.Status.Authenticated = o.Spec.Token == "monitoring" || o.Spec.Token == "other"
		o.Status.User.Username = o.Spec.Token
		return true, o, nil
	})
	core.AddReactor("create", "subjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		o := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		n := o.Spec.NonResourceAttributes
		o.Status.Allowed = o.Spec.User == "monitoring" && n != nil && n.Path == "/metrics" && n.Verb == "get" && o.Spec.ResourceAttributes == nil
		return true, o, nil
	})
	return core
}

// scraped is the answer to one request, over a connection of its own.
func scraped(t *testing.T, port int, roots *x509.CertPool, header string) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: roots == nil}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port))+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != "" {
		req.Header.Set("Authorization", header)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	s := Settings{MetricsPort: freePort(t), HealthProbePort: freePort(t), MetricsAuthorization: true}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "secret"}))
	v, err := listen(s, registry, &checks{}, &checks{}, apiServer(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer v.shutdown()
	for header, want := range map[string]int{
		"Bearer monitoring": http.StatusOK, "Bearer other": http.StatusForbidden, "Bearer stranger": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized,
		"": http.StatusUnauthorized, "Basic bW9uaXRvcmluZzo=": http.StatusUnauthorized, "Bearer " + strings.Repeat("x", 10_000): http.StatusUnauthorized,
	} {
		code, body := scraped(t, s.MetricsPort, nil, header)
		if code != want || strings.Contains(body, "secret") != (want == http.StatusOK) {
			t.Errorf("%.40q: %d, want %d\n%s", header, code, want, body)
		}
	}
	if code, _ := get(t, s.MetricsPort, "/metrics"); code == http.StatusOK {
		t.Error("metrics are served over plain HTTP too")
	}
	if code, _ := get(t, s.HealthProbePort, "/healthz"); code != http.StatusOK {
		t.Errorf("probes: %d", code)
	}
}

// The files are looked at anew a minute later, which a clock in the test stands for.
func TestMetricsShowTheCertificateThatIsInTheFiles(t *testing.T) {
	dir := t.TempDir()
	write := func() *x509.CertPool {
		t.Helper()
		a, _, err := pki.Authority{}.Renew(time.Now(), "test")
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := pki.NewLeaf(time.Now(), a.CA, pki.Leaf{CommonName: "metrics", Names: []string{"127.0.0.1"}})
		data := map[string][]byte{}
		if err != nil || leaf.EncodeInto(data) != nil {
			t.Fatal(err)
		}
		for name, content := range data {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		roots := x509.NewCertPool()
		roots.AddCert(a.CA.Cert)
		return roots
	}
	first := write()
	s := Settings{MetricsPort: freePort(t), MetricsTLSCertFile: filepath.Join(dir, pki.KeyLeaf), MetricsTLSKeyFile: filepath.Join(dir, pki.KeyLeafKey)}
	var ahead atomic.Int64
	v := &servers{logger: zerolog.Nop()}
	defer v.shutdown()
	certificate := s.scrapeCertificate(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	if err := v.serve(endpoint{"metrics", anyAddress(s.MetricsPort), http.NewServeMux(), certificate, 0}); err != nil {
		t.Fatal(err)
	}
	if code, text := scraped(t, s.MetricsPort, first, ""); code != http.StatusNotFound {
		t.Fatal(code, text)
	}
	second := write()
	if code, _ := scraped(t, s.MetricsPort, second, ""); code != 0 {
		t.Error("the files were read again at once")
	}
	ahead.Add(int64(servercert.LookEvery))
	if code, text := scraped(t, s.MetricsPort, second, ""); code != http.StatusNotFound {
		t.Error("the new certificate is not shown:", text)
	}
	if err := os.Remove(s.MetricsTLSCertFile); err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(servercert.LookEvery))
	if code, text := scraped(t, s.MetricsPort, second, ""); code != http.StatusNotFound {
		t.Error("without the files:", text)
	}
}

// While the API server takes questions and answers none, who was let in last still is, for ten minutes more;
// every answer comes in time.
func TestMetricsWhileTheAPIServerHangs(t *testing.T) {
	core := apiServer()
	hangs := false
	core.PrependReactor("create", "*", func(kubetesting.Action) (bool, runtime.Object, error) {
		return hangs, nil, context.DeadlineExceeded // as client-go does when the time of the question is over
	})
	now := time.Now()
	s := newScrapers(core, func() time.Time { return now }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		after        time.Duration
		hangs        bool
		token        string
		want         int
		questionsMax int
	}{
		{0, false, "monitoring", http.StatusOK, 2},
		{0, true, "monitoring", http.StatusOK, 0},
		{scraperCacheFor, true, "monitoring", http.StatusOK, 2},
		{0, true, "other", http.StatusServiceUnavailable, 1},
		{scraperStaleFor - 1, true, "monitoring", http.StatusOK, 2},
		{1, true, "monitoring", http.StatusServiceUnavailable, 1},
		{0, false, "monitoring", http.StatusOK, 2},
	} {
		now, hangs = now.Add(c.after), c.hangs
		core.ClearActions()
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.want || len(core.Actions()) > c.questionsMax {
			t.Errorf("%+v: %d after %d questions", c, w.Code, len(core.Actions()))
		}
	}
}
