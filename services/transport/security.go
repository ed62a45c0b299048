// Package transport says how this process's connections to an external etcd and NATS are protected: TLS,
// client certificates, users. millwright and millctl share it.
package transport

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"millwright/events/natsbus"
	"millwright/store/etcdlog"
)

// Security of the connections to an external etcd and NATS.
type Security struct {
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	EtcdUsername, EtcdPasswordFile        string

	NATSCAFile, NATSCertFile, NATSKeyFile string
	NATSCredentialsFile                   string

	// AllowPlaintext permits connections without TLS to other hosts.
	AllowPlaintext bool
}

// Bind defines the flags.
func (s *Security) Bind(f *pflag.FlagSet) {
	f.StringVar(&s.EtcdCAFile, "etcd-ca-file", "", "PEM file of the roots to trust for etcd")
	f.StringVar(&s.EtcdCertFile, "etcd-cert-file", "", "PEM file of the client certificate for etcd; with --etcd-key-file")
	f.StringVar(&s.EtcdKeyFile, "etcd-key-file", "", "PEM file of the client certificate's key for etcd")
	f.StringVar(&s.EtcdUsername, "etcd-username", "", "user of etcd; with --etcd-password-file")
	f.StringVar(&s.EtcdPasswordFile, "etcd-password-file", "", "file that holds the password of the etcd user")
	f.StringVar(&s.NATSCAFile, "nats-ca-file", "", "PEM file of the roots to trust for NATS; demands TLS")
	f.StringVar(&s.NATSCertFile, "nats-cert-file", "", "PEM file of the client certificate for NATS; with --nats-key-file")
	f.StringVar(&s.NATSKeyFile, "nats-key-file", "", "PEM file of the client certificate's key for NATS")
	f.StringVar(&s.NATSCredentialsFile, "nats-credentials-file", "", "file of a NATS user's JWT and seed; a user and password may stand in --nats-url instead")
	f.BoolVar(&s.AllowPlaintext, "allow-plaintext", false, "connect to etcd and NATS on other hosts without TLS")
}

// EnvironmentName of a flag: the variable that sets it.
func EnvironmentName(flag string) string {
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// pair of flags that go together.
type pair struct{ first, firstValue, second, secondValue string }

// Check refuses incomplete pairs, and connections without TLS that leave this host.
func (s *Security) Check(etcd []string, natsURL string) error {
	var errs []error
	for _, p := range []pair{
		{"etcd-cert-file", s.EtcdCertFile, "etcd-key-file", s.EtcdKeyFile},
		{"etcd-username", s.EtcdUsername, "etcd-password-file", s.EtcdPasswordFile},
		{"nats-cert-file", s.NATSCertFile, "nats-key-file", s.NATSKeyFile},
	} {
		if (p.firstValue == "") != (p.secondValue == "") {
			errs = append(errs, fmt.Errorf("--%s and --%s go together", p.first, p.second))
		}
	}
	if s.AllowPlaintext {
		return errors.Join(errs...)
	}
	for _, endpoint := range etcd {
		if leavesHostPlain(endpoint) {
			errs = append(errs, plaintextError("--etcd-endpoints", endpoint, "https://"))
		}
	}
	for server := range strings.SplitSeq(natsURL, ",") {
		if server = strings.TrimSpace(server); s.NATSCAFile == "" && server != "" && leavesHostPlain(server) {
			errs = append(errs, plaintextError("--nats-url", server, "tls://"))
		}
	}
	return errors.Join(errs...)
}

func plaintextError(flag, endpoint, scheme string) error {
	return fmt.Errorf("%s: %s is on another host and would be spoken to without TLS: use %s, or --allow-plaintext", flag, Redacted(endpoint), scheme)
}

// leavesHostPlain: the endpoint is neither TLS nor on this host. A name other than localhost counts as
// another host.
func leavesHostPlain(endpoint string) bool {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, rest = "", endpoint
	}
	if slices.Contains([]string{"https", "tls", "wss", "unix", "unixs"}, scheme) {
		return false
	}
	u, err := url.Parse("//" + rest)
	if err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Redacted replaces the passwords in comma-separated URLs.
func Redacted(urls string) string {
	var out []string
	for text := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		switch {
		case err == nil:
			text = u.Redacted()
		case strings.Contains(text, "@"):
			text = "xxxxx" + text[strings.LastIndex(text, "@"):]
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// Etcd is the part that the log's client needs.
func (s *Security) Etcd() (etcdlog.Security, error) {
	e := etcdlog.Security{CAFile: s.EtcdCAFile, CertFile: s.EtcdCertFile, KeyFile: s.EtcdKeyFile, Username: s.EtcdUsername}
	if s.EtcdPasswordFile == "" {
		return e, nil
	}
	password, err := os.ReadFile(s.EtcdPasswordFile)
	if err != nil {
		return e, fmt.Errorf("--etcd-password-file: %w", err)
	}
	e.Password = strings.TrimRight(string(password), "\r\n")
	return e, nil
}

// NATS is the part that the stream's client needs.
func (s *Security) NATS() natsbus.Security {
	return natsbus.Security{CAFile: s.NATSCAFile, CertFile: s.NATSCertFile, KeyFile: s.NATSKeyFile, CredentialsFile: s.NATSCredentialsFile}
}
