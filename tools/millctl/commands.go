package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/store/audit/orders"
	"millwright/store/audit/overview"
	"millwright/tools/millctl/arguments"
	"millwright/tools/millctl/screen"
)

func commandsCommand(t *target) *cobra.Command {
	var o output
	var state string
	var since time.Duration
	cmd := &cobra.Command{
		Use: "commands", Short: "List the disruption commands that run, or wait for approval", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			switch {
			case state != "" && !slices.Contains(overview.CommandStates, state):
				return fmt.Errorf("invalid --state %q: must be one of %s", state, strings.Join(overview.CommandStates, ", "))
			}
			return o.repeat(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
				list, err := t.commands(cmd.Context())
				if err != nil {
					return err
				}
				list = slices.DeleteFunc(list, func(c overview.CommandLine) bool {
					return state != "" && !strings.EqualFold(c.State, state) || since > 0 && time.Since(c.At) > since
				})
				var ids []string
				for i := range list {
					ids = append(ids, list[i].ID)
				}
				return o.list(out, list, "command", ids, func(out io.Writer) error { return printCommands(out, list, o.wide()) })
			})
		},
	}
	o.registerAll(cmd.Flags())
	o.registerWatch(cmd.Flags(), t)
	screen.SpanVar(cmd.Flags(), &since, "since", 0, "only those proposed or started in this span before now, such as 1h")
	cmd.Flags().StringVar(&state, "state", "", "only those that are "+strings.Join(overview.CommandStates, ", "))
	return cmd
}

// commands that run or wait for approval, by console or log.
func (t *target) commands(ctx context.Context) (_ []overview.CommandLine, err error) {
	if t.viaConsole() {
		return t.commandsOfConsole(ctx)
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
	return overview.Commands(l), nil
}

// printCommands also says, if it is wide, which record has each, and who answered it why.
func printCommands(out io.Writer, list []overview.CommandLine, wide bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no command runs or waits for approval")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	more := ""
	if wide {
		more = "\tMETHOD\tRECORD\tBY\tWHY"
	}
	fmt.Fprintln(w, "ID\tSTATE\tREASON\tSAVES\tEVICTIONS\tNEW\tSINCE\tUNTIL\tNODES"+more)
	for _, c := range list {
		until := ""
		if !c.Until.IsZero() {
			until = c.Until.UTC().Format(time.RFC3339)
		}
		if wide {
			more = fmt.Sprintf("\t%s\t%d\t%s\t%s", c.Method, c.Record, c.By, c.Why)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s%s\n", c.ID, c.State, c.Reason, c.SavesText(), c.Evictions, c.New,
			c.At.UTC().Format(time.RFC3339), until, strings.Join(c.Nodes, ","), more)
	}
	return w.Flush()
}

func approveCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "approve ID --reason TEXT", Short: "Approve a proposed command", Args: arguments.Exactly(1),
		ValidArgsFunction: t.completeCommands,
		Long: `Approve lets a command go on that a DisruptionPolicy makes wait. Who approved it and why stands in the record. The disruptor
works the command out anew on what it sees then: it starts it, or ends the proposal and says what has changed
(millctl log, millctl why node NAME).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.viaConsole() {
				return o.answerByConsole(cmd, t, args[0], "approve", api.Order{})
			}
			return o.answer(cmd, t, ledger.ProposalAnswered{ID: args[0], Approved: true})
		},
	}
	o.flags(cmd)
	return cmd
}

func rejectCommand(t *target) *cobra.Command {
	o, life := order{}, 24*time.Hour
	cmd := &cobra.Command{
		Use: "reject ID --reason TEXT", Short: "Reject a proposed command", Args: arguments.Exactly(1),
		ValidArgsFunction: t.completeCommands,
		Long:              `Reject ends a proposal. Its nodes are not proposed again for the same reason until --for has passed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if life <= 0 {
				return fmt.Errorf("invalid --for %s: must be positive", life)
			}
			if t.viaConsole() {
				return o.answerByConsole(cmd, t, args[0], "reject", api.Order{For: life.String()})
			}
			return o.answer(cmd, t, orders.Rejection(args[0], life, time.Now()))
		},
	}
	o.flags(cmd)
	cmd.Flags().DurationVar(&life, "for", life, "how long its nodes are not proposed again for the same reason")
	return cmd
}

// answerByConsole has the console record an operator's answer.
func (o *order) answerByConsole(cmd *cobra.Command, t *target, id, verb string, send api.Order) error {
	if o.why == "" {
		return errors.New("missing --reason")
	}
	return o.byConsole(cmd, t, "/commands/"+url.PathEscape(id)+"/"+verb, send)
}

// answer records an operator's answer.
func (o *order) answer(cmd *cobra.Command, t *target, a ledger.ProposalAnswered) (err error) {
	switch {
	case o.by == "":
		return errors.New("missing --by")
	case o.why == "":
		return errors.New("missing --reason")
	}
	a.By, a.Why = o.by, o.why
	s, err := t.open(cmd.Context())
	if err != nil {
		return err
	}
	defer closeInto(s, &err)
	ctx, cancel := context.WithTimeout(cmd.Context(), connectTimeout)
	defer cancel()
	rec, err := orders.Answer(ctx, s.log, a, time.Now())
	if err != nil {
		return err
	}
	word := "rejected"
	if a.Approved {
		word = "approved"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s (record %d)\n", word, a.ID, rec.Seq)
	return nil
}
