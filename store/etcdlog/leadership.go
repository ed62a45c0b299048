package etcdlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
)

const (
	renewEvery = leaseTTL / 3
	// renewOften is how often a leader renews that is deposed once it was silent for silenceMax.
	renewOften = silenceMax / 4
	// leaseMargin is kept between Deadline and the moment etcd may give the lease away.
	leaseMargin = 500 * time.Millisecond
)

// leadership implements store.Leadership. Its one goroutine renews the lease until it is lost or given up.
type leadership struct {
	client *clientv3.Client
	id     clientv3.LeaseID
	lease  store.Lease
	// candidate is what the key says, without report.
	candidate candidate

	mu sync.Mutex
	// stands is until when the lease surely stands, unless a standby deposes this leader.
	stands time.Time

	// alive ends with the leadership, then done is closed; ended is closed when the goroutine has returned.
	alive context.Context
	end   context.CancelFunc
	done  chan struct{}
	ended chan struct{}
}

// newLeadership keeps a lease that was asked for at the given time.
func newLeadership(client *clientv3.Client, id clientv3.LeaseID, c candidate, asked time.Time) *leadership {
	l := &leadership{client: client, id: id, candidate: c, done: make(chan struct{}), ended: make(chan struct{})}
	l.alive, l.end = context.WithCancel(client.Ctx())
	l.renewed(asked)
	go l.keep()
	return l
}

// keep renews the lease. The client's own keep-alive does not say when a renewal was sent, which Deadline needs.
func (l *leadership) keep() {
	defer close(l.ended)
	every := renewEvery
	if l.candidate.Deposable {
		every = renewOften
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for time.Now().Before(l.until()) {
		select {
		case <-l.alive.Done():
			l.release()
			return
		case <-timer.C:
		}
		pause := every
		switch err := l.renew(); {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			l.release()
			return
		case err != nil:
			pause = min(every, renewEvery/5)
		}
		timer.Reset(pause)
	}
	l.release()
}

func (l *leadership) renew() error {
	ctx, cancel := context.WithTimeout(l.alive, renewEvery)
	defer cancel()
	sent := time.Now()
	if _, err := l.client.KeepAliveOnce(ctx, l.id); err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	l.renewed(sent)
	return nil
}

// renewed at some moment after sent, so the lease stands for its TTL from sent at least.
func (l *leadership) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stands = sent.Add(leaseTTL - leaseMargin)
}

// release tells the owner first, then etcd, so that a standby need not wait for the lease to expire.
func (l *leadership) release() {
	l.mu.Lock()
	l.stands = time.Time{}
	l.mu.Unlock()
	close(l.done)
	l.end()
	ctx, cancel := context.WithTimeout(l.client.Ctx(), renewEvery)
	defer cancel()
	_, _ = l.client.Revoke(ctx, l.id) // else it expires by itself
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
