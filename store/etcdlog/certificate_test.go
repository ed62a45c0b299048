package etcdlog_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/etcdlog"
)

// authority signs certificates into a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

// issue writes NAME.crt and NAME.key.
func (a *authority) issue(name string, template, parent *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer := a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// client is the security of a client whose certificate says that it is name.
func (a *authority) client(name string) etcdlog.Security {
	a.t.Helper()
	a.issue(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.cert)
	return etcdlog.Security{CAFile: a.file("ca.crt"), CertFile: a.file(name + ".crt"), KeyFile: a.file(name + ".key")}
}

// startCertified runs an etcd that knows its users by their certificates.
func startCertified(t *testing.T, a *authority) (endpoint string) {
	t.Helper()
	a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert)
	return startWith(t, transport.TLSInfo{CertFile: a.file("server.crt"), KeyFile: a.file("server.key"), TrustedCAFile: a.file("ca.crt"), ClientCertAuth: true})
}

// As docs/operations.md tells: users without password, each known by the common name of its certificate.
func TestAUserIsKnownByItsCertificate(t *testing.T) {
	a := newAuthority(t)
	endpoint := startCertified(t, a)
	root, ctx, prefix := dialSecured(t, endpoint, a.client("root")), bounded(t), "/millwright/prod/"
	for _, name := range []string{"root", "millwright"} {
		if _, err := root.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := root.RoleAdd(ctx, name); err != nil {
			t.Fatal(err)
		}
		if _, err := root.UserGrantRole(ctx, name, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := root.RoleGrantPermission(ctx, "millwright", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(authpb.READWRITE)); err != nil {
		t.Fatal(err)
	}
	if _, err := root.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	checked := counted(t, "Authenticate", "grpc_server_started_total")
	client := dialSecured(t, endpoint, a.client("millwright"))
	log, err := etcdlog.Open(ctx, etcdlog.Config{Client: client, Cluster: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	lead, err := etcdlog.NewElector(client, "prod").Campaign(ctx, store.Candidacy{Service: "lifecycle", Identity: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lead.Resign(context.Background()) }()
	if r, err := log.Append(ctx, store.Draft{Lease: lead.Lease()}); err != nil || r.Seq != 2 {
		t.Errorf("appended as %d, %v", r.Seq, err)
	}
	if _, err := client.Get(ctx, "/millwright/other/head"); err == nil {
		t.Error("the user may read what its role does not name")
	}
	if err := touch(t, endpoint, a.client("stranger")); err == nil {
		t.Error("a certificate of no user is let in")
	}
	if n := counted(t, "Authenticate", "grpc_server_started_total") - checked; n > 0 {
		t.Errorf("%v passwords were checked", n)
	}
}
