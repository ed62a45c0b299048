package servercert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"millwright/services/internal/pki"
)

// LookEvery is how often it is looked whether a certificate is to be replaced.
const LookEvery = time.Minute

// Config of a Certificate.
type Config struct {
	// What it is of, in errors and in the common name of a CA of its own: console, metrics.
	What string
	// CertFile and KeyFile of it; empty: it makes its own.
	CertFile, KeyFile string
	// Dir keeps a certificate of its own, and its CA; empty: they last as long as the process.
	Dir string
	// Names that its own certificate is for; the first one is its common name.
	Names []string
	Now   func() time.Time
}

// Certificate that a server shows. It is safe for concurrent use.
type Certificate struct {
	cfg Config

	mu     sync.Mutex
	looked time.Time
	shown  *tls.Certificate
	own    pki.Authority
	leaf   *pki.Pair
}

// New returns a Certificate; it has no side effects.
func New(cfg Config) *Certificate { return &Certificate{cfg: cfg} }

// Get returns the certificate to show, for tls.Config. One that cannot be replaced is shown for as long as it
// lasts.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Now()
	if c.shown != nil && now.Sub(c.looked).Abs() < LookEvery {
		return c.shown, nil
	}
	shown, err := c.renew(now)
	if err != nil && c.shown == nil {
		return nil, err
	}
	c.looked = now
	if err == nil {
		c.shown = shown
	}
	return c.shown, nil
}

func (c *Certificate) renew(now time.Time) (*tls.Certificate, error) {
	if c.cfg.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.cfg.CertFile, c.cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate of the %s: %w", c.cfg.What, err)
		}
		return &pair, nil
	}
	if c.own.CA == nil {
		if err := c.load(); err != nil {
			return nil, err
		}
	}
	own, changed, err := c.own.Renew(now, "millwright-"+c.cfg.What+"-ca")
	if err != nil {
		return nil, err
	}
	leaf := c.leaf
	want := pki.Leaf{CommonName: c.cfg.Names[0], Names: c.cfg.Names}
	if !leaf.Good(now, own.CA, want) {
		if leaf, err = pki.NewLeaf(now, own.CA, want); err != nil {
			return nil, err
		}
		changed = true
	}
	if changed {
		if err := c.save(own, leaf); err != nil {
			return nil, err
		}
	}
	c.own, c.leaf = own, leaf
	return &tls.Certificate{Certificate: [][]byte{leaf.Cert.Raw}, PrivateKey: leaf.Key, Leaf: leaf.Cert}, nil
}

// Bundle is the CA, in PEM, that signs a certificate of its own, with its predecessor while that is valid;
// nil with one from files.
func (c *Certificate) Bundle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.CertFile != "" || c.own.CA == nil {
		return nil
	}
	return c.own.Bundle()
}

// load reads what is kept, if anything is.
func (c *Certificate) load() error {
	if c.cfg.Dir == "" {
		return nil
	}
	data := map[string][]byte{}
	entries, err := os.ReadDir(c.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read certificates of the %s: %w", c.cfg.What, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if data[e.Name()], err = os.ReadFile(filepath.Join(c.cfg.Dir, e.Name())); err != nil {
			return fmt.Errorf("read certificates of the %s: %w", c.cfg.What, err)
		}
	}
	c.own, c.leaf = pki.DecodeAuthority(data), pki.DecodeLeaf(data)
	return nil
}

// save keeps authority and certificate, a file each. What is half written does not fit together, and is made
// anew.
func (c *Certificate) save(own pki.Authority, leaf *pki.Pair) error {
	dir := c.cfg.Dir
	if dir == "" {
		return nil
	}
	data := map[string][]byte{}
	if err := errors.Join(own.EncodeInto(data), leaf.EncodeInto(data)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep certificates of the %s: %w", c.cfg.What, err)
	}
	for name, content := range data {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)); err != nil {
			return fmt.Errorf("keep certificates of the %s: %w", c.cfg.What, err)
		}
	}
	return nil
}
