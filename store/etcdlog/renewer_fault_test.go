package etcdlog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"millwright/store"
	"millwright/store/etcdlog"
)

// streamTap stands between a client and etcd's streams of renewals of leases.
type streamTap struct {
	mu sync.Mutex
	// held, while it is open, holds back what comes from etcd; nil: nothing is held.
	held chan struct{}
	// answer is asked before each answer passes, with its number, and may end the stream instead. nil: all
	// pass.
	answer func(n int) error
	n      int
}

func (p *streamTap) hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held = nil
		close(held)
	})
}

// pass returns when an answer may pass.
func (p *streamTap) pass(ctx context.Context) error {
	p.mu.Lock()
	held, answer, n := p.held, p.answer, p.n
	p.n++
	p.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if answer != nil {
		return answer(n)
	}
	return nil
}

func (p *streamTap) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil || !strings.HasSuffix(method, "/LeaseKeepAlive") {
		return s, err
	}
	return tappedStream{s, p}, nil
}

type tappedStream struct {
	grpc.ClientStream
	tap *streamTap
}

func (s tappedStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	return s.tap.pass(s.Context())
}

// dialTapped connects with a tap on the streams of renewals.
func dialTapped(t *testing.T, p *streamTap, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(p.intercept)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// stander campaigns whenever it does not lead, as a process does, until the test ends.
type stander struct {
	mu   sync.Mutex
	lead store.Leadership
}

func stands(t *testing.T, e *etcdlog.Elector, c store.Candidacy) *stander {
	t.Helper()
	s := &stander{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			l, err := e.Campaign(ctx, c)
			if err != nil {
				return
			}
			s.set(l)
			select {
			case <-l.Done():
				s.set(nil)
			case <-ctx.Done():
				_ = l.Resign(bounded(t))
			}
		}
	}()
	return s
}

func (s *stander) set(l store.Leadership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lead = l
}

func (s *stander) leads() store.Leadership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lead
}

// Answers to renewals are held back for so long that more renewals wait than a stream takes, while all else
// of etcd works. Afterwards everybody leads again, and goes on leading.
func TestLeadersComeBackAfterRenewalsHung(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	p := &streamTap{}
	e := etcdlog.NewElector(dialTapped(t, p, server.Endpoints[0]), "test")
	var all []*stander
	for i := range 6 {
		all = append(all, stands(t, e, store.Candidacy{Service: fmt.Sprintf("service-%d", i), Identity: "me", Deposable: true}))
	}
	release := p.hold()
	time.Sleep(12 * time.Second)
	release()
	// Before long there is a span, longer than a lease, in which nobody loses the lead.
	held := func() (who []store.Leadership) {
		for _, s := range all {
			who = append(who, s.leads())
		}
		return who
	}
	for began := time.Now(); time.Since(began) < 40*time.Second; {
		before := held()
		time.Sleep(4 * time.Second)
		if !slices.Contains(before, nil) && slices.Equal(before, held()) {
			return
		}
	}
	t.Errorf("long after etcd answers again the leaders are %v: they do not renew their leases", held())
}
