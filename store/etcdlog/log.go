package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/record"
)

// Config of a Log. Only Client and Cluster are needed.
type Config struct {
	// Client remains the caller's; Close does not close it.
	Client  *clientv3.Client
	Cluster string
	// TxnTimeout bounds one transaction, after which its outcome is unknown and it is sent again; default 5
	// s.
	TxnTimeout time.Duration
	// Patience bounds the attempts for one group of drafts; default 15 s.
	Patience time.Duration
	// MustExist makes Open return ErrNotFound if there is no log, instead of starting one; for readers.
	MustExist bool
	// Clock is asked once, for the time of a new log's genesis; default time.Now.
	Clock func() time.Time
}

// Log implements store.Log.
type Log struct {
	cfg  Config
	kv   clientv3.KV
	keys keys
	id   string

	queue  chan *request
	ctx    context.Context
	stop   context.CancelFunc
	closed chan struct{}
}

var errClosed = errors.New("log is closed")

// Open opens the log of a cluster and writes its genesis if there is none; if there is one it only reads, so
// that it works on a database that is full. It returns ErrForeignLog if the genesis names another cluster.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if cfg.TxnTimeout == 0 {
		cfg.TxnTimeout = 5 * time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = 15 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	l := &Log{
		cfg: cfg, kv: cfg.Client.KV, keys: newKeys(cfg.Cluster),
		queue: make(chan *request, queueMax), closed: make(chan struct{}),
	}
	if err := l.begin(ctx); err != nil {
		return nil, fmt.Errorf("open log of %s: %w", cfg.Cluster, err)
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	c := &committer{log: l, turn: newTurn(l)}
	go c.run()
	return l, nil
}

// begin reads the log-id, after writing a genesis if there is no log.
func (l *Log) begin(ctx context.Context) error {
	resp, err := l.kv.Get(ctx, l.keys.record(1))
	if err != nil {
		return fmt.Errorf("read genesis: %w", err)
	}
	kvs := resp.Kvs
	if len(kvs) == 0 && l.cfg.MustExist {
		return fmt.Errorf("there is no log of a cluster of this name: %w", store.ErrNotFound)
	}
	if len(kvs) == 0 {
		if kvs, err = l.writeGenesis(ctx); err != nil {
			return err
		}
	}
	g, err := record.Unmarshal(1, kvs[0].Value)
	if err != nil {
		return err
	}
	l.id, err = record.LogID(g, l.cfg.Cluster)
	return err
}

// writeGenesis begins the log, unless another process just has, and returns record 1 in either case.
func (l *Log) writeGenesis(ctx context.Context) ([]*mvccpb.KeyValue, error) {
	g, err := record.Genesis(l.cfg.Cluster, record.NewLogID(), l.cfg.Clock())
	if err != nil {
		return nil, err
	}
	data, err := record.Marshal(g)
	if err != nil {
		return nil, err
	}
	key := l.keys.record(1)
	resp, err := l.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.Compare(clientv3.CreateRevision(l.keys.head()), "=", 0)).
		Then(clientv3.OpPut(key, string(data)), clientv3.OpPut(l.keys.head(), formatPlace(g.Place())), clientv3.OpGet(key)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return nil, fmt.Errorf("write genesis: %w", err)
	}
	kvs := resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil, fmt.Errorf("record 1 is missing: %w", store.ErrCorrupt)
	}
	return kvs, nil
}

// ID implements store.Log.
func (l *Log) ID() string { return l.id }

// Head implements store.Log.
func (l *Log) Head(ctx context.Context) (store.Head, error) {
	resp, err := l.kv.Get(ctx, l.keys.head())
	if err != nil {
		return store.Head{}, fmt.Errorf("read head: %w", err)
	}
	p, err := placeOf(resp)
	return p.Head, err
}

// Switch implements store.Log.
func (l *Log) Switch(ctx context.Context, name string) (string, store.Head, error) {
	resp, err := l.kv.Txn(ctx).Then(clientv3.OpGet(l.keys.control(name)), clientv3.OpGet(l.keys.head())).Commit()
	if err != nil {
		return "", store.Head{}, fmt.Errorf("read switch %s: %w", name, err)
	}
	p, err := placeOf((*clientv3.GetResponse)(resp.Responses[1].GetResponseRange()))
	if err != nil {
		return "", store.Head{}, err
	}
	if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return string(kvs[0].Value), p.Head, nil
	}
	return "", p.Head, nil
}

func placeOf(resp *clientv3.GetResponse) (record.Place, error) {
	if len(resp.Kvs) == 0 {
		return record.Place{}, fmt.Errorf("head is missing: %w", store.ErrCorrupt)
	}
	return parsePlace(string(resp.Kvs[0].Value))
}

// Aggregate implements store.Log.
func (l *Log) Aggregate(ctx context.Context, name string) (uint64, error) {
	resp, err := l.kv.Get(ctx, l.keys.stream(name))
	if err != nil {
		return 0, fmt.Errorf("read aggregate %s: %w", name, err)
	}
	if len(resp.Kvs) == 0 {
		return 0, nil
	}
	return parseSequence(resp.Kvs[0])
}

// Close implements store.Log: it ends the committer and returns when it has ended.
func (l *Log) Close() error {
	l.stop()
	<-l.closed
	return nil
}
