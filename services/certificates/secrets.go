package certificates

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/internal/pki"
	"millwright/store/etcdlog"
)

// Services that have certificates; etcd knows them by these names.
var Services = []string{ledger.ServiceWatcher, ledger.ServiceProvisioner, ledger.ServiceDisruptor, ledger.ServiceTerminator, ledger.ServiceLifecycle, serviceConsole, serviceExport}

// These are no services of the log's records: the console reads the log, and writes what people order; the
// export reads it, and writes how far it has come.
const (
	serviceConsole = "console"
	serviceExport  = "export"
)

// certificate that is kept in a Secret.
type certificate struct {
	secret string
	leaf   pki.Leaf
}

// wanted are the certificates that there are to be.
func (s Settings) wanted() []certificate {
	var out []certificate
	for _, server := range []struct {
		name    string
		members int
	}{{"etcd", s.EtcdMembers}, {"nats", s.NATSMembers}} {
		if server.members == 0 {
			continue
		}
		names := []string{"localhost", "127.0.0.1", fmt.Sprintf("%s.%s.svc", s.name(server.name), s.Namespace)}
		for i := range server.members {
			names = append(names, s.host(server.name, i))
		}
		out = append(out, certificate{s.name(server.name + "-server"), pki.Leaf{CommonName: "millwright-" + server.name, Names: names, Client: true}})
	}
	if s.Issued && s.EtcdMembers > 0 {
		out = append(out, certificate{s.name(etcdRoot), pki.Leaf{CommonName: etcdlog.RootUser, Client: true}})
	}
	for _, service := range Services {
		out = append(out, certificate{s.name("client-" + service), pki.Leaf{CommonName: service, Client: true}})
	}
	return out
}

// authority keeps the CA.
func (k *Keeper) authority(ctx context.Context) (a pki.Authority, err error) {
	err = k.keep(ctx, k.cfg.name("ca"), corev1.SecretTypeOpaque, func(data map[string][]byte) (map[string][]byte, error) {
		var changed bool
		if a, changed, err = pki.DecodeAuthority(data).Renew(k.cfg.Now(), authorityName); err != nil || !changed {
			return data, err
		}
		k.cfg.Logger.Info().Time("expires", a.CA.Cert.NotAfter).Msg("renewed the certificate authority")
		k.metrics.renewals.WithLabelValues(k.cfg.name("ca")).Inc()
		data = map[string][]byte{}
		return data, a.EncodeInto(data)
	})
	if err == nil {
		k.expires(k.cfg.name("ca"), a.CA)
	}
	return a, err
}

// leaf keeps a certificate, together with the CAs to be trusted.
func (k *Keeper) leaf(ctx context.Context, a pki.Authority, want certificate) (leaf *pki.Pair, err error) {
	err = k.keep(ctx, want.secret, corev1.SecretTypeTLS, func(data map[string][]byte) (map[string][]byte, error) {
		leaf = pki.DecodeLeaf(data)
		if leaf.Good(k.cfg.Now(), a.CA, want.leaf) && bytes.Equal(data[pki.KeyCA], a.Bundle()) {
			return data, nil
		}
		if !leaf.Good(k.cfg.Now(), a.CA, want.leaf) {
			if leaf, err = pki.NewLeaf(k.cfg.Now(), a.CA, want.leaf); err != nil {
				return nil, err
			}
			k.cfg.Logger.Info().Str("secret", want.secret).Time("expires", leaf.Cert.NotAfter).Msg("renewed a certificate")
			k.metrics.renewals.WithLabelValues(want.secret).Inc()
		}
		data = map[string][]byte{pki.KeyCA: a.Bundle()}
		return data, leaf.EncodeInto(data)
	})
	if err == nil {
		k.expires(want.secret, leaf)
	}
	return leaf, err
}

// expires says until when a certificate lasts that is in a Secret by now. While it cannot be read or written
// what was said last goes on counting.
func (k *Keeper) expires(secret string, p *pki.Pair) {
	k.metrics.expiry.WithLabelValues(secret).Set(float64(p.Cert.NotAfter.Unix()))
}

// passwords of NATS's users are made once. They begin with a letter: NATS reads them as a value of its
// configuration, where a word of digits would be a number.
func (k *Keeper) passwords(ctx context.Context) error {
	if k.cfg.NATSMembers == 0 {
		return nil
	}
	return k.keep(ctx, k.cfg.name("nats-users"), corev1.SecretTypeOpaque, func(data map[string][]byte) (map[string][]byte, error) {
		data = maps.Clone(data)
		for _, user := range []string{"watcher", "reader"} {
			if len(data[user]) > 0 {
				continue
			}
			secret := make([]byte, 24)
			if _, err := rand.Read(secret); err != nil {
				return nil, fmt.Errorf("make password: %w", err)
			}
			data[user] = []byte("p" + hex.EncodeToString(secret))
		}
		return data, nil
	})
}

// noneIssued reports that none of the certificates is there.
func (k *Keeper) noneIssued(ctx context.Context) (bool, error) {
	for _, w := range k.cfg.wanted() {
		_, err := k.cfg.Core.CoreV1().Secrets(k.cfg.Namespace).Get(ctx, w.secret, metav1.GetOptions{})
		if !kube.IsNotFound(err) {
			return false, err
		}
	}
	return true, nil
}

// keep gives a Secret the data that change returns for the data it has, never nil. It is written only if that
// differs, and only over the version that was read.
func (k *Keeper) keep(ctx context.Context, name string, kind corev1.SecretType, change func(map[string][]byte) (map[string][]byte, error)) error {
	secrets := k.cfg.Core.CoreV1().Secrets(k.cfg.Namespace)
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	missing := kube.IsNotFound(err)
	switch {
	case missing:
		labels := map[string]string{"app.kubernetes.io/managed-by": "millwright-certificates"}
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.cfg.Namespace, Name: name, Labels: labels}, Type: kind}
	case err != nil:
		return fmt.Errorf("get secret %s: %w", name, err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if err := k.cfg.Reliable(); err != nil { // the API server's answer has just said what time it is
		return fmt.Errorf("keep secret %s: %w", name, err)
	}
	data, err := change(secret.Data)
	if err != nil {
		return err
	}
	if !missing && maps.EqualFunc(secret.Data, data, bytes.Equal) {
		return nil
	}
	secret.Data = data
	if missing {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write secret %s: %w", name, err)
	}
	return nil
}
