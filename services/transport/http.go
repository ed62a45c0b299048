package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// EtcdHTTP returns a client for pages that etcd's members serve, with the certificates for etcd.
func (s *Security) EtcdHTTP() (*http.Client, error) {
	return httpClient(s.EtcdCAFile, s.EtcdCertFile, s.EtcdKeyFile)
}

// NATSHTTP returns a client for monitoring pages of NATS, with the certificates for NATS.
func (s *Security) NATSHTTP() (*http.Client, error) {
	return httpClient(s.NATSCAFile, s.NATSCertFile, s.NATSKeyFile)
}

// httpClient reads the roots once, an empty file being those of the system, and the client certificate for
// each connection, of which it keeps none: certificates are rotated.
func httpClient(ca, cert, key string) (*http.Client, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		data, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read roots: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("read roots: no certificate in %s", ca)
		}
	}
	if cert != "" {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("read client certificate: %w", err)
			}
			return &pair, nil
		}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}, nil
}
