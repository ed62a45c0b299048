package memlog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millwright/store"
)

// leaseTime is how long a Leadership says it is valid, counted from each call: nothing can separate a process
// from its own memory. Expire ends it.
const leaseTime = 3 * time.Second

// Elector implements store.Elector on a Log, whose appends it fences.
type Elector struct{ log *Log }

// NewElector returns an elector of l.
func NewElector(l *Log) *Elector { return &Elector{log: l} }

// elections holds the leader of each service.
type elections map[string]*leadership

func (e elections) holdsLease(lease store.Lease) bool {
	for _, l := range e {
		if l.leader.Lease == lease {
			return true
		}
	}
	return false
}

// Campaign implements store.Elector.
func (e *Elector) Campaign(ctx context.Context, c store.Candidacy) (store.Leadership, error) {
	for {
		if l, ok := e.TryCampaign(c); ok {
			return l, nil
		}
		e.log.mu.Lock()
		var gone <-chan struct{}
		if l := e.log.elections[c.Service]; l != nil {
			gone = l.done
		}
		e.log.mu.Unlock()
		if gone == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("campaign for %s: %w", c.Service, ctx.Err())
		case <-gone:
		}
	}
}

// TryCampaign is Campaign for a caller that must not block: it reports whether it leads now.
func (e *Elector) TryCampaign(c store.Candidacy) (store.Leadership, bool) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	if e.log.elections[c.Service] != nil {
		return nil, false
	}
	e.log.revision++
	l := &leadership{elector: e, deposable: c.Deposable, done: make(chan struct{}), leader: store.Leader{
		Service: c.Service, Identity: c.Identity, Info: maps.Clone(c.Info),
		Lease: store.Lease{Key: "leader/" + c.Service, Revision: e.log.revision},
	}}
	e.log.elections[c.Service] = l
	return l, true
}

// Leaders implements store.Elector.
func (e *Elector) Leaders(context.Context) ([]store.Leader, error) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	var out []store.Leader
	for _, service := range slices.Sorted(maps.Keys(e.log.elections)) {
		leader := e.log.elections[service].leader
		leader.Report = maps.Clone(leader.Report)
		out = append(out, leader)
	}
	return out, nil
}

// Expire ends the leadership of a service as if its lease had run out.
func (e *Elector) Expire(service string) {
	e.log.mu.Lock()
	l := e.log.elections[service]
	e.log.mu.Unlock()
	if l != nil {
		l.end()
	}
}

type leadership struct {
	elector   *Elector
	leader    store.Leader
	deposable bool
	done      chan struct{}
	once      sync.Once
}

func (l *leadership) Lease() store.Lease    { return l.leader.Lease }
func (l *leadership) Done() <-chan struct{} { return l.done }

// Deadline is leaseTime from now while the leadership lasts, and in the past afterwards.
func (l *leadership) Deadline() time.Time {
	if l.deposable {
		return time.Time{}
	}
	select {
	case <-l.done:
		return time.Time{}
	default:
		return l.elector.log.clock().Add(leaseTime)
	}
}

// Report implements store.Leadership.
func (l *leadership) Report(_ context.Context, report map[string]string) error {
	l.elector.log.mu.Lock()
	defer l.elector.log.mu.Unlock()
	if l.elector.log.elections[l.leader.Service] != l {
		return fmt.Errorf("report: %w", store.ErrFenced)
	}
	l.leader.Report = maps.Clone(report)
	return nil
}

func (l *leadership) Resign(context.Context) error {
	l.end()
	return nil
}

func (l *leadership) end() {
	l.once.Do(func() {
		log := l.elector.log
		log.mu.Lock()
		defer log.mu.Unlock()
		delete(log.elections, l.leader.Service)
		close(l.done)
	})
}
