// Package service defines what a Millwright service is and what the process around it provides.
//
// A service is a step function: it has no goroutine, clock or socket of its own. Host gives it Snapshots,
// the log, a clock and bounded lanes for effects; services/internal/host/step implements it for processes,
// services/sim on a virtual clock with faults.
package service

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/store"
	"millwright/store/audit"
)

// Service decides or acts when stepped.
type Service interface {
	// Name is one of the ledger.Service constants.
	Name() string
	// Step looks at the present state, decides, appends and starts effects; it never blocks on an effect. It
	// is called after every change of World or Ledger, after an effect ended, and at the latest when the
	// duration it returned has passed (0: only on change). An error is logged and the step is retried with
	// backoff; it must leave nothing half done that the next Step does not pick up.
	Step(ctx context.Context) (time.Duration, error)
}

// Releaser is a Service that serves metrics of what it decided last. They are another process's affair once
// it no longer leads.
type Releaser interface {
	// Released is called after the last step of a time of leading.
	Released()
}

// ErrNotReady is wrapped by Host.Snapshot when there is no valid Snapshot now; the text says why. The service
// does nothing and is stepped again on change.
var ErrNotReady = errors.New("no valid snapshot")

// ErrStopped is wrapped by effects that were cancelled because an operator has stopped them. They are not
// failures and are tried again when the stop ends.
var ErrStopped = errors.New("stopped by an operator")

// ErrHeldBack is wrapped by appends of a record whose kind some service in the cluster does not know. It can
// be appended once that service is replaced.
var ErrHeldBack = errors.New("kind not known to every service")

// Freshness that a decision requires of the World.
type Freshness int

const (
	// ForEffects: any World; for services that act on recorded intents.
	ForEffects Freshness = iota
	// ForProvisioning: as-of at most Options.ProvisionFreshness old.
	ForProvisioning
	// ForDisruption: as-of at most Options.DisruptFreshness old and the World not torn.
	ForDisruption
)

// Host is what a service may use.
type Host interface {
	// Now is the clock of the process.
	Now() time.Time
	// LogID of the event log, 32 hex digits.
	LogID() string
	// Mode the service works in.
	Mode() ledger.Mode
	// Stop is how far operators have stopped the services, as of now; while that is not known for sure it is
	// at least ledger.StopVoluntary. It may be called anywhere, and is called again right before anything
	// that it forbids.
	Stop() ledger.Stop
	// LogAway reports that the event log cannot be reached: nothing can be decided or recorded, and creating
	// effects are not started. Effects that converge on what is already recorded continue.
	LogAway() bool
	// Snapshot calls fn with a Snapshot that is valid by DESIGN §2 for the requested freshness, or returns
	// ErrNotReady. fn must not block, and neither keep nor change the Snapshot.
	Snapshot(need Freshness, fn func(*planner.Snapshot) error) error
	// Ledger calls fn with the Ledger in which this service's own appends are folded. As for Snapshot.
	Ledger(fn func(*ledger.Ledger) error) error
	// Decide appends a decision taken on a Snapshot with this basis. store.ErrConflict: plan again. The
	// record is in the Ledger when Decide returns.
	Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error)
	// Outcome appends what an effect brought about. expects may be nil. The record is in the Ledger when it
	// returns. In shadow mode it appends nothing and returns a zero Record.
	Outcome(ctx context.Context, o Outcome) (store.Record, error)
	// Effect runs fn in its lane, now or when those before it have made room, unless an effect with this key
	// runs or waits already; it reports whether fn was accepted. Since fn may wait, it looks at the present
	// state itself. It gets a context that ends at the timeout, on shutdown or when leadership is lost; in
	// creating lanes it ends before the lease does. The service is stepped after fn returned. In shadow mode
	// fn is never run.
	Effect(key string, l lane.Lane, timeout time.Duration, fn func(ctx context.Context) error) bool
	// Event publishes a KubeEvent (de-duplicated by the host).
	Event(e KubeEvent)
}

// Outcome is a record about an act.
type Outcome = audit.Outcome

// KubeEvent is a corev1.Event to publish.
type KubeEvent struct {
	Object  corev1.ObjectReference
	Type    string
	Reason  string
	Message string
	// DedupeKey defaults to object, reason and message; an equal key is dropped for DedupeFor (default 2
	// min).
	DedupeKey string
	DedupeFor time.Duration
}
