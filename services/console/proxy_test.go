package console

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"millwright/services/console/access"
	"millwright/services/internal/pki"
)

// issuer is an authority of client certificates.
func issuer(t *testing.T) pki.Authority {
	t.Helper()
	a, _, err := pki.Authority{}.Renew(time.Now(), "issuer")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func clientCertificate(t *testing.T, a pki.Authority, name string, isClient bool) *tls.Certificate {
	t.Helper()
	leaf, err := pki.NewLeaf(time.Now(), a.CA, pki.Leaf{CommonName: name, Names: []string{name}, Client: isClient})
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Cert.Raw}, PrivateKey: leaf.Key}
}

// groupsMay is an API server where members of a group may look.
func groupsMay(t *testing.T, group string, asked *[]authorizationv1.SubjectAccessReviewSpec) *fake.Clientset {
	core := &fake.Clientset{}
	core.AddReactor("create", "subjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		o := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		*asked = append(*asked, o.Spec)
		o.Status.Allowed = slices.Contains(o.Spec.Groups, group)
		return true, o, nil
	})
	core.AddReactor("create", "tokenreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		t.Error("a token was asked about")
		return true, a.(kubetesting.CreateAction).GetObject(), nil
	})
	return core
}

// Who is signed in by a proxy that proves itself gets what the API server says that they may; the same
// headers from anybody else are nobody's.
func TestAProxyWithACertificateSaysWhoAsks(t *testing.T) {
	good, other := issuer(t), issuer(t)
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pki.Encode(good.CA.Cert), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked []authorizationv1.SubjectAccessReviewSpec
	dir := t.TempDir()
	c, _ := startedWith(t, dir, Settings{Address: "127.0.0.1:0", ProxyCAFile: path, ProxyNames: []string{"oauth2-proxy"}, ProxyUserHeader: "X-Forwarded-User",
		ProxyGroupsHeader: "X-Forwarded-Groups", ProxyPrefix: "oidc:"}, groupsMay(t, "oidc:sre", &asked))
	address := c.listens(t)
	ask := func(cert *tls.Certificate, headers ...string) (int, string) {
		t.Helper()
		config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the server is not what is tried here
		if cert != nil {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		}
		r, err := http.NewRequest(http.MethodGet, "https://"+address+"/api/v1/decisions", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	proxy := clientCertificate(t, good, "oauth2-proxy", true)
	user, groups := "X-Forwarded-User", "X-Forwarded-Groups"
	for about, try := range map[string]struct {
		cert    *tls.Certificate
		headers []string
		want    int
	}{
		"a member":                          {proxy, []string{user, "ann", groups, "dev,sre"}, 200},
		"a member, groups in two headers":   {proxy, []string{user, "ann", groups, "dev", groups, "sre"}, 200},
		"not a member":                      {proxy, []string{user, "bob", groups, "dev"}, 403},
		"nobody in particular":              {proxy, nil, 401},
		"an empty name":                     {proxy, []string{user, " "}, 401},
		"two names":                         {proxy, []string{user, "ann", user, "root", groups, "sre"}, 401},
		"no certificate":                    {nil, []string{user, "ann", groups, "sre"}, 401},
		"a certificate of somebody else":    {clientCertificate(t, other, "oauth2-proxy", true), []string{user, "ann", groups, "sre"}, 401},
		"a certificate for another name":    {clientCertificate(t, good, "web", true), []string{user, "ann", groups, "sre"}, 401},
		"a certificate for servers":         {clientCertificate(t, good, "oauth2-proxy", false), []string{user, "ann", groups, "sre"}, 401},
		"groups that the prefix leads away": {proxy, []string{user, "ann", groups, "oidc:sre,system:masters"}, 403},
	} {
		if got, body := ask(try.cert, try.headers...); got != try.want {
			t.Errorf("%s: %d, want %d: %s", about, got, try.want, body)
		}
	}
	for _, spec := range asked {
		if !strings.HasPrefix(spec.User, "oidc:") || !slices.Contains(spec.Groups, "system:authenticated") || slices.Contains(spec.Groups, "system:masters") {
			t.Errorf("it was asked about %+v", spec)
		}
	}
	// The authority may change while it runs: from then on the old one counts no more.
	if err := os.WriteFile(path, pki.Encode(other.CA.Cert), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := ask(proxy, user, "ann", groups, "sre"); got != 401 {
		t.Errorf("with the old authority: %d", got)
	}
	if got, _ := ask(clientCertificate(t, other, "oauth2-proxy", true), user, "ann", groups, "sre"); got != 200 {
		t.Errorf("with the new one: %d", got)
	}
}

// Without a prefix nobody gets a name of the cluster's own.
func TestAProxyGivesNobodyANameOfKubernetes(t *testing.T) {
	good := issuer(t)
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pki.Encode(good.CA.Cert), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := proxyOf(Settings{ProxyCAFile: path, ProxyUserHeader: "U", ProxyGroupsHeader: "G"})
	if err != nil {
		t.Fatal(err)
	}
	leaf := clientCertificate(t, good, "p", true)
	cert, err := x509.ParseCertificate(leaf.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"ann": 200, "system:admin": 401} {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		r.Header.Set("U", name)
		r.Header.Set("G", "system:masters, dev")
		w := httptest.NewRecorder()
		p.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := access.Proxied(r)
			fmt.Fprint(w, who.Name, " ", who.Groups, " ", r.Header.Get("U"))
		}), time.Now).ServeHTTP(w, r)
		if w.Code != want || want == 200 && w.Body.String() != "ann [dev system:authenticated] " {
			t.Errorf("%s: %d %q", name, w.Code, w.Body)
		}
	}
}
