// Package pki keeps a small certificate authority of one's own: a CA that is renewed with an overlap, and
// certificates of short life. It has no clock and keeps nothing: callers give the time and store what they
// get.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Lifetimes. A certificate is renewed when a third of its life is left. A new CA is in the bundle for Overlap
// before anything is signed by it, so that whoever has not seen it yet never meets somebody who trusts only
// the new one, nor the other way round.
const (
	// CALife and LeafLife are how long a CA and a certificate are valid.
	CALife   = 2 * 365 * 24 * time.Hour
	LeafLife = 90 * 24 * time.Hour
	// Backdate is how long before now a certificate begins, for clocks that are behind.
	Backdate = time.Hour
	Overlap  = 24 * time.Hour
)

// Pair is a certificate with its key.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// Authority is what trusts and signs.
type Authority struct {
	// CA signs; Next will; Old did, and is trusted until it expires.
	CA, Next *Pair
	Old      []*x509.Certificate
}

// Renew returns the authority that is due at a time. changed is false if it is unchanged.
func (a Authority) Renew(now time.Time, name string) (out Authority, changed bool, err error) {
	out = a
	out.Old = slices.DeleteFunc(slices.Clone(a.Old), func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) })
	changed = len(out.Old) != len(a.Old)
	switch {
	case !out.CA.Usable(now) && !out.Next.Usable(now):
		if out.CA, err = newCA(now, name); err != nil {
			return a, false, err
		}
		out.Next, changed = nil, true
	case out.Next.Usable(now) && (!out.CA.Usable(now) || !now.Before(out.Next.Cert.NotBefore.Add(Backdate+Overlap))):
		if out.CA.Usable(now) {
			out.Old = append(out.Old, out.CA.Cert)
		}
		out.CA, out.Next, changed = out.Next, nil, true
	case out.CA.Due(now) && !out.Next.Usable(now):
		if out.Next, err = newCA(now, name); err != nil {
			return a, false, err
		}
		changed = true
	}
	return out, changed, nil
}

// Bundle is every CA to be trusted, as PEM.
func (a Authority) Bundle() []byte {
	var out bytes.Buffer
	for _, p := range []*Pair{a.CA, a.Next} {
		if p != nil {
			out.Write(Encode(p.Cert))
		}
	}
	for _, c := range a.Old {
		out.Write(Encode(c))
	}
	return out.Bytes()
}

// Usable reports that there is a certificate, and that it is valid at a time.
func (p *Pair) Usable(now time.Time) bool {
	return p != nil && !now.Before(p.Cert.NotBefore) && now.Before(p.Cert.NotAfter)
}

// Due reports that a certificate is to be renewed.
func (p *Pair) Due(now time.Time) bool {
	return p.Cert.NotAfter.Sub(now) < p.Cert.NotAfter.Sub(p.Cert.NotBefore)/3
}

// Serves: the certificate covers all of the names.
func (p *Pair) Serves(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return p.Cert.VerifyHostname(n) != nil })
}

// Good reports that a leaf is as it is to be, was signed by this CA, and need not be renewed yet.
func (p *Pair) Good(now time.Time, ca *Pair, want Leaf) bool {
	return p.Usable(now) && !p.Due(now) && p.Cert.CheckSignatureFrom(ca.Cert) == nil && p.Cert.Subject.CommonName == want.CommonName &&
		p.Serves(want.Names) && !slices.ContainsFunc(want.usages(), func(u x509.ExtKeyUsage) bool { return !slices.Contains(p.Cert.ExtKeyUsage, u) })
}

func newCA(now time.Time, name string) (*Pair, error) {
	return sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-Backdate), NotAfter: now.Add(CALife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
}

// Leaf says what a certificate is for: a server under Names, of which none means no server, and a client if
// Client is set. Members of a cluster are both.
type Leaf struct {
	CommonName string
	Names      []string
	Client     bool
}

func (l Leaf) usages() []x509.ExtKeyUsage {
	var out []x509.ExtKeyUsage
	if len(l.Names) > 0 {
		out = append(out, x509.ExtKeyUsageServerAuth)
	}
	if l.Client {
		out = append(out, x509.ExtKeyUsageClientAuth)
	}
	return out
}

// NewLeaf signs a certificate with a new key. It does not outlive its CA.
func NewLeaf(now time.Time, ca *Pair, want Leaf) (*Pair, error) {
	end := now.Add(LeafLife)
	if ca.Cert.NotAfter.Before(end) {
		end = ca.Cert.NotAfter
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: want.CommonName},
		NotBefore: now.Add(-Backdate), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: want.usages(),
	}
	for _, n := range want.Names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, n)
	}
	return sign(template, ca)
}

// sign makes a key and a certificate for it; without a CA it signs itself.
func sign(template *x509.Certificate, ca *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	parent, signer := template, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.Cert, ca.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return &Pair{cert, key}, nil
}

// Encode is a certificate as PEM.
func Encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
