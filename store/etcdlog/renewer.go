package etcdlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// renewer renews the leases of all leaderships and standbys of a client, over one stream that stays open:
// etcd authenticates a user with a password at the beginning of each. (The client's own keep-alive does not
// say when a renewal was sent, which Deadline needs, and renews too seldom; its KeepAliveOnce opens a stream
// each time.)
type renewer struct {
	client   *clientv3.Client
	requests chan renewal

	mu    sync.Mutex
	users int
	stop  context.CancelFunc
	ended chan struct{}
}

// renewal of a lease. answer gets the time to live in seconds, 0 if there is no such lease; it may be called
// again, or never. Once wanted ends, the answer is not needed.
type renewal struct {
	id     clientv3.LeaseID
	wanted context.Context
	answer func(ttl int64)
}

const (
	// renewalsMax bounds the renewals that wait, for the stream or for their answer.
	renewalsMax = 64
	// streamPatience is how long an answer may take before a second stream is tried, which may lead to
	// another member of etcd.
	streamPatience = renewEvery
	// streamRetry is the pause before another stream.
	streamRetry = 100 * time.Millisecond
)

func newRenewer(client *clientv3.Client) *renewer {
	return &renewer{client: client, requests: make(chan renewal, renewalsMax)}
}

// join keeps the renewer working until every user has left.
func (r *renewer) join() (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users++; r.users == 1 {
		var ctx context.Context
		ctx, r.stop = context.WithCancel(r.client.Ctx())
		r.ended = make(chan struct{})
		go func(ended chan struct{}) {
			defer close(ended)
			r.run(ctx)
		}(r.ended)
	}
	return r.leave
}

func (r *renewer) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		r.stop()
		<-r.ended
	}
}

// renew never blocks: a renewal for which there is no room is dropped.
func (r *renewer) renew(wanted context.Context, id clientv3.LeaseID, answer func(ttl int64)) {
	select {
	case r.requests <- renewal{id: id, wanted: wanted, answer: answer}:
	default:
	}
}

func (r *renewer) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	conn := r.client.ActiveConnection()
	if conn == nil { // etcd runs in this process
		r.call(ctx, &group)
		return
	}
	leases := etcdserverpb.NewLeaseClient(conn)
	var unanswered []renewal
	older := func() {}
	defer func() { older() }()
	for ctx.Err() == nil {
		opened, end := context.WithCancel(ctx)
		s := &renewals{end: end, sent: make(chan renewal, renewalsMax), answered: make(chan struct{}, 1)}
		var err error
		if s.stream, err = leases.LeaseKeepAlive(opened); err == nil {
			group.Go(s.receive)
			unanswered = newest(s.send(opened, r.requests, unanswered))
		}
		older() // whatever it might still have answered was requested again
		older = end
		_ = sleep(ctx, r.client.Ctx(), streamRetry)
	}
}

// newest keeps the last renewal of each lease that is still wanted: while etcd does not answer, the queue
// must not grow beyond what a stream accepts.
func newest(all []renewal) (kept []renewal) {
	seen := map[clientv3.LeaseID]bool{}
	for _, x := range slices.Backward(all) {
		if !seen[x.id] && x.wanted.Err() == nil {
			seen[x.id] = true
			kept = append(kept, x)
		}
	}
	slices.Reverse(kept)
	return kept
}

// call renews by calls, which are cheap within a process.
func (r *renewer) call(ctx context.Context, group *sync.WaitGroup) {
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-r.requests:
			group.Go(func() {
				ctx, cancel := context.WithTimeout(x.wanted, LeaseTTLAlone)
				defer cancel()
				resp, err := r.client.KeepAliveOnce(ctx, x.id)
				switch {
				case errors.Is(err, rpctypes.ErrLeaseNotFound):
					x.answer(0)
				case err == nil:
					x.answer(resp.TTL)
				}
			})
		}
	}
}

// renewals are those on one stream. etcd answers them in order.
type renewals struct {
	stream   etcdserverpb.Lease_LeaseKeepAliveClient
	end      context.CancelFunc
	sent     chan renewal
	answered chan struct{}
}

func (s *renewals) receive() {
	defer s.end()
	for {
		resp, err := s.stream.Recv()
		if err != nil {
			return
		}
		x := <-s.sent
		x.answer(resp.TTL)
		select {
		case s.answered <- struct{}{}:
		default:
		}
	}
}

// send sends first, then what arrives, until the stream ends or an answer is overdue; it returns what another
// stream should request again.
func (s *renewals) send(ctx context.Context, requests <-chan renewal, first []renewal) (unanswered []renewal) {
	overdue := time.NewTimer(streamPatience)
	defer overdue.Stop()
	for {
		for i, x := range first {
			if !s.request(x) {
				return append(unanswered, first[i:]...)
			}
			if unanswered = append(unanswered, x); len(unanswered) == 1 {
				overdue.Reset(streamPatience)
			}
		}
		first = nil
		select {
		case <-ctx.Done():
			return unanswered
		case <-overdue.C:
			if len(unanswered) > 0 {
				return unanswered
			}
		case <-s.answered:
			unanswered = unanswered[max(0, len(unanswered)-len(s.sent)):]
			overdue.Reset(streamPatience)
		case x := <-requests:
			if x.wanted.Err() == nil {
				first = []renewal{x}
			}
		}
	}
}

// request reports false if the stream accepts no more.
func (s *renewals) request(x renewal) bool {
	select {
	case s.sent <- x:
	default:
		return false
	}
	return s.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(x.id)}) == nil
}
