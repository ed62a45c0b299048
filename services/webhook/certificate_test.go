package webhook

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"millwright/services/internal/pki"
)

var (
	names = []string{"karpenter.kube-system.svc", "127.0.0.1"}
	epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
)

func renewed(t *testing.T, m material, at time.Time) (material, bool) {
	t.Helper()
	out, changed, err := m.renew(at, names)
	if err != nil {
		t.Fatal(err)
	}
	return out, changed
}

// trusts: whoever trusts the bundle accepts the certificate under every name.
func trusts(t *testing.T, bundle []byte, leaf *x509.Certificate, at time.Time) {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("no CA in the bundle")
	}
	for _, n := range names {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: n, CurrentTime: at}); err != nil {
			t.Fatalf("at %s, %s: %v", at.Format(time.DateOnly), n, err)
		}
	}
}

// TestYearsOfRenewal: whatever replicas lag by a day, every bundle of that day verifies every certificate of
// it.
func TestYearsOfRenewal(t *testing.T) {
	m, changed := renewed(t, material{}, epoch)
	if !changed {
		t.Fatal("nothing was made")
	}
	cas, leaves := map[string]bool{}, map[string]bool{}
	for hour := 0; hour < 6*365*24; hour += 18 {
		at := epoch.Add(time.Duration(hour) * time.Hour)
		before := m
		m, _ = renewed(t, m, at)
		trusts(t, m.Bundle(), before.leaf.Cert, at)
		trusts(t, before.Bundle(), m.leaf.Cert, at)
		cas[m.CA.Cert.SerialNumber.String()], leaves[m.leaf.Cert.SerialNumber.String()] = true, true
		if len(m.Old) > 2 {
			t.Fatalf("%d old CAs are kept", len(m.Old))
		}
	}
	if len(cas) < 4 || len(leaves) < 30 {
		t.Errorf("%d CAs and %d certificates in six years", len(cas), len(leaves))
	}
}

func TestRenewal(t *testing.T) {
	fresh, _ := renewed(t, material{}, epoch)
	other, _ := renewed(t, material{}, epoch)
	for sentence, c := range map[string]struct {
		from    material
		at      time.Time
		changed bool
		sameCA  bool
	}{
		"nothing is due the next day":        {fresh, epoch.Add(24 * time.Hour), false, true},
		"a certificate with a third left":    {fresh, epoch.Add(pki.LeafLife - pki.LeafLife/4), true, true},
		"all expired":                        {fresh, epoch.Add(2 * pki.CALife), true, false},
		"a certificate of another authority": {material{pki.Authority{CA: fresh.CA}, other.leaf}, epoch, true, true},
		"no certificate":                     {material{Authority: pki.Authority{CA: fresh.CA}}, epoch, true, true},
		"no CA key":                          {material{leaf: fresh.leaf}, epoch, true, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, changed := renewed(t, c.from, c.at)
			if changed != c.changed {
				t.Errorf("changed is %v", changed)
			}
			if same := c.from.CA != nil && got.CA.Cert.Equal(c.from.CA.Cert); same != c.sameCA {
				t.Errorf("same CA is %v", same)
			}
			trusts(t, got.Bundle(), got.leaf.Cert, c.at)
		})
	}
	t.Run("another name", func(t *testing.T) {
		got, changed, err := fresh.renew(epoch, append(names, "example.com"))
		if err != nil || !changed || got.leaf.Cert.VerifyHostname("example.com") != nil {
			t.Errorf("changed %v, error %v", changed, err)
		}
	})
}

func TestTheSecretKeepsEverything(t *testing.T) {
	m, _ := renewed(t, material{}, epoch)
	m, _ = renewed(t, m, epoch.Add(pki.CALife-pki.CALife/4))
	if m.Next == nil {
		t.Fatal("no next CA")
	}
	later, _ := renewed(t, m, epoch.Add(pki.CALife-pki.CALife/4+2*pki.Overlap))
	for _, m := range []material{m, later} {
		data, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got := decode(data); string(got.Bundle()) != string(m.Bundle()) || !got.leaf.Cert.Equal(m.leaf.Cert) {
			t.Error("read back differs")
		}
	}
	data, _ := later.encode()
	data[pki.KeyCAKey] = []byte("broken")
	if decode(data).CA != nil {
		t.Error("a CA with a broken key is used")
	}
	data, _ = later.encode()
	other, _ := renewed(t, material{}, epoch)
	otherData, _ := other.encode()
	data[pki.KeyLeafKey] = otherData[pki.KeyLeafKey]
	if decode(data).leaf != nil {
		t.Error("a certificate is used with the key of another")
	}
}

func TestOfReplicasThatRenewAtOnceOneWins(t *testing.T) {
	for sentence, reason := range map[string]error{
		"created meanwhile": apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "s"),
		"changed meanwhile": apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "s", errors.New("changed")),
	} {
		t.Run(sentence, func(t *testing.T) {
			client := fake.NewClientset()
			won, _ := renewed(t, material{}, epoch)
			data, err := won.encode()
			if err != nil {
				t.Fatal(err)
			}
			lost := 0
			client.PrependReactor("create", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
				if lost++; lost > 1 {
					return false, nil, nil
				}
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Data: data}
				return true, nil, errors.Join(client.Tracker().Add(secret), reason)
			})
			loser := &keeper{core: client, namespace: "n", name: "s", names: names, now: func() time.Time { return epoch },
				reliable: reliable, renewed: func() { t.Error("the loser wrote") }}
			got, err := loser.keepCertificate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if lost != 1 || !got.leaf.Cert.Equal(won.leaf.Cert) {
				t.Errorf("lost %d races; same certificate: %v", lost, got.leaf.Cert.Equal(won.leaf.Cert))
			}
		})
	}
	t.Run("the API server refuses", func(t *testing.T) {
		client := fake.NewClientset()
		asked := 0
		client.PrependReactor("get", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
			asked++
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
		})
		k := &keeper{core: client, namespace: "n", name: "s", names: names, now: time.Now, reliable: reliable, renewed: func() {}}
		if _, err := k.keepCertificate(t.Context()); err == nil || asked != 1 {
			t.Errorf("asked %d times, error %v", asked, err)
		}
	})
}

func reliable() error { return nil }

// TestAWrongClockRenewsNothing: with a clock ten years ahead everything would have expired.
func TestAWrongClockRenewsNothing(t *testing.T) {
	client := fake.NewClientset()
	off := errors.New("the clock is ten years ahead")
	k := &keeper{core: client, namespace: "n", name: "s", names: names, now: func() time.Time { return epoch.AddDate(10, 0, 0) },
		reliable: func() error { return off }, renewed: func() { t.Error("something was renewed") }}
	if _, err := k.keepCertificate(t.Context()); !errors.Is(err, off) {
		t.Errorf("without a certificate: %v", err)
	}
	held, _ := renewed(t, material{}, epoch)
	data, err := held.encode()
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Data: data}
	if err := client.Tracker().Add(secret); err != nil {
		t.Fatal(err)
	}
	got, err := k.keepCertificate(t.Context())
	if err != nil || !got.leaf.Cert.Equal(held.leaf.Cert) {
		t.Errorf("the certificate there is does not serve: %v", err)
	}
}

func TestSettings(t *testing.T) {
	good := Settings{Port: 8443, Service: "s", Namespace: "n", Secret: "c"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for sentence, change := range map[string]func(*Settings){
		"no service":      func(s *Settings) { s.Service = "" },
		"no namespace":    func(s *Settings) { s.Namespace = "" },
		"no secret":       func(s *Settings) { s.Secret = "" },
		"a port too high": func(s *Settings) { s.Port = 70000 },
		"a plain URL":     func(s *Settings) { s.URL = "http://a" },
		"a URL of words":  func(s *Settings) { s.URL = "over there" },
	} {
		bad := good
		if change(&bad); bad.Validate() == nil {
			t.Errorf("%s is accepted", sentence)
		}
	}
}
