package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// commandLine is a running or proposed command as `millctl commands` shows it; -o json prints it as it is.
type commandLine struct {
	ID    string `json:"id"`
	State string `json:"state"`
	// Reason and Method of the decision; Saves in micro USD per hour.
	Reason    string    `json:"reason"`
	Method    string    `json:"method"`
	Nodes     []string  `json:"nodes"`
	Evictions int       `json:"evictions"`
	New       int       `json:"replacements"`
	Saves     int64     `json:"saves"`
	At        time.Time `json:"at"`
	// Until is when a proposal expires, or a rejection ends; By and Why are of the answer.
	Until time.Time `json:"until,omitzero"`
	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`
}

// commandStates are what --state may say.
var commandStates = []string{"proposed", "approved", "rejected", "started", "confirmed"}

func commandsCommand(t *target) *cobra.Command {
	var output, state string
	cmd := &cobra.Command{
		Use: "commands", Short: "List the disruption commands that run, or wait for approval", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch {
			case output != "text" && output != "json":
				return fmt.Errorf("invalid -o %q: must be text or json", output)
			case state != "" && !slices.Contains(commandStates, state):
				return fmt.Errorf("invalid --state %q: must be one of %s", state, strings.Join(commandStates, ", "))
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
			list := slices.DeleteFunc(commandLines(l), func(c commandLine) bool { return state != "" && !strings.EqualFold(c.State, state) })
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(list)
			}
			return printCommands(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().StringVar(&state, "state", "", "only those that are "+strings.Join(commandStates, ", "))
	return cmd
}

// commandLines are the proposals, then the commands that run, oldest first.
func commandLines(l *ledger.Ledger) []commandLine {
	list := []commandLine{}
	line := func(id, state string, at time.Time, c *ledger.CommandStarted) commandLine {
		x := commandLine{ID: id, State: state, Reason: string(c.Reason), Method: c.Method, Nodes: []string{}, Evictions: c.Evictions,
			New: len(c.Replacements), Saves: c.PriceBefore - c.PriceAfter, At: at}
		for _, n := range c.Candidates {
			x.Nodes = append(x.Nodes, n.Node)
		}
		return x
	}
	for _, p := range l.Proposals() {
		x := line(p.ID, string(p.State), p.At, &p.Proposed.Command)
		x.Until = p.Proposed.Expires
		if a := p.Answer; a != nil {
			x.By, x.Why = a.By, a.Why
			if !a.Approved {
				x.Until = a.Until
			}
		}
		list = append(list, x)
	}
	for _, c := range l.Commands() {
		list = append(list, line(c.ID, string(c.State), c.At, &c.Started))
	}
	slices.SortStableFunc(list, func(a, b commandLine) int { return a.At.Compare(b.At) })
	return list
}

func printCommands(out io.Writer, list []commandLine) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no command runs or waits for approval")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tREASON\tSAVES\tEVICTIONS\tNEW\tSINCE\tUNTIL\tNODES")
	for _, c := range list {
		until := ""
		if !c.Until.IsZero() {
			until = c.Until.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", c.ID, c.State, c.Reason, audit.Price(c.Saves), c.Evictions, c.New,
			c.At.UTC().Format(time.RFC3339), until, strings.Join(c.Nodes, ","))
	}
	return w.Flush()
}

func approveCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "approve ID --reason TEXT", Short: "Approve a proposed command", Args: cobra.ExactArgs(1),
		Long: `Approve lets a command go on that a DisruptionPolicy makes wait. Who approved it and why stands in the record. The disruptor
works the command out anew on what it sees then: it starts it, or ends the proposal and says what has changed
(millctl log, millctl why node NAME).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.answer(cmd, t, ledger.ProposalAnswered{ID: args[0], Approved: true})
		},
	}
	o.flags(cmd)
	return cmd
}

func rejectCommand(t *target) *cobra.Command {
	o, life := order{}, 24*time.Hour
	cmd := &cobra.Command{
		Use: "reject ID --reason TEXT", Short: "Reject a proposed command", Args: cobra.ExactArgs(1),
		Long: `Reject ends a proposal. Its nodes are not proposed again for the same reason until --for has passed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if life <= 0 {
				return fmt.Errorf("invalid --for %s: must be positive", life)
			}
			return o.answer(cmd, t, rejection(args[0], life))
		},
	}
	o.flags(cmd)
	cmd.Flags().DurationVar(&life, "for", life, "how long its nodes are not proposed again for the same reason")
	return cmd
}

// rejection counts from its record's time; Until is for services that do not know For yet.
func rejection(id string, life time.Duration) ledger.ProposalAnswered {
	return ledger.ProposalAnswered{ID: id, For: life, Until: time.Now().Add(life).UTC()}
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
	rec, err := answerProposal(ctx, s.log, a)
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

// answerProposal refuses an id that is not proposed, or was answered already.
func answerProposal(ctx context.Context, log store.Log, a ledger.ProposalAnswered) (store.Record, error) {
	aggregate := ledger.CommandAggregate(a.ID)
	seen, err := log.Aggregate(ctx, aggregate) // first: if another answer comes between, it has moved
	if err != nil {
		return store.Record{}, fmt.Errorf("read where command %s stands: %w", a.ID, err)
	}
	l, err := currentLedger(ctx, log)
	if err != nil {
		return store.Record{}, err
	}
	x := l.Proposal(a.ID)
	switch {
	case x == nil && l.Command(a.ID) != nil:
		return store.Record{}, fmt.Errorf("command %s runs already; it is not proposed", a.ID)
	case x == nil:
		return store.Record{}, fmt.Errorf("command %s is not proposed: list what is with `millctl commands`", a.ID)
	case x.Answer != nil:
		return store.Record{}, fmt.Errorf("command %s was answered already by %s: %s", a.ID, x.Answer.By, x.Answer.Why)
	}
	var nodes []string
	for _, c := range x.Proposed.Command.Candidates {
		nodes = append(nodes, "node/"+c.Node)
	}
	draft, err := audit.AnswerDraft(&a, nodes, seen)
	if err != nil {
		return store.Record{}, err
	}
	draft.Time = time.Now()
	rec, err := log.Append(ctx, draft)
	if errors.Is(err, store.ErrConflict) {
		return rec, fmt.Errorf("command %s was answered, or ended, by someone else meanwhile: %w", a.ID, err)
	}
	return rec, err
}
