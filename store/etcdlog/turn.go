package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// racesMax is how many races in a row a writer may lose before it queues.
	racesMax = 2
	// turnPatience is how long a queued writer waits for the one before it, which may have died.
	turnPatience = 500 * time.Millisecond
)

var (
	errQueueLost = errors.New("queue for the log: watch ended")
	errTurnTaken = errors.New("queue for the log: this writer was too slow, another one removed it")
)

// turn keeps writers from starving each other: a client near etcd could win every race for the head. A
// writer that lost races puts a key under head/turn/ and waits until it is the oldest. While keys exist,
// only the writer of the oldest appends. The transaction that appends deletes its key and, if others
// waited too, puts the next one: with five busy writers each append is one write of etcd, not two. A key
// does not affect the correctness of the log, so one whose owner is dead or slow is simply deleted by the
// writer that waits for it.
type turn struct {
	log *Log
	// key has a name that no other key ever had. created is its create revision, 0 while this writer is
	// not queued.
	key     string
	created int64
	// ahead: the last append queued this writer again, and its turn has not come yet.
	ahead bool
	// next is the key that the transaction being sent puts, if any.
	next string
	// line is nil while this writer is not queued.
	line *line
}

func newTurn(l *Log) turn { return turn{log: l} }

func (t *turn) newKey() string { return fmt.Sprintf("%s%016x", t.log.keys.turns(), rand.Uint64()) }

// compare is the condition of a transaction that appends: that it is this writer's turn.
func (t *turn) compare() clientv3.Cmp {
	if t.created != 0 {
		return clientv3.Compare(clientv3.CreateRevision(t.key), "=", t.created)
	}
	return clientv3.Compare(clientv3.CreateRevision(t.log.keys.turns()), "=", 0).WithPrefix() // nobody is queued
}

// prepare decides whether the next transaction queues this writer again.
func (t *turn) prepare(again bool) {
	t.next = ""
	if again && t.created != 0 {
		t.next = t.newKey()
	}
}

// used are the further operations of a transaction that appends.
func (t *turn) used() []clientv3.Op {
	if t.created == 0 {
		return nil
	}
	ops := []clientv3.Op{clientv3.OpDelete(t.key)}
	if t.next != "" {
		ops = append(ops, clientv3.OpPut(t.next, ""))
	}
	return ops
}

// pass is called when the transaction was carried out at a revision of etcd, 0 if that is not known.
func (t *turn) pass(revision int64) {
	t.key = "" // the transaction deleted it
	if t.next == "" || revision == 0 {
		t.leave()
		return
	}
	t.key, t.created, t.ahead, t.next = t.next, revision, true, ""
}

// await queues, if this writer is not queued already, and returns when it is its turn: whether it had to
// wait, and the value of the head then, if it learned it.
func (t *turn) await(ctx context.Context) (waited bool, head string, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.log.cfg.TxnTimeout)
	defer cancel()
	if t.created == 0 {
		if err := t.enter(ctx); err != nil {
			return false, "", err
		}
	}
	t.ahead = false
	impatient := time.NewTimer(turnPatience)
	defer impatient.Stop()
	for {
		older, err := t.line.before(t.key, t.created)
		if err != nil || older != nil && len(older) == 0 {
			return waited, t.line.head, err
		}
		waited = waited || len(older) > 0
		select {
		case <-ctx.Done():
			return waited, "", ctx.Err()
		case resp, ok := <-t.line.events:
			if !ok || resp.Err() != nil {
				return waited, "", errQueueLost
			}
			t.line.apply(resp.Events, t.log.keys)
			impatient.Reset(turnPatience)
		case <-impatient.C:
			if older == nil {
				return waited, "", errQueueLost
			}
			return waited, "", t.removeKeys(ctx, older)
		}
	}
}

// enter puts this writer's key and learns who else is queued.
func (t *turn) enter(ctx context.Context) error {
	t.line = newLine(t.log)
	t.key = t.newKey()
	resp, err := t.log.kv.Put(ctx, t.key, "")
	if err != nil {
		return fmt.Errorf("queue for the log: %w", err)
	}
	t.created = resp.Header.Revision
	select {
	case _, ok := <-t.line.events: // says that the watch began
		if !ok {
			return errQueueLost
		}
	case <-ctx.Done():
		return errQueueLost
	}
	queued, err := t.log.kv.Get(ctx, t.log.keys.turns(), clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("read queue for the log: %w", err)
	}
	for _, kv := range queued.Kvs {
		t.line.queued[string(kv.Key)] = kv.CreateRevision
	}
	t.line.seen = t.created
	return nil
}

// leave gives the turn back unused. If etcd cannot be reached, the next writer removes it.
func (t *turn) leave() {
	keys := slices.DeleteFunc([]string{t.key, t.next}, func(key string) bool { return key == "" })
	if t.line != nil {
		t.line.cancel()
	}
	*t = turn{log: t.log}
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.log.ctx), turnPatience)
	defer cancel()
	_ = t.removeKeys(ctx, keys)
}

func (t *turn) removeKeys(ctx context.Context, keys []string) error {
	for chunk := range slices.Chunk(keys, opsMax) {
		var deletes []clientv3.Op
		for _, key := range chunk {
			deletes = append(deletes, clientv3.OpDelete(key))
		}
		if _, err := t.log.kv.Txn(ctx).Then(deletes...).Commit(); err != nil {
			return fmt.Errorf("leave the queue for the log: %w", err)
		}
	}
	return nil
}

// line is what a queued writer knows of the queue.
type line struct {
	events clientv3.WatchChan
	cancel context.CancelFunc
	// queued has the create revision of each key.
	queued map[string]int64
	// head is the value of the head, "" while it is not known. seen is the revision up to which all of
	// this is known.
	head string
	seen int64
}

// newLine begins to watch. The watch begins before the queue is read: from then on it misses nothing. (A
// watch from a revision in the past would get its first events up to 100 ms late.) It sees the head as
// well. It shares the stream of Log.Watch, which stays open: etcd authenticates a user with a password at
// the beginning of each stream.
func newLine(l *Log) *line {
	ctx, cancel := context.WithCancel(l.ctx)
	events := l.cfg.Client.Watch(clientv3.WithRequireLeader(ctx), l.keys.head(), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	return &line{events: events, cancel: cancel, queued: map[string]int64{}}
}

func (l *line) apply(events []*clientv3.Event, k keys) {
	for _, ev := range events {
		key := string(ev.Kv.Key)
		switch {
		case key == k.head():
			l.head = string(ev.Kv.Value)
		case ev.Type == clientv3.EventTypeDelete:
			delete(l.queued, key)
		default:
			l.queued[key] = ev.Kv.CreateRevision
		}
		l.seen = max(l.seen, ev.Kv.ModRevision)
	}
}

// before returns the keys older than the one created at a revision; nil while not all of them are known.
func (l *line) before(key string, created int64) ([]string, error) {
	if l.seen < created {
		return nil, nil
	}
	if _, there := l.queued[key]; !there {
		return nil, errTurnTaken
	}
	older := []string{}
	for other, revision := range l.queued {
		if revision < created {
			older = append(older, other)
		}
	}
	return older, nil
}
