package etcdlog

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
)

var _ store.Cursors = (*Log)(nil)

// Cursor implements store.Cursors.
func (l *Log) Cursor(ctx context.Context, name string) (string, error) {
	resp, err := l.kv.Get(ctx, l.keys.cursor(name))
	if err != nil {
		return "", fmt.Errorf("read cursor %s: %w", name, err)
	}
	if len(resp.Kvs) == 0 {
		return "", nil
	}
	return string(resp.Kvs[0].Value), nil
}

// SetCursor implements store.Cursors.
func (l *Log) SetCursor(ctx context.Context, lease store.Lease, name, value string) error {
	if len(value) > store.MaxCursorBytes {
		return fmt.Errorf("set cursor %s to %d bytes: %w", name, len(value), store.ErrTooLarge)
	}
	if lease.Key == "" {
		return fmt.Errorf("set cursor %s without a lease: %w", name, store.ErrFenced)
	}
	resp, err := l.kv.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(lease.Key), "=", lease.Revision)).
		Then(clientv3.OpPut(l.keys.cursor(name), value)).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("set cursor %s: %w", name, err)
	case !resp.Succeeded:
		return fmt.Errorf("set cursor %s: %w", name, store.ErrFenced)
	}
	return nil
}
