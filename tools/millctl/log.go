package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
	recordline "millwright/store/audit/line"

	"millwright/tools/millctl/screen"
)

// filter says which records are printed.
type filter struct {
	// since and until are spans before now.
	since  time.Duration
	until  time.Duration
	kinds  []string
	object string
	follow bool
	output
	logID string
}

const pageSize = 500

func logCommand(t *target) *cobra.Command {
	f := filter{}
	cmd := &cobra.Command{
		Use: "log", Short: "Print the records of the log", Args: cobra.NoArgs,
		Long: "Log prints what was decided and done, oldest first. --object takes a subject such as pod/NAMESPACE/NAME,\nnode/NAME, claim/NAME, pool/NAME, command/ID or instance/ID. The console, which is asked if no log is\nnamed, sends records without payload and explanation, and at most the newest 100,000 of them.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := f.check(); err != nil {
				return err
			}
			if err := f.words(t); err != nil {
				return err
			}
			f.follow = f.follow || f.watch
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
	screen.SpanVar(cmd.Flags(), &f.since, "since", 0, "only records younger than this, such as 10m")
	screen.SpanVar(cmd.Flags(), &f.until, "until", 0, "only records older than this, such as 144h")
	cmd.Flags().StringSliceVar(&f.kinds, "kind", nil, "only records of these kinds, such as Launched")
	cmd.Flags().StringVar(&f.object, "object", "", "only records about this subject")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "keep printing new records until interrupted")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "as --follow")
	f.registerAll(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("until", "follow")
	cmd.MarkFlagsMutuallyExclusive("until", "watch")
	cmd.Flags().Lookup("output").Usage += "; json is one object per line"
	return cmd
}

// words of the user become those of records: kinds in any case, and objects as why names them.
func (f *filter) words(t *target) (err error) {
	for i := range f.kinds {
		if f.kinds[i], err = kindNamed(f.kinds[i]); err != nil {
			return err
		}
	}
	kind, name, _ := strings.Cut(f.object, "/")
	if subject := view.Subject(kind, t.qualified(kind, name)); subject != "" {
		f.object = subject
	}
	return nil
}

func (f filter) run(ctx context.Context, log store.Log, out io.Writer) error {
	after := time.Time{}
	if f.since > 0 {
		after = time.Now().Add(-f.since)
	}
	before := time.Now().Add(-f.until)
	show := func(rec store.Record) error {
		if rec.Time.Before(after) || f.until > 0 && !rec.Time.Before(before) {
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
	switch f.format {
	case formatJSON:
		return printJSONLine(out, recordline.Of(rec, e, f.logID), rec.Seq)
	case formatYAML:
		fmt.Fprintln(out, "---")
		return screen.WriteYAML(out, recordline.Of(rec, e, f.logID))
	}
	return f.printLine(out, line{e.Seq, e.Time, e.Service, e.Kind.String(), audit.Describe(e, f.logID), e.Mode, audit.Mentions(e, f.logID)})
}

// line of a table of records.
type line struct {
	seq                 uint64
	at                  time.Time
	service, kind, text string
	mode                ledger.Mode
	about               []string
}

// printLine also says, if it is wide, kind and subjects; of -o name, the record alone.
func (f filter) printLine(out io.Writer, x line) error {
	if f.format == formatName {
		return screen.WriteNames(out, "record", []string{strconv.FormatUint(x.seq, 10)})
	}
	suffix, kind := "", ""
	if x.mode == ledger.ModeShadow {
		suffix = " (shadow)"
	}
	if f.wide() {
		kind = fmt.Sprintf("%-20s ", x.kind)
		suffix += "  [" + strings.Join(x.about, " ") + "]"
	}
	_, err := fmt.Fprintf(out, "%6d  %s  %-11s %s%s%s\n", x.seq, x.at.UTC().Format("2006-01-02T15:04:05.000Z"), x.service, kind, x.text, suffix)
	return err
}

func (f filter) wants(e ledger.Entry) bool {
	if len(f.kinds) > 0 && !slices.ContainsFunc(f.kinds, func(k string) bool { return strings.EqualFold(k, e.Kind.String()) }) {
		return false
	}
	return f.object == "" || slices.Contains(audit.Mentions(e, f.logID), f.object)
}

// printJSONLine writes one object on one line.
func printJSONLine(out io.Writer, record any, seq uint64) error {
	b, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode record %d: %w", seq, err)
	}
	_, err = out.Write(append(b, '\n'))
	return err
}
