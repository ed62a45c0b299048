package natsbus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
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

func TestAReaderReadsAll(t *testing.T) {
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

	if state, err := reader.State(t.Context()); err != nil || state.Last != 3 {
		t.Errorf("state %+v, %v; want the watcher's three messages", state, err)
	}
}

// TestAReaderHearsOfWhatIsStored: it need not look for messages by itself.
func TestAReaderHearsOfWhatIsStored(t *testing.T) {
	server := startSecured(t)
	watcher := server.open(t, server.config("watcher", "w-secret", false))
	cfg := server.config("reader", "r-secret", true)
	cfg.lookEvery = time.Hour
	reader := server.open(t, cfg)
	send(t, watcher, 1)
	enough := errors.New("enough")
	err := reader.Consume(t.Context(), 1, func(m events.Message) error {
		if m.Sequence == 5 {
			return enough
		}
		go func() { _ = watcher.Publish(t.Context(), []byte("next")) }()
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

// attack is a message that a reader's connection sends, with a reply subject if there is one.
type attack struct{ subject, reply, body string }

// attacks on a stream and a bucket by somebody who has the reader's password and sends whatever he likes.
func attacks(stream, bucket, observations string) []attack {
	var all []attack
	for _, target := range []string{observations, "$O." + bucket + ".M.a2VwdA==", "$JS.API.STREAM.DELETE." + stream, "$JS.API.STREAM.PURGE.OBJ_" + bucket} {
		all = append(all,
			attack{subject: target, body: "{}"},
			// the server's answer is to land in the stream
			attack{"$JS.API.INFO", target, ""},
			attack{"$JS.API.STREAM.NAMES", target, ""},
			attack{"$JS.API.STREAM.INFO." + stream, target, ""},
			attack{"$JS.API.STREAM.MSG.GET." + stream, target, `{"seq":1}`},
			attack{"$JS.API.DIRECT.GET." + stream, target, `{"seq":1}`},
			attack{"$JS.API.DIRECT.GET." + stream, target, `{"seq":1,"batch":10}`},
			attack{"$JS.API.DIRECT.GET.OBJ_" + bucket, target, `{"seq":1}`},
			// the server is to send what it has stored there
			attack{"$JS.API.CONSUMER.CREATE.OBJ_" + bucket, "", `{"stream_name":"OBJ_` + bucket + `","config":{"deliver_subject":"` + target + `","deliver_policy":"all","ack_policy":"none"}}`},
			attack{"$JS.API.CONSUMER.CREATE.OBJ_" + bucket + ".thief", "", `{"stream_name":"OBJ_` + bucket + `","config":{"name":"thief","deliver_subject":"` + target + `","ack_policy":"none"}}`},
			attack{"$JS.API.CONSUMER.DURABLE.CREATE.OBJ_" + bucket + ".thief", "", `{"stream_name":"OBJ_` + bucket + `","config":{"durable_name":"thief","deliver_subject":"` + target + `","ack_policy":"none"}}`},
			attack{"$JS.API.CONSUMER.MSG.NEXT." + stream + ".any", target, ""},
		)
	}
	return append(all,
		attack{"$JS.API.STREAM.CREATE.THIEF", "", `{"name":"THIEF","sources":[{"name":"` + stream + `"}],"republish":{"src":">","dest":"` + observations + `"}}`},
		attack{"$JS.API.STREAM.CREATE.MIRROR", "", `{"name":"MIRROR","mirror":{"name":"` + stream + `","external":{"api":"$JS.API"}}}`},
		attack{"$JS.API.STREAM.UPDATE." + stream, "", `{"name":"` + stream + `","subjects":["` + observations + `","_INBOX.>"]}`},
		attack{"$JS.API.STREAM.MSG.DELETE." + stream, "", `{"seq":1}`},
		attack{"$JS.API.STREAM.SNAPSHOT." + stream, observations, `{"deliver_subject":"` + observations + `"}`},
		attack{"$JS.API.STREAM.RESTORE.THIEF", "", `{}`},
		attack{"$JS.API.STREAM.PURGE." + stream, "", ""},
		attack{"$JS.ACK." + stream + ".c.1.1.1.1.1", observations, ""},
		attack{"$SYS.REQ.ACCOUNT.PING.CONNZ", observations, ""},
		attack{"_R_.AAAAAA.BBBBBB", observations, "{}"},
		attack{"millwright.stored.x", "", "{}"},
	)
}

// TestNoReaderWritesWhateverItSends: the stream, the bucket and the list of streams are the same after all
// attacks.
func TestNoReaderWritesWhateverItSends(t *testing.T) {
	server := startSecured(t)
	watcher := server.open(t, server.config("watcher", "w-secret", false))
	send(t, watcher, 3)
	if err := watcher.Blobs().Put(t.Context(), "kept", []byte("blob")); err != nil {
		t.Fatal(err)
	}
	standing := func() string {
		var text strings.Builder
		for _, name := range []string{watcher.cfg.streamName(1), "OBJ_" + watcher.cfg.bucket()} {
			stream, err := watcher.js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			i := stream.CachedInfo()
			fmt.Fprintf(&text, "%s: %v, last %d, %d messages, %d consumers\n", name, i.Config.Subjects, i.State.LastSeq, i.State.Msgs, i.State.Consumers)
		}
		streams := watcher.js.StreamNames(t.Context())
		for name := range streams.Name() {
			fmt.Fprintln(&text, name)
		}
		return text.String()
	}
	before := standing()
	conn, _ := connectAndListen(t, server.config("reader", "r-secret", false))
	for _, a := range attacks(watcher.cfg.streamName(1), watcher.cfg.bucket(), watcher.cfg.subject(1)) {
		if err := conn.PublishMsg(&nats.Msg{Subject: a.subject, Reply: a.reply, Data: []byte(a.body)}); err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		send(t, watcher, 0)
		if after := standing(); after != before {
			t.Fatalf("%+v changed\n%sto\n%s", a, before, after)
		}
	}
	settle(t, server)
	if after := standing(); after != before {
		t.Fatalf("after all attacks\n%swas\n%s", before, after)
	}
}

// settle returns when the server has done what it was asked before: questions of one connection are answered
// in order.
func settle(t *testing.T, server secured) {
	t.Helper()
	reader := server.open(t, server.config("reader", "r-secret", true))
	for range 20 {
		if _, err := reader.State(t.Context()); err != nil {
			t.Fatal(err)
		}
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
