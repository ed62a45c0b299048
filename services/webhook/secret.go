package webhook

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright/services/internal/kube"
)

// Keys of the Secret.
const (
	keyCA, keyCAKey     = "ca.crt", "ca.key"
	keyNext, keyNextKey = "next-ca.crt", "next-ca.key"
	keyOld              = "old-ca.crt"
	keyLeaf, keyLeafKey = "tls.crt", "tls.key"
)

// keepTries bounds how often a lost race for the Secret is repeated.
const keepTries = 5

// keeper keeps the certificates in the Secret.
type keeper struct {
	core            kubernetes.Interface
	namespace, name string
	names           []string
	now             func() time.Time
	renewed         func()
}

// keepCertificate returns what the Secret holds after renewing what is due. If several replicas renew at
// once, one wins and the others use what it wrote.
func (k *keeper) keepCertificate(ctx context.Context) (material, error) {
	var err error
	for range keepTries {
		var m material
		if m, err = k.readAndRenew(ctx); err == nil || !kube.IsConflict(err) && !kube.IsAlreadyExists(err) && !kube.IsNotFound(err) {
			return m, err
		}
	}
	return material{}, err
}

func (k *keeper) readAndRenew(ctx context.Context) (material, error) {
	secrets := k.core.CoreV1().Secrets(k.namespace)
	secret, err := secrets.Get(ctx, k.name, metav1.GetOptions{})
	missing := kube.IsNotFound(err)
	if err != nil && !missing {
		return material{}, fmt.Errorf("get secret %s/%s: %w", k.namespace, k.name, err)
	}
	if missing {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}, Type: corev1.SecretTypeOpaque}
	}
	m, changed, err := decode(secret.Data).renew(k.now(), k.names)
	if err != nil || !changed {
		return m, err
	}
	data, err := m.encode()
	if err != nil {
		return material{}, err
	}
	secret.Data = data
	if missing {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}) // compares the resourceVersion that was read
	}
	if err != nil {
		return material{}, fmt.Errorf("write secret %s/%s: %w", k.namespace, k.name, err)
	}
	k.renewed()
	return m, nil
}

// decode reads the valid parts of the Secret; the rest counts as missing and is created again.
func decode(data map[string][]byte) material {
	return material{
		ca: decodePair(data[keyCA], data[keyCAKey]), next: decodePair(data[keyNext], data[keyNextKey]),
		old: decodeCertificates(data[keyOld]), leaf: decodePair(data[keyLeaf], data[keyLeafKey]),
	}
}

func decodePair(cert, key []byte) *pair {
	certs := decodeCertificates(cert)
	block, _ := pem.Decode(key)
	if len(certs) == 0 || block == nil {
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(certs[0].PublicKey) {
		return nil
	}
	return &pair{certs[0], signer}
}

func decodeCertificates(data []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
		data = rest
	}
}

func (m material) encode() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, p := range []struct {
		pair      *pair
		cert, key string
	}{{m.ca, keyCA, keyCAKey}, {m.next, keyNext, keyNextKey}, {m.leaf, keyLeaf, keyLeafKey}} {
		if p.pair == nil {
			continue
		}
		der, err := x509.MarshalPKCS8PrivateKey(p.pair.key)
		if err != nil {
			return nil, fmt.Errorf("encode key %s: %w", p.key, err)
		}
		out[p.cert], out[p.key] = encode(p.pair.cert), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	if old := bytes.Join(slices.Collect(func(yield func([]byte) bool) {
		for _, c := range m.old {
			if !yield(encode(c)) {
				return
			}
		}
	}), nil); len(old) > 0 {
		out[keyOld] = old
	}
	return out, nil
}
