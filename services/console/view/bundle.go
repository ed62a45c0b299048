package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"millwright/planner/ledger"
	"millwright/services/version"
	"millwright/store/audit"
	"millwright/store/audit/recording"
)

// BundleMax bounds a bundle, in bytes.
const BundleMax = 1 << 30

// ErrNoStream: there are no observations, without which nothing can be planned again.
var ErrNoStream = errors.New("this console has no stream of observations")

// BundleRequest says what a bundle is to be of. It needs Since, Object or both.
type BundleRequest struct {
	// Object is what it is about, such as node/NAME or pod/NAMESPACE/NAME: from the first to the last record
	// of its story.
	Object string `json:"object,omitempty"`
	// Since is a span such as 2h: only records younger than that.
	Since string `json:"since,omitempty"`
	// Reason is why it is taken, for the record.
	Reason string `json:"reason"`
}

// about is what was asked for, in words.
func (q *BundleRequest) about() string {
	since := ""
	if q.Since != "" {
		since = "since " + q.Since
	}
	return strings.Trim(q.Object+", "+since, ", ")
}

// Bundle notes in the log that somebody takes a bundle, and then writes it to what open returns. Nothing but
// a page of records and one checkpoint is held in memory. Errors are as of Plan, or ErrNotFound; after open
// was called they mean that what was written is of no use.
func (v *View) Bundle(ctx context.Context, who string, q BundleRequest, open func() io.Writer) (*ledger.BundleTaken, error) {
	if v.cfg.Stream == nil {
		return nil, fmt.Errorf("%w: %w", ErrNotReady, ErrNoStream)
	}
	return wholly(ctx, v, who, BundleTimeMax, func(ctx context.Context) (*ledger.BundleTaken, error) {
		from, to, err := v.rangeOf(ctx, &q)
		if err != nil {
			return nil, err
		}
		taken := &ledger.BundleTaken{From: from, To: to, About: q.about(), By: who, Why: q.Reason}
		draft, err := audit.BundleDraft(taken)
		if err != nil {
			return nil, err
		}
		draft.Time = v.cfg.Now()
		if _, err := v.cfg.Log.Append(ctx, draft); err != nil {
			return nil, fmt.Errorf("note that a bundle is taken: %w", err)
		}
		p := newPace(ctx, nil, to)
		_, err = recording.WriteBundle(ctx, &bounded{open(), BundleMax}, pacedLog{v.cfg.Log, p}, p.stream(v.cfg.Stream), recording.BundleRequest{
			From: from, To: to, Cluster: v.cfg.Cluster, LogID: v.cfg.Log.ID(), Program: "millwright " + version.Version, About: taken.About, Now: draft.Time})
		return taken, err
	})
}

// rangeOf returns the first and the last record that a bundle is about.
func (v *View) rangeOf(ctx context.Context, q *BundleRequest) (from, to uint64, err error) {
	after, err := q.after(v.cfg.Now())
	if err != nil {
		return 0, 0, err
	}
	head, err := v.cfg.Log.Head(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read the log's head: %w", err)
	}
	if q.Object == "" {
		from, err = audit.FirstSince(ctx, v.cfg.Log, head.Seq, after)
		if err == nil && from > head.Seq {
			err = fmt.Errorf("%w: the log has nothing since %s", ErrNotFound, after.UTC().Format(time.RFC3339))
		}
		return from, head.Seq, err
	}
	kind, name, _ := strings.Cut(q.Object, "/")
	subject := Subject(kind, name)
	if subject == "" {
		return 0, 0, fmt.Errorf("%w: object %q: must be KIND/NAME, such as node/NAME or pod/NAMESPACE/NAME", ErrQuestion, q.Object)
	}
	entries, cut, err := v.about(ctx, subject)
	if err != nil {
		return 0, 0, err
	}
	if cut && !entries[0].Time.Before(after) {
		return 0, 0, fmt.Errorf("%w: the story of %s has more than %d records: ask for the last ones with since", ErrQuestion, q.Object, storyRecordsMax)
	}
	for _, l := range audit.WhyOf(entries, v.cfg.Log.ID(), subject) {
		if l.Time.Before(after) {
			continue
		}
		if to = l.Seq; from == 0 {
			from = l.Seq
		}
	}
	if from == 0 {
		return 0, 0, fmt.Errorf("%w: the log has nothing about %s", ErrNotFound, q.about())
	}
	return from, to, nil
}

// after is the time from which on records count; zero: all.
func (q *BundleRequest) after(now time.Time) (time.Time, error) {
	if q.Since == "" && q.Object != "" {
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(q.Since)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("%w: since %q: must be a span such as 2h, and may be left out for an object only", ErrQuestion, q.Since)
	}
	return now.Add(-d), nil
}

// bounded refuses to write more than so many bytes.
type bounded struct {
	to   io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("%w: the bundle is longer than %d MiB: take one of less", ErrQuestion, BundleMax>>20)
	}
	return b.to.Write(p)
}
