package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/memlog"
	"millwright/store/record"
)

// shelf is a database whose log can be replaced by a backup of it.
type shelf struct {
	Database
	log   *memlog.Log
	blobs map[string]int64
}

func (s *shelf) Base(ctx context.Context) (store.Head, error) { return s.log.Base(ctx) }
func (s *shelf) Stored(ctx context.Context, from uint64, limit int) ([]record.Stored, error) {
	return s.log.Stored(ctx, from, limit)
}
func (s *shelf) Blobs(context.Context) (map[string]int64, error) { return maps.Clone(s.blobs), nil }
func (s *shelf) DeleteBlob(_ context.Context, hash string, _ int64) (bool, error) {
	delete(s.blobs, hash)
	return true, nil
}

// name appends a record whose payload is a blob, and returns the blob's name.
func (s *shelf) name(t *testing.T, text string) string {
	t.Helper()
	payload := []byte(text + strings.Repeat(".", store.MaxInlineBytes))
	if _, err := s.log.Append(t.Context(), store.Draft{Kind: 10, Payload: payload}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(payload)
	hash := hex.EncodeToString(sum[:])
	s.blobs[hash]++
	return hash
}

// What a record of the restored log names must not be taken for what nobody names, because the lost log ended
// later.
func TestABackupIsRestoredUnderTheCollector(t *testing.T) {
	s := &shelf{log: memlog.New("test"), blobs: map[string]int64{}}
	kept := s.name(t, "before")
	backup := s.log.Copy()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newCollector(s, time.Minute)
	collect := func() {
		t.Helper()
		if _, err := c.collect(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	lost := []string{s.name(t, "lost"), s.name(t, "lost too")}
	collect()
	s.log = backup
	since := []string{s.name(t, "since"), s.name(t, "since too"), s.name(t, "and now")}
	for range 3 {
		collect()
	}
	for _, hash := range append(since, kept) {
		if _, there := s.blobs[hash]; !there {
			t.Errorf("the payload of a record is deleted")
		}
	}
	for _, hash := range lost {
		if _, there := s.blobs[hash]; there {
			t.Errorf("what no record names is there still")
		}
	}
}
