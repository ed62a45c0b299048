package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
)

// filter says which records are printed.
type filter struct {
	since  time.Duration
	kinds  []string
	object string
	follow bool
	output string
	logID  string
}

const pageSize = 500

func logCommand(t *target) *cobra.Command {
	f := filter{}
	cmd := &cobra.Command{
		Use: "log", Short: "Print the records of the log", Args: cobra.NoArgs,
		Long: "Log prints what was decided and done, oldest first. --object takes a subject such as pod/NAMESPACE/NAME,\nnode/NAME, claim/NAME, pool/NAME, command/ID or instance/ID. The console, which is asked if no log is\nnamed, reaches back 50,000 records and sends them without payload and explanation.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.output != "text" && f.output != "json" {
				return fmt.Errorf("invalid -o %q: must be text or json", f.output)
			}
			if t.viaConsole() {
				return f.logByConsole(cmd.Context(), t, cmd.OutOrStdout())
			}
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			f.logID = s.log.ID()
			return f.run(cmd.Context(), s.log, cmd.OutOrStdout())
		},
	}
	cmd.AddCommand(relieveCommand(t))
	cmd.Flags().DurationVar(&f.since, "since", 0, "only records younger than this, such as 10m")
	cmd.Flags().StringSliceVar(&f.kinds, "kind", nil, "only records of these kinds, such as Launched")
	cmd.Flags().StringVar(&f.object, "object", "", "only records about this subject")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "keep printing new records until interrupted")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text, or json: one object per line")
	return cmd
}

func (f filter) run(ctx context.Context, log store.Log, out io.Writer) error {
	after := time.Time{}
	if f.since > 0 {
		after = time.Now().Add(-f.since)
	}
	show := func(rec store.Record) error {
		if rec.Time.Before(after) {
			return nil
		}
		return f.print(out, rec)
	}
	if f.follow {
		from, err := firstAtHand(ctx, log)
		if err != nil {
			return err
		}
		err = log.Watch(ctx, from, show)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return eachRecord(ctx, log, show)
}

// eachRecord calls fn for the records there are now. One that cannot be parsed is reported and skipped.
func eachRecord(ctx context.Context, log store.Log, fn func(store.Record) error) error {
	from, err := firstAtHand(ctx, log)
	if err != nil {
		return err
	}
	for {
		page, err := log.Read(ctx, from, pageSize)
		for _, rec := range page {
			if err := fn(rec); err != nil {
				return err
			}
			from = rec.Seq + 1
		}
		switch {
		case errors.Is(err, store.ErrCorrupt):
			return fmt.Errorf("read the log: %w", err)
		case err != nil:
			return fmt.Errorf("read the log from record %d: %w", from, err)
		case len(page) < pageSize:
			return nil
		}
	}
}

// firstAtHand is 1, or the first live record if earlier ones are archived and no archive is known; then it
// prints a notice.
func firstAtHand(ctx context.Context, log store.Log) (uint64, error) {
	_, err := log.Read(ctx, 2, 1)
	live, ok := log.(archive.Base)
	if !ok || !errors.Is(err, store.ErrCompacted) {
		return 1, nil
	}
	if joined, ok := log.(*archive.Joined); ok {
		if first, err := joined.Pruned(ctx); err != nil || first > 0 {
			fmt.Fprintf(os.Stderr, "millctl: records 1 to %d were pruned from the archive\n", first)
			return first + 1, err
		}
	}
	base, err := live.Base(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stderr, "millctl: records 1 to %d are archived: name the directory with --archive-dir\n", base.Seq)
	return base.Seq + 1, nil
}

func (f filter) print(out io.Writer, rec store.Record) error {
	e, err := audit.Decode(rec)
	if err != nil && !errors.Is(err, ledger.ErrUnknownKind) {
		return err
	}
	if err != nil {
		e = ledger.Entry{Seq: rec.Seq, Time: rec.Time, Service: rec.Service, Mode: ledger.Mode(rec.Mode), Kind: ledger.Kind(rec.Kind), Subjects: rec.Subjects}
	}
	if !f.wants(e) {
		return nil
	}
	if f.output == "json" {
		return printJSON(out, rec, e)
	}
	return printLine(out, e.Seq, e.Time, e.Service, audit.Describe(e, f.logID), e.Mode)
}

func printLine(out io.Writer, seq uint64, at time.Time, service, text string, mode ledger.Mode) error {
	suffix := ""
	if mode == ledger.ModeShadow {
		suffix = " (shadow)"
	}
	_, err := fmt.Fprintf(out, "%6d  %s  %-11s %s%s\n", seq, at.UTC().Format("2006-01-02T15:04:05.000Z"), service, text, suffix)
	return err
}

func (f filter) wants(e ledger.Entry) bool {
	if len(f.kinds) > 0 && !slices.ContainsFunc(f.kinds, func(k string) bool { return strings.EqualFold(k, e.Kind.String()) }) {
		return false
	}
	return f.object == "" || slices.Contains(e.Subjects, f.object)
}

// printJSON writes one object on one line. Payload and explanation are as recorded.
func printJSON(out io.Writer, rec store.Record, e ledger.Entry) error {
	line := struct {
		Seq            uint64          `json:"seq"`
		Time           time.Time       `json:"time"`
		Service        string          `json:"service"`
		Mode           ledger.Mode     `json:"mode"`
		Kind           string          `json:"kind"`
		Subjects       []string        `json:"subjects,omitempty"`
		Causation      uint64          `json:"causation,omitempty"`
		PlannerVersion uint32          `json:"plannerVersion,omitempty"`
		Stream         string          `json:"stream,omitempty"`
		StreamSequence uint64          `json:"streamSequence,omitempty"`
		LedgerSeq      uint64          `json:"ledgerSeq,omitempty"`
		Now            time.Time       `json:"now,omitzero"`
		Advances       []string        `json:"advances,omitempty"`
		Payload        json.RawMessage `json:"payload,omitempty"`
		Explanation    json.RawMessage `json:"explanation,omitempty"`
		Hash           string          `json:"hash"`
	}{
		rec.Seq, rec.Time, rec.Service, e.Mode, e.Kind.String(), rec.Subjects, rec.Causation, rec.PlannerVersion,
		rec.Position.Incarnation, rec.Position.Sequence, rec.LedgerSeq, rec.Now, rec.Advances,
		asJSON(rec.Payload), asJSON(rec.Explanation), fmt.Sprintf("%x", rec.Hash),
	}
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode record %d: %w", rec.Seq, err)
	}
	_, err = out.Write(append(b, '\n'))
	return err
}

// asJSON hands JSON through and quotes what is not: the payload of an unknown kind may be anything.
func asJSON(b []byte) json.RawMessage {
	if len(b) == 0 || json.Valid(b) {
		return b
	}
	quoted, err := json.Marshal(b)
	if err != nil {
		return nil
	}
	return quoted
}
