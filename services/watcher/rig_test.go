package watcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner/world"
)

// fakeKube holds pods and publishes them as an API server's watch would.
type fakeKube struct {
	mu      sync.Mutex
	pods    map[string]*corev1.Pod
	dead    error
	sink    Sink // of the watch that runs
	lists   atomic.Int32
	version int
	// silent: changes are known of and not published.
	silent bool
}

func newFakeKube(pods ...string) *fakeKube {
	k := &fakeKube{pods: map[string]*corev1.Pod{}}
	for _, name := range pods {
		k.put(name)
	}
	return k
}

func (k *fakeKube) put(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	k.pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(k.version),
	}}
	k.publish(k.change(events.OpUpsert, k.pods[name]))
}

func (k *fakeKube) publish(c Change) {
	if k.sink != nil && !k.silent {
		_ = k.sink.Publish(c)
	}
}

func (k *fakeKube) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[name]
	delete(k.pods, name)
	k.publish(k.change(events.OpDelete, p))
}

func (k *fakeKube) change(op events.Op, p *corev1.Pod) Change {
	c := Change{Kind: events.KindPod, Op: op, UID: string(p.UID), Name: p.Namespace + "/" + p.Name, ResourceVersion: p.ResourceVersion}
	if op == events.OpUpsert {
		c.Object = p
	}
	for _, p := range k.pods {
		c.Sum.Add(p.Namespace+"/"+p.Name, p.UID, p.ResourceVersion)
	}
	return c
}

func (k *fakeKube) Watch(ctx context.Context, sink Sink, synced func()) error {
	if err := k.list(sink); err != nil {
		return err
	}
	synced()
	<-ctx.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sink = nil
	return context.Cause(ctx)
}

func (k *fakeKube) list(sink Sink) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists.Add(1)
	for _, p := range k.pods {
		if err := sink.Publish(k.change(events.OpUpsert, p)); err != nil {
			return err
		}
	}
	k.sink = sink
	return nil
}

func (k *fakeKube) die(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = err
}

func (k *fakeKube) Alive(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

func (k *fakeKube) Progress() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return map[string]string{"Pod": fmt.Sprint(k.version)}
}

// rig is a watcher on a bus in memory. Everything runs in a synctest bubble: time passes only while all wait.
type rig struct {
	t    *testing.T
	bus  *membus.Bus
	kube *fakeKube
	w    *Watcher
	stop func()
}

func run(t *testing.T, change func(*Config), test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, bus: membus.NewBus(), kube: newFakeKube("a", "b", "c")}
		r.start(change)
		test(t, r)
		r.stop()
	})
}

// start runs a watcher; a second one is a restarted process.
func (r *rig) start(change func(*Config)) {
	cfg := Config{Stream: r.bus.Connect(16), Kube: r.kube, LogID: "0123456789abcdef", Logger: zerolog.Nop()}
	if change != nil {
		change(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r.w = w
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("run: %v", err)
		}
	}
	r.pass(100 * time.Millisecond)
}

// pass lets time pass and everything settle.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// observations of the incarnation in force. It checks what holds of every stream: epochs never fall, and
// counters rise by one from 1 within an epoch that published without failure.
func (r *rig) observations() []events.Observation {
	r.t.Helper()
	s := r.bus.Connect(1)
	state, _ := s.State(r.t.Context())
	if state.First > state.Last {
		return nil
	}
	var all []events.Observation
	enough := errors.New("enough")
	err := s.Consume(r.t.Context(), state.First, func(m events.Message) error {
		o, err := events.Decode(m.Data)
		if err != nil {
			return err
		}
		if n := len(all); n > 0 {
			last := all[n-1]
			if o.Epoch < last.Epoch || o.Epoch == last.Epoch && o.Counter != last.Counter+1 || o.Epoch > last.Epoch && o.Op != events.OpResyncBegin {
				return fmt.Errorf("epoch %d counter %d %s follows epoch %d counter %d", o.Epoch, o.Counter, o.Op, last.Epoch, last.Counter)
			}
		}
		if all = append(all, o); m.Sequence == state.Last {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		r.t.Fatal(err)
	}
	return all
}

// world folded from all that is on the bus.
func (r *rig) world() *world.World {
	r.t.Helper()
	w := world.New()
	for i, o := range r.observations() {
		w.Apply(uint64(i+1), o)
	}
	return w
}

func (r *rig) expectPods(names ...string) {
	r.t.Helper()
	w := r.world()
	if !w.Synced() || w.Torn() {
		r.t.Fatalf("synced %v, torn %v", w.Synced(), w.Torn())
	}
	for _, name := range names {
		if w.Pod(types.UID("uid-"+name)) == nil {
			r.t.Errorf("pod %s is missing", name)
		}
	}
	if got := countPods(w); got != len(names) {
		r.t.Errorf("%d pods, want %v", got, names)
	}
}

func countPods(w *world.World) int {
	n := 0
	for _, name := range []string{"a", "b", "c", "d", "e", "huge"} {
		if w.Pod(types.UID("uid-"+name)) != nil {
			n++
		}
	}
	return n
}

// count of observations by op in the newest epoch.
func (r *rig) count(op events.Op) int {
	n := 0
	all := r.observations()
	for _, o := range all {
		if o.Op == op && o.Epoch == all[len(all)-1].Epoch {
			n++
		}
	}
	return n
}
