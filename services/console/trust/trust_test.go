package trust

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"millwright/services/internal/pki"
)

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// server makes an authority and a certificate that it signed.
func server(t *testing.T, names ...string) (authority []byte, chain []*x509.Certificate) {
	t.Helper()
	a, _, err := pki.Authority{}.Renew(now, "test")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := pki.NewLeaf(now, a.CA, pki.Leaf{CommonName: "x", Names: names})
	if err != nil {
		t.Fatal(err)
	}
	return pki.Encode(a.CA.Cert), []*x509.Certificate{leaf.Cert}
}

func trusts(a Anchors, chain []*x509.Certificate) bool {
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: a.ServerName, CurrentTime: now.Add(time.Minute)})
	return err == nil
}

func TestAServerIsKnownByItsAuthorityOrByItself(t *testing.T) {
	authority, chain := server(t, "localhost", "other")
	another, strange := server(t, "*.example.com")
	for about, c := range map[string]struct {
		chain       []*x509.Certificate
		authorities []byte
		name        string
		itself      bool
	}{
		"its authority":                {chain, authority, "localhost", false},
		"no authority":                 {chain, nil, "localhost", true},
		"somebody else's authority":    {chain, another, "localhost", true},
		"a wildcard, and no authority": {strange, nil, "console.example.com", true},
	} {
		a, err := Of(c.chain, c.authorities)
		if err != nil || a.ServerName != c.name || !trusts(a, c.chain) || (strings.TrimSpace(string(a.Certificates)) == strings.TrimSpace(string(pki.Encode(c.chain[0])))) != c.itself {
			t.Errorf("%s: %v, %v", about, a, err)
		}
	}
	if _, err := Of(nil, authority); err == nil {
		t.Error("a server without a certificate is trusted")
	}
}

func TestReplicasDoNotPushEachOtherOut(t *testing.T) {
	core := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}})
	publish := func(a Anchors, at time.Time) bool {
		t.Helper()
		changed, err := Publish(t.Context(), core, "n", "c", a, at)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if _, err := Read(t.Context(), core, "n", "c"); !errors.Is(err, ErrNothing) {
		t.Fatal(err)
	}
	firstCA, first := server(t, "localhost")
	secondCA, second := server(t, "localhost")
	a, b := Anchors{firstCA, "localhost"}, Anchors{secondCA, "localhost"}
	if !publish(a, now) || !publish(b, now) || publish(a, now) || publish(b, now) {
		t.Error("they take turns in writing")
	}
	got, err := Read(t.Context(), core, "n", "c")
	if err != nil || !trusts(got, first) || !trusts(got, second) {
		t.Errorf("%v: one of two is not trusted", err)
	}
	// Pods come and go; what they left does not grow for ever, and the newest stays trusted.
	for range 3 * anchorsMax {
		ca, chain := server(t, "localhost")
		publish(Anchors{ca, "localhost"}, now)
		if got, err := Read(t.Context(), core, "n", "c"); err != nil || !trusts(got, chain) || len(parse(got.Certificates)) > anchorsMax {
			t.Fatalf("%v: %d certificates", err, len(parse(got.Certificates)))
		}
	}
	lastCA, _ := server(t, "localhost")
	publish(Anchors{lastCA, "localhost"}, now.Add(100*365*24*time.Hour))
	if got, err := Read(t.Context(), core, "n", "c"); err != nil || len(parse(got.Certificates)) != 1 {
		t.Errorf("%v: %d certificates, one of which has not expired", err, len(parse(got.Certificates)))
	}
	if _, err := Publish(t.Context(), core, "n", "missing", a, now); err == nil {
		t.Error("a ConfigMap that is not there was written")
	}
}

func TestWhatIsNoCertificateIsNothing(t *testing.T) {
	for _, data := range []map[string]string{nil, {keyServerName: "localhost"}, {keyServerName: "localhost", keyCertificates: "nonsense"}} {
		if _, err := read(&corev1.ConfigMap{Data: data}); !errors.Is(err, ErrNothing) {
			t.Errorf("%v: %v", data, err)
		}
	}
}
