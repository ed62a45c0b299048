package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
	"millwright/tools/millctl/screen"
)

func archiveCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{Use: "archive", Short: "List, verify or prune the archive of the log", Args: cobra.NoArgs,
		Long: "The archive holds the records that left the live log, in segments: files of a directory, or objects in a\nbucket (--archive-dir s3://BUCKET/PREFIX?…).\nlog, why, replay and verify read archive and live log as one."}
	cmd.AddCommand(
		listArchiveCommand(t),
		&cobra.Command{Use: "verify", Short: "Verify every segment, their chain, and the boundary to the live log", Args: cobra.NoArgs,
			Long: "Verify reads every segment and checks that it is whole, continues the hash chain, is the file the log has on record,\nand that the live log goes on where the archive ends. Exit status 1 at the first fault.",
			RunE: t.withArchive(verifyArchive)},
		&cobra.Command{Use: "set-aside", Short: "Continue with the live log where it and the archive have diverged", Args: cobra.NoArgs,
			Long: "After etcd was restored from a backup that is older than the archive, both hold different records under the same sequences.\nSet-aside moves the archive's into a folder beside the segments, where nothing reads them, and deletes nothing. It does\nnothing where log and archive are one.",
			RunE: t.withArchive(setAside)},
		pruneCommand(t),
	)
	return cmd
}

func pruneCommand(t *target) *cobra.Command {
	var age time.Duration
	cmd := &cobra.Command{Use: "prune", Short: "Delete old segments for good", Args: cobra.NoArgs,
		Long: "Prune deletes the segments whose records are all older than --older-than. What is deleted can't be read, explained or replayed\nany more. The newest segment stays in any case.",
		RunE: t.withArchive(func(ctx context.Context, s *session, out io.Writer) error {
			if age <= 0 {
				return errors.New("missing --older-than, such as 8760h")
			}
			return pruneArchive(ctx, s, time.Now().Add(-age), out)
		})}
	screen.SpanVar(cmd.Flags(), &age, "older-than", 0, "delete segments whose records are all older, such as 8760h")
	return cmd
}

func pruneArchive(ctx context.Context, s *session, before time.Time, out io.Writer) error {
	base, err := s.database.Base(ctx)
	if err != nil {
		return err
	}
	deleted, err := s.archive.Prune(ctx, base, before)
	for _, x := range deleted {
		fmt.Fprintf(out, "deleted records %d to %d: %s\n", x.First, x.Last, x.Path)
	}
	fmt.Fprintf(out, "%d segments deleted\n", len(deleted))
	return err
}

func setAside(ctx context.Context, s *session, out io.Writer) error {
	aside, err := s.archive.SetAside(ctx, s.target.cluster, s.database)
	switch {
	case aside != "":
		fmt.Fprintf(out, "the archive's records that are not the log's lie in %s\n", aside)
	case err == nil:
		fmt.Fprintln(out, "log and archive are one: nothing to set aside")
	}
	return err
}

func (t *target) withArchive(fn func(context.Context, *session, io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) (err error) {
		s, err := t.open(cmd.Context())
		if err != nil {
			return err
		}
		defer closeInto(s, &err)
		if s.archive == nil {
			return errors.New("missing --archive-dir")
		}
		return fn(cmd.Context(), s, cmd.OutOrStdout())
	}
}

// segmentLine is a segment as -o json prints it.
type segmentLine struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Bytes int64  `json:"bytes"`
	Path  string `json:"path"`
}

func listArchiveCommand(t *target) *cobra.Command {
	var o output
	cmd := &cobra.Command{Use: "ls", Short: "List the segments", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		return t.withArchive(func(ctx context.Context, s *session, out io.Writer) error { return o.listArchive(ctx, s, out) })(cmd, args)
	}}
	o.registerAll(cmd.Flags())
	return cmd
}

// listArchive also says, if it is wide, how many bytes each segment has.
func (o *output) listArchive(ctx context.Context, s *session, out io.Writer) error {
	segments, err := s.archive.Segments(ctx)
	if err != nil {
		return err
	}
	list, names := []segmentLine{}, []string{}
	for _, x := range segments {
		list, names = append(list, segmentLine{x.First, x.Last, x.Bytes, x.Path}), append(names, x.Name())
	}
	return o.list(out, list, "segment", names, func(out io.Writer) error {
		for _, x := range list {
			size := ""
			if o.wide() {
				size = fmt.Sprintf("%12d bytes  ", x.Bytes)
			}
			fmt.Fprintf(out, "%10d  to %10d  %s%s\n", x.First, x.Last, size, x.Path)
		}
		_, err := fmt.Fprintf(out, "%d segments in %s\n", len(segments), s.archive.Location())
		return err
	})
}

func verifyArchive(ctx context.Context, s *session, out io.Writer) error {
	segments, err := s.archive.Verify(ctx)
	if err != nil {
		return fmt.Errorf("verify archive: %d segments are good: %w", len(segments), err)
	}
	if err := s.log.(*archive.Joined).VerifyBoundary(ctx); err != nil {
		return fmt.Errorf("verify archive: %w", err)
	}
	recorded, err := recordedSegments(ctx, s.log)
	if err != nil {
		return err
	}
	known := 0
	for _, x := range segments {
		r, found := recorded[x.Name()]
		if !found {
			continue // a crash came before it was recorded, or the database was full
		}
		if r.SHA256 != x.SHA256 {
			return fmt.Errorf("verify archive: segment %s has the SHA-256 %s, the log has %s on record: %w", x.Name(), x.SHA256, r.SHA256, store.ErrCorrupt)
		}
		known++
	}
	fmt.Fprintf(out, "log %s: %d segments intact, %d of them as on record in the log\n", s.log.ID(), len(segments), known)
	return nil
}

// recordedSegments are the files the log names, by name.
func recordedSegments(ctx context.Context, log store.Log) (map[string]*ledger.SegmentArchived, error) {
	segments := map[string]*ledger.SegmentArchived{}
	err := eachRecord(ctx, log, func(rec store.Record) error {
		if ledger.Kind(rec.Kind) != ledger.KindSegmentArchived {
			return nil
		}
		e, err := audit.Decode(rec)
		if p, ok := e.Payload.(*ledger.SegmentArchived); ok {
			segments[p.File] = p
		}
		return err
	})
	return segments, err
}
