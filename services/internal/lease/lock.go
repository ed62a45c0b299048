package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// instancesKey is the annotation that lists the processes that hold the Lease together: instance → time of
// its last renewal by its own clock. Only whether it changes matters.
const instancesKey = "millwright.sh/instances"

// triesMax bounds how often other processes of the installation may be faster.
const triesMax = 8

var errForeign = errors.New("the lease is held by another")

// lock is the Lease as client-go's elector uses it. Unlike resourcelock.LeaseLock it lets several processes
// hold the Lease under one identity. It is used by one goroutine at a time.
type lock struct {
	leases     coordinationv1client.LeaseInterface
	describe   string
	identity   string
	instance   string
	namespace  string
	name       string
	keeper     *Keeper
	read       *coordinationv1.Lease
	neighbours map[string]seen
}

// seen is an entry of the annotation and when it was first seen to be so, by the monotonic clock.
type seen struct {
	value string
	at    time.Time
}

var _ resourcelock.Interface = (*lock)(nil)

func newLock(cfg Config, k *Keeper) *lock {
	return &lock{
		leases: cfg.Leases.Leases(cfg.Namespace), describe: cfg.Namespace + "/" + cfg.Name, identity: Identity(cfg.LogID),
		instance: cfg.Instance, namespace: cfg.Namespace, name: cfg.Name, keeper: k, neighbours: map[string]seen{},
	}
}

func (l *lock) Identity() string   { return l.identity }
func (l *lock) Describe() string   { return l.describe }
func (l *lock) RecordEvent(string) {}

// Get reads the Lease and notes a foreign holder.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.get(ctx); err != nil {
		return nil, nil, err
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&l.read.Spec)
	raw, err := json.Marshal(record)
	return record, raw, err
}

func (l *lock) get(ctx context.Context) error {
	found, err := l.leases.Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	l.read = found
	l.observe(time.Now())
	if h := holder(found); h != "" && h != l.identity {
		l.keeper.notOurs(h)
	}
	return nil
}

// Create makes the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	fresh := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}, Spec: resourcelock.LeaderElectionRecordToLeaseSpec(&record),
	}
	l.list(fresh, map[string]string{l.instance: stamp(began)})
	made, err := l.leases.Create(ctx, fresh, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	l.read = made
	l.keeper.ours(began)
	return nil
}

// Update takes or renews the Lease. A renewal that the installation's other processes get ahead of is tried
// again at once: they all renew it every few seconds.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	for try := 1; ; try++ {
		err := l.tryUpdate(ctx, record)
		if !apierrors.IsConflict(err) || holder(l.read) != l.identity || try == triesMax {
			return err
		}
	}
}

// tryUpdate reads the Lease before it renews it.
func (l *lock) tryUpdate(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.read == nil || holder(l.read) == l.identity {
		if err := l.get(ctx); err != nil {
			return err
		}
		if h := holder(l.read); h != "" && h != l.identity {
			return fmt.Errorf("renew lease %s: %w: %s", l.describe, errForeign, h)
		}
	}
	began := time.Now()
	after := l.read.DeepCopy()
	after.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	instances := l.others(began)
	instances[l.instance] = stamp(began)
	l.list(after, instances)
	written, err := l.leases.Update(ctx, after, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	l.read = written
	l.observe(time.Now())
	l.keeper.ours(began)
	return nil
}

// release removes this process from the Lease, and releases it if it was the last one.
func (l *lock) release(ctx context.Context) (released bool, err error) {
	for range triesMax {
		released, err = l.tryRelease(ctx)
		if !apierrors.IsConflict(err) {
			return released, err
		}
	}
	return false, err
}

func (l *lock) tryRelease(ctx context.Context) (bool, error) {
	if err := l.get(ctx); err != nil || holder(l.read) != l.identity {
		return false, ignoreNotFound(err)
	}
	now := time.Now()
	after, others := l.read.DeepCopy(), l.others(now)
	l.list(after, others)
	if len(others) == 0 {
		at, second := metav1.NewMicroTime(now), int32(1)
		after.Spec.HolderIdentity, after.Spec.LeaseDurationSeconds = new(string), &second
		after.Spec.RenewTime, after.Spec.AcquireTime = &at, &at
	}
	_, err := l.leases.Update(ctx, after, metav1.UpdateOptions{})
	return len(others) == 0 && err == nil, err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// observe notes which entries changed.
func (l *lock) observe(now time.Time) {
	listed := instancesOf(l.read)
	for name, value := range listed {
		if l.neighbours[name].value != value {
			l.neighbours[name] = seen{value, now}
		}
	}
	maps.DeleteFunc(l.neighbours, func(name string, _ seen) bool { _, there := listed[name]; return !there })
}

// others are the entries of other processes that are alive: an entry that has not changed for the duration of
// the Lease belongs to one that was killed.
func (l *lock) others(now time.Time) map[string]string {
	others := map[string]string{}
	if holder(l.read) != l.identity {
		return others // of an installation that no longer exists
	}
	for name, s := range l.neighbours {
		if name != l.instance && now.Sub(s.at) < Duration {
			others[name] = s.value
		}
	}
	return others
}

// list writes the annotation; it removes it if nobody is left.
func (l *lock) list(o *coordinationv1.Lease, instances map[string]string) {
	if len(instances) == 0 {
		delete(o.Annotations, instancesKey)
		return
	}
	text, err := json.Marshal(instances)
	if err != nil {
		panic("lease: strings cannot be encoded: " + err.Error())
	}
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, instancesKey, string(text))
}

// instancesOf reads the annotation; if it cannot be parsed it counts as empty, and is written again.
func instancesOf(o *coordinationv1.Lease) map[string]string {
	instances := map[string]string{}
	if json.Unmarshal([]byte(o.Annotations[instancesKey]), &instances) != nil {
		return nil
	}
	return instances
}

func holder(o *coordinationv1.Lease) string {
	if o.Spec.HolderIdentity == nil {
		return ""
	}
	return *o.Spec.HolderIdentity
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
