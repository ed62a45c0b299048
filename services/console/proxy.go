package console

import (
	"crypto/x509"
	"fmt"
	"os"

	"millwright/services/console/access"
)

// proxyOf is the proxy that the settings trust; nil: there is none. Its authority is read for each request
// that it sends on, for it may be replaced.
func proxyOf(s Settings) (*access.Proxy, error) {
	if s.ProxyCAFile == "" {
		return nil, nil
	}
	roots := func() (*x509.CertPool, error) {
		data, err := os.ReadFile(s.ProxyCAFile)
		if err != nil {
			return nil, fmt.Errorf("--console-proxy-ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--console-proxy-ca-file: %s holds no certificate", s.ProxyCAFile)
		}
		return pool, nil
	}
	_, err := roots()
	return &access.Proxy{UserHeader: s.ProxyUserHeader, GroupsHeader: s.ProxyGroupsHeader, Prefix: s.ProxyPrefix, Names: s.ProxyNames, Roots: roots}, err
}
