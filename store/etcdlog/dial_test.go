package etcdlog_test

import (
	"context"
	"crypto/x509"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"millwright/store/etcdlog"
)

// startSecured runs an etcd that demands client certificates, and returns its endpoint and the files of a
// client.
func startSecured(t testing.TB) (string, etcdlog.Security) {
	t.Helper()
	dir := t.TempDir()
	// One self-signed certificate is root, server and client.
	info, err := transport.SelfCert(zap.NewNop(), filepath.Join(dir, "tls"), []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	info.TrustedCAFile, info.ClientCertAuth = info.CertFile, true
	return startWith(t, info), etcdlog.Security{CAFile: info.CertFile, CertFile: info.CertFile, KeyFile: info.KeyFile}
}

// startWith runs an etcd that talks to clients by TLS alone, and returns its endpoint.
func startWith(t testing.TB, info transport.TLSInfo) (endpoint string) {
	t.Helper()
	dir := t.TempDir()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.ClientTLSInfo = filepath.Join(dir, "data"), "fatal", info
	client, peer := url.URL{Scheme: "https", Host: "127.0.0.1:0"}, url.URL{Scheme: "unix", Host: filepath.Join(dir, "peer")}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{client}, []url.URL{peer}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:2379"}}, []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.InitialCluster = cfg.Name + "=" + cfg.AdvertisePeerUrls[0].String()
	cfg.BcryptCost = 4 // the least: what counts is how often a password is checked
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd is not ready")
	}
	return "https://" + server.Clients[0].Addr().String()
}

func TestTheLogOverTLSWithUsers(t *testing.T) {
	endpoint, security := startSecured(t)
	root := dialSecured(t, endpoint, security)
	setUpUsers(t, root, "/millwright/prod/")

	security.Username, security.Password = "millwright", "m-secret"
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	log, err := etcdlog.Open(ctx, etcdlog.Config{Client: dialSecured(t, endpoint, security), Cluster: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if head, err := log.Head(ctx); err != nil || head.Seq != 1 {
		t.Errorf("head %+v, %v", head, err)
	}

	cases := map[string]func(*etcdlog.Security){
		"no client certificate": func(s *etcdlog.Security) { s.CertFile, s.KeyFile = "", "" },
		"a wrong password":      func(s *etcdlog.Security) { s.Password = "guess" },
		"no user":               func(s *etcdlog.Security) { s.Username, s.Password = "", "" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			changed := security
			change(&changed)
			if err := touch(t, endpoint, changed); err == nil {
				t.Error("let in")
			}
		})
	}
	t.Run("the log of another cluster", func(t *testing.T) {
		client := dialSecured(t, endpoint, security)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := client.Get(ctx, "/millwright/other/head"); err == nil {
			t.Error("the user may read what its role does not name")
		}
	})
}

func dialSecured(t testing.TB, endpoint string, s etcdlog.Security) *clientv3.Client {
	t.Helper()
	c, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: []string{endpoint}, Security: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// touch dials and reads a key; the error is of whichever is refused.
func touch(t *testing.T, endpoint string, s etcdlog.Security) error {
	c, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: []string{endpoint}, Security: s})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = c.Get(ctx, "/millwright/prod/head")
	return err
}

// setUpUsers makes root, and a user that may read and write under prefix alone, as docs/operations.md tells.
func setUpUsers(t testing.TB, c *clientv3.Client, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	steps := []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "r-secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.RoleAdd(ctx, "millwright"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "millwright", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(authpb.READWRITE))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "millwright", "m-secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "millwright", "millwright"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func TestDialNamesTheFileThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.pem")
	_, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: []string{"https://127.0.0.1:1"}, Security: etcdlog.Security{CAFile: missing}})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}
