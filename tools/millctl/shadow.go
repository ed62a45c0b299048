package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/store/audit/shadow"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/screen"
)

func shadowCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{Use: "shadow", Short: "Compare what Millwright in mode shadow decided with what another controller did", Args: cobra.NoArgs}
	var since time.Duration
	var o output
	report := &cobra.Command{
		Use: "report [--since SPAN]", Short: "Put nodes, cost, evictions and waiting pods of both side by side", Args: cobra.NoArgs,
		Long: `Report compares, for a cluster in which Millwright runs with --mode shadow beside another controller, what happened with what Millwright decided:
nodes, what they cost, evictions, how long pods waited, and the ten decisions that made the largest difference, with their reasons. What
happened is taken from the observations alone, as far back as they are retained. Each decision counts as long as the real nodes exist that it
is about: docs/explain.md says what that means and what it leaves out.

From a kubeconfig alone the console compares, at half of a core and for at most half an hour.

Exit status: 1 if nothing was decided in mode shadow.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 {
				return fmt.Errorf("invalid --since %s: must be positive", since)
			}
			if err := o.check(); err != nil {
				return err
			}
			ask := t.shadowReport
			if t.viaConsole() {
				ask = t.shadowByConsole(screen.Progress(cmd.ErrOrStderr(), "observation"))
			}
			r, err := ask(cmd.Context(), since)
			if err != nil {
				return err
			}
			return o.write(cmd.OutOrStdout(), r, func(out io.Writer) error { return printShadow(out, r) })
		},
	}
	screen.SpanVar(report.Flags(), &since, "since", 24*time.Hour, "compare what happened in this span before now")
	o.register(report.Flags())
	cmd.AddCommand(report)
	return cmd
}

func (t *target) shadowReport(ctx context.Context, since time.Duration) (_ *shadow.Report, err error) {
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeInto(s, &err)
	stream, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	return shadow.Compare(ctx, s.log, stream, time.Now().Add(-since))
}

// shadowByConsole has the console compare.
func (t *target) shadowByConsole(progress func(done, last uint64)) func(context.Context, time.Duration) (*shadow.Report, error) {
	return func(ctx context.Context, since time.Duration) (r *shadow.Report, err error) {
		err = t.askConsole(ctx, func(c *remote.Client) error {
			r, err = c.ShadowReport(ctx, since, progress)
			return err
		})
		return r, err
	}
}

func printShadow(out io.Writer, r *shadow.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s to %s\tHAPPENED\tMILLWRIGHT\n", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	for _, row := range r.Rows() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row.Name, row.Actual, row.Millwright)
	}
	fmt.Fprintln(w, "\t\t")
	fmt.Fprintln(w, "TIME\tNODES, $/H\tNODES, $/H")
	step := max(1, len(r.Curve)/12)
	for i := 0; i < len(r.Curve); i += step {
		p := &r.Curve[i]
		fmt.Fprintf(w, "%s\t%d, %.4f\t%d, %.4f\n", p.At.Format(time.RFC3339), p.ActualNodes, float64(p.ActualPrice)/1e6, p.MillwrightNodes, float64(p.MillwrightPrice)/1e6)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	fmt.Fprintf(out, "\n%d decisions counted, %d repeated what was decided before; nodes booted in %s in the middle\n", r.Decisions, r.Repeated, shadow.Seconds(r.BootSeconds))
	for _, d := range r.Differences {
		fmt.Fprintf(out, "\nrecord %d, %s: saves $%.4f\n  Millwright: %s\n  happened:   %s\n", d.Record, d.At.Format(time.RFC3339), d.SavedUSD, d.Decided, d.Instead)
		for _, text := range d.Why[:min(len(d.Why), 6)] {
			fmt.Fprintf(out, "    %s\n", text)
		}
	}
	fmt.Fprintln(out)
	for _, text := range r.Caveats {
		if _, err := fmt.Fprintln(out, "- "+text); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}
