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

// compactStep bounds the records deleted by one transaction: etcd carries out nothing else meanwhile.
const compactStep = 1000

// Base is the last record that is not live any more; zero if all are.
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

// Compact deletes the live records up to and including through, the genesis excepted, and lets etcd forget
// the history of all keys. Who calls it has archived and verified what it deletes. Readers below get
// ErrCompacted; watches beyond go on.
func (l *Log) Compact(ctx context.Context, through uint64) error {
	base, raw, err := l.base(ctx)
	if err != nil || through <= max(base.Seq, 1) {
		return err
	}
	p, err := l.page(ctx, through, 1)
	switch {
	case err != nil:
		return fmt.Errorf("compact through %d: %w", through, err)
	case through >= p.head.Seq:
		return fmt.Errorf("compact through %d: head is %d", through, p.head.Seq)
	}
	for seq := base.Seq; seq < through; {
		seq = min(max(seq, 1)+compactStep, through)
		if raw, err = l.compact(ctx, raw, seq); err != nil {
			return fmt.Errorf("compact through %d: %w", seq, err)
		}
	}
	return l.Forget(ctx, 0)
}

// compact moves the base from its raw value to a record and deletes what is before. It fails if another process moved it.
func (l *Log) compact(ctx context.Context, from string, through uint64) (string, error) {
	p, err := l.page(ctx, through, 1)
	if err != nil {
		return "", err
	}
	to := formatPlace(p.records[0].Place())
	unmoved := clientv3.Compare(clientv3.Value(l.keys.base()), "=", from)
	if from == "" {
		unmoved = clientv3.Compare(clientv3.CreateRevision(l.keys.base()), "=", 0)
	}
	resp, err := l.kv.Txn(ctx).If(unmoved).Then(
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

// Forget lets etcd forget the history of all keys before a revision; 0 is the present one. What the keys hold stays.
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
