package etcdlog

import (
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

// leaseTTL is how long a leader may be silent before another takes over. etcd counts in whole seconds and
// looks for expired leases twice a second, so a takeover takes up to about 4 s after a crash; from a leader that may be
// deposed about 1.4 s.
const leaseTTL = 3 * time.Second

// Elector implements store.Elector. Each candidate has a key under leader/<service>/, bound to a lease of its
// own; the one created first leads.
type Elector struct {
	client *clientv3.Client
	keys   keys
}

// NewElector returns an elector of a cluster. The client stays the caller's.
func NewElector(client *clientv3.Client, cluster string) *Elector {
	return &Elector{client: client, keys: newKeys(cluster)}
}

// candidate is the value of a leader key.
type candidate struct {
	Identity string            `json:"identity"`
	Info     map[string]string `json:"info,omitempty"`
	Report   map[string]string `json:"report,omitempty"`
	// Deposable is read by who stands behind it, which may be of another version.
	Deposable bool `json:"deposable,omitempty"`
}

var errLeaseLost = errors.New("lease lost while standing by")

// Campaign implements store.Elector. A standby that loses its lease, because etcd was out of reach, queues anew.
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
	lease, err := e.client.Grant(granting, int64(leaseTTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("grant lease: %w", err)
	}
	l := newLeadership(e.client, lease.ID, c, asked)
	if err := l.stand(ctx, e.keys.leader(service), string(value)); err != nil {
		l.end()
		<-l.ended
		return nil, err
	}
	return l, nil
}

// stand queues for the key and returns nil once it leads. (Package concurrency of etcd does the same, but
// cannot be stopped while etcd is out of reach, and does not say when a lease was renewed.)
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
		if err != nil || before == nil {
			return err
		}
		if err := l.awaitEnd(ctx, before, revision+1); err != nil {
			return err
		}
	}
}

// awaitEnd returns when a candidate before ours is gone.
func (l *leadership) awaitEnd(ctx context.Context, before *mvccpb.KeyValue, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	deposed := make(chan struct{})
	defer func() { cancel(); <-deposed }()
	go func() {
		defer close(deposed)
		l.deposeSilent(ctx, before)
	}()
	return l.awaitDelete(ctx, string(before.Key), from)
}

// before returns the key created last before ours, nil if ours is the first, and the revision it was seen at.
func (l *leadership) before(ctx context.Context, prefix string) (*mvccpb.KeyValue, int64, error) {
	last := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(l.lease.Revision))
	resp, err := l.client.Get(ctx, prefix+"/", last...)
	if err != nil {
		return nil, 0, fmt.Errorf("read leader keys: %w", err)
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != l.lease.Revision {
		return nil, 0, errLeaseLost
	}
	last[len(last)-1] = clientv3.WithMaxCreateRev(l.lease.Revision - 1)
	if resp, err = l.client.Get(ctx, prefix+"/", append(last, clientv3.WithRev(resp.Header.Revision))...); err != nil {
		return nil, 0, fmt.Errorf("read leader keys: %w", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, 0, nil
	}
	return resp.Kvs[0], resp.Header.Revision, nil
}

func (l *leadership) awaitDelete(ctx context.Context, key string, from int64) error {
	for resp := range l.client.Watch(ctx, key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch leader key: %w", err)
		}
		if len(resp.Events) > 0 {
			return nil
		}
	}
	return errLeaseLost
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

// Candidates returns who leads or stands by, in the order in which they came.
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
