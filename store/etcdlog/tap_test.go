package etcdlog_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tap stands between a log or an elector and etcd, call by call: it can act before one of them, and lose its
// answer.
type tap struct {
	mu    sync.Mutex
	calls []string
	// timed: what is counted is what a timer sends, renewals of leases and looks at what is left of one, and
	// nothing else; otherwise those pass uncounted.
	timed bool
	// only, if it is set, names the one call that is counted. every, if it is set, is asked before each call
	// and may refuse it.
	only  string
	every func(ctx context.Context) error
	// at is the call, counted from 0, around which something happens once; -1: none. before and after may be
	// nil; what they return is what the caller gets in place of an answer.
	at            int
	before, after func(ctx context.Context) error
	// each, if it is set, is called before every call with its number since the tap was armed.
	each func(n int, call string)
}

func newTap() *tap { return &tap{at: -1} }

// client makes calls as c does: by a connection of its own where c has one.
func (p *tap) client(t *testing.T, c *clientv3.Client) *clientv3.Client {
	w := clientv3.NewCtxClient(c.Ctx())
	if endpoints := c.Endpoints(); len(endpoints) > 0 {
		w = dial(t, endpoints...)
		c = &clientv3.Client{KV: w.KV, Lease: w.Lease, Watcher: w.Watcher, Maintenance: w.Maintenance, Cluster: w.Cluster}
	}
	w.KV, w.Lease, w.Watcher = tapKV{c.KV, p}, tapLease{c.Lease, p}, tapWatcher{c.Watcher, p}
	w.Maintenance, w.Cluster = tapMaintenance{c.Maintenance, p}, c.Cluster
	return w
}

// arm has the tap act around the nth call from now.
func (p *tap) arm(n int, before, after func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.at, p.before, p.after = nil, n, before, after
}

// seen are the calls since the tap was armed.
func (p *tap) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.calls...)
}

// take counts a call and returns what is to happen around it.
func (p *tap) take(name string) (before, after func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed != (name == callRenew || name == callLook) || p.only != "" && name != p.only {
		return p.every, nil
	}
	p.calls = append(p.calls, name)
	n := len(p.calls) - 1
	before = p.every
	if n == p.at {
		before, after = p.before, p.after
	}
	if each := p.each; each != nil {
		inner := before
		before = func(ctx context.Context) error {
			if each(n, name); inner != nil {
				return inner(ctx)
			}
			return nil
		}
	}
	return before, after
}

func tapped[T any](ctx context.Context, p *tap, name string, call func() (T, error)) (T, error) {
	var none T
	before, after := p.take(name)
	if before != nil {
		if err := before(ctx); err != nil {
			return none, err
		}
	}
	resp, err := call()
	if after != nil {
		if err := after(ctx); err != nil {
			return none, err
		}
	}
	return resp, err
}

type tapKV struct {
	clientv3.KV
	tap *tap
}

func (k tapKV) Put(ctx context.Context, key, value string, o ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return tapped(ctx, k.tap, "put", func() (*clientv3.PutResponse, error) { return k.KV.Put(ctx, key, value, o...) })
}

func (k tapKV) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return tapped(ctx, k.tap, "get", func() (*clientv3.GetResponse, error) { return k.KV.Get(ctx, key, o...) })
}

func (k tapKV) Delete(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return tapped(ctx, k.tap, "delete", func() (*clientv3.DeleteResponse, error) { return k.KV.Delete(ctx, key, o...) })
}

func (k tapKV) Compact(ctx context.Context, rev int64, o ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return tapped(ctx, k.tap, "compact", func() (*clientv3.CompactResponse, error) { return k.KV.Compact(ctx, rev, o...) })
}

func (k tapKV) Txn(ctx context.Context) clientv3.Txn { return tapTxn{k.KV.Txn(ctx), ctx, k.tap} }

type tapTxn struct {
	clientv3.Txn
	ctx context.Context
	tap *tap
}

func (t tapTxn) If(c ...clientv3.Cmp) clientv3.Txn  { return tapTxn{t.Txn.If(c...), t.ctx, t.tap} }
func (t tapTxn) Then(o ...clientv3.Op) clientv3.Txn { return tapTxn{t.Txn.Then(o...), t.ctx, t.tap} }
func (t tapTxn) Else(o ...clientv3.Op) clientv3.Txn { return tapTxn{t.Txn.Else(o...), t.ctx, t.tap} }
func (t tapTxn) Commit() (*clientv3.TxnResponse, error) {
	return tapped(t.ctx, t.tap, "txn", t.Txn.Commit)
}

type tapLease struct {
	clientv3.Lease
	tap *tap
}

func (l tapLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	return tapped(ctx, l.tap, "grant", func() (*clientv3.LeaseGrantResponse, error) { return l.Lease.Grant(ctx, ttl) })
}

func (l tapLease) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return tapped(ctx, l.tap, "revoke", func() (*clientv3.LeaseRevokeResponse, error) { return l.Lease.Revoke(ctx, id) })
}

// The calls that a timer sends.
const (
	callRenew = "renewal of a lease"
	callLook  = "look at a lease"
)

func (l tapLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	return tapped(ctx, l.tap, callRenew, func() (*clientv3.LeaseKeepAliveResponse, error) { return l.Lease.KeepAliveOnce(ctx, id) })
}

func (l tapLease) TimeToLive(ctx context.Context, id clientv3.LeaseID, o ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return tapped(ctx, l.tap, callLook, func() (*clientv3.LeaseTimeToLiveResponse, error) { return l.Lease.TimeToLive(ctx, id, o...) })
}

type tapMaintenance struct {
	clientv3.Maintenance
	tap *tap
}

func (m tapMaintenance) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	return tapped(ctx, m.tap, "status", func() (*clientv3.StatusResponse, error) { return m.Maintenance.Status(ctx, endpoint) })
}

func (m tapMaintenance) Defragment(ctx context.Context, endpoint string) (*clientv3.DefragmentResponse, error) {
	return tapped(ctx, m.tap, "defragmentation", func() (*clientv3.DefragmentResponse, error) { return m.Maintenance.Defragment(ctx, endpoint) })
}

func (m tapMaintenance) AlarmList(ctx context.Context) (*clientv3.AlarmResponse, error) {
	return tapped(ctx, m.tap, "list of alarms", func() (*clientv3.AlarmResponse, error) { return m.Maintenance.AlarmList(ctx) })
}

func (m tapMaintenance) AlarmDisarm(ctx context.Context, a *clientv3.AlarmMember) (*clientv3.AlarmResponse, error) {
	return tapped(ctx, m.tap, "disarming", func() (*clientv3.AlarmResponse, error) { return m.Maintenance.AlarmDisarm(ctx, a) })
}

type tapWatcher struct {
	clientv3.Watcher
	tap *tap
}

// Watch has no answer to lose; one that is refused ends at once, as a watch whose server lost its leader
// does.
func (w tapWatcher) Watch(ctx context.Context, key string, o ...clientv3.OpOption) clientv3.WatchChan {
	events, err := tapped(ctx, w.tap, "watch", func() (clientv3.WatchChan, error) { return w.Watcher.Watch(ctx, key, o...), nil })
	if err != nil {
		ended := make(chan clientv3.WatchResponse)
		close(ended)
		return ended
	}
	return events
}

type around struct{ before, after func(context.Context) error }

var (
	errAnswerLost    = status.Error(codes.Unavailable, "transport is closing")
	errLeaderChanged = rpctypes.ErrLeaderChanged
)

// injection makes what can happen around a call. disturb is what another actor does meanwhile.
type injection func(disturb func(ctx context.Context) error, server *clientv3.Client) map[string]around

// faults are those that need no second member of etcd.
func faults(disturb func(ctx context.Context) error, server *clientv3.Client) map[string]around {
	compact := func(ctx context.Context) error {
		if resp, err := server.Get(ctx, "revision"); err == nil {
			_, _ = server.Compact(ctx, resp.Header.Revision) // refused if it was compacted as far already
		}
		return nil
	}
	both := func(ctx context.Context) error { return firstOf(disturb(ctx), compact(ctx)) }
	lost := func(context.Context) error { return errAnswerLost }
	return map[string]around{
		"another actor before it":               {before: disturb},
		"another actor and a compaction before": {before: both},
		"a compaction before it":                {before: compact},
		"etcd changes its leader instead":       {before: func(context.Context) error { return errLeaderChanged }},
		"its answer is lost":                    {after: lost},
		"its answer is lost, another actor":     {after: func(ctx context.Context) error { return firstOf(disturb(ctx), errAnswerLost) }},
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// eachFault runs a case for each fault around each call that it makes. The first run, without fault, counts
// the calls; so each run makes a cluster of its own. A short run, as the race detector's is, tries one fault
// around each call, in turn.
func eachFault(t *testing.T, server *clientv3.Client, faults injection, run func(t *testing.T, p *tap, arm func(disturb func(context.Context) error))) {
	t.Helper()
	counting := newTap()
	run(t, counting, func(func(context.Context) error) { counting.arm(-1, nil, nil) })
	calls := counting.seen()
	if len(calls) == 0 {
		t.Fatal("no call was seen")
	}
	for i, name := range slices.Sorted(maps.Keys(faults(nil, server))) {
		for n, call := range calls {
			if testing.Short() && (i+n)%len(faults(nil, server)) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/call %d, a %s", name, n, call), func(t *testing.T) {
				p := newTap()
				run(t, p, func(disturb func(context.Context) error) {
					f := faults(disturb, server)[name]
					p.arm(n, f.before, f.after)
				})
			})
		}
	}
}
