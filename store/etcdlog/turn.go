package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// racesMax is how many races in a row a writer may lose before it queues.
	racesMax = 2
	// turnPatience is how long a queued writer waits for the one before it, which may have died.
	turnPatience = 500 * time.Millisecond
)

// turn keeps writers from starving each other: a client near etcd could win every race for the head. A writer
// that lost races puts a key under head/turn/ and waits until no older one exists. While keys exist, only the
// writer of the oldest appends; the transaction that appends deletes its key. A key does not affect the
// correctness of the log, so one whose owner is dead or slow is simply deleted by the writer that waits for
// it.
type turn struct {
	log *Log
	key string
	// created is the create revision of the key, 0 while this writer is not queued.
	created int64
}

func newTurn(l *Log) turn {
	return turn{log: l, key: fmt.Sprintf("%s%016x", l.keys.turns(), rand.Uint64())}
}

// compare is the condition of a transaction that appends: that it is this writer's turn.
func (t *turn) compare() clientv3.Cmp {
	if t.created != 0 {
		return clientv3.Compare(clientv3.CreateRevision(t.key), "=", t.created)
	}
	return clientv3.Compare(clientv3.CreateRevision(t.log.keys.turns()), "=", 0).WithPrefix() // nobody is queued
}

// used are the further operations of a transaction that appends.
func (t *turn) used() []clientv3.Op {
	if t.created == 0 {
		return nil
	}
	return []clientv3.Op{clientv3.OpDelete(t.key)}
}

// await queues and returns when it is this writer's turn: whether it had to wait, and the value of the head
// then, if it learned it.
func (t *turn) await(ctx context.Context) (waited bool, head string, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.log.cfg.TxnTimeout)
	defer cancel()
	// The watch begins before the read: from then on, older keys can only disappear. (A watch from a revision
	// in the past would get its first events up to 100 ms late.) It sees the head as well. It shares the
	// stream of Log.Watch, which stays open: etcd authenticates a user with a password at the beginning of
	// each stream.
	events := t.log.cfg.Client.Watch(clientv3.WithRequireLeader(ctx), t.log.keys.head(), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	resp, err := t.log.kv.Put(ctx, t.key, "")
	if err != nil {
		return false, "", fmt.Errorf("queue for the log: %w", err)
	}
	t.created = resp.Header.Revision
	if _, ok := <-events; !ok {
		return false, "", errQueueLost
	}
	older, err := t.older(ctx)
	if err != nil || len(older) == 0 {
		return false, "", err
	}
	head, err = t.awaitTurn(ctx, older, events)
	return true, head, err
}

var errQueueLost = errors.New("queue for the log: watch ended")

// older returns the create revision of each key that is older than ours, by key.
func (t *turn) older(ctx context.Context) (map[string]int64, error) {
	resp, err := t.log.kv.Get(ctx, t.log.keys.turns(), clientv3.WithPrefix(), clientv3.WithMaxCreateRev(t.created-1))
	if err != nil {
		return nil, fmt.Errorf("read queue for the log: %w", err)
	}
	older := map[string]int64{}
	for _, kv := range resp.Kvs {
		older[string(kv.Key)] = kv.CreateRevision
	}
	return older, nil
}

// awaitTurn waits until the older writers have had their turn and returns the last head they wrote. If
// nothing moves for too long, all of their keys are deleted.
func (t *turn) awaitTurn(ctx context.Context, older map[string]int64, events clientv3.WatchChan) (head string, err error) {
	impatient := time.NewTimer(turnPatience)
	defer impatient.Stop()
	for len(older) > 0 {
		select {
		case resp, ok := <-events:
			if !ok || resp.Err() != nil {
				return "", errQueueLost
			}
			for _, ev := range resp.Events {
				if string(ev.Kv.Key) == t.log.keys.head() {
					head = string(ev.Kv.Value)
				}
				if ev.Type == clientv3.EventTypeDelete {
					delete(older, string(ev.Kv.Key))
				}
			}
			impatient.Reset(turnPatience)
		case <-impatient.C:
			for key, created := range older {
				if err := (&turn{log: t.log, key: key, created: created}).remove(ctx); err != nil {
					return "", err
				}
			}
			return "", nil
		}
	}
	return head, nil
}

func (t *turn) remove(ctx context.Context) error {
	_, err := t.log.kv.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(t.key), "=", t.created)).Then(clientv3.OpDelete(t.key)).Commit()
	if err != nil {
		return fmt.Errorf("leave the queue for the log: %w", err)
	}
	return nil
}

// leave gives the turn back unused. If etcd cannot be reached, the next writer removes it.
func (t *turn) leave() {
	if t.created == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.log.ctx), turnPatience)
	defer cancel()
	_ = t.remove(ctx)
	t.created = 0
}
