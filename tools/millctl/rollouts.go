package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// rolloutLine is a roll-out in waves as `millctl rollouts` shows it; -o json prints it as it is.
type rolloutLine struct {
	NodePool string `json:"nodePool"`
	// Target identifies what new nodes were to be when it began.
	Target   string `json:"target"`
	Replaced int    `json:"replaced"`
	// Last is when its last command started or ended.
	Last time.Time `json:"last"`
	// Halted is nil while it goes on.
	Halted *ledger.RolloutHalt `json:"halted,omitempty"`
}

func rolloutsCommand(t *target) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "rollouts", Short: "List the roll-outs of drifted nodes in waves", Args: cobra.NoArgs,
		Long: `Rollouts lists the NodePools whose drifted nodes are replaced in waves, as a DisruptionPolicy wants it, and those that have
halted because a replacement failed.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := o.check(); err != nil {
				return err
			}
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			l, err := currentLedger(cmd.Context(), s.log)
			if err != nil {
				return err
			}
			list := rolloutLines(l)
			return o.write(cmd.OutOrStdout(), list, func(out io.Writer) error {
				if o.format == formatName {
					var pools []string
					for i := range list {
						pools = append(pools, list[i].NodePool)
					}
					return writeNames(out, "nodepool", pools)
				}
				return printRollouts(out, list)
			})
		},
	}
	o.register(cmd.Flags(), formatName)
	cmd.AddCommand(resumeRolloutCommand(t))
	return cmd
}

func rolloutLines(l *ledger.Ledger) []rolloutLine {
	list := []rolloutLine{}
	for _, pool := range l.Rollouts() {
		r, _ := l.Rollout(pool)
		list = append(list, rolloutLine{NodePool: pool, Target: r.Target, Replaced: r.Replaced, Last: r.At, Halted: r.Halted})
	}
	return list
}

func printRollouts(out io.Writer, list []rolloutLine) error {
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
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", r.NodePool, r.Target, r.Replaced, r.Last.UTC().Format(time.RFC3339), halted, command, reason)
	}
	return w.Flush()
}

func resumeRolloutCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "resume NODEPOOL --reason TEXT", Short: "Let a halted roll-out begin anew", Args: cobra.ExactArgs(1),
		Long: `Resume lets a roll-out begin anew, with its first wave, that halted because a replacement failed. Who resumed it and why stands in
the record.`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
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
			rec, err := resumeRollout(ctx, s.log, ledger.RolloutResumed{NodePool: args[0], By: o.by, Why: o.why})
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

// resumeTriesMax bounds the appends that lose against decisions on the same NodePool.
const resumeTriesMax = 5

// resumeRollout refuses a NodePool whose roll-out has not halted.
func resumeRollout(ctx context.Context, log store.Log, r ledger.RolloutResumed) (rec store.Record, err error) {
	for range resumeTriesMax {
		seen, err := log.Aggregate(ctx, ledger.PoolAggregate(r.NodePool)) // first: if it is resumed in between, it has moved
		if err != nil {
			return rec, fmt.Errorf("read where NodePool %s stands: %w", r.NodePool, err)
		}
		l, err := currentLedger(ctx, log)
		if err != nil {
			return rec, err
		}
		rollout, ok := l.Rollout(r.NodePool)
		if !ok || rollout.Halted == nil {
			return rec, fmt.Errorf("no roll-out of NodePool %s has halted: list them with `millctl rollouts`", r.NodePool)
		}
		r.Target = rollout.Target
		draft, err := audit.ResumeDraft(&r, seen)
		if err != nil {
			return rec, err
		}
		draft.Time = time.Now()
		rec, err = log.Append(ctx, draft)
		if !errors.Is(err, store.ErrConflict) {
			return rec, err
		}
	}
	return rec, fmt.Errorf("resume the roll-out of NodePool %s: %d times others were faster, try again: %w", r.NodePool, resumeTriesMax, store.ErrConflict)
}
