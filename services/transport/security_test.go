package transport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		security Security
		etcd     string
		nats     string
		refused  string
	}{
		"TLS to other hosts":                 {etcd: "https://etcd-0:2379", nats: "tls://nats-0:4222,tls://nats-1:4222"},
		"plain on this host":                 {etcd: "http://127.0.0.1:2379", nats: "nats://localhost:4222,nats://[::1]:4222"},
		"a unix socket":                      {etcd: "unix:///run/etcd", nats: "nats://127.0.0.1"},
		"an address without scheme":          {etcd: "127.0.0.1:2379", nats: "nats://127.0.0.1"},
		"plain etcd elsewhere":               {etcd: "http://etcd-0:2379", refused: "--etcd-endpoints: http://etcd-0:2379 is on another host"},
		"etcd elsewhere without scheme":      {etcd: "10.0.0.1:2379", refused: "--etcd-endpoints"},
		"plain NATS elsewhere":               {nats: "nats://127.0.0.1,nats://u:secret@n:4222", refused: "--nats-url: nats://u:xxxxx@n:4222"},
		"plain NATS, but roots demand TLS":   {nats: "nats://n:4222", security: Security{NATSCAFile: "ca.pem"}},
		"roots do not make http https":       {etcd: "http://etcd-0:2379", security: Security{EtcdCAFile: "ca.pem"}, refused: "--etcd-endpoints"},
		"plain elsewhere where it is wanted": {etcd: "http://etcd:2379", nats: "nats://nats:4222", security: Security{AllowPlaintext: true}},
		"a certificate without key":          {security: Security{EtcdCertFile: "c.pem"}, refused: "--etcd-cert-file and --etcd-key-file go together"},
		"a key without certificate":          {security: Security{NATSKeyFile: "k.pem"}, refused: "--nats-cert-file and --nats-key-file go together"},
		"a user without password":            {security: Security{EtcdUsername: "u"}, refused: "--etcd-username and --etcd-password-file go together"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var etcd []string
			if c.etcd != "" {
				etcd = []string{c.etcd}
			}
			err := c.security.Check(etcd, c.nats)
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want %q", err, c.refused)
			case err != nil && strings.Contains(err.Error(), "secret@"):
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestThePasswordIsReadFromItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	s := Security{EtcdUsername: "u", EtcdPasswordFile: file}
	if _, err := s.Etcd(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Etcd(); err != nil || e.Password != "secret" {
		t.Errorf("got %+v, %v", e, err)
	}
}
