package etcdlog

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
)

const (
	renewEvery = leaseTTL / 3
	// renewOften is how often a leader renews if it is deposed after it was silent for silenceMax.
	renewOften = silenceMax / 4
	// leaseMargin is kept between Deadline and the moment at which etcd may let the lease expire.
	leaseMargin = 500 * time.Millisecond
	// lastTry is how long after that a leader still waits for the answer to a renewal, so that it leads on if
	// it was only stalled itself. It creates nothing meanwhile, and etcd fences it if another leads.
	lastTry = 500 * time.Millisecond
)

// leadership implements store.Leadership. Its one goroutine renews the lease until it is lost or given up.
type leadership struct {
	client     *clientv3.Client
	renewer    *renewer
	service    string
	overlooked func(key string)
	id         clientv3.LeaseID
	ttl        time.Duration
	lease      store.Lease
	// candidate is what the key says, without report.
	candidate candidate

	mu sync.Mutex
	// stands is the time until which the lease is certainly valid, unless a standby deposes this leader.
	stands time.Time
	// over: the leadership is released; later answers change nothing.
	over bool
	// answered wakes the goroutine that waits for an answer to a renewal.
	answered chan struct{}

	// alive ends with the leadership, then done is closed; ended is closed when the goroutine has returned.
	alive context.Context
	end   context.CancelFunc
	done  chan struct{}
	ended chan struct{}
}

// newLeadership keeps a lease that was requested at the given time.
func newLeadership(e *Elector, service string, id clientv3.LeaseID, c candidate, asked time.Time) *leadership {
	l := &leadership{client: e.client, renewer: e.renewer, service: service, id: id, ttl: e.ttl, candidate: c,
		answered: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{})}
	l.overlooked = func(key string) {
		if e.Overlooked != nil {
			e.Overlooked(service, key)
		}
	}
	l.alive, l.end = context.WithCancel(e.client.Ctx())
	l.renewed(asked)
	go l.keepLease()
	return l
}

// keepLease renews the lease. A late answer still counts, from when it was requested.
func (l *leadership) keepLease() {
	defer close(l.ended)
	defer l.renewer.join()()
	defer l.release()
	every := renewEvery
	if l.candidate.Deposable {
		every = renewOften
	}
	gone := make(chan struct{})
	lost := sync.OnceFunc(func() { close(gone) })
	for {
		pause := time.NewTimer(min(every, max(0, time.Until(l.until()))))
		select {
		case <-l.alive.Done():
			pause.Stop()
			return
		case <-gone:
			pause.Stop()
			return
		case <-pause.C:
		}
		l.askToRenew(lost)
		if !time.Now().Before(l.until()) && !l.awaitAnswer(gone) {
			return
		}
	}
}

// askToRenew sends a renewal; lost is called if etcd no longer knows the lease.
func (l *leadership) askToRenew(lost func()) {
	sent := time.Now()
	l.renewer.renew(l.alive, l.id, func(ttl int64) {
		if ttl <= 0 {
			lost()
			return
		}
		l.renewed(sent)
	})
}

// awaitAnswer reports whether a renewal in flight makes the lease valid again, within lastTry.
func (l *leadership) awaitAnswer(gone <-chan struct{}) bool {
	last := time.NewTimer(lastTry)
	defer last.Stop()
	for !time.Now().Before(l.until()) {
		select {
		case <-l.answered:
		case <-l.alive.Done():
			return true // keep ends
		case <-gone:
			return false
		case <-last.C:
			return time.Now().Before(l.until())
		}
	}
	return true
}

// renewed at some moment after sent, so the lease is valid for its TTL from sent at least.
func (l *leadership) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stands := sent.Add(l.ttl - leaseMargin); !l.over && stands.After(l.stands) {
		l.stands = stands
	}
	select {
	case l.answered <- struct{}{}:
	default:
	}
}

// release informs the owner first, then etcd, so that a standby need not wait for the lease to expire.
func (l *leadership) release() {
	l.mu.Lock()
	l.stands, l.over = time.Time{}, true
	l.mu.Unlock()
	close(l.done)
	l.end()
	ctx, cancel := context.WithTimeout(l.client.Ctx(), renewEvery)
	defer cancel()
	_, _ = l.client.Revoke(ctx, l.id) // otherwise it expires by itself
}

func (l *leadership) Lease() store.Lease    { return l.lease }
func (l *leadership) Done() <-chan struct{} { return l.done }

// Deadline implements store.Leadership.
func (l *leadership) Deadline() time.Time {
	if l.candidate.Deposable {
		return time.Time{}
	}
	return l.until()
}

func (l *leadership) until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stands
}

// Report implements store.Leadership. The key keeps its create revision, by which appends are fenced.
func (l *leadership) Report(ctx context.Context, report map[string]string) error {
	c := l.candidate
	c.Report = report
	value, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	resp, err := l.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(l.lease.Key), "=", l.lease.Revision)).
		Then(clientv3.OpPut(l.lease.Key, string(value), clientv3.WithLease(l.id))).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("report: %w", err)
	case !resp.Succeeded:
		return fmt.Errorf("report: %w", store.ErrFenced)
	}
	return nil
}

// Resign returns when the key is gone, or ctx ends.
func (l *leadership) Resign(ctx context.Context) error {
	l.end()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resign: %w", ctx.Err())
	}
}

// sorted by service.
func sorted(m map[string]store.Leader) []store.Leader {
	var out []store.Leader
	for _, service := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[service])
	}
	return out
}
