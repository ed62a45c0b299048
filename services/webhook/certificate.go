package webhook

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Lifetimes. A certificate is renewed when a third of its life is left. A new CA is in the CRDs for caOverlap
// before anything is signed by it, so that a replica that has not seen it yet never meets a caller that
// trusts only the new one, nor the other way round.
const (
	caLife    = 2 * 365 * 24 * time.Hour
	leafLife  = 90 * 24 * time.Hour
	backdate  = time.Hour // for clocks that are behind
	caOverlap = 24 * time.Hour
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// material is what the Secret holds.
type material struct {
	// ca signs; next will; old did, and is trusted until it expires.
	ca, next *pair
	old      []*x509.Certificate
	leaf     *pair
}

// renew returns the material that is due at a time for a server with these names. changed is false if it is
// unchanged.
func (m material) renew(now time.Time, names []string) (out material, changed bool, err error) {
	out = m
	kept := slices.DeleteFunc(slices.Clone(m.old), func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) })
	changed = len(kept) != len(m.old)
	out.old = kept
	switch {
	case !out.ca.usable(now) && !out.next.usable(now):
		if out.ca, err = newCA(now); err != nil {
			return m, false, err
		}
		out.next, changed = nil, true
	case out.next.usable(now) && (!out.ca.usable(now) || !now.Before(out.next.cert.NotBefore.Add(backdate+caOverlap))):
		if out.ca.usable(now) {
			out.old = append(out.old, out.ca.cert)
		}
		out.ca, out.next, changed = out.next, nil, true
	case out.ca.due(now) && !out.next.usable(now):
		if out.next, err = newCA(now); err != nil {
			return m, false, err
		}
		changed = true
	}
	if out.leaf.usable(now) && !out.leaf.due(now) && out.leaf.cert.CheckSignatureFrom(out.ca.cert) == nil && out.leaf.serves(names) {
		return out, changed, nil
	}
	if out.leaf, err = newLeaf(now, out.ca, names); err != nil {
		return m, false, err
	}
	return out, true, nil
}

// bundle is every CA to be trusted, as PEM.
func (m material) bundle() []byte {
	var out bytes.Buffer
	for _, p := range []*pair{m.ca, m.next} {
		if p != nil {
			out.Write(encode(p.cert))
		}
	}
	for _, c := range m.old {
		out.Write(encode(c))
	}
	return out.Bytes()
}

func (m material) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{m.leaf.cert.Raw}, PrivateKey: m.leaf.key, Leaf: m.leaf.cert}
}

func (p *pair) usable(now time.Time) bool {
	return p != nil && !now.Before(p.cert.NotBefore) && now.Before(p.cert.NotAfter)
}

func (p *pair) due(now time.Time) bool {
	return p.cert.NotAfter.Sub(now) < p.cert.NotAfter.Sub(p.cert.NotBefore)/3
}

// serves: the certificate covers all of the names.
func (p *pair) serves(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return p.cert.VerifyHostname(n) != nil })
}

func newCA(now time.Time) (*pair, error) {
	return sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "millwright-webhook-ca"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
}

func newLeaf(now time.Time, ca *pair, names []string) (*pair, error) {
	end := now.Add(leafLife)
	if ca.cert.NotAfter.Before(end) {
		end = ca.cert.NotAfter
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: names[0]},
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, n)
	}
	return sign(template, ca)
}

// sign makes a key and a certificate for it; without a CA it signs itself.
func sign(template *x509.Certificate, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	parent, signer := template, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return &pair{cert, key}, nil
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
