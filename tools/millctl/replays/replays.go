// Package replays prints what came of decisions that were taken again, by this process or by the console.
package replays

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"millwright/services/console/view"
	"millwright/store/audit"
	"millwright/store/audit/whatif"
)

// ErrDiverged: a decision came out otherwise, as is printed already.
var ErrDiverged = errors.New("a decision came out otherwise")

// Print prints what came of the decisions of a range; ErrDiverged if one came out otherwise.
func Print(out io.Writer, x *view.RangeReplayed) error {
	for _, d := range x.Divergences {
		fmt.Fprintf(out, "record %d: %s of %s came out otherwise: %s\n", d.Seq, d.Kind, d.Service, d.Detail)
	}
	if n := x.Diverged - len(x.Divergences); n > 0 {
		fmt.Fprintf(out, "%d more came out otherwise\n", n)
	}
	for _, n := range x.NotReplayable {
		if n.Count == 0 {
			fmt.Fprintf(out, "records %d to %d were not read: %s\n", n.From, n.To, n.Reason)
			continue
		}
		fmt.Fprintf(out, "records %d to %d: %d decisions could not be replayed: %s\n", n.From, n.To, n.Count, n.Reason)
	}
	sums := audit.Report{Planned: x.Planned, Derived: x.Derived, Explained: x.Explained, NotReplayable: []audit.Span{{Count: x.Skipped}}, Divergences: make([]audit.Divergence, x.Diverged)}
	fmt.Fprintln(out, sums.Counts())
	if _, err := fmt.Fprintln(out, sums.Summary()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if x.Diverged > 0 {
		return ErrDiverged
	}
	return nil
}

// PrintInstead prints the decisions that came out otherwise, or all, and sums.
func PrintInstead(out io.Writer, r *whatif.Report, all bool) error {
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
