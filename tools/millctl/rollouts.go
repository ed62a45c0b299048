package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/store/audit/orders"
	"millwright/store/audit/overview"
	"millwright/tools/millctl/arguments"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/screen"
)

func rolloutsCommand(t *target) *cobra.Command {
	var o output
	var since time.Duration
	cmd := &cobra.Command{
		Use: "rollouts", Short: "List the roll-outs of drifted nodes in waves", Args: cobra.NoArgs,
		Long: `Rollouts lists the NodePools whose drifted nodes are replaced in waves, as a DisruptionPolicy wants it, and those that have
halted because a replacement failed.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := o.check(); err != nil {
				return err
			}
			return o.repeat(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
				list, err := t.rollouts(cmd.Context())
				if err != nil {
					return err
				}
				list = slices.DeleteFunc(list, func(r overview.RolloutLine) bool { return since > 0 && time.Since(r.Last) > since })
				var pools []string
				for i := range list {
					pools = append(pools, list[i].NodePool)
				}
				return o.list(out, list, "nodepool", pools, func(out io.Writer) error { return printRollouts(out, list, o.wide()) })
			})
		},
	}
	o.registerAll(cmd.Flags())
	o.registerWatch(cmd.Flags(), t)
	screen.SpanVar(cmd.Flags(), &since, "since", 0, "only those of which a command started or ended in this span before now, such as 24h")
	cmd.AddCommand(resumeRolloutCommand(t))
	return cmd
}

// rollouts that have begun, by console or log.
func (t *target) rollouts(ctx context.Context) (_ []overview.RolloutLine, err error) {
	if t.viaConsole() {
		answer := &api.Rollouts{}
		err := t.askConsole(ctx, func(c *remote.Client) error { return c.Get(ctx, "/rollouts", nil, answer) })
		return answer.Items, err
	}
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeInto(s, &err)
	l, err := currentLedger(ctx, s.log)
	if err != nil {
		return nil, err
	}
	return overview.Rollouts(l), nil
}

func printRollouts(out io.Writer, list []overview.RolloutLine, wide bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no roll-out in waves has begun")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODEPOOL\tTARGET\tREPLACED\tLAST\tHALTED\tCOMMAND\tREASON")
	for _, r := range list {
		halted, command, reason := "no", "", ""
		if h := r.Halted; h != nil {
			halted, command, reason = h.At.UTC().Format(time.RFC3339), h.Command, h.Reason
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", r.NodePool, shortened(r.Target, wide), r.Replaced, r.Last.UTC().Format(time.RFC3339), halted, command, reason)
	}
	return w.Flush()
}

// shortened is what tells a target apart from others; -o wide shows all of it.
func shortened(target string, wide bool) string {
	if wide || len(target) <= 10 {
		return target
	}
	return target[:10]
}

func resumeRolloutCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "resume NODEPOOL --reason TEXT", Short: "Let a halted roll-out begin anew", Args: arguments.Exactly(1), ValidArgsFunction: t.completeRollouts,
		Long: `Resume lets a roll-out begin anew, with its first wave, that halted because a replacement failed. Who resumed it and why stands in
the record.`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if t.viaConsole() {
				if o.why == "" {
					return errors.New("missing --reason")
				}
				return o.byConsole(cmd, t, "/rollouts/"+url.PathEscape(args[0])+"/resume", api.Order{})
			}
			switch {
			case o.by == "":
				return errors.New("missing --by")
			case o.why == "":
				return errors.New("missing --reason")
			}
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			ctx, cancel := context.WithTimeout(cmd.Context(), connectTimeout)
			defer cancel()
			rec, err := orders.ResumeRollout(ctx, s.log, ledger.RolloutResumed{NodePool: args[0], By: o.by, Why: o.why}, time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "resumed the roll-out of NodePool %s (record %d)\n", args[0], rec.Seq)
			return nil
		},
	}
	o.flags(cmd)
	return cmd
}
