package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"millwright/store/audit"
)

func replayCommand(t *target) *cobra.Command {
	var r audit.Range
	cmd := &cobra.Command{
		Use: "replay", Short: "Plan recorded decisions again and compare", Args: cobra.NoArgs,
		Long: `Replay rebuilds, for each recorded decision, what its planner saw (World at the recorded position, Ledger at
the recorded sequence), plans again and compares decision and explanation. A NodeClaim's doom is derived again from the input that its
record carries. It prints how many decisions were planned again, how many derived, how many came out otherwise, and which could not
be replayed, and why: their observations are no longer retained, or another version of the planner took them. Exit status 1 if a
decision or its explanation came out otherwise.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			stream, err := s.stream(cmd.Context())
			if err != nil {
				return err
			}
			report, err := audit.Replay(cmd.Context(), s.log, stream, r)
			if err != nil {
				return fmt.Errorf("replay: %w", err)
			}
			out := cmd.OutOrStdout()
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
		},
	}
	cmd.Flags().Uint64Var(&r.From, "from", 1, "first record")
	cmd.Flags().Uint64Var(&r.To, "to", 0, "last record (0: the end of the log)")
	return cmd
}
