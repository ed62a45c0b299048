package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"

	"millwright/services/internal/service"
)

// Timing of the Lease, the same as Karpenter's (reference: operations §5).
const (
	Duration      = 15 * time.Second
	RenewDeadline = 10 * time.Second
	RetryPeriod   = 2 * time.Second
)

// NameDefault is the Lease with which Karpenter's replicas elect their leader.
const NameDefault = "karpenter-leader-election"

// heldEventFor is how long the same foreign holder is not reported again.
const heldEventFor = 15 * time.Minute

// Publisher takes KubeEvents; kubeevent.Publisher is one.
type Publisher interface {
	Publish(service.KubeEvent)
}

// Config of a Keeper. Everything but Events and Registerer is required.
type Config struct {
	Leases          coordinationv1client.LeasesGetter
	Namespace, Name string
	// LogID names the installation, Instance this process of it.
	LogID, Instance string
	Events          Publisher
	Logger          zerolog.Logger
	Registerer      prometheus.Registerer
}

// Keeper takes the Lease, keeps it, and gives it back. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	lock *lock

	mu sync.Mutex
	// until is the time until which the Lease is certainly ours, unless renewed; zero while it is not ours.
	until time.Time
	// foreign is the last holder seen that is not us; "" while there is none.
	foreign string
	// told is what was logged last, so that only changes are logged.
	told    string
	changed []chan struct{}
}

// New returns a Keeper that holds nothing yet.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg}
	k.lock = newLock(cfg, k)
	export(cfg.Registerer, k)
	return k
}

// Identity of an installation in the Lease.
func Identity(logID string) string { return "millwright/" + logID }

// Run takes the Lease as soon as it is free and renews it until ctx ends; then it releases the Lease if no
// other process of the installation remains. Stop it after everything that acts.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: k.lock, LeaseDuration: Duration, RenewDeadline: RenewDeadline, RetryPeriod: RetryPeriod, Name: k.cfg.Name,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return fmt.Errorf("keep lease %s: %w", k.lock.Describe(), err)
		}
		elector.Run(ctx) // it also returns when the Lease is lost: try again
	}
	k.releaseLease()
	return nil
}

// releaseLease releases the Lease. A process that cannot reach the API server lets it expire.
func (k *Keeper) releaseLease() {
	ctx, cancel := context.WithTimeout(context.Background(), RenewDeadline/2)
	defer cancel()
	k.notOurs("")
	released, err := k.lock.release(ctx)
	switch {
	case err != nil:
		k.cfg.Logger.Warn().Err(err).Str("lease", k.lock.Describe()).Msg("kube lease not released, it expires")
	case released:
		k.cfg.Logger.Info().Str("lease", k.lock.Describe()).Msg("kube lease released")
	}
}

// Held reports whether this installation may act now.
func (k *Keeper) Held() bool { return time.Now().Before(k.Until()) }

// Until is when this installation may no longer act unless the Lease is renewed before; in the past while it
// may not act.
func (k *Keeper) Until() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.until
}

// Ready is nil while the Lease is ours, otherwise it says who has it.
func (k *Keeper) Ready() error {
	if k.Held() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.foreign != "" {
		return fmt.Errorf("the kube Lease %s is held by %q: this installation (%s) does not act", k.lock.Describe(), k.foreign, k.lock.Identity())
	}
	return errors.New("the kube Lease " + k.lock.Describe() + " is not ours yet, or could not be renewed: this installation does not act")
}

// Subscribe returns a channel that gets a value when the Lease was taken or lost.
func (k *Keeper) Subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed = append(k.changed, ch)
	return ch, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for i, c := range k.changed {
			if c == ch {
				k.changed = append(k.changed[:i:i], k.changed[i+1:]...)
				return
			}
		}
	}
}

// ours notes a renewal that was started at a time.
func (k *Keeper) ours(began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until, k.foreign = began.Add(Duration), ""
	k.announceChange("held", func() {
		k.cfg.Logger.Info().Str("lease", k.lock.Describe()).Str("holder", k.lock.Identity()).Msg("kube lease held")
	})
}

// notOurs notes that somebody else holds the Lease, or nobody does.
func (k *Keeper) notOurs(holder string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until, k.foreign = time.Time{}, holder
	if holder == "" {
		k.announceChange("free", func() {})
		return
	}
	k.announceChange("foreign "+holder, func() {
		k.cfg.Logger.Warn().Str("lease", k.lock.Describe()).Str("holder", holder).Msg("kube lease held by another, not acting")
	})
	if k.cfg.Events != nil {
		k.cfg.Events.Publish(service.KubeEvent{
			Object: corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: k.cfg.Namespace, Name: k.cfg.Name},
			Type:   corev1.EventTypeWarning, Reason: "LeaseHeldByAnother", DedupeFor: heldEventFor,
			Message: fmt.Sprintf("Held by %s: Millwright (%s) does not act until it is released or expires", holder, k.lock.Identity()),
		})
	}
}

// announceChange logs a change once and wakes subscribers. The caller holds the lock.
func (k *Keeper) announceChange(what string, log func()) {
	if k.told == what {
		return
	}
	k.told = what
	log()
	for _, ch := range k.changed {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
