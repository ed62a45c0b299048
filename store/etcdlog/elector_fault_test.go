package etcdlog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/etcdlog"
)

// Whatever happens around any call of a campaign, the candidate leads once those before it are gone, within
// seconds.
func TestACandidateLeadsWhateverHappensAroundItsCalls(t *testing.T) {
	candidateLeads(t, startEtcd(t).Client, faults)
}

func candidateLeads(t *testing.T, server *clientv3.Client, faults injection) {
	var clusters atomic.Int32
	for name, ahead := range map[string]int{"behind a leader": 1, "behind a leader and a standby": 2} {
		t.Run(name, func(t *testing.T) {
			eachFault(t, server, faults, func(t *testing.T, p *tap, arm func(func(context.Context) error)) {
				cluster := fmt.Sprintf("elect-%d", clusters.Add(1))
				q := queueUp(t, etcdlog.NewElector(server, cluster), ahead)
				arm(func(context.Context) error { q.leave(t, ahead-1); return nil })
				e := etcdlog.NewElector(p.client(t, server), cluster)
				won := make(chan store.Leadership, 1)
				go func() {
					l, err := e.Campaign(bounded(t), store.Candidacy{Service: "lifecycle", Identity: "under test"})
					if err != nil {
						t.Errorf("campaign: %v", err)
						return
					}
					won <- l
				}()
				q.awaitCandidate(t, "under test")
				for n := range ahead {
					q.leave(t, n)
				}
				select {
				case l := <-won:
					_ = l.Resign(bounded(t))
				case <-bounded(t).Done():
					t.Error("it never leads")
				}
			})
		})
	}
}

// line is who stands before the candidate under test, first the leader.
type line struct {
	elector *etcdlog.Elector
	places  []*place
}

type place struct {
	once   sync.Once
	resign func()
}

func queueUp(t *testing.T, e *etcdlog.Elector, n int) *line {
	t.Helper()
	q := &line{elector: e}
	for i := range n {
		name := fmt.Sprintf("ahead-%d", i)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if l, err := e.Campaign(ctx, store.Candidacy{Service: "lifecycle", Identity: name}); err == nil {
				<-ctx.Done()
				_ = l.Resign(context.Background())
			}
		}()
		p := &place{resign: func() { cancel(); <-ended }}
		q.places = append(q.places, p)
		t.Cleanup(func() { p.once.Do(p.resign) })
		q.awaitCandidate(t, name)
	}
	return q
}

// leave has the nth go, if it is still there, and returns when its key is gone.
func (q *line) leave(t *testing.T, n int) {
	q.places[n].once.Do(q.places[n].resign)
}

// awaitCandidate returns once the candidate has a key.
func (q *line) awaitCandidate(t *testing.T, identity string) {
	t.Helper()
	ctx := bounded(t)
	for ctx.Err() == nil {
		list, err := q.elector.Candidates(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Identity == identity {
				return
			}
		}
	}
	t.Fatalf("%s never stood", identity)
}

// bounded is a context that ends long after what should happen within seconds.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
