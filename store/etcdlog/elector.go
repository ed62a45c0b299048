package etcdlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
)

const (
	// leaseTTL is how long a leader may be silent before another takes over. etcd counts in whole seconds and
	// checks for expired leases twice a second, so a takeover takes up to about 4 s after a crash; from a
	// deposable leader about 1.4 s.
	leaseTTL = 3 * time.Second
	// LeaseTTLAlone is for a process that has etcd to itself: it has no standby, so its leaders may wait out
	// a disk or a processor that stalls for that long. Depose ends what its predecessor held.
	LeaseTTLAlone = 10 * time.Second
)

// lookAgainEvery is how often a standby checks who is before it even if no event announced a change: the
// event may have been lost.
const lookAgainEvery = 2 * time.Second

// Elector implements store.Elector. Each candidate has a key under leader/<service>/, bound to a lease of its
// own; the one created first leads.
type Elector struct {
	client  *clientv3.Client
	keys    keys
	ttl     time.Duration
	renewer *renewer
	// Overlooked, if it is set before the first Campaign, is called for a key that was gone although no event
	// had told the next in the queue.
	Overlooked func(service, key string)
}

// NewElector returns an elector of a cluster, for leases of 3 s unless another time is given. The client
// remains the caller's.
func NewElector(client *clientv3.Client, cluster string, ttl ...time.Duration) *Elector {
	e := &Elector{client: client, keys: newKeys(cluster), ttl: leaseTTL, renewer: newRenewer(client)}
	for _, e.ttl = range ttl {
	}
	return e
}

// candidate is the value of a leader key.
type candidate struct {
	Identity string            `json:"identity"`
	Info     map[string]string `json:"info,omitempty"`
	Report   map[string]string `json:"report,omitempty"`
	// Deposable is read by the candidate next in the queue, which may be of another version.
	Deposable bool `json:"deposable,omitempty"`
}

var (
	errLeaseLost  = errors.New("lease lost while standing by")
	errWatchEnded = errors.New("watch of leader key ended")
)

// Campaign implements store.Elector. A standby that loses its lease, because etcd was unreachable, queues
// again.
func (e *Elector) Campaign(ctx context.Context, stand store.Candidacy) (store.Leadership, error) {
	service := stand.Service
	if service == "" || strings.Contains(service, "/") {
		return nil, fmt.Errorf("campaign: service name %q is not valid", service)
	}
	c := candidate{Identity: stand.Identity, Info: stand.Info, Deposable: stand.Deposable}
	for {
		l, err := e.campaign(ctx, service, c)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("campaign for %s: %w", service, ctx.Err())
		}
		if err := sleep(ctx, e.client.Ctx(), 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("campaign for %s: %w", service, err)
		}
	}
}

// campaign stands once, under one lease.
func (e *Elector) campaign(ctx context.Context, service string, c candidate) (*leadership, error) {
	value, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode candidate: %w", err)
	}
	granting, cancel := context.WithTimeout(ctx, leaseTTL)
	defer cancel()
	asked := time.Now()
	lease, err := e.client.Grant(granting, int64(e.ttl/time.Second))
	if err != nil {
		return nil, fmt.Errorf("grant lease: %w", err)
	}
	l := newLeadership(e, service, lease.ID, c, asked)
	if err := l.stand(ctx, e.keys.leader(service), string(value)); err != nil {
		l.end()
		<-l.ended
		return nil, err
	}
	return l, nil
}

// stand queues for the key and returns nil once it leads. (Package concurrency of etcd does the same, but
// cannot be stopped while etcd is unreachable, and does not say when a lease was renewed.)
func (l *leadership) stand(ctx context.Context, prefix, value string) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	defer context.AfterFunc(l.alive, cancel)()
	key := fmt.Sprintf("%s/%x", prefix, l.id)
	resp, err := l.client.Put(ctx, key, value, clientv3.WithLease(l.id))
	if err != nil {
		return fmt.Errorf("put leader key: %w", err)
	}
	l.lease = store.Lease{Key: key, Revision: resp.Header.Revision}
	for {
		before, revision, err := l.before(ctx, prefix)
		switch {
		case err == nil && before == nil:
			return nil
		case err == nil:
			err = l.awaitEnd(ctx, prefix, before, revision+1)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, errLeaseLost):
			return cmp.Or(err, errLeaseLost)
		case err != nil: // the place in the queue is kept while the lease is valid
			_ = sleep(ctx, l.client.Ctx(), standRetry)
		}
	}
}

// standRetry is the pause before a standby asks again which candidate is before it.
const standRetry = 100 * time.Millisecond

// before returns the key created last before ours, nil if ours is the first, and the revision at which both
// were seen.
func (l *leadership) before(ctx context.Context, prefix string) (*mvccpb.KeyValue, int64, error) {
	resp, err := l.client.Get(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithMaxCreateRev(l.lease.Revision),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(2))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read leader keys: %w", err)
	case len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != l.lease.Revision:
		return nil, 0, errLeaseLost
	case len(resp.Kvs) == 1:
		return nil, 0, nil
	}
	return resp.Kvs[1], resp.Header.Revision, nil
}

// awaitEnd returns when the candidate before ours is gone, or may be.
func (l *leadership) awaitEnd(ctx context.Context, prefix string, before *mvccpb.KeyValue, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	deposed := make(chan struct{})
	defer func() { cancel(); <-deposed }()
	go func() {
		defer close(deposed)
		l.deposeSilent(ctx, before)
	}()
	key := string(before.Key)
	events := l.client.Watch(ctx, key, clientv3.WithRev(from), clientv3.WithFilterPut())
	again := time.NewTicker(lookAgainEvery)
	defer again.Stop()
	for {
		select {
		case resp, open := <-events:
			switch {
			case !open:
				return errWatchEnded
			case resp.Err() != nil:
				return fmt.Errorf("watch leader key: %w", resp.Err())
			case len(resp.Events) > 0:
				return nil
			}
		case <-again.C:
			now, _, err := l.before(ctx, prefix)
			if err != nil {
				return err
			}
			if now == nil || string(now.Key) != key {
				l.overlooked(key)
				return nil
			}
		}
	}
}

// Leaders implements store.Elector.
func (e *Elector) Leaders(ctx context.Context) ([]store.Leader, error) {
	all, err := e.Candidates(ctx)
	first := map[string]store.Leader{}
	for _, c := range all {
		if _, ok := first[c.Service]; !ok {
			first[c.Service] = c
		}
	}
	return sorted(first), err
}

// Candidates returns the leader and standbys, in the order in which they queued.
func (e *Elector) Candidates(ctx context.Context) ([]store.Leader, error) {
	resp, err := e.client.Get(ctx, e.keys.leaders(), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("list leaders: %w", err)
	}
	var list []store.Leader
	for _, kv := range resp.Kvs {
		service, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), e.keys.leaders()), "/")
		var c candidate
		if err := json.Unmarshal(kv.Value, &c); err != nil {
			return nil, fmt.Errorf("leader key %s: %w: %w", kv.Key, err, store.ErrCorrupt)
		}
		list = append(list, store.Leader{
			Service: service, Identity: c.Identity, Info: c.Info, Report: c.Report,
			Lease: store.Lease{Key: string(kv.Key), Revision: kv.CreateRevision},
		})
	}
	return list, nil
}
