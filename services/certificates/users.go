package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"millwright/services/internal/pki"
	"millwright/store/etcdlog"
)

func (s Settings) etcdEndpoints() []string {
	var out []string
	for i := range s.EtcdMembers {
		out = append(out, "https://"+s.host("etcd", i)+":2379")
	}
	return out
}

// users makes etcd's users as root. Where the CA is our own, root's certificate is made for this alone and
// kept nowhere.
func (k *Keeper) users(ctx context.Context, x known, makeRoot func() (*pki.Pair, error)) (err error) {
	if k.cfg.EtcdMembers == 0 {
		return nil
	}
	root, err := makeRoot()
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(x.trusted["etcd"])
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: k.cfg.EtcdEndpoints, TLS: &tls.Config{
		RootCAs: trusted, Certificates: []tls.Certificate{{Certificate: [][]byte{root.Cert.Raw}, PrivateKey: root.Key}},
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := etcdlog.EnsureUsers(ctx, client, k.cfg.Cluster, Services); err != nil {
		return fmt.Errorf("make users: %w", err)
	}
	return nil
}
