package etcdlog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// silenceMax is how long a deposable leader may go without renewing its lease. etcd reports the remaining
	// time in whole seconds, so it is one.
	silenceMax = time.Second
	lookEvery  = 100 * time.Millisecond
	// lookTimeout bounds a request, on an etcd that is slow.
	lookTimeout = 250 * time.Millisecond
)

// Depose ends all candidacies and leaderships of the cluster, as if their leases had expired. It is for the
// owner of an embedded etcd, right after its start: all previous candidates died with the previous process,
// but the server grants their leases a new term. Fencing makes it safe in any case.
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

// deposeSilent ends the lease of a deposable candidate once it has not renewed it for silenceMax, and
// returns; or when ctx ends. Two checks must agree: after etcd itself was stalled, its clients need a moment
// to renew. If it cannot be checked or ended, the lease is left to expire.
func (l *leadership) deposeSilent(ctx context.Context, before *mvccpb.KeyValue) {
	var c candidate
	if err := json.Unmarshal(before.Value, &c); err != nil || !c.Deposable {
		return
	}
	id := clientv3.LeaseID(before.Lease)
	for silent := 0; silent < 2; {
		if sleep(ctx, l.client.Ctx(), lookEvery) != nil {
			return
		}
		if l.silent(ctx, id) {
			silent++
		} else {
			silent = 0
		}
	}
	revoking, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	_, _ = l.client.Revoke(revoking, id)
}

// silent reports that etcd answered, and that the lease was last renewed more than silenceMax ago.
func (l *leadership) silent(ctx context.Context, id clientv3.LeaseID) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	left, err := l.client.TimeToLive(ctx, id)
	return err == nil && left.TTL >= 0 && left.TTL <= left.GrantedTTL-1-int64(silenceMax/time.Second)
}
