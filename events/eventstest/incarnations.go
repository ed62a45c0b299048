package eventstest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"millwright/events"
)

func renew(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 10)
	before := state(ctx, t, c)
	after, err := c.Renew(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after.Incarnation == before.Incarnation || after.First != 1 || after.Last != 0 {
		t.Fatalf("renewed %+v into %+v", before, after)
	}
	publish(ctx, t, c, 100, 2)
	expect(t, collect(ctx, t, c, 1, 2), 1, 100)
	if st := state(ctx, t, s.Connect(t, queueMax)); st.Incarnation != after.Incarnation || st.Last != 2 {
		t.Fatalf("a new client finds %+v", st)
	}
}

func renewedConsumer(ctx context.Context, t *testing.T, s Server) {
	publisher, reader := s.Connect(t, queueMax), s.Connect(t, queueMax)
	publish(ctx, t, publisher, 0, 3)
	b := consume(ctx, reader, 1)
	for range 3 {
		b.next(ctx, t)
	}
	renewed, err := publisher.Renew(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-b.done; !errors.Is(err, events.ErrRenewed) {
		t.Fatalf("got %v, want ErrRenewed", err)
	}
	if st := state(ctx, t, reader); st.Incarnation != renewed.Incarnation {
		t.Fatalf("the reader stands on %s, want %s", st.Incarnation, renewed.Incarnation)
	}
	publish(ctx, t, publisher, 7, 1)
	expect(t, collect(ctx, t, reader, 1, 1), 1, 7)
}

func lost(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	publish(ctx, t, c, 0, 20)
	b := consume(ctx, c, 1)
	for range 20 {
		b.next(ctx, t)
	}
	before := state(ctx, t, c)
	s.Lose(t)
	if err := <-b.done; !errors.Is(err, events.ErrRenewed) {
		t.Fatalf("got %v, want ErrRenewed", err)
	}
	after := state(ctx, t, c)
	if after.Incarnation == before.Incarnation || after.Last != 0 {
		t.Fatalf("%+v follows %+v", after, before)
	}
	publishEventually(ctx, t, c, 50)
	expect(t, collect(ctx, t, c, after.Last+1, 1), after.Last+1, 50)
	put(ctx, t, c.Blobs(), "after", []byte("blob"))
	if data, err := c.Blobs().Get(ctx, "after"); err != nil || string(data) != "blob" {
		t.Fatalf("after the loss a blob is %q, %v", data, err)
	}
}

func blobs(ctx context.Context, t *testing.T, s Server) {
	b := s.Connect(t, queueMax).Blobs()
	if _, err := b.Get(ctx, "none"); !errors.Is(err, events.ErrNotFound) {
		t.Fatalf("get of nothing: %v", err)
	}
	if names, err := b.List(ctx, ""); err != nil || len(names) != 0 {
		t.Fatalf("list of nothing: %v, %v", names, err)
	}
	for _, name := range []string{"checkpoint/a/2", "checkpoint/a/1", "catalog/x", "checkpoint/a/1"} {
		put(ctx, t, b, name, []byte("old"))
		put(ctx, t, b, name, []byte("content of "+name))
	}
	if data, err := s.Connect(t, queueMax).Blobs().Get(ctx, "checkpoint/a/1"); err != nil || string(data) != "content of checkpoint/a/1" {
		t.Fatalf("another client gets %q, %v", data, err)
	}
	expectNames(ctx, t, b, "checkpoint/", "checkpoint/a/1", "checkpoint/a/2")
	for range 2 {
		if err := b.Delete(ctx, "checkpoint/a/1"); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	expectNames(ctx, t, b, "", "catalog/x", "checkpoint/a/2")
	if _, err := b.Get(ctx, "checkpoint/a/1"); !errors.Is(err, events.ErrNotFound) {
		t.Fatalf("get of what was deleted: %v", err)
	}
	put(ctx, t, b, "checkpoint/a/1", nil)
	if data, err := b.Get(ctx, "checkpoint/a/1"); err != nil || len(data) != 0 {
		t.Fatalf("get of an empty blob: %q, %v", data, err)
	}
}

func put(ctx context.Context, t *testing.T, b events.Blobs, name string, data []byte) {
	t.Helper()
	if err := b.Put(ctx, name, data); err != nil {
		t.Fatal(err)
	}
}

func expectNames(ctx context.Context, t *testing.T, b events.Blobs, prefix string, want ...string) {
	t.Helper()
	names, err := b.List(ctx, prefix)
	if err != nil || !slices.Equal(names, want) {
		t.Fatalf("names with %q: %v, %v; want %v", prefix, names, err, want)
	}
}

func largeBlob(ctx context.Context, t *testing.T, s Server) {
	b := s.Connect(t, queueMax).Blobs()
	data := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	data[3<<20] = '!'
	put(ctx, t, b, "large", data)
	if got, err := b.Get(ctx, "large"); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d of %d bytes came back, %v", len(got), len(data), err)
	}
}

func blobsOutlive(ctx context.Context, t *testing.T, s Server) {
	c := s.Connect(t, queueMax)
	put(ctx, t, c.Blobs(), "kept", []byte("x"))
	if _, err := c.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Blobs().Get(ctx, "kept"); err != nil {
		t.Fatal(err)
	}
}
