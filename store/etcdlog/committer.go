package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"millwright/store"
)

// committer is the one goroutine of a Log that appends: it groups the waiting requests and commits them.
type committer struct {
	log     *Log
	pending []*request
	// view is nil when nothing is known.
	view *view
	// lost counts the races for the head that were lost in a row.
	lost int
	turn turn
	// crowded: the last turn had to be waited for, so the next append queues at once, and the one before it
	// queues for it.
	crowded bool
	// failed is why the last read failed, nil if it did not.
	failed error
}

func (c *committer) run() {
	defer close(c.log.closed)
	for c.await() {
		c.round()
	}
	c.turn.leave()
	for _, r := range c.pending {
		r.answer(store.Record{}, errClosed)
	}
}

// await waits until something is pending, and takes everything that waits. It reports false when the log is
// closed.
func (c *committer) await() bool {
	if len(c.pending) == 0 && !c.turn.ahead {
		select {
		case <-c.log.ctx.Done():
		case r := <-c.log.queue:
			c.pending = append(c.pending, r)
			runtime.Gosched() // callers that were just answered come back at once: let them into this group
		}
	}
	c.takePending()
	return c.log.ctx.Err() == nil
}

// takePending takes everything that waits.
func (c *committer) takePending() {
	for len(c.pending) < queueMax && c.log.ctx.Err() == nil {
		select {
		case r := <-c.log.queue:
			c.pending = append(c.pending, r)
			continue
		default:
		}
		return
	}
}

// round makes one attempt for the first of the pending requests.
func (c *committer) round() {
	c.dropEnded()
	if c.turn.ahead || c.crowded && c.turn.created == 0 && len(c.pending) > 0 {
		c.queue()
		c.takePending() // requests that arrived in the meantime need not wait for another turn
		c.dropEnded()
	}
	requests := window(c.pending)
	if len(requests) == 0 {
		c.turn.leave()
		return
	}
	if err := c.readAggregates(requests); err != nil {
		c.failed = err
		c.pause(100 * time.Millisecond)
		return
	}
	c.failed = nil
	p := newPlan(c.view, requests)
	if len(p.members) == 0 {
		c.refuseAll(p)
		return
	}
	committed, err := c.send(p)
	switch {
	case err != nil:
		c.turn.leave()
		c.view = nil
		c.settleRequests(p, err)
	case committed:
		c.lost = 0
		c.settleRequests(p, nil)
	default:
		c.lost++
		c.refuseFenced()
		c.prepareRetry()
	}
}

// refuseAll answers when no draft is left to commit; refusals based on an old view are checked again.
func (c *committer) refuseAll(p *plan) {
	if p.final() {
		c.turn.leave()
		c.settleRequests(p, nil)
		return
	}
	c.view = nil
}

// settleRequests answers the requests that p decided about. After an error the refusals of p prove nothing:
// they stay pending.
func (c *committer) settleRequests(p *plan, err error) {
	answered := map[*request]bool{}
	for _, m := range p.members {
		answered[m.request] = true
		if err != nil {
			m.request.answer(store.Record{}, err)
			continue
		}
		m.request.answer(m.sealed.Record, nil)
	}
	for _, r := range p.refused {
		if err == nil {
			answered[r.request] = true
			r.request.answer(store.Record{}, r.err)
		}
	}
	c.pending = slices.DeleteFunc(c.pending, func(r *request) bool { return answered[r] })
}

// dropEnded answers requests whose caller gave up or whose patience is over. Nothing of theirs has been sent,
// or it was sent and certainly not stored.
func (c *committer) dropEnded() {
	kept := c.pending[:0:0]
	for _, r := range c.pending {
		switch {
		case r.ctx.Err() != nil:
			r.answer(store.Record{}, r.ctx.Err())
		case time.Since(r.at) > c.log.cfg.Patience:
			r.answer(store.Record{}, c.errPatience())
		default:
			kept = append(kept, r)
		}
	}
	c.pending = kept
}

// errPatience says why an append was given up after it had waited for as long as it may.
func (c *committer) errPatience() error {
	if c.failed != nil {
		return fmt.Errorf("not stored within %s: %w", c.log.cfg.Patience, withRefusal(c.failed))
	}
	return fmt.Errorf("not stored within %s: lost %d races for the head", c.log.cfg.Patience, c.lost)
}

// refuseFenced answers those whose leader key is gone; a create revision never comes back.
func (c *committer) refuseFenced() {
	kept := c.pending[:0:0]
	for _, r := range c.pending {
		l := r.draft.Draft.Lease
		revision, asked := c.view.created[l.Key]
		if !asked || revision == l.Revision {
			kept = append(kept, r)
			continue
		}
		r.answer(store.Record{}, fmt.Errorf("leader key %s of revision %d: %w", l.Key, l.Revision, store.ErrFenced))
	}
	c.pending = kept
}

// readAggregates reads the head, and what requests expect, unless the view suffices: a few aggregates may be
// assumed.
func (c *committer) readAggregates(requests []*request) error {
	names := expected(requests)
	if c.view != nil && c.view.unknown(names) <= assumedMax {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.log.ctx, c.log.cfg.TxnTimeout)
	defer cancel()
	asOf := time.Now()
	resp, err := c.log.kv.Txn(ctx).Then(nest(gets(c.log.keys, names, nil))...).Commit()
	if err != nil {
		return fmt.Errorf("read head: %w", err)
	}
	v, err := newView(c.log.keys, newFound(resp.Responses), names, nil, asOf)
	if err != nil {
		return err
	}
	c.view = v
	return nil
}

// send commits p. It reports false if the head or a leader key was not as expected; then the view is new. An
// error means that the outcome is unknown, or that etcd refused the request.
func (c *committer) send(p *plan) (bool, error) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond), backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(c.log.cfg.Patience))
	sent := false
	committed := false
	c.turn.prepare(c.crowded)
	err := backoff.Retry(func() error {
		var err error
		committed, err = c.sendOnce(p, sent)
		if err != nil && !sent && refused(err) {
			return backoff.Permanent(fmt.Errorf("commit %d records: %w", len(p.members), withRefusal(err)))
		}
		sent = true
		return err
	}, backoff.WithContext(retry, c.log.ctx))
	switch {
	case err != nil && !sent:
		return false, err
	case err != nil:
		return false, fmt.Errorf("outcome of records %d to %d unknown: %w", p.members[0].sealed.Seq, p.place.Seq, err)
	}
	return committed, nil
}

// sendOnce sends the transaction. again: it was sent before without an answer, so a record it finds at its
// place may be its own. Then it does not wait for its turn either: the answer must say whether the first one
// was carried out or never will be, and only a head or a leader key that moved for good proves that.
func (c *committer) sendOnce(p *plan, again bool) (bool, error) {
	k, names := c.log.keys, expected(p.requests)
	compares, otherwise := p.compares(k), gets(k, names, p.leases)
	if again {
		otherwise = append(otherwise, clientv3.OpGet(k.record(p.members[0].sealed.Seq)))
	} else {
		compares = append(compares, c.turn.compare())
	}
	ctx, cancel := context.WithTimeout(c.log.ctx, c.log.cfg.TxnTimeout)
	defer cancel()
	asOf := time.Now()
	resp, err := c.log.kv.Txn(ctx).If(compares...).Then(append(p.puts(k), c.turn.used()...)...).Else(nest(otherwise)...).Commit()
	if err != nil {
		return false, err
	}
	if resp.Succeeded {
		c.view = c.view.after(p, asOf)
		c.turn.pass(resp.Header.Revision)
		return true, nil
	}
	f := newFound(resp.Responses)
	v, err := newView(k, f, names, p.leases, asOf)
	if err != nil {
		return false, backoff.Permanent(err)
	}
	c.view = v
	first := f[k.record(p.members[0].sealed.Seq)]
	if first == nil || string(first.Value) != p.members[0].data {
		return false, nil
	}
	c.turn.pass(0)
	return true, nil
}

// refused reports whether etcd certainly did not carry out the request.
func refused(err error) bool {
	return codeOf(err) == codes.InvalidArgument || takesNone(err)
}

// takesNone reports that etcd did not carry out the request because it takes no writes, of anybody or of this
// client, whatever they are.
func takesNone(err error) bool {
	switch codeOf(err) {
	case codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return false
}

func codeOf(err error) codes.Code {
	if known := (rpctypes.EtcdError{}); errors.As(err, &known) {
		return known.Code()
	}
	return status.Code(err)
}

// withRefusal wraps store.ErrRefused too if etcd takes no writes.
func withRefusal(err error) error {
	if takesNone(err) {
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	return err
}

// prepareRetry prepares the next attempt after a lost race: at first after a random pause, then by queueing.
func (c *committer) prepareRetry() {
	if c.lost < racesMax {
		c.pause(rand.N(time.Millisecond))
		return
	}
	c.queue()
}

// queue waits for this writer's turn. What the others did in the meantime is not in the view.
func (c *committer) queue() {
	if !c.turn.ahead {
		c.turn.leave() // a turn that was not used was removed
	}
	c.view = nil
	waited, head, err := c.turn.await(c.log.ctx)
	c.crowded = waited
	if err == nil && head != "" {
		c.view, err = viewOfHead(head)
	}
	if err != nil {
		c.turn.leave()
		c.failed = err
		c.pause(100 * time.Millisecond)
	}
}

func (c *committer) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.log.ctx.Done():
	case <-t.C:
	}
}
