package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/subjects"
)

// entriesAbout are the entries that the story of a subject is of: found by the index beside the archive if
// the log is long, else all there are.
func (s *session) entriesAbout(ctx context.Context, subject string) ([]ledger.Entry, error) {
	head, err := s.log.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log's head: %w", err)
	}
	if dir := s.indexDir(); dir != "" && head.Seq > subjects.ChunkSize {
		entries, err := s.indexed(ctx, dir, subject, head.Seq)
		if err == nil || ctx.Err() != nil {
			return entries, err
		}
		fmt.Fprintf(os.Stderr, "millctl: reading the whole log, because its index cannot be used: %v\n", err)
	}
	var entries []ledger.Entry
	err = eachRecord(ctx, s.log, func(rec store.Record) error {
		e, err := audit.Decode(rec)
		if errors.Is(err, ledger.ErrUnknownKind) {
			return nil
		}
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// indexDir is beside a directory of archived records, or in the user's cache if they are in a bucket; ""
// if there is no archive.
func (s *session) indexDir() string {
	root := s.target.archive()
	if root == "" {
		return ""
	}
	if strings.Contains(root, "://") {
		cache, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		root = filepath.Join(cache, "millwright")
	}
	return filepath.Join(root, "index-"+s.log.ID())
}

func (s *session) indexed(ctx context.Context, dir, subject string, head uint64) ([]ledger.Entry, error) {
	x, err := subjects.Open(dir, s.log.ID())
	if err != nil {
		return nil, err
	}
	x.Progress = func(done uint64) {
		if done%32 == 0 {
			fmt.Fprintf(os.Stderr, "millctl: indexing the log, which is done once: %d of %d parts\n", done, head/subjects.ChunkSize)
		}
	}
	if err := x.Update(ctx, s.log); err != nil {
		return nil, err
	}
	_, entries, cut, err := x.Story(ctx, s.log, subject)
	if cut {
		fmt.Fprintln(os.Stderr, "millctl: the story has more records than are shown, and begins earlier")
	}
	return entries, err
}
