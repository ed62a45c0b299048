package etcdlog

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Depose ends all candidacies and leaderships of the cluster, as if their leases had run out. It is for the owner
// of an embedded etcd, right after its start: whoever stood before has died with the previous process, but the
// server grants their leases a new term. Fencing makes it safe in any case.
func (e *Elector) Depose(ctx context.Context) error {
	resp, err := e.client.Get(ctx, e.keys.leaders(), clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("list leaders: %w", err)
	}
	for _, kv := range resp.Kvs {
		if _, err := e.client.Revoke(ctx, clientv3.LeaseID(kv.Lease)); err != nil {
			if _, err := e.client.Delete(ctx, string(kv.Key)); err != nil {
				return fmt.Errorf("depose %s: %w", kv.Key, err)
			}
		}
	}
	return nil
}
