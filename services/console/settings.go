package console

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Name of the service.
const Name = "console"

// AddressDefault is where the console listens unless set otherwise.
const AddressDefault = ":8444"

// Settings of the console.
type Settings struct {
	// Address it listens on; empty: it does not run.
	Address string
	// CertFile and KeyFile of its certificate, read again when they change; empty: it makes its own.
	CertFile, KeyFile string
	// Names that its own certificate is for, besides those of this host.
	Names []string
	// TrustConfigMap, as NAMESPACE/NAME, is where it says by what certificate it is known; empty: nowhere.
	TrustConfigMap string
	// ProxyCAFile of who signs the client certificate of a proxy that signs people in; empty: there is none.
	// ProxyNames may its certificate be for; empty: any.
	ProxyCAFile string
	ProxyNames  []string
	// ProxyUserHeader and ProxyGroupsHeader are the headers in which it says who asks; ProxyPrefix comes
	// before these names.
	ProxyUserHeader, ProxyGroupsHeader, ProxyPrefix string
	// TeamLabel is the key of the label of pods that names their team, by which savings are told; empty:
	// none.
	TeamLabel string
}

// Bind defines the flags.
func (s *Settings) Bind(f *pflag.FlagSet) {
	f.StringVar(&s.Address, "console-address", AddressDefault, "address the console listens on with TLS; empty: no console")
	f.StringVar(&s.CertFile, "console-tls-cert-file", "", "certificate of the console; empty: it makes its own, signed by a CA of its own")
	f.StringVar(&s.KeyFile, "console-tls-key-file", "", "key of that certificate")
	f.StringVar(&s.TrustConfigMap, "console-trust-configmap", "", "ConfigMap, as NAMESPACE/NAME, in which it publishes by what certificate it is known; it must be there; empty: none")
	f.StringVar(&s.ProxyCAFile, "console-proxy-ca-file", "", "PEM file of who signs the client certificate of a proxy that signs people in; empty: no proxy is trusted")
	f.StringSliceVar(&s.ProxyNames, "console-proxy-names", nil, "names that this certificate may be for; empty: any that is signed so")
	f.StringVar(&s.ProxyUserHeader, "console-proxy-user-header", "X-Forwarded-User", "header in which the proxy says who asks")
	f.StringVar(&s.ProxyGroupsHeader, "console-proxy-groups-header", "X-Forwarded-Groups", "header in which it says of which groups, separated by commas")
	f.StringVar(&s.ProxyPrefix, "console-proxy-prefix", "", "what comes before these names for the API server, such as oidc:")
	f.StringVar(&s.TeamLabel, "console-team-label", "", "key of the label of pods that names their team, such as team, by which savings are told; empty: they are not told by team")
	f.StringSliceVar(&s.Names, "console-names", nil, "host names and addresses by which people reach the console, for a certificate of its own")
}

// Validate reports the settings that make no sense, each by its flag.
func (s *Settings) Validate() error {
	var errs []error
	if s.Address != "" {
		_, port, err := net.SplitHostPort(s.Address)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
			errs = append(errs, fmt.Errorf("--console-address is as in :8444 or 127.0.0.1:8444, not %q", s.Address))
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		errs = append(errs, errors.New("--console-tls-cert-file and --console-tls-key-file go together"))
	}
	if s.TrustConfigMap != "" {
		if namespace, name := s.trust(); namespace == "" || name == "" || strings.Contains(name, "/") {
			errs = append(errs, fmt.Errorf("--console-trust-configmap is NAMESPACE/NAME, not %q", s.TrustConfigMap))
		}
	}
	if s.ProxyCAFile != "" && (!token(s.ProxyUserHeader) || !token(s.ProxyGroupsHeader) || strings.EqualFold(s.ProxyUserHeader, s.ProxyGroupsHeader)) {
		errs = append(errs, fmt.Errorf("--console-proxy-user-header and --console-proxy-groups-header are names of two headers, not %q and %q", s.ProxyUserHeader, s.ProxyGroupsHeader))
	}
	if strings.HasPrefix(s.ProxyPrefix, "system:") {
		errs = append(errs, errors.New("--console-proxy-prefix: names that begin with system: are the cluster's own"))
	}
	if s.TeamLabel != "" {
		if why := validation.IsQualifiedName(s.TeamLabel); len(why) > 0 {
			errs = append(errs, fmt.Errorf("--console-team-label is the key of a label, not %q: %s", s.TeamLabel, strings.Join(why, "; ")))
		}
	}
	return errors.Join(errs...)
}

// token: it can be the name of a header, and of none that other things are read from.
func token(name string) bool {
	return httpguts.ValidHeaderFieldName(name) && !slices.Contains([]string{"authorization", "cookie", "host", "origin"}, strings.ToLower(name))
}

// trust is the namespace and the name of TrustConfigMap.
func (s *Settings) trust() (namespace, name string) {
	namespace, name, _ = strings.Cut(s.TrustConfigMap, "/")
	return namespace, name
}
