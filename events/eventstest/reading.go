package eventstest

import (
	"context"
	"errors"
	"testing"

	"millwright/events"
)

func emptyState(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	if st := state(ctx, t, c); st.First != 1 || st.Last != 0 || st.Incarnation == "" {
		t.Fatalf("empty: %+v", st)
	}
	publish(ctx, t, c, 0, 3)
	if st := state(ctx, t, c); st.First != 1 || st.Last != 3 {
		t.Fatalf("after three: %+v", st)
	}
	s.Discard(t, 4)
	if st := state(ctx, t, c); st.First != 4 || st.Last != 3 {
		t.Fatalf("after all were discarded: %+v", st)
	}
}

func order(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, 4096)
	publish(ctx, t, c, 0, 3000)
	expect(t, collect(ctx, t, c, 1, 3000), 1, 0)
}

func fromSequence(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 20)
	for _, from := range []uint64{1, 7, 20} {
		expect(t, collect(ctx, t, c, from, 21-int(from)), from, int(from)-1)
	}
}

func fromZero(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 20)
	s.Discard(t, 6)
	expect(t, collect(ctx, t, c, 0, 15), 6, 5)
}

func live(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	b := consume(ctx, s.Connect(t, queueMax), 1)
	for i := range 10 {
		publish(ctx, t, c, i, 1)
		expect(t, []events.Message{b.next(ctx, t)}, uint64(i+1), i)
	}
}

func twoClients(ctx context.Context, t *testing.T, s Server) {
	a, b := s.Connect(t, queueMax), s.Connect(t, queueMax)
	publish(ctx, t, a, 0, 5)
	publish(ctx, t, b, 5, 5)
	for _, c := range []events.Stream{a, b} {
		expect(t, collect(ctx, t, c, 1, 10), 1, 0)
		if st := state(ctx, t, c); st != state(ctx, t, a) {
			t.Fatalf("states differ: %+v", st)
		}
	}
}

func callbackError(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 5)
	calls := 0
	err := c.Consume(ctx, 1, func(events.Message) error { calls++; return errEnough })
	if err != errEnough || calls != 1 {
		t.Fatalf("error %v after %d calls", err, calls)
	}
}

func cancelled(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 1)
	inner, cancel := context.WithCancel(ctx)
	b := consume(inner, c, 1)
	b.next(ctx, t)
	cancel()
	if err := <-b.done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func compacted(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 20)
	s.Discard(t, 11)
	if st := state(ctx, t, c); st.First != 11 || st.Last != 20 {
		t.Fatalf("state %+v", st)
	}
	if err := <-consume(ctx, c, 5).done; !errors.Is(err, events.ErrCompacted) {
		t.Fatalf("got %v, want ErrCompacted", err)
	}
	expect(t, collect(ctx, t, c, 11, 10), 11, 10)
}

func beyondEnd(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 5)
	if err := <-consume(ctx, c, 7).done; !errors.Is(err, events.ErrRenewed) {
		t.Fatalf("got %v, want ErrRenewed", err)
	}
}
