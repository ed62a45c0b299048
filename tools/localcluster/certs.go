package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certDir holds the cluster's certificates; each pair is NAME.crt and NAME.key in PEM.
type certDir struct {
	dir   string
	ca    *x509.Certificate
	caKey crypto.Signer
}

const certLifetime = 10 * 365 * 24 * time.Hour

// openCerts loads the certificate authority in dir, or makes one.
func openCerts(dir string) (*certDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create certificate directory: %w", err)
	}
	c := &certDir{dir: dir}
	if _, err := os.Stat(c.path("ca.crt")); err == nil {
		return c, c.load()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the certificate authority: %w", err)
	}
	template := certTemplate("localcluster-ca")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	if err := c.write("ca", der, key); err != nil {
		return nil, err
	}
	return c, c.load()
}

func (c *certDir) path(name string) string { return filepath.Join(c.dir, name) }

func (c *certDir) load() error {
	crt, err := readPEM(c.path("ca.crt"))
	if err != nil {
		return err
	}
	if c.ca, err = x509.ParseCertificate(crt); err != nil {
		return fmt.Errorf("parse certificate authority: %w", err)
	}
	keyDER, err := readPEM(c.path("ca.key"))
	if err != nil {
		return err
	}
	key, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return fmt.Errorf("parse key of the certificate authority: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return errors.New("parse key of the certificate authority: not a signing key")
	}
	c.caKey = signer
	return nil
}

// issue writes the pair `name` for a user (organizations: its groups) or, with hosts, a server.
func (c *certDir) issue(name, user string, groups, hosts []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", name, err)
	}
	template := certTemplate(user)
	template.Subject.Organization = groups
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.ca, key.Public(), c.caKey)
	if err != nil {
		return fmt.Errorf("make certificate %s: %w", name, err)
	}
	return c.write(name, der, key)
}

// keyPair writes NAME.key and NAME.pub, for service account tokens, unless they exist.
func (c *certDir) keyPair(name string) error {
	if _, err := os.Stat(c.path(name + ".key")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", name, err)
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode public key %s: %w", name, err)
	}
	if err := writePEM(c.path(name+".pub"), "PUBLIC KEY", pub); err != nil {
		return err
	}
	return writeKey(c.path(name+".key"), key)
}

func (c *certDir) write(name string, der []byte, key *ecdsa.PrivateKey) error {
	if err := writeKey(c.path(name+".key"), key); err != nil {
		return err
	}
	return writePEM(c.path(name+".crt"), "CERTIFICATE", der)
}

func certTemplate(commonName string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", path, err)
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func readPEM(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("read %s: no PEM block", path)
	}
	return block.Bytes, nil
}

// writeFile replaces path at once, so that a reader never sees half of it.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
