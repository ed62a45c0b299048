package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/services/internal/pki"
)

// etcdRoot is the suffix of the Secret with the certificate of etcd's root, by which users are made: where
// certificates are issued by somebody else there is no CA to sign one by.
const etcdRoot = "etcd-root"

// syncIssued looks at the certificates that somebody else has issued, and does what else there is to do. Of
// those that are not right each is named; what does not need them goes on.
func (k *Keeper) syncIssued(ctx context.Context) error {
	x := known{trusted: map[string][]byte{}}
	var errs []error
	var root *pki.Pair
	for _, w := range k.cfg.wanted() {
		leaf, trusted, err := k.issued(ctx, w)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		k.expires(w.secret, leaf)
		switch w.secret {
		case k.cfg.name(etcdRoot):
			root = leaf
		case k.cfg.name("nats-server"):
			x.trusted["nats"], x.nats = trusted, leaf
		case k.cfg.name("etcd-server"):
			x.trusted["etcd"] = trusted
		default:
			x.trusted[w.leaf.CommonName] = trusted
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return k.finish(ctx, x, func() (*pki.Pair, error) { return root, nil })
}

// issued reads a certificate with the CAs to be trusted, and says what of it is not as it is to be.
func (k *Keeper) issued(ctx context.Context, want certificate) (leaf *pki.Pair, trusted []byte, err error) {
	secret, err := k.cfg.Core.CoreV1().Secrets(k.cfg.Namespace).Get(ctx, want.secret, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("get secret %s: %w", want.secret, err)
	}
	if err := k.cfg.Reliable(); err != nil { // the API server's answer has just said what time it is
		return nil, nil, fmt.Errorf("look at secret %s: %w", want.secret, err)
	}
	refuse := func(format string, args ...any) (*pki.Pair, []byte, error) {
		return nil, nil, fmt.Errorf("secret %s: "+format, append([]any{want.secret}, args...)...)
	}
	leaf, trusted = pki.DecodeLeaf(secret.Data), secret.Data[pki.KeyCA]
	roots := x509.NewCertPool()
	switch {
	case leaf == nil:
		return refuse("%s and %s are no certificate with its key in PKCS #8", pki.KeyLeaf, pki.KeyLeafKey)
	case !roots.AppendCertsFromPEM(trusted):
		return refuse("%s has no CA: the issuer must give one", pki.KeyCA)
	case leaf.Cert.Subject.CommonName != want.leaf.CommonName:
		return refuse("the certificate's common name is %q, not %q, by which etcd knows its users", leaf.Cert.Subject.CommonName, want.leaf.CommonName)
	case !leaf.Serves(want.leaf.Names):
		return refuse("the certificate is not for all of the names %v", want.leaf.Names)
	case !leaf.Usable(k.cfg.Now()):
		return refuse("the certificate is not valid now, but from %s to %s", leaf.Cert.NotBefore.UTC(), leaf.Cert.NotAfter.UTC())
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(want.leaf.Names) > 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	for _, usage := range usages {
		if !slices.Contains(leaf.Cert.ExtKeyUsage, usage) {
			return refuse("the certificate may not be used as that of a client and, of a server, as that of one")
		}
	}
	return leaf, trusted, nil
}
