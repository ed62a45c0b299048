package storetest

import (
	"context"
	"testing"
	"time"

	"millwright/store"
)

var electionTests = map[string]func(*testing.T, Harness){
	"a leader reports, and still leads": func(t *testing.T, h Harness) {
		l := lead(t, h.Elector(), "lifecycle", "me")
		for _, text := range []string{"first", "second"} {
			if err := l.Report(bounded(t), map[string]string{"at": text}); err != nil {
				t.Fatal(err)
			}
			leaders, err := h.Elector().Leaders(bounded(t))
			if err != nil || len(leaders) != 1 || leaders[0].Report["at"] != text || leaders[0].Identity != "me" {
				t.Fatalf("leaders %+v, %v, want the %s report", leaders, err, text)
			}
		}
		d := draft(1)
		d.Lease = l.Lease()
		mustAppend(t, h.Log, d)
		h.Expire(l)
		wantError(t, l.Report(bounded(t), nil), store.ErrFenced)
	},
	"one leads, the next takes over when it resigns": func(t *testing.T, h Harness) {
		first := lead(t, h.Elector(), "provisioner", "first")
		second := stand(t, h.Elector(), "provisioner", "second")
		second.mustWait(t, h)
		if err := first.Resign(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if next := second.await(t); next.Lease() == first.Lease() {
			t.Fatal("the lease of the first leader came back")
		}
		<-first.Done()
	},
	"a standby takes over when the lease runs out": func(t *testing.T, h Harness) {
		first := lead(t, h.Elector(), "provisioner", "first")
		second := stand(t, h.Elector(), "provisioner", "second")
		h.Expire(first)
		second.await(t)
		select {
		case <-first.Done():
		case <-bounded(t).Done():
			t.Fatal("the first leader does not know that it lost")
		}
		if first.Deadline().After(time.Now()) {
			t.Fatalf("a lost lease is said to stand until %s", first.Deadline())
		}
	},
	"services are elected apart": func(t *testing.T, h Harness) {
		e := h.Elector()
		lead(t, e, "provisioner", "a")
		lead(t, e, "disruptor", "b")
		lead(t, e, "disrupt", "c") // a name that is the prefix of another
	},
	"a leader's lease stands and ends": func(t *testing.T, h Harness) {
		l := lead(t, h.Elector(), "lifecycle", "me")
		if !l.Deadline().After(time.Now()) {
			t.Fatalf("deadline %s is past", l.Deadline())
		}
		select {
		case <-l.Done():
			t.Fatal("done while it leads")
		default:
		}
		for range 2 { // resigning twice is harmless
			if err := l.Resign(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
		<-l.Done()
	},
	"one who may be deposed is promised no time": func(t *testing.T, h Harness) {
		l, err := h.Elector().Campaign(bounded(t), store.Candidacy{Service: "disruptor", Identity: "me", Deposable: true})
		if err != nil {
			t.Fatal(err)
		}
		if !l.Deadline().IsZero() {
			t.Errorf("the lease is said to stand until %s", l.Deadline())
		}
		if err := l.Resign(bounded(t)); err != nil {
			t.Fatal(err)
		}
	},
	"leaders are listed with what they publish": func(t *testing.T, h Harness) {
		e := h.Elector()
		b, a := lead(t, e, "watcher", "w-1"), lead(t, e, "disruptor", "d-1")
		stand(t, h.Elector(), "watcher", "w-2").mustWait(t, h)
		got, err := h.Elector().Leaders(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		want := []store.Leader{
			{Service: "disruptor", Identity: "d-1", Info: map[string]string{"version": "1", "host": "d-1"}, Lease: a.Lease()},
			{Service: "watcher", Identity: "w-1", Info: map[string]string{"version": "1", "host": "w-1"}, Lease: b.Lease()},
		}
		if s := diff(want, got); s != "" {
			t.Fatalf("(-want +got):\n%s", s)
		}
	},
	"a candidate can give up": func(t *testing.T, h Harness) {
		first := lead(t, h.Elector(), "terminator", "first")
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := h.Elector().Campaign(ctx, store.Candidacy{Service: "terminator", Identity: "second"})
			failed <- err
		}()
		cancel()
		wantError(t, <-failed, context.Canceled)
		third := stand(t, h.Elector(), "terminator", "third")
		if err := first.Resign(bounded(t)); err != nil {
			t.Fatal(err)
		}
		third.await(t) // the one who gave up is not in the way
	},
}

// standby campaigns in the background.
type standby struct {
	won chan store.Leadership
}

func stand(t *testing.T, e store.Elector, service, identity string) *standby {
	t.Helper()
	s := &standby{won: make(chan store.Leadership, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if l, err := e.Campaign(ctx, store.Candidacy{Service: service, Identity: identity}); err == nil {
			s.won <- l
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		select {
		case l := <-s.won:
			_ = l.Resign(bounded(t))
		default:
		}
	})
	return s
}

func (s *standby) await(t *testing.T) store.Leadership {
	t.Helper()
	select {
	case l := <-s.won:
		s.won <- l
		return l
	case <-bounded(t).Done():
		t.Fatal("the standby never led")
		return nil
	}
}

// mustWait makes sure that the standby does not lead while the log goes on.
func (s *standby) mustWait(t *testing.T, h Harness) {
	t.Helper()
	fillMore(t, h.Log, 20)
	if len(s.won) > 0 {
		t.Fatal("two lead at once")
	}
}
