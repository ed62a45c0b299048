package etcdlog

import (
	"crypto/tls"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// DialConfig says where an external etcd is. Everything but Endpoints is optional.
type DialConfig struct {
	Endpoints []string
	Security
	// TLS is used in place of the files of Security.
	TLS *tls.Config
}

// Security of the connection to etcd.
type Security struct {
	// CAFile holds the roots to trust; CertFile and KeyFile are this client's certificate, read again for
	// each connection, so that it can be rotated.
	CAFile, CertFile, KeyFile string
	Username, Password        string
}

// tls is nil if no file is given: https endpoints are then trusted by the system's roots.
func (s Security) tls() (*tls.Config, error) {
	if s.CAFile == "" && s.CertFile == "" {
		return nil, nil
	}
	return transport.TLSInfo{TrustedCAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile}.ClientConfig()
}

// Dial connects to etcd; it does not wait until etcd answers. The caller closes the client after its logs.
// The client retries and reports errors only by returning them: it writes no log of its own.
func Dial(cfg DialConfig) (*clientv3.Client, error) {
	tls, err := cfg.TLS, error(nil)
	if tls == nil {
		tls, err = cfg.tls()
	}
	if err != nil {
		return nil, fmt.Errorf("read certificates for etcd: %w", err)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints, TLS: tls, Username: cfg.Username, Password: cfg.Password,
		DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		MaxCallSendMsgSize: 4 << 20, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("dial etcd %v: %w", cfg.Endpoints, err)
	}
	return c, nil
}
