package etcdlog

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/record"
)

// pageRecords is how many records one request to etcd reads.
const pageRecords = 256

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// missing turns the loss of a blob into an error for the record that names it, unless the record itself has
// left the log since it was read: then the blob was rightly deleted.
func (l *Log) missing(ctx context.Context, seq uint64, what string, err error) error {
	lost := isNotFound(err) || errors.Is(err, store.ErrCorrupt)
	if lost {
		if base, failed := l.Base(ctx); failed != nil {
			return fmt.Errorf("record %d: %s: %w", seq, what, failed)
		} else if seq > 1 && seq <= base.Seq {
			return fmt.Errorf("record %d: %s: %w", seq, what, store.ErrCompacted)
		}
		return fmt.Errorf("record %d: %s: %w: %w", seq, what, err, store.ErrCorrupt)
	}
	return fmt.Errorf("record %d: %s: %w", seq, what, err)
}

// page is a run of records at one revision.
type page struct {
	records []record.Stored
	head    record.Place
	// base is the last record that was compacted away; zero if none was.
	base     record.Place
	revision int64
}

// page reads up to limit records from sequence from on, without blobs. On ErrCorrupt and ErrCompacted the
// records before the fault are in the page.
func (l *Log) page(ctx context.Context, from uint64, limit int) (page, error) {
	end := clientv3.GetPrefixRangeEnd(l.keys.log())
	resp, err := l.kv.Txn(ctx).Then(
		clientv3.OpGet(l.keys.head()), clientv3.OpGet(l.keys.base()),
		clientv3.OpGet(l.keys.record(from), clientv3.WithRange(end), clientv3.WithLimit(int64(limit))),
	).Commit()
	if err != nil {
		return page{}, fmt.Errorf("read records from %d: %w", from, err)
	}
	p := page{revision: resp.Header.Revision}
	if p.head, err = placeOf((*clientv3.GetResponse)(resp.Responses[0].GetResponseRange())); err != nil {
		return p, err
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		if p.base, err = parsePlace(string(kvs[0].Value)); err != nil {
			return p, err
		}
	}
	next := from
	for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
		seq, err := l.keys.sequence(string(kv.Key))
		if err != nil {
			return p, err
		}
		if seq != next {
			return p, p.hole(next)
		}
		s, err := record.Unmarshal(seq, kv.Value)
		if err != nil {
			return p, err
		}
		p.records = append(p.records, s)
		next++
	}
	if next <= p.head.Seq && len(p.records) < limit {
		return p, p.hole(next)
	}
	return p, nil
}

// hole says why a record is missing.
func (p page) hole(seq uint64) error {
	if seq <= p.base.Seq {
		return fmt.Errorf("read record %d: %w", seq, store.ErrCompacted)
	}
	return fmt.Errorf("record %d: is missing: %w", seq, store.ErrCorrupt)
}

// Read implements store.Log.
func (l *Log) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	if limit <= 0 {
		limit = store.DefaultReadLimit
	}
	from = max(from, 1)
	var out []store.Record
	for len(out) < limit {
		p, err := l.page(ctx, from+uint64(len(out)), min(pageRecords, limit-len(out)))
		for _, s := range p.records {
			r, err := l.resolve(ctx, s)
			if err != nil {
				return out, err
			}
			out = append(out, r)
		}
		if err != nil || len(p.records) < pageRecords {
			return out, err
		}
	}
	return out, nil
}

// Verify implements store.Log.
func (l *Log) Verify(ctx context.Context) (uint64, error) {
	var prev store.Head
	for {
		p, err := l.page(ctx, prev.Seq+1, pageRecords)
		for _, s := range p.records {
			failed := l.verify(ctx, prev, s)
			if errors.Is(failed, store.ErrCompacted) {
				break // it left the log while it was being read
			}
			if failed != nil {
				return prev.Seq, failed
			}
			prev = s.Place().Head
		}
		switch {
		case errors.Is(err, store.ErrCompacted) && prev.Seq >= 1 && prev.Seq < p.base.Seq:
			prev = p.base.Head // the chain continues where the archive ends
		case err != nil:
			return prev.Seq, err
		case prev.Seq >= p.head.Seq:
			if prev != p.head.Head {
				return prev.Seq, fmt.Errorf("record %d: is not what the head names: %w", prev.Seq, store.ErrCorrupt)
			}
			return prev.Seq, nil
		}
	}
}

func (l *Log) verify(ctx context.Context, prev store.Head, s record.Stored) error {
	if err := s.Follows(prev); err != nil {
		return err
	}
	_, err := l.resolve(ctx, s)
	return err
}
