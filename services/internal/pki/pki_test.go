package pki

import (
	"crypto/x509"
	"testing"
	"time"
)

var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// trusted reports that who trusts the bundle takes the leaf for a client and for a server named host.
func trusted(t *testing.T, a Authority, leaf *Pair, at time.Time, host string) bool {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Bundle())
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := leaf.Cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return false
		}
	}
	return true
}

// TestEverybodyTrustsEverybodyWhileTheAuthorityChanges walks through five years a day at a time. Each day one
// of the holders of an older bundle is a day behind: it must trust certificates of today, and today's bundle
// its own.
func TestEverybodyTrustsEverybodyWhileTheAuthorityChanges(t *testing.T) {
	want := Leaf{CommonName: "member", Names: []string{"member.svc"}, Client: true}
	var a, before Authority
	var leaf, old *Pair
	authorities := map[string]bool{}
	for day := range 5 * 365 { // only changes are looked at closely
		now := epoch.AddDate(0, 0, day)
		next, changed, err := a.Renew(now, "test-ca")
		if err != nil {
			t.Fatal(err)
		}
		before, a = a, next
		authorities[a.CA.Cert.SerialNumber.String()] = true
		old = leaf
		if !leaf.Good(now, a.CA, want) {
			changed = true
			if leaf, err = NewLeaf(now, a.CA, want); err != nil {
				t.Fatal(err)
			}
		}
		if !changed {
			continue
		}
		if !trusted(t, a, leaf, now, "member.svc") {
			t.Fatalf("day %d: today's bundle does not trust today's certificate", day)
		}
		if day > 0 && (!trusted(t, before, leaf, now, "member.svc") || !trusted(t, a, old, now, "member.svc")) {
			t.Fatalf("day %d: who is a day behind is cut off", day)
		}
		if len(a.Old) > 2 {
			t.Fatalf("day %d: %d old authorities are kept", day, len(a.Old))
		}
	}
	if len(authorities) < 3 {
		t.Errorf("%d authorities in five years", len(authorities))
	}
}

func TestAnAuthoritySurvivesItsSecret(t *testing.T) {
	a, _, err := Authority{}.Renew(epoch, "test-ca")
	if err != nil {
		t.Fatal(err)
	}
	if a, _, err = a.Renew(epoch.Add(CALife-CALife/4), "test-ca"); err != nil || a.Next == nil {
		t.Fatal(err, a.Next)
	}
	data := map[string][]byte{}
	if err := a.EncodeInto(data); err != nil {
		t.Fatal(err)
	}
	back := DecodeAuthority(data)
	if string(back.Bundle()) != string(a.Bundle()) {
		t.Error("it does not")
	}
	data[KeyCAKey] = []byte("broken")
	if DecodeAuthority(data).CA != nil {
		t.Error("a broken key was read")
	}
}
