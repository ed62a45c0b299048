package webhook

import (
	"crypto/tls"
	"time"

	"millwright/services/internal/pki"
)

// authorityName is the common name of the CA.
const authorityName = "millwright-webhook-ca"

// material is what the Secret holds.
type material struct {
	pki.Authority
	leaf *pki.Pair
}

// renew returns the material that is due at a time for a server with these names. changed is false if it is
// unchanged.
func (m material) renew(now time.Time, names []string) (out material, changed bool, err error) {
	out = m
	if out.Authority, changed, err = m.Authority.Renew(now, authorityName); err != nil {
		return m, false, err
	}
	want := pki.Leaf{CommonName: names[0], Names: names}
	if out.leaf.Good(now, out.CA, want) {
		return out, changed, nil
	}
	if out.leaf, err = pki.NewLeaf(now, out.CA, want); err != nil {
		return m, false, err
	}
	return out, true, nil
}

func (m material) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{m.leaf.Cert.Raw}, PrivateKey: m.leaf.Key, Leaf: m.leaf.Cert}
}
