package memlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millwright/store"
	"millwright/store/record"
)

// Config of a Log. LogID is drawn when empty; Clock defaults to time.Now.
type Config struct {
	Cluster, LogID string
	Clock          func() time.Time
}

// Log implements store.Log.
type Log struct {
	id    string
	clock func() time.Time

	mu sync.Mutex
	// records[i] has sequence base.Seq+1+i; genesis is kept separately, because it is never compacted.
	genesis    record.Stored
	base       store.Head
	records    []record.Stored
	head       record.Place
	aggregates map[string]uint64
	switches   map[string]string
	cursors    map[string]string
	blobs      map[string][]byte
	elections  elections
	// revision of the last leadership; increases with each.
	revision int64
	// changed is closed and replaced by each append and by Close.
	changed chan struct{}
	closed  bool
}

var errClosed = errors.New("log is closed")

// New returns a new log with a random log-id.
func New(cluster string) *Log {
	l, err := Open(Config{Cluster: cluster})
	if err != nil {
		panic(err) // a drawn log-id and the present time are always valid
	}
	return l
}

// Open returns a new log.
func Open(cfg Config) (*Log, error) {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.LogID == "" {
		cfg.LogID = record.NewLogID()
	}
	g, err := record.Genesis(cfg.Cluster, cfg.LogID, cfg.Clock())
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &Log{
		id: cfg.LogID, clock: cfg.Clock, genesis: g, records: []record.Stored{g}, head: g.Place(), aggregates: map[string]uint64{},
		switches: map[string]string{}, cursors: map[string]string{}, blobs: map[string][]byte{}, elections: elections{}, changed: make(chan struct{}),
	}, nil
}

// ID implements store.Log.
func (l *Log) ID() string { return l.id }

// Append implements store.Log.
func (l *Log) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	p, err := record.Prepare(d)
	if err != nil {
		return store.Record{}, fmt.Errorf("append: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return store.Record{}, fmt.Errorf("append: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admitDraft(d); err != nil {
		return store.Record{}, fmt.Errorf("append: %w", err)
	}
	for _, c := range []struct {
		apart bool
		name  string
		data  []byte
	}{{p.Payload.Blob, p.Payload.BlobName(), p.Draft.Payload}, {p.Explanation.Blob && !d.OmitExplanation, p.Explanation.BlobName(), p.Draft.Explanation}} {
		if c.apart {
			l.blobs[c.name] = bytes.Clone(c.data)
		}
	}
	s := p.Seal(l.head)
	l.records, l.head = append(l.records, s), s.Place()
	for _, a := range s.Advances {
		l.aggregates[a] = s.Seq
	}
	for _, a := range d.Retires {
		delete(l.aggregates, a)
	}
	maps.Copy(l.switches, d.Switches)
	l.wakeWaiting()
	return copied(s.Record), nil
}

// admitDraft says whether the draft may be appended now.
func (l *Log) admitDraft(d store.Draft) error {
	if l.closed {
		return errClosed
	}
	if d.Lease != (store.Lease{}) && !l.elections.holdsLease(d.Lease) {
		return fmt.Errorf("leader key %s of revision %d: %w", d.Lease.Key, d.Lease.Revision, store.ErrFenced)
	}
	for name, want := range d.Expects {
		if have := l.aggregates[name]; have != want {
			return fmt.Errorf("aggregate %s at %d, expected %d: %w", name, have, want, store.ErrConflict)
		}
	}
	return nil
}

// copied so that callers' changes to their records stay with them.
func copied(r store.Record) store.Record {
	r.Payload, r.Explanation = bytes.Clone(r.Payload), bytes.Clone(r.Explanation)
	r.Subjects, r.Advances = slices.Clone(r.Subjects), slices.Clone(r.Advances)
	return r
}

func (l *Log) wakeWaiting() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Head implements store.Log.
func (l *Log) Head(context.Context) (store.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.Head, nil
}

// Aggregate implements store.Log.
func (l *Log) Aggregate(_ context.Context, name string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.aggregates[name], nil
}

// Switch implements store.Log.
func (l *Log) Switch(_ context.Context, name string) (string, store.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.switches[name], l.head.Head, nil
}

// Cursor implements store.Cursors.
func (l *Log) Cursor(_ context.Context, name string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursors[name], nil
}

// SetCursor implements store.Cursors.
func (l *Log) SetCursor(_ context.Context, lease store.Lease, name, value string) error {
	if len(value) > store.MaxCursorBytes {
		return fmt.Errorf("set cursor %s to %d bytes: %w", name, len(value), store.ErrTooLarge)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.elections.holdsLease(lease) {
		return fmt.Errorf("set cursor %s: %w", name, store.ErrFenced)
	}
	l.cursors[name] = value
	return nil
}

// PutBlob implements store.Log.
func (l *Log) PutBlob(_ context.Context, data []byte) (string, error) {
	if len(data) > store.MaxBlobBytes {
		return "", fmt.Errorf("put blob of %d bytes: %w", len(data), store.ErrTooLarge)
	}
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blobs[hash] = bytes.Clone(data)
	return hash, nil
}

// GetBlob implements store.Log.
func (l *Log) GetBlob(_ context.Context, hash string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data, ok := l.blobs[hash]
	if !ok {
		return nil, fmt.Errorf("get blob %s: %w", hash, store.ErrNotFound)
	}
	return bytes.Clone(data), nil
}

// Close implements store.Log. Watches end.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.wakeWaiting()
	}
	return nil
}
