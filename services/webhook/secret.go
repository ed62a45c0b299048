package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright/services/internal/kube"
	"millwright/services/internal/pki"
)

// keepTries bounds how often a lost race for the Secret is repeated.
const keepTries = 5

// keeper keeps the certificates in the Secret.
type keeper struct {
	core            kubernetes.Interface
	namespace, name string
	names           []string
	now             func() time.Time
	reliable        func() error
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
	held := decode(secret.Data)
	if err := k.reliable(); err != nil { // a clock a year ahead would find everything expired
		if held.leaf == nil || held.CA == nil {
			return material{}, fmt.Errorf("make certificate: %w", err)
		}
		return held, nil
	}
	m, changed, err := held.renew(k.now(), k.names)
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
	return material{Authority: pki.DecodeAuthority(data), leaf: pki.DecodeLeaf(data)}
}

func (m material) encode() (map[string][]byte, error) {
	out := map[string][]byte{}
	return out, errors.Join(m.Authority.EncodeInto(out), m.leaf.EncodeInto(out))
}
