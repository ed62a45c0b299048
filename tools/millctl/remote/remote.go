package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"millwright/services/console/trust"
)

const (
	// connectTimeout bounds finding the console and the way to it; requestTimeout each call to the API
	// server.
	connectTimeout = 60 * time.Second
	requestTimeout = 15 * time.Second
	// roundsMax is how often pods and certificate are looked up anew, roundPause the pause between: a pod
	// that has just started publishes its certificate a moment later.
	roundsMax  = 4
	roundPause = 2 * time.Second
)

// ErrUnreachable: the console cannot be asked.
var ErrUnreachable = errors.New("the console cannot be reached")

// Settings say where the console is.
type Settings struct {
	// Kubeconfig, Context and Namespace as in kubectl; empty: as kubectl finds them. Namespace is that of the
	// objects that are asked about.
	Kubeconfig, Context, Namespace string
	// InstalledIn is the namespace of the console's Service; empty: any, and then the user's own token is not
	// sent there.
	InstalledIn string
	// Account, as NAMESPACE/NAME, is a ServiceAccount to ask as; empty: the user, or if they have no token or
	// have not said where the console is, the operator's ServiceAccount.
	Account string
	// URL of a console that is reached without the API server, and CAFile by which it is known; empty: those
	// of this machine.
	URL, CAFile string
}

// Bind defines the flags.
func (s *Settings) Bind(f *pflag.FlagSet) {
	f.StringVar(&s.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, ~/.kube/config, in-cluster)")
	f.StringVar(&s.Context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVarP(&s.Namespace, "namespace", "n", "", "namespace of pods and CapacityBuffers that are named without one (default: the context's)")
	f.StringVar(&s.InstalledIn, "console-namespace", os.Getenv("CONSOLE_NAMESPACE"), "namespace of the console, to which your own token may be sent (default: found by its Service in all of them)")
	f.StringVar(&s.Account, "console-service-account", os.Getenv("CONSOLE_SERVICE_ACCOUNT"), "ServiceAccount, as NAMESPACE/NAME, to ask the console as (default: your own token if the console's namespace is named, or else that of the operator's ServiceAccount)")
	f.StringVar(&s.URL, "console-url", os.Getenv("CONSOLE_URL"), "URL of the console, if it can be reached without the API server")
	f.StringVar(&s.CAFile, "console-ca-file", os.Getenv("CONSOLE_CA_FILE"), "certificates by which the console at --console-url is known (default: those of this machine)")
}

// Cluster is what a kubeconfig leads to.
type Cluster struct {
	Config *rest.Config
	Core   kubernetes.Interface
	// Namespace of the context, or the one asked for.
	Namespace string
	settings  Settings
}

// Loader reads the kubeconfig as kubectl does.
func (s *Settings) Loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: s.Context}
	overrides.Context.Namespace = s.Namespace
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// Load returns what the kubeconfig leads to.
func (s *Settings) Load() (*Cluster, error) {
	loader := s.Loader()
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("%w: there is no kubeconfig: name one with --kubeconfig, or read the log itself with --data-dir, or --etcd-endpoints and --nats-url", ErrUnreachable)
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return &Cluster{Config: config, Core: core, Namespace: namespace, settings: *s}, nil
}

// Connect finds the console and a token for it. The caller must Close what it returns.
func (c *Cluster) Connect(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if c.settings.URL != "" {
		return c.connectDirectly(ctx)
	}
	found, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	client, err := c.reach(ctx, found)
	if err != nil {
		return nil, err
	}
	if client.token, client.asked, err = c.token(ctx, found); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// connectDirectly goes to a console that is reached by its URL.
func (c *Cluster) connectDirectly(ctx context.Context) (*Client, error) {
	base, err := url.Parse(c.settings.URL)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("--console-url is as in https://console.example.com, not %q", c.settings.URL)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.settings.CAFile != "" {
		text, err := os.ReadFile(c.settings.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read --console-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read --console-ca-file %s: no certificate", c.settings.CAFile)
		}
	}
	client := &Client{base: "https://" + base.Host, transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment}}
	if client.token, client.asked, err = c.token(ctx, service{}); err != nil {
		return nil, err
	}
	return client, nil
}

// reach goes to one of the console's pods whose certificate is known.
func (c *Cluster) reach(ctx context.Context, found service) (*Client, error) {
	var last error
	for round := range roundsMax {
		if round > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(roundPause):
			}
		}
		client, err := c.reachOnce(ctx, found)
		if err == nil {
			return client, nil
		}
		if last = err; ctx.Err() != nil || !worthwhile(err) {
			break
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, last)
}

// worthwhile reports that the same may be otherwise in a moment: a pod that starts or ends.
func worthwhile(err error) bool {
	var verification *tls.CertificateVerificationError
	return !errors.Is(err, errForbidden) && (errors.As(err, &verification) || errors.Is(err, errNoPod) || errors.Is(err, trust.ErrNothing) || errors.Is(err, errTunnel))
}

func (c *Cluster) reachOnce(ctx context.Context, found service) (*Client, error) {
	anchors, err := trust.Read(ctx, c.Core, found.namespace, found.name)
	if err != nil {
		return nil, fmt.Errorf("learn by which certificate the console is known: %w", err)
	}
	places, err := c.pods(ctx, found)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: anchors.Pool(), ServerName: anchors.ServerName}
	var errs []error
	for _, p := range places {
		tunnel, err := c.dig(ctx, p)
		if err == nil {
			if err = handshake(ctx, tunnel, config); err == nil {
				return &Client{base: "https://" + anchors.ServerName, closer: tunnel,
					transport: &http.Transport{TLSClientConfig: config, DialContext: tunnel.dial, MaxConnsPerHost: connectionsMax}}, nil
			}
			tunnel.Close()
		}
		errs = append(errs, fmt.Errorf("pod %s/%s: %w", p.namespace, p.pod, err))
	}
	return nil, errors.Join(errs...)
}

// handshake shows that what is at the end of a tunnel is the console.
func handshake(ctx context.Context, t *tunnel, config *tls.Config) error {
	conn, err := t.dial(ctx, "", "")
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := tls.Client(conn, config).HandshakeContext(ctx); err != nil {
		if cause := t.failure(); cause != nil {
			return cause
		}
		return fmt.Errorf("verify the console's certificate: %w", err)
	}
	return nil
}
