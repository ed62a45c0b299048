package etcdlog

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/record"
)

// compactStep bounds the records deleted by one transaction: etcd does nothing else meanwhile.
const compactStep = 1000

// Base is the last record that is no longer live; zero if all are.
func (l *Log) Base(ctx context.Context) (store.Head, error) {
	p, _, err := l.base(ctx)
	return p.Head, err
}

// base returns the place and the raw value of the key base, "" without one.
func (l *Log) base(ctx context.Context) (record.Place, string, error) {
	resp, err := l.kv.Get(ctx, l.keys.base())
	if err != nil {
		return record.Place{}, "", fmt.Errorf("read base: %w", err)
	}
	if len(resp.Kvs) == 0 {
		return record.Place{}, "", nil
	}
	p, err := parsePlace(string(resp.Kvs[0].Value))
	return p, string(resp.Kvs[0].Value), err
}

// Stored returns up to limit live records from sequence from on, as they are stored: without blobs.
func (l *Log) Stored(ctx context.Context, from uint64, limit int) ([]record.Stored, error) {
	p, err := l.page(ctx, max(from, 1), limit)
	return p.records, err
}

// Compact deletes the live records up to and including through, except the genesis, and lets etcd discard the
// history of all keys. The caller has archived and verified what it deletes; ErrCorrupt: the record is not
// the one named, and nothing is deleted. Readers below it get ErrCompacted; watches beyond it continue.
func (l *Log) Compact(ctx context.Context, through store.Head) error {
	base, raw, err := l.base(ctx)
	if err != nil || through.Seq <= max(base.Seq, 1) {
		return err
	}
	same, err := l.last(ctx, through)
	if err != nil {
		return fmt.Errorf("compact through %d: %w", through.Seq, err)
	}
	for seq := base.Seq; seq < through.Seq; {
		seq = min(max(seq, 1)+compactStep, through.Seq)
		if raw, err = l.compact(ctx, raw, seq, same); err != nil {
			return fmt.Errorf("compact through %d: %w", seq, err)
		}
	}
	return l.Forget(ctx, 0)
}

// last returns a condition that holds as long as a live record, which is not the head, is unchanged.
func (l *Log) last(ctx context.Context, through store.Head) (clientv3.Cmp, error) {
	key := l.keys.record(through.Seq)
	resp, err := l.kv.Txn(ctx).Then(clientv3.OpGet(l.keys.head()), clientv3.OpGet(key)).Commit()
	if err != nil {
		return clientv3.Cmp{}, fmt.Errorf("read the record: %w", err)
	}
	head, err := placeOf((*clientv3.GetResponse)(resp.Responses[0].GetResponseRange()))
	if err != nil {
		return clientv3.Cmp{}, err
	}
	kvs := resp.Responses[1].GetResponseRange().GetKvs()
	switch {
	case through.Seq >= head.Seq:
		return clientv3.Cmp{}, fmt.Errorf("head is %d", head.Seq)
	case len(kvs) == 0:
		return clientv3.Cmp{}, fmt.Errorf("the record is gone: %w", store.ErrConflict)
	}
	s, err := record.Unmarshal(through.Seq, kvs[0].Value)
	if err != nil {
		return clientv3.Cmp{}, err
	}
	if s.Hash != through.Hash {
		return clientv3.Cmp{}, fmt.Errorf("the record is another: %w", store.ErrCorrupt)
	}
	return clientv3.Compare(clientv3.ModRevision(key), "=", kvs[0].ModRevision), nil
}

// compact moves the base from its raw value to a record and deletes what is before it. It fails if another
// process moved it, or if the record that was checked has changed since.
func (l *Log) compact(ctx context.Context, from string, through uint64, same clientv3.Cmp) (string, error) {
	p, err := l.page(ctx, through, 1)
	if err != nil {
		return "", err
	}
	if len(p.records) == 0 {
		return "", fmt.Errorf("the log ends at record %d: %w", p.head.Seq, store.ErrConflict)
	}
	to := formatPlace(p.records[0].Place())
	unmoved := clientv3.Compare(clientv3.Value(l.keys.base()), "=", from)
	if from == "" {
		unmoved = clientv3.Compare(clientv3.CreateRevision(l.keys.base()), "=", 0)
	}
	resp, err := l.kv.Txn(ctx).If(unmoved, same).Then(
		clientv3.OpDelete(l.keys.record(2), clientv3.WithRange(l.keys.record(through+1))),
		clientv3.OpPut(l.keys.base(), to),
	).Commit()
	if err != nil {
		return "", err
	}
	if !resp.Succeeded {
		return "", fmt.Errorf("another process compacts: %w", store.ErrConflict)
	}
	return to, nil
}

// Revision is etcd's present one, for Forget.
func (l *Log) Revision(ctx context.Context) (int64, error) {
	resp, err := l.kv.Get(ctx, l.keys.head(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("read revision: %w", err)
	}
	return resp.Header.Revision, nil
}

// Forget lets etcd discard the history of all keys before a revision; 0 is the present one. The values of the
// keys stay.
func (l *Log) Forget(ctx context.Context, revision int64) (err error) {
	if revision == 0 {
		if revision, err = l.Revision(ctx); err != nil {
			return err
		}
	}
	// Physically: when it returns, Defragment finds the room.
	if _, err = l.cfg.Client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}
