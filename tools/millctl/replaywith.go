package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/store/audit"
	"millwright/store/audit/plan"
	"millwright/store/audit/whatif"
)

// changeFlags say what is laid over the Snapshots of a replay.
type changeFlags struct {
	files, options []string
	since, until   string
	output         output
	stdin          io.Reader
	read           whatif.Change
}

func (c *changeFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&c.files, "with", nil, "file or directory with NodePools, EC2NodeClasses, DisruptionPolicies, NodeOverlays or price lists to plan with instead; - is standard input; may be given again")
	f.StringArrayVar(&c.options, "option", nil, "NAME=VALUE: a planner option to plan with instead, such as node-cost=0.02; may be given again")
	f.StringVar(&c.since, "since", "", "only decisions younger than this, such as 24h, or a time")
	f.StringVar(&c.until, "until", "", "only decisions older than this, such as 1h, or a time")
	c.output.register(f, formatWide)
	f.Lookup("output").Usage = "with --with or --option: " + f.Lookup("output").Usage + " (with the decisions that came out the same)"
	for _, other := range []string{"bundle", "recording"} {
		cmd.MarkFlagsMutuallyExclusive(other, "since")
		cmd.MarkFlagsMutuallyExclusive(other, "until")
	}
	cmd.MarkFlagsMutuallyExclusive("from", "since")
	cmd.MarkFlagsMutuallyExclusive("to", "until")
	cmd.MarkFlagsMutuallyExclusive("save", "with")
	cmd.MarkFlagsMutuallyExclusive("save", "option")
}

func (c *changeFlags) given() bool { return len(c.files) > 0 || len(c.options) > 0 }

// check reads the change.
func (c *changeFlags) check(cmd *cobra.Command) (err error) {
	if err := c.output.check(); err != nil {
		return err
	}
	switch {
	case !c.given() && cmd.Flags().Changed("output"):
		return errors.New("replay: -o goes with --with or --option")
	case len(c.files) > 0:
		sources, err := listSources(c.files, "", c.stdin)
		if err != nil {
			return err
		}
		read, err := plan.ReadChange(sources)
		if err != nil {
			return err
		}
		c.read.Objects, c.read.Prices = read.Objects, read.Prices
	}
	for _, text := range c.options {
		if err := c.read.SetOption(text); err != nil {
			return fmt.Errorf("invalid --option: %w", err)
		}
	}
	return nil
}

func (c *changeFlags) run(ctx context.Context, out io.Writer, log audit.Log, stream audit.Stream, within audit.Range) error {
	report, err := whatif.Run(ctx, log, stream, whatif.Request{Range: within, Change: c.read})
	if err != nil {
		return err
	}
	return c.output.write(out, report, func(out io.Writer) error { return printWhatIf(out, report, c.output.format == formatWide) })
}

// printWhatIf prints the decisions that came out otherwise, or all, and sums.
func printWhatIf(out io.Writer, r *whatif.Report, all bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RECORD\tTIME\tWAS\tINSTEAD\tΔ $/H\tΔ EVICTIONS")
	for i := range r.Decisions {
		d := &r.Decisions[i]
		instead := d.Instead.Text
		switch {
		case d.Difference == whatif.Same && !all:
			continue
		case d.Difference == whatif.Same:
			instead = "the same"
		case instead == d.Was.Text:
			instead = "differs in " + d.Detail
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%+d\n", d.Records[0], d.Time.Format(time.RFC3339), d.Was.Text, instead,
			signed(d.Instead.MicroUSDPerHour-d.Was.MicroUSDPerHour), d.Instead.Evictions-d.Was.Evictions)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "IN ALL\tWAS\tINSTEAD")
	for _, row := range []struct {
		name string
		of   func(*whatif.Outcome) string
		pair whatif.Pair
	}{
		{"nodes bought for pods", func(o *whatif.Outcome) string { return fmt.Sprint(o.Made) }, r.Provisioning},
		{"for $/h", func(o *whatif.Outcome) string { return signed(o.MicroUSDPerHour) }, r.Provisioning},
		{"pods refused", func(o *whatif.Outcome) string { return fmt.Sprint(o.Refused) }, r.Provisioning},
		{"nodes taken away", func(o *whatif.Outcome) string { return fmt.Sprint(o.Taken) }, r.Disruption},
		{"replacements", func(o *whatif.Outcome) string { return fmt.Sprint(o.Made) }, r.Disruption},
		{"which changes $/h by", func(o *whatif.Outcome) string { return signed(o.MicroUSDPerHour) }, r.Disruption},
		{"evictions", func(o *whatif.Outcome) string { return fmt.Sprint(o.Evictions) }, r.Disruption},
	} {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row.name, row.of(&row.pair.Was), row.of(&row.pair.Instead))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	if r.Omitted > 0 {
		fmt.Fprintf(out, "%d decisions are left out above, and counted\n", r.Omitted)
	}
	for _, s := range r.NotPlanned {
		fmt.Fprintf(out, "records %d to %d: %d decisions were not planned again: %s\n", s.From, s.To, s.Count, s.Reason)
	}
	_, err := fmt.Fprintf(out, "%d decisions planned again, %d came out otherwise; each by itself, on what was really seen (docs/explain.md)\n", r.Planned, r.Changed)
	return err
}

// signed writes micro USD per hour with its sign.
func signed(micro int64) string { return fmt.Sprintf("%+.4f", float64(micro)/1e6) }
