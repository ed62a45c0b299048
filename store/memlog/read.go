package memlog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"millwright/store"
	"millwright/store/record"
)

// Read implements store.Log.
func (l *Log) Read(_ context.Context, from uint64, limit int) ([]store.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read(from, limit)
}

func (l *Log) read(from uint64, limit int) ([]store.Record, error) {
	var out []store.Record
	if limit <= 0 {
		limit = store.DefaultReadLimit
	}
	for seq := max(from, 1); len(out) < limit && seq <= l.head.Seq; seq++ {
		s, err := l.at(seq)
		if err != nil {
			return out, err
		}
		out = append(out, copied(s.Record))
	}
	return out, nil
}

// Base is the last record that was compacted away; zero if none was.
func (l *Log) Base(context.Context) (store.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base, nil
}

// Stored returns up to limit live records from sequence from on, as they are stored.
func (l *Log) Stored(_ context.Context, from uint64, limit int) ([]record.Stored, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []record.Stored
	for seq := max(from, 1); len(out) < limit && seq <= l.head.Seq; seq++ {
		s, err := l.at(seq)
		if err != nil {
			return out, err
		}
		s.Record = copied(s.Record)
		out = append(out, s)
	}
	return out, nil
}

// at returns the record with a sequence up to the head, checked as if it had been read from a disk.
func (l *Log) at(seq uint64) (record.Stored, error) {
	i, found := slices.BinarySearchFunc(l.records, seq, func(s record.Stored, seq uint64) int { return cmp.Compare(s.Seq, seq) })
	switch {
	case found:
		return l.records[i], sound(l.records[i])
	case seq == 1 && l.base.Seq > 0:
		return l.genesis, sound(l.genesis)
	case seq <= l.base.Seq:
		return record.Stored{}, fmt.Errorf("read record %d: %w", seq, store.ErrCompacted)
	}
	return record.Stored{}, fmt.Errorf("record %d: is missing: %w", seq, store.ErrCorrupt)
}

// sound checks a record as if it had been read from a disk.
func sound(s record.Stored) error {
	if sha256.Sum256(record.Canonical(s)) != s.Hash || sha256.Sum256(s.Record.Payload) != s.PayloadContent.Sum {
		return fmt.Errorf("record %d: hash does not match: %w", s.Seq, store.ErrCorrupt)
	}
	return nil
}

// watchPage is how many records Watch takes at once.
const watchPage = 256

// Watch implements store.Log.
func (l *Log) Watch(ctx context.Context, from uint64, fn func(store.Record) error) error {
	next := max(from, 1)
	for {
		l.mu.Lock()
		page, err := l.read(next, watchPage)
		changed, closed := l.changed, l.closed
		l.mu.Unlock()
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
			next = r.Seq + 1
		}
		switch {
		case err != nil:
			return err
		case closed:
			return errClosed
		case len(page) > 0 && ctx.Err() == nil:
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Verify implements store.Log.
func (l *Log) Verify(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	prev := l.base
	for seq := l.base.Seq + 1; seq <= l.head.Seq; seq++ {
		s, err := l.at(seq)
		if err != nil {
			return prev.Seq, err
		}
		if err := s.Follows(prev); err != nil {
			return prev.Seq, err
		}
		prev = s.Place().Head
	}
	if prev != l.head.Head {
		return prev.Seq, fmt.Errorf("record %d: is not what the head names: %w", prev.Seq, store.ErrCorrupt)
	}
	return prev.Seq, nil
}

// Compact drops the live records up to and including through, the genesis excepted. ErrCorrupt: that record
// is another.
func (l *Log) Compact(_ context.Context, through store.Head) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if through.Seq >= l.head.Seq {
		return fmt.Errorf("compact through %d: head is %d", through.Seq, l.head.Seq)
	}
	if through.Seq <= l.base.Seq {
		return nil
	}
	n := through.Seq - l.base.Seq
	if l.records[n-1].Hash != through.Hash {
		return fmt.Errorf("compact through %d: the record is another: %w", through.Seq, store.ErrCorrupt)
	}
	l.base = through
	l.records = l.records[n:]
	return nil
}

// Copy is the log as a backup of it would be after it is restored: nobody leads.
func (l *Log) Copy() *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Log{
		id: l.id, clock: l.clock, genesis: l.genesis, base: l.base, records: slices.Clone(l.records), head: l.head,
		aggregates: maps.Clone(l.aggregates), switches: maps.Clone(l.switches), blobs: maps.Clone(l.blobs), elections: elections{},
		changed: make(chan struct{}), revision: l.revision,
	}
}
