package eventstest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"millwright/events"
)

func full(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, 4)
	s.Stall(t)
	accepted := publishUntilFull(ctx, t, c)
	s.Unstall(t)
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	publish(ctx, t, c, accepted, 1)
	expect(t, collect(ctx, t, c, 1, accepted+1), 1, 0)
	if st := state(ctx, t, c); st.Last != uint64(accepted+1) {
		t.Fatalf("last is %d, accepted were %d", st.Last, accepted+1)
	}
}

func publishUntilFull(ctx context.Context, t *testing.T, c events.Stream) int {
	for i := range 1_000_000 {
		err := c.Publish(ctx, payload(i))
		if errors.Is(err, events.ErrFull) {
			return i
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the queue of four was never full")
	return 0
}

func flushReports(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 3)
	s.Interrupt(t)
	if err := errors.Join(c.Publish(ctx, payload(3)), c.Flush(ctx)); err == nil {
		t.Fatal("neither publish nor flush says that the server is away")
	}
	s.Restore(t)
	publishEventually(ctx, t, c, 4)
	if err := c.Flush(ctx); err != nil {
		t.Fatalf("a failure is reported twice: %v", err)
	}
}

// publishEventually retries until the connection stands again.
func publishEventually(ctx context.Context, t *testing.T, c events.Stream, i int) {
	t.Helper()
	for {
		err := c.Publish(ctx, payload(i))
		if err = errors.Join(err, c.Flush(ctx)); err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("still failing: %v", err)
		}
	}
}

func reconnect(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	b := consume(ctx, s.Connect(t, queueMax), 1)
	publish(ctx, t, c, 0, 10)
	for i := range 10 {
		expect(t, []events.Message{b.next(ctx, t)}, uint64(i+1), i)
	}
	s.Interrupt(t)
	s.Restore(t)
	publishEventually(ctx, t, c, 10)
	publish(ctx, t, c, 11, 50)
	seen := map[string]bool{}
	for i := 0; !seen[string(payload(60))]; i++ {
		m := b.next(ctx, t)
		if m.Sequence != uint64(11+i) {
			t.Fatalf("sequence %d follows %d", m.Sequence, 10+i)
		}
		seen[string(m.Data)] = true
	}
	for i := 10; i <= 60; i++ {
		if !seen[string(payload(i))] {
			t.Errorf("message %d is missing", i)
		}
	}
}

func reopen(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 10)
	before := state(ctx, t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = s.Connect(t, queueMax)
	if after := state(ctx, t, c); after != before {
		t.Fatalf("state %+v, before %+v", after, before)
	}
	expect(t, collect(ctx, t, c, 1, 10), 1, 0)
}

func reuse(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	data := make([]byte, 0, 64)
	for i := range 3 {
		data = fmt.Appendf(data[:0], "message %d", i)
		if err := c.Publish(ctx, data); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, collect(ctx, t, c, 1, 3), 1, 0)
}
