package watcher

import (
	"context"
	"time"

	"millwright/events"
)

// Change is a fact about one object. Object is nil for deletions.
type Change struct {
	Kind            events.Kind
	Op              events.Op
	UID             string
	Name            string
	ResourceVersion string
	Object          any
	// Sum of the kind's objects after this change; not kept for AWS kinds.
	Sum events.Sum
}

// Sink accepts changes for the stream. It may block while the bus is slow. After an error the epoch is over.
type Sink interface {
	Publish(Change) error
}

// Kube is the half of the watcher that watches the API server (services/watcher/kube).
type Kube interface {
	// Watch publishes every object of every kind, calls synced once all of them were published, and then
	// publishes changes until ctx ends. Each call starts from nothing.
	Watch(ctx context.Context, sink Sink, synced func()) error
	// Alive returns nil if every kind is being watched and the API server answers now.
	Alive(ctx context.Context) error
	// Progress is the newest resourceVersion seen, by kind.
	Progress() map[string]string
}

// AWS is the half of the watcher that polls EC2 (services/watcher/ec2). It is given Watcher.Emit, or an
// Emitter, and runs as long as the watcher leads, through all epochs: the watcher remembers what was emitted
// and publishes it again at the start of each epoch.
//
// If the implementation also has a method Synced() bool, then the first resync of a process does not end (for
// at most Config.AWSWait) before it returns true, so that consumers keep what they know until the first poll
// is done.
type AWS interface {
	Run(ctx context.Context) error
	// Resync asks to poll everything soon, and to emit again what was emitted before. It must not block.
	Resync()
}

// Emitter is what the AWS half publishes through. *Watcher is one.
type Emitter interface {
	// Emit publishes a change of an AWS kind. uid and name: the NodeClass's name for a catalogue (object
	// *events.CatalogRef, from events.StoreCatalog), both "" for prices, the instance id for the others. It
	// remembers everything but interruptions for later epochs; an interruption fails without an epoch to
	// carry it.
	Emit(kind events.Kind, op events.Op, uid, name string, object any) error
	// Flush returns nil once everything that was emitted is stored: only then delete a message from its
	// queue.
	Flush(ctx context.Context) error
	// Epoch that carries what is emitted now; 0 for none. What was emitted in an epoch is stored if Flush
	// succeeded before it ended.
	Epoch() uint64
	// Polled notes the progress of a kind for the heartbeats.
	Polled(kind events.Kind, at time.Time)
	Blobs() events.Blobs
	// ZonalShifts are those of the World, which another process may have published; ok is false as long as
	// the World is not known.
	ZonalShifts() (list []events.ZonalShift, ok bool)
}
