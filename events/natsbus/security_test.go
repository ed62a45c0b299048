package natsbus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"millwright/events"
)

// secured is a server that runs with the configuration we tell users to run it with.
type secured struct {
	url string
	// security of clients that have a certificate.
	security Security
}

func startSecured(t *testing.T) secured {
	t.Helper()
	dir := t.TempDir()
	writeCertificates(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	for name, value := range map[string]string{
		"NATS_SERVER_NAME": "test", "NATS_STORE_DIR": file("store"), "NATS_WATCHER_PASSWORD": "w-secret", "NATS_READER_PASSWORD": "r-secret",
		"NATS_CA_FILE": file("ca.pem"), "NATS_CERT_FILE": file("server.pem"), "NATS_KEY_FILE": file("server.key"),
	} {
		t.Setenv(name, value)
	}
	opts, err := natsserver.ProcessConfigFile("../../deploy/nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", natsserver.RANDOM_PORT, true, true
	server, err := natsserver.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	if !server.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return secured{url: server.Addr().String(), security: Security{CAFile: file("ca.pem"), CertFile: file("client.pem"), KeyFile: file("client.key")}}
}

func (s secured) config(user, password string, readOnly bool) Config {
	return Config{URL: "tls://" + user + ":" + password + "@" + s.url, Security: s.security, ReadOnly: readOnly,
		Cluster: testCluster, LogID: testLogID, CheckEvery: 20 * time.Millisecond, AckTimeout: time.Second}
}

func (s secured) open(t *testing.T, cfg Config) *Stream {
	t.Helper()
	stream, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

func TestAReaderReadsAllAndTheServerRefusesWhatItWrites(t *testing.T) {
	server := startSecured(t)
	if _, err := Open(t.Context(), server.config("reader", "r-secret", true)); !errors.Is(err, errNotMade) {
		t.Fatalf("opened before the watcher: %v", err)
	}
	watcher := server.open(t, server.config("watcher", "w-secret", false))
	send(t, watcher, 3)
	if err := watcher.Blobs().Put(t.Context(), "kept", []byte("blob")); err != nil {
		t.Fatal(err)
	}

	reader := server.open(t, server.config("reader", "r-secret", true))
	if data, err := reader.Blobs().Get(t.Context(), "kept"); err != nil || string(data) != "blob" {
		t.Errorf("blob %q, %v", data, err)
	}
	if names, err := reader.Blobs().List(t.Context(), ""); err != nil || len(names) != 1 {
		t.Errorf("blobs %q, %v", names, err)
	}
	enough := errors.New("enough")
	err := reader.Consume(t.Context(), 1, func(m events.Message) error {
		if m.Sequence == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("consume: %v", err)
	}

	// A client that does not keep to ReadOnly: the server refuses, whatever the client is.
	conn, refused := connectAndListen(t, server.config("reader", "r-secret", false))
	for _, subject := range []string{watcher.cfg.subject(1), "$JS.API.STREAM.PURGE." + watcher.cfg.streamName(1), "$JS.API.STREAM.CREATE.X", "$O." + watcher.cfg.bucket() + ".C.x"} {
		if err := conn.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !strings.Contains(err.Error(), `Publish to "`+subject+`"`) {
				t.Errorf("publish to %s: %v", subject, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("the server let the reader publish to %s", subject)
		}
	}
	if state, err := watcher.State(t.Context()); err != nil || state.Last != 3 {
		t.Errorf("state %+v, %v; want the watcher's three messages", state, err)
	}
}

// connectAndListen returns a connection and what the server complains of.
func connectAndListen(t *testing.T, cfg Config) (*nats.Conn, <-chan error) {
	t.Helper()
	refused := make(chan error, 16)
	opts := append(cfg.options(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	conn, err := nats.Connect(cfg.URL, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn, refused
}

func TestWhoIsNotKnownIsNotConnected(t *testing.T) {
	server := startSecured(t)
	cases := map[string]func(*Config){
		"a wrong password":               func(c *Config) { c.URL = strings.Replace(c.URL, "w-secret", "guess", 1) },
		"no user":                        func(c *Config) { c.URL = "tls://" + server.url },
		"no client certificate":          func(c *Config) { c.CertFile, c.KeyFile = "", "" },
		"a server of an unknown root":    func(c *Config) { c.CAFile = "" },
		"no TLS, though the server does": func(c *Config) { c.URL, c.Security = strings.Replace(c.URL, "tls://", "nats://", 1), Security{} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := server.config("watcher", "w-secret", false)
			change(&cfg)
			opts := append(cfg.options(), nats.RetryOnFailedConnect(false))
			if conn, err := nats.Connect(cfg.URL, opts...); err == nil {
				conn.Close()
				t.Error("connected")
			}
		})
	}
}

// writeCertificates writes ca.pem, and a server's and a client's certificate with their keys.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	write("ca.pem", "CERTIFICATE", der, err)
	for i, name := range []string{"server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		leaf := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
		write(name+".pem", "CERTIFICATE", der, err)
		der, err = x509.MarshalECPrivateKey(key)
		write(name+".key", "EC PRIVATE KEY", der, err)
	}
}
