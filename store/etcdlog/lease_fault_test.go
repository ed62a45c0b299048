package etcdlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/etcdlog"
)

// A leader leads on, whatever happens around one of its renewals, unless another actor took its lease away:
// then it knows before long. At no time does it believe to lead past the moment at which another leads.
func TestALeaderRenewsItsLeaseWhateverHappensAroundTheCall(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	etcd := server.Client
	hang := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second): // longer than some renewals
			return nil
		}
	}
	var clusters atomic.Int32
	for n := range 2 {
		for name, f := range faults(nil, etcd) {
			if name == "another actor before it" || name == "its answer is lost, another actor" || name == "another actor and a compaction before" {
				continue // below
			}
			t.Run(fmt.Sprintf("%s/renewal %d", name, n), func(t *testing.T) {
				t.Parallel()
				aroundRenewal(t, etcd, fmt.Sprintf("renew-%d", clusters.Add(1)), n, func(string) around { return f }, false)
			})
		}
		deposed := func(cluster string) around {
			depose := func(ctx context.Context) error { return etcdlog.NewElector(etcd, cluster).Depose(ctx) }
			if n == 0 {
				return around{before: depose}
			}
			return around{after: func(ctx context.Context) error { return firstOf(depose(ctx), errAnswerLost) }}
		}
		t.Run(fmt.Sprintf("another actor ends the lease/renewal %d", n), func(t *testing.T) {
			t.Parallel()
			aroundRenewal(t, etcd, fmt.Sprintf("renew-%d", clusters.Add(1)), n, deposed, true)
		})
		t.Run(fmt.Sprintf("it hangs/renewal %d", n), func(t *testing.T) {
			t.Parallel()
			aroundRenewal(t, etcd, fmt.Sprintf("renew-%d", clusters.Add(1)), n, func(string) around { return around{before: hang} }, false)
		})
	}
}

// aroundRenewal has a leader and a standby, and one fault around the nth renewal.
func aroundRenewal(t *testing.T, server *clientv3.Client, cluster string, n int, fault func(cluster string) around, loses bool) {
	p := newTap()
	p.timed = true
	f := fault(cluster)
	p.arm(n, f.before, f.after)
	first, err := etcdlog.NewElector(p.client(t, server), cluster, etcdlog.LeaseTTLAlone).Campaign(bounded(t), store.Candidacy{Service: "lifecycle", Identity: "first"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Resign(bounded(t)) }()
	standby := make(chan store.Leadership, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		l, err := etcdlog.NewElector(server, cluster).Campaign(ctx, store.Candidacy{Service: "lifecycle", Identity: "standby"})
		if err == nil {
			standby <- l
			<-ctx.Done()
			_ = l.Resign(bounded(t))
		}
	}()
	over := time.After(8 * time.Second)
	var lost bool
	for {
		select {
		case <-first.Done():
			if lost = true; !loses {
				t.Fatal("the leader lost its lease")
			}
			select {
			case <-standby:
				return
			case <-time.After(8 * time.Second):
				t.Fatal("the standby does not take over")
			}
		case l := <-standby:
			if until := first.Deadline(); !loses && time.Now().Before(until) {
				t.Errorf("two lead: the first until %s, and the standby by %v", until, l.Lease())
			}
			standby <- l
			select {
			case <-first.Done():
			case <-time.After(4 * time.Second):
				t.Fatal("the leader does not know that another leads")
			}
		case <-over:
			if loses && !lost {
				t.Error("the leader never learned that it is deposed")
			}
			if len(p.seen()) < n+2 {
				t.Errorf("renewals: %v", p.seen())
			}
			return
		}
	}
}

// A standby looks at what is left of the lease of the deposable leader before it. Whatever happens around a
// look, it deposes no leader that renews its lease, and one that is silent it deposes before its lease has
// run out, or soon after.
func TestAStandbyLooksAtALeaseWhateverHappensAroundTheCall(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	etcd := server.Client
	var clusters atomic.Int32
	for _, n := range []int{0, 3} {
		for name := range faults(nil, etcd) {
			t.Run(fmt.Sprintf("%s/look %d", name, n), func(t *testing.T) {
				t.Parallel()
				aroundLook(t, etcd, fmt.Sprintf("look-%d", clusters.Add(1)), n, name)
			})
		}
	}
}

func aroundLook(t *testing.T, server *clientv3.Client, cluster string, n int, fault string) {
	var silent atomic.Bool
	leaders := newTap()
	leaders.timed = true
	errSilent := errors.New("it stands still")
	// Once it is silent, no renewal of the leader reaches etcd.
	leaders.every = func(ctx context.Context) error {
		if silent.Load() {
			return errSilent
		}
		return nil
	}
	leader, err := etcdlog.NewElector(leaders.client(t, server), cluster).Campaign(bounded(t), store.Candidacy{Service: "disruptor", Identity: "first", Deposable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = leader.Resign(bounded(t)) }()
	p := newTap()
	p.timed = true
	p.only = callLook
	f := faults(func(ctx context.Context) error { // another standby comes and goes
		_, err := server.Put(ctx, "/millwright/"+cluster+"/leader/disruptor/other", `{}`)
		return err
	}, server)[fault]
	p.arm(n, f.before, f.after)
	won := make(chan store.Leadership, 1)
	go func() {
		if l, err := etcdlog.NewElector(p.client(t, server), cluster).Campaign(bounded(t), store.Candidacy{Service: "disruptor", Identity: "standby", Deposable: true}); err == nil {
			won <- l
		}
	}()
	select {
	case <-leader.Done():
		t.Fatal("a leader that renews its lease was deposed")
	case <-time.After(2 * time.Second):
	}
	if len(p.seen()) <= n {
		t.Fatalf("only looked %d times", len(p.seen()))
	}
	silent.Store(true)
	select {
	case l := <-won:
		_ = l.Resign(bounded(t))
	case <-time.After(6 * time.Second):
		t.Fatal("a silent leader is not deposed")
	}
}
