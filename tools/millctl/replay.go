package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"millwright/store/audit"
	"millwright/store/audit/recording"
)

// replayer is the command replay.
type replayer struct {
	target     *target
	within     audit.Range
	save       string
	recordings []string
	bundle     string
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

With --save, log and observations are written to a file as well, which --recording replays anywhere, by any later version that has
the same planners.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.bundle != "" {
				return replayBundle(cmd.Context(), cmd.OutOrStdout(), r.bundle)
			}
			if len(r.recordings) > 0 {
				return r.replayRecordings(cmd.Context(), cmd.OutOrStdout())
			}
			return r.replayLog(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().Uint64Var(&r.within.From, "from", 1, "first record")
	cmd.Flags().Uint64Var(&r.within.To, "to", 0, "last record (0: the end of the log)")
	cmd.Flags().StringVar(&r.save, "save", "", "file to write log and observations to; catalogues are put beside it")
	cmd.Flags().StringArrayVar(&r.recordings, "recording", nil, "file that --save wrote, to be replayed instead of a log; may be given again")
	cmd.Flags().StringVar(&r.bundle, "bundle", "", "file that millctl bundle wrote, whose decisions are replayed instead of a log's")
	cmd.MarkFlagsMutuallyExclusive("bundle", "recording", "save")
	cmd.MarkFlagsMutuallyExclusive("bundle", "from")
	cmd.MarkFlagsMutuallyExclusive("bundle", "to")
	return cmd
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
	return r.replay(ctx, out, s.log, stream)
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

func (r *replayer) replay(ctx context.Context, out io.Writer, log audit.Log, stream audit.Stream) error {
	report, err := audit.Replay(ctx, log, stream, r.within)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	for _, d := range report.Divergences {
		fmt.Fprintf(out, "record %d: %s of %s came out otherwise: %s\n", d.Seq, d.Kind, d.Service, d.Detail)
	}
	for _, n := range report.NotReplayable {
		if n.Count == 0 {
			fmt.Fprintf(out, "records %d to %d were not read: %s\n", n.From, n.To, n.Reason)
			continue
		}
		fmt.Fprintf(out, "records %d to %d: %d decisions could not be replayed: %s\n", n.From, n.To, n.Count, n.Reason)
	}
	fmt.Fprintln(out, report.Counts())
	fmt.Fprintln(out, report.Summary())
	if len(report.Divergences) > 0 {
		return exitStatus(1)
	}
	return nil
}
