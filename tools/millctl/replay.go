package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/replays"
	"millwright/tools/millctl/screen"
)

// replayer is the command replay.
type replayer struct {
	target *target
	within audit.Range
	// record alone is replayed; 0: all within the range.
	record     uint64
	save       string
	recordings []string
	bundle     string
	change     changeFlags
}

func replayCommand(t *target) *cobra.Command {
	r := &replayer{target: t}
	cmd := &cobra.Command{
		Use: "replay", Short: "Plan recorded decisions again and compare", Args: cobra.NoArgs,
		Long: `Replay rebuilds, for each recorded decision, what its planner saw (World at the recorded position, Ledger at
the recorded sequence), plans again and compares decision and explanation. A NodeClaim's doom is derived again from the input that its
record carries. It prints how many decisions were planned again, how many derived, how many came out otherwise, and which could not
be replayed, and why: their observations are no longer retained, or another version of the planner took them. Exit status 1 if a
decision or its explanation came out otherwise.

With --with or --option it says instead what would have been decided with another NodePool, class, policy, price list or planner option: each
decision is planned again by itself, on its own recorded Snapshot, with the change laid over it as if it had always been in force, and
compared with the record in nodes, $ per hour and evictions. It is no simulation: what would have followed from another decision is not
followed, since the next decision is planned again on what really happened.

From a kubeconfig alone the console replays: one decision at a time at half of a core, for at most half an hour, and with --with or --option at
most 20,000 records at a time.

With --save, log and observations are written to a file as well, which --recording replays anywhere, by any later version that has
the same planners.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.change.stdin = cmd.InOrStdin()
			if err := r.change.check(cmd); err != nil {
				return err
			}
			if r.record > 0 {
				r.within = audit.Range{From: r.record, To: r.record}
			}
			if r.target.viaConsole() && r.bundle == "" && len(r.recordings) == 0 && r.save == "" {
				return r.byConsole(cmd)
			}
			if r.bundle != "" {
				return r.replayBundle(cmd.Context(), cmd.OutOrStdout())
			}
			if len(r.recordings) > 0 {
				return r.replayRecordings(cmd.Context(), cmd.OutOrStdout())
			}
			return r.replayLog(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().Uint64Var(&r.within.From, "from", 1, "first record")
	cmd.Flags().Uint64Var(&r.within.To, "to", 0, "last record (0: the end of the log)")
	cmd.Flags().Uint64Var(&r.record, "record", 0, "only this record")
	cmd.Flags().StringVar(&r.save, "save", "", "file to write log and observations to; catalogues are put beside it")
	cmd.Flags().StringArrayVar(&r.recordings, "recording", nil, "file that --save wrote, to be replayed instead of a log; may be given again")
	cmd.Flags().StringVar(&r.bundle, "bundle", "", "file that millctl bundle wrote, whose decisions are replayed instead of a log's")
	cmd.MarkFlagsMutuallyExclusive("bundle", "recording", "save")
	cmd.MarkFlagsMutuallyExclusive("bundle", "from")
	cmd.MarkFlagsMutuallyExclusive("bundle", "to")
	r.change.register(cmd)
	for _, other := range []string{"from", "to", "since", "until", "save"} {
		cmd.MarkFlagsMutuallyExclusive("record", other)
	}
	return cmd
}

// byConsole has the console take decisions again, or say what they would have been instead.
func (r *replayer) byConsole(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	return r.target.askConsole(ctx, func(c *remote.Client) error {
		switch {
		case r.record == 0 || len(r.change.options) > 0:
			q := view.RangeRequest{From: r.within.From, To: r.within.To, Since: r.change.since, Until: r.change.until, Options: r.change.options}
			if q.Since != "" {
				q.From = 0
			}
			x, err := c.ReplayRange(ctx, q, r.change.sources, screen.Progress(cmd.ErrOrStderr(), "record"))
			switch {
			case err != nil:
				return fmt.Errorf("replay: %w", err)
			case x.Instead != nil:
				return r.change.print(out, x.Instead)
			}
			return printed(replays.Print(out, x))
		case r.change.given():
			report, err := c.Instead(ctx, r.record, r.change.sources)
			if err != nil {
				return err
			}
			return r.change.print(out, report)
		}
		x, err := c.Replay(ctx, r.record)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, strings.TrimSuffix(fmt.Sprintf("record %d: %s: %s", x.Seq, x.Result, x.Detail), ": "))
		if x.Result == view.ReplayDifferent {
			return statusFailed
		}
		return nil
	})
}

func (r *replayer) replayLog(ctx context.Context, out io.Writer) (err error) {
	s, err := r.target.open(ctx)
	if err != nil {
		return err
	}
	defer closeInto(s, &err)
	stream, err := s.stream(ctx)
	if err != nil {
		return err
	}
	if r.save != "" {
		if err := recording.Save(ctx, r.save, s.log, stream); err != nil {
			return err
		}
	}
	if err := r.bound(ctx, s.log); err != nil {
		return err
	}
	return r.replay(ctx, out, s.log, stream)
}

// bound turns times into records.
func (r *replayer) bound(ctx context.Context, log store.Log) error {
	now := time.Now()
	if r.change.since == "" && r.change.until == "" {
		return nil
	}
	head, err := log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the log's head: %w", err)
	}
	at := func(flag, text string) (uint64, error) {
		t, err := moment(flag, text, now)
		if err != nil {
			return 0, err
		}
		return audit.FirstSince(ctx, log, head.Seq, t)
	}
	if r.change.since != "" {
		if r.within.From, err = at("since", r.change.since); err != nil {
			return err
		}
	}
	if r.change.until == "" {
		return nil
	}
	first, err := at("until", r.change.until)
	switch {
	case err != nil:
		return err
	case first <= max(r.within.From, 1):
		return errNoRecord
	}
	r.within.To = first - 1
	return nil
}

// moment is a time, or as long before now as a span says.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("invalid --%s %q: must be a span such as 2h, or a time as in 2026-03-02T10:00:00Z", flag, text)
	}
	return now.Add(-d), nil
}

// replayBundle replays the decisions that the bundle is about.
func (r *replayer) replayBundle(ctx context.Context, out io.Writer) error {
	b, err := recording.OpenBundle(r.bundle)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // it was only read
	if p := b.Manifest.Pseudonyms; p != nil {
		fmt.Fprintf(out, "names are pseudonyms: %s; %d decisions withheld\n", p.Chain, len(p.Withheld))
	}
	switch m := &b.Manifest; {
	case r.record == 0:
		r.within = audit.Range{From: m.From, To: m.To}
	case r.record < m.From || r.record > m.To:
		return fmt.Errorf("replay: the bundle is about records %d to %d, and not about record %d", m.From, m.To, r.record)
	}
	return r.replay(ctx, out, b, b)
}

// replayRecordings replays one after the other; the exit status is of all.
func (r *replayer) replayRecordings(ctx context.Context, out io.Writer) error {
	var diverged error
	for _, file := range r.recordings {
		fmt.Fprintf(out, "%s:\n", filepath.Base(file))
		rec, err := recording.Open(file)
		if err == nil {
			err = r.replay(ctx, out, rec, rec)
		}
		if status := exitStatus(0); errors.As(err, &status) {
			diverged, err = err, nil
		}
		if err != nil {
			return err
		}
	}
	return diverged
}

var errNoRecord = errors.New("replay: no record is in that span")

func (r *replayer) replay(ctx context.Context, out io.Writer, log audit.Log, stream audit.Stream) error {
	first, err := log.Read(ctx, r.within.From, 1) // an error that matters comes again below
	if err == nil && len(first) == 0 || r.within.To > 0 && r.within.To < r.within.From {
		return errNoRecord
	}
	if r.change.given() {
		return r.change.run(ctx, out, log, stream, r.within)
	}
	report, err := audit.Replay(ctx, log, stream, r.within)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	x := &view.RangeReplayed{}
	x.Add(report, false)
	return printed(replays.Print(out, x))
}

// printed is the error of what was printed: that a decision came out otherwise is only a status.
func printed(err error) error {
	if errors.Is(err, replays.ErrDiverged) {
		return statusFailed
	}
	return err
}
