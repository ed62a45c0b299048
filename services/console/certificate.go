package console

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"millwright/services/console/trust"
	"millwright/services/internal/pki"
)

const (
	// authorityName is the common name of the CA of a console's own certificate.
	authorityName = "millwright-console-ca"
	// lookEvery is how often it is looked whether a certificate is to be replaced.
	lookEvery = time.Minute
)

// identity is the certificate that the console shows: one from files, or its own.
type identity struct {
	certFile, keyFile string
	// dir keeps a certificate of the console's own, and its CA; empty: they last as long as the process.
	dir   string
	names []string
	now   func() time.Time

	mu     sync.Mutex
	looked time.Time
	shown  *tls.Certificate
	own    pki.Authority
	leaf   *pki.Pair
}

// get returns the certificate to show. One that cannot be replaced is shown for as long as it lasts.
func (i *identity) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if i.shown != nil && now.Sub(i.looked).Abs() < lookEvery {
		return i.shown, nil
	}
	c, err := i.renew(now)
	if err != nil && i.shown == nil {
		return nil, err
	}
	i.looked = now
	if err == nil {
		i.shown = c
	}
	return i.shown, nil
}

func (i *identity) renew(now time.Time) (*tls.Certificate, error) {
	if i.certFile != "" {
		c, err := tls.LoadX509KeyPair(i.certFile, i.keyFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate of the console: %w", err)
		}
		return &c, nil
	}
	if i.own.CA == nil {
		if err := i.load(); err != nil {
			return nil, err
		}
	}
	own, changed, err := i.own.Renew(now, authorityName)
	if err != nil {
		return nil, err
	}
	leaf := i.leaf
	want := pki.Leaf{CommonName: i.names[0], Names: i.names}
	if !leaf.Good(now, own.CA, want) {
		if leaf, err = pki.NewLeaf(now, own.CA, want); err != nil {
			return nil, err
		}
		changed = true
	}
	if changed {
		if err := save(i.dir, own, leaf); err != nil {
			return nil, err
		}
	}
	i.own, i.leaf = own, leaf
	return &tls.Certificate{Certificate: [][]byte{leaf.Cert.Raw}, PrivateKey: leaf.Key, Leaf: leaf.Cert}, nil
}

// anchors are what the certificate that is shown is known by.
func (i *identity) anchors() (trust.Anchors, error) {
	shown, err := i.get(nil)
	if err != nil {
		return trust.Anchors{}, err
	}
	i.mu.Lock()
	var authorities []byte
	if i.certFile == "" {
		authorities = i.own.Bundle()
	}
	i.mu.Unlock()
	if i.certFile != "" { // Secrets of certificates often have their authority beside them
		authorities, err = os.ReadFile(filepath.Join(filepath.Dir(i.certFile), pki.KeyCA))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return trust.Anchors{}, fmt.Errorf("read authority of the console: %w", err)
		}
	}
	var chain []*x509.Certificate
	for _, der := range shown.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return trust.Anchors{}, fmt.Errorf("read certificate of the console: %w", err)
		}
		chain = append(chain, c)
	}
	return trust.Of(chain, authorities)
}

// load reads what is kept, if anything is.
func (i *identity) load() error {
	if i.dir == "" {
		return nil
	}
	data := map[string][]byte{}
	entries, err := os.ReadDir(i.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read certificates of the console: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if data[e.Name()], err = os.ReadFile(filepath.Join(i.dir, e.Name())); err != nil {
			return fmt.Errorf("read certificates of the console: %w", err)
		}
	}
	i.own, i.leaf = pki.DecodeAuthority(data), pki.DecodeLeaf(data)
	return nil
}

// save keeps authority and certificate, a file each. What is half written does not fit together, and is made
// anew.
func save(dir string, own pki.Authority, leaf *pki.Pair) error {
	if dir == "" {
		return nil
	}
	data := map[string][]byte{}
	if err := errors.Join(own.EncodeInto(data), leaf.EncodeInto(data)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep certificates of the console: %w", err)
	}
	for name, content := range data {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)); err != nil {
			return fmt.Errorf("keep certificates of the console: %w", err)
		}
	}
	return nil
}
