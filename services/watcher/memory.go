package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"millwright/events"
)

// ErrNoEpoch: there is no epoch to carry an interruption now. Leave it in its queue.
var ErrNoEpoch = errors.New("no epoch is being published")

// memory holds what was last emitted about AWS, so that a new epoch can say it before the next poll. It is
// small: references, prices, our instances, and what was told of them.
type memory struct {
	mu      sync.Mutex
	now     *publisher // nil between epochs
	clock   func() time.Time
	objects map[objectKey]Change
	prices  map[priceKey]events.Price
	polled  map[events.Kind]time.Time
	// notices are the interruptions that are messages. Nobody sends one again: its queue forgets it once the
	// stream has it, and a NATS that loses its storage then loses the only copy.
	notices map[noticeKey]notice
}

type noticeKey struct{ instance, kind string }

type notice struct {
	change Change
	since  time.Time
}

// A notice is kept until its instance is gone. The queue sees a whole account, and a poll may not have found
// a new instance yet: one about an instance that is not among ours is kept for strangerMemory, as in a World,
// and of more than strangersMax the oldest goes.
const (
	strangerMemory = 10 * time.Minute
	strangersMax   = 2000
)

type objectKey struct {
	kind events.Kind
	name string
}

type priceKey struct{ instanceType, capacityType, zone string }

func newMemory(clock func() time.Time) *memory {
	return &memory{
		clock: clock, objects: map[objectKey]Change{}, prices: map[priceKey]events.Price{}, polled: map[events.Kind]time.Time{},
		notices: map[noticeKey]notice{},
	}
}

// Emit implements Emitter.
func (w *Watcher) Emit(kind events.Kind, op events.Op, uid, name string, object any) error {
	if !slices.Contains(events.AWSKinds(), kind) {
		return fmt.Errorf("emit %s: not an AWS kind", kind)
	}
	return w.memory.emit(Change{Kind: kind, Op: op, UID: uid, Name: name, Object: object})
}

// Flush implements Emitter.
func (w *Watcher) Flush(ctx context.Context) error {
	w.memory.mu.Lock()
	now := w.memory.now
	w.memory.mu.Unlock()
	if now == nil {
		return ErrNoEpoch
	}
	return now.flush(ctx)
}

// Epoch is the number of the epoch that carries what is emitted now; 0 if none does. What was emitted before
// another one began may be lost, whatever Flush says.
func (w *Watcher) Epoch() uint64 {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	if w.memory.now == nil {
		return 0
	}
	return w.memory.now.epoch
}

// Polled implements Emitter.
func (w *Watcher) Polled(kind events.Kind, at time.Time) {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	w.memory.polled[kind] = at
}

// Blobs implements Emitter.
func (w *Watcher) Blobs() events.Blobs { return w.cfg.Stream.Blobs() }

// ZonalShifts implements Emitter.
func (w *Watcher) ZonalShifts() ([]events.ZonalShift, bool) {
	at, synced := w.world.Position()
	end := w.inherited.Load()
	if !synced || end == nil || at.Incarnation != end.Incarnation || at.Sequence < end.Last {
		return nil, false
	}
	return w.world.Version().AllZonalShifts(), true
}

// inherit notes where the stream ended when the process began: a World that is not there yet, however
// complete the last resync that it has folded, does not know what was published last.
func (w *Watcher) inherit(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	return backoff.RetryNotify(func() error {
		state, err := w.cfg.Stream.State(ctx)
		if err == nil {
			w.inherited.Store(&state)
		}
		return err
	}, backoff.WithContext(wait, ctx), func(err error, d time.Duration) {
		w.cfg.Logger.Warn().Err(err).Dur("retry_in", d).Msg("end of the stream is not known")
	})
}

// emit remembers a change and publishes it. What is remembered needs no error: a later epoch says it.
func (m *memory) emit(c Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(c)
	if m.now == nil {
		if c.Kind == events.KindInterruption {
			return ErrNoEpoch
		}
		return nil
	}
	err := m.now.Publish(c)
	if err != nil && !errors.Is(err, errEncoding) {
		m.now = nil
	}
	if c.Kind == events.KindInterruption {
		return err
	}
	return nil
}

func (m *memory) remember(c Change) {
	switch object := c.Object.(type) {
	case *events.Interruption:
		if !object.Standing() {
			m.rememberNotice(c, object)
			return
		}
	case *events.InstanceState:
		if object.State == "terminated" {
			m.forgetNotices(object.ID)
		}
	case *events.Prices:
		for _, p := range object.Entries {
			m.prices[priceKey{p.InstanceType, p.CapacityType, p.Zone}] = p
			if p.MicroUSDPerHour == 0 {
				delete(m.prices, priceKey{p.InstanceType, p.CapacityType, p.Zone})
			}
		}
		return
	}
	key := objectKey{c.Kind, cmp.Or(c.Name, c.UID)}
	if c.Op == events.OpDelete {
		delete(m.objects, key)
		if c.Kind == events.KindInstanceState {
			m.forgetNotices(key.name)
		}
		return
	}
	m.objects[key] = c
}

func (m *memory) rememberNotice(c Change, i *events.Interruption) {
	m.notices[noticeKey{i.InstanceID, i.MessageKind}] = notice{c, m.clock()}
	m.forgetStrangers()
}

func (m *memory) forgetNotices(instance string) {
	for _, kind := range events.InterruptionKinds {
		delete(m.notices, noticeKey{instance, kind})
	}
}

func (m *memory) forgetStrangers() {
	now := m.clock()
	var oldest noticeKey
	strangers := 0
	for key, n := range m.notices {
		if _, ours := m.objects[objectKey{events.KindInstanceState, key.instance}]; ours {
			continue
		}
		if now.Sub(n.since).Abs() > strangerMemory { // or the clock was set back since
			delete(m.notices, key)
			continue
		}
		if strangers++; strangers == 1 || n.since.Before(m.notices[oldest].since) {
			oldest = key
		}
	}
	if strangers > strangersMax {
		delete(m.notices, oldest)
	}
}

// replay publishes all that is remembered and makes p the one that changes go to.
func (m *memory) replay(ctx context.Context, p *publisher, blobs events.Blobs) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(m.objects), func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	for _, key := range keys {
		c := m.objects[key]
		if err := storeAgain(ctx, blobs, c.Object); err != nil {
			return err
		}
		if err := p.Publish(c); err != nil && !errors.Is(err, errEncoding) {
			return err
		}
	}
	if err := m.replayPrices(p); err != nil {
		return err
	}
	if err := m.replayNotices(p); err != nil {
		return err
	}
	m.now = p
	return nil
}

func (m *memory) replayNotices(p *publisher) error {
	m.forgetStrangers()
	keys := slices.SortedFunc(maps.Keys(m.notices), func(a, b noticeKey) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.kind, b.kind))
	})
	for _, key := range keys {
		if err := p.Publish(m.notices[key].change); err != nil && !errors.Is(err, errEncoding) {
			return err
		}
	}
	return nil
}

// storeAgain puts a catalogue whose blob is lost or damaged: with a new NATS the old references would lead
// nowhere.
func storeAgain(ctx context.Context, blobs events.Blobs, object any) error {
	ref, ok := object.(*events.CatalogRef)
	if !ok {
		return nil
	}
	return events.StoreCatalogAgain(ctx, blobs, ref)
}

// pricesPerMessage keeps a message of prices well below what the bus takes.
const pricesPerMessage = 2000

func (m *memory) replayPrices(p *publisher) error {
	entries := slices.SortedFunc(maps.Values(m.prices), func(a, b events.Price) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone))
	})
	for chunk := range slices.Chunk(entries, pricesPerMessage) {
		if err := p.Publish(Change{Kind: events.KindPrices, Op: events.OpUpsert, Object: &events.Prices{Entries: chunk}}); err != nil {
			return err
		}
	}
	return nil
}

// detach ends an epoch, unless the next one has begun.
func (m *memory) detach(p *publisher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now == p {
		m.now = nil
	}
}

func (m *memory) progress(into map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, at := range m.polled {
		into[kind.String()] = at.UTC().Format(time.RFC3339)
	}
}

// catalogs returns the names of the blobs of the catalogues in force.
func (m *memory) catalogs() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]bool{}
	for _, c := range m.objects {
		if ref, ok := c.Object.(*events.CatalogRef); ok {
			names[events.CatalogBlob(ref.Hash)] = true
		}
	}
	return names
}
