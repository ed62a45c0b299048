package certificates

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"

	"millwright/services/internal/clock"
	"millwright/services/internal/pki"
	"millwright/store/etcdlog"
)

const (
	// every is how often all is looked at; again, after an error.
	every = 10 * time.Minute
	again = 5 * time.Second
	// passTimeout bounds one pass.
	passTimeout = time.Minute
	// staleAfter is how old the last good pass may be.
	staleAfter = time.Hour
	// authorityName is the common name of the CA.
	authorityName = "millwright-ca"
)

// Settings say whose secrets are kept.
type Settings struct {
	// Cluster whose keys in etcd the services may use.
	Cluster string
	// Namespace and Prefix: the names of all objects begin with the prefix.
	Namespace, Prefix string
	// EtcdMembers and NATSMembers of the StatefulSets; 0: that server is not the chart's.
	EtcdMembers, NATSMembers int
	// Issued: somebody else, such as cert-manager, makes and renews the certificates, in Secrets of the same
	// names.
	Issued bool
}

// Validate reports all that is missing.
func (s Settings) Validate() error {
	var errs []error
	if s.Cluster == "" {
		errs = append(errs, errors.New("--cluster-name is required"))
	}
	if s.Prefix == "" || s.Namespace == "" {
		errs = append(errs, errors.New("--prefix and --system-namespace must not be empty"))
	}
	if s.EtcdMembers < 0 || s.NATSMembers < 0 || s.EtcdMembers+s.NATSMembers == 0 {
		errs = append(errs, errors.New("--etcd-members and --nats-members: neither may be negative, and not both 0"))
	}
	return errors.Join(errs...)
}

// Config of a Keeper. All is required but EtcdEndpoints.
type Config struct {
	Settings
	Core kubernetes.Interface
	// Now is the time, and Reliable why it cannot be relied on: a clock a year ahead would replace
	// everything.
	Now      func() time.Time
	Reliable func() error
	Logger   zerolog.Logger
	// Registerer of the metrics.
	Registerer prometheus.Registerer
	// EtcdEndpoints are those of the chart's members unless a test has others.
	EtcdEndpoints []string
}

// Keeper keeps the secrets.
type Keeper struct {
	cfg     Config
	metrics *metrics

	mu   sync.Mutex
	good time.Time
	err  error
}

// New returns a Keeper. It makes no call.
func New(cfg Config) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.EtcdEndpoints == nil {
		cfg.EtcdEndpoints = cfg.etcdEndpoints()
	}
	return &Keeper{cfg: cfg, metrics: newMetrics(cfg.Registerer), err: errors.New("nothing was looked at yet")}, nil
}

// Ready reports that the last passes went well.
func (k *Keeper) Ready() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil && k.cfg.Now().Sub(k.good) > staleAfter {
		return k.err
	}
	return nil
}

// Run makes passes until the context ends.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		err := k.pass(ctx)
		wait := every
		if err != nil && ctx.Err() == nil {
			wait = again
			k.metrics.failures.Inc()
			k.cfg.Logger.Warn().Err(err).Msg("certificates or users could not be brought up to date, trying again")
		}
		if clock.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// pass looks at everything once.
func (k *Keeper) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	err := k.sync(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err == nil {
		k.good = k.cfg.Now()
	}
	return err
}

func (k *Keeper) sync(ctx context.Context) error {
	if k.cfg.Issued {
		return k.syncIssued(ctx)
	}
	a, err := k.authority(ctx)
	if err != nil {
		return err
	}
	first, err := k.noneIssued(ctx)
	if err != nil {
		return err
	}
	known := k.sameForAll(a.Bundle())
	if first { // no pod runs yet, so none is restarted by what announces this CA
		if err := k.announce(ctx, known); err != nil {
			return err
		}
	}
	for _, w := range k.cfg.wanted() {
		leaf, err := k.leaf(ctx, a, w)
		if err != nil {
			return err
		}
		if w.secret == k.cfg.name("nats-server") {
			known.nats = leaf
		}
	}
	return k.finish(ctx, known, func() (*pki.Pair, error) {
		return pki.NewLeaf(k.cfg.Now(), a.CA, pki.Leaf{CommonName: etcdlog.RootUser, Client: true})
	})
}

// finish restarts who does not read by itself what has changed, and keeps passwords and users. root makes the
// certificate of etcd's root.
func (k *Keeper) finish(ctx context.Context, known known, root func() (*pki.Pair, error)) error {
	if err := k.announce(ctx, known); err != nil {
		return err
	}
	if err := k.passwords(ctx); err != nil { // the last that NATS's pods wait for before they start
		return err
	}
	return k.users(ctx, known, root)
}

func (s Settings) name(suffix string) string { return s.Prefix + "-" + suffix }

// host of a member of etcd or nats within the cluster.
func (s Settings) host(of string, member int) string {
	return fmt.Sprintf("%s-%d.%s.%s.svc", s.name(of), member, s.name(of), s.Namespace)
}
