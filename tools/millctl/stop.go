package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/store/audit/orders"
	"millwright/tools/millctl/arguments"
)

// order is what an operator wants.
type order struct{ by, why string }

func stopCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "stop voluntary|all --reason TEXT", Short: "Stop the services from acting, until resume", Args: arguments.Exactly(1),
		Long: `Stop is in effect within a second in every service, running or started later, and is recorded with who and why.

voluntary: no new disruption command; commands that have not begun to delete nodes are rolled back, others pause with
their taints kept. Expiration, deletion by hand and other forceful ends go on, as do launches.
all: also nothing is created, evicted or terminated, and nothing is decided that would be. Nodes still register and
initialize, status is kept, and finalizers of what is gone already are removed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			level := ledger.Stop(args[0])
			if level == ledger.StopNone || !level.Known() {
				return fmt.Errorf("stop %q: must be voluntary or all", args[0])
			}
			if o.why == "" {
				return errors.New("missing --reason")
			}
			if t.viaConsole() {
				return o.byConsole(cmd, t, "/control/stop", api.Order{Level: args[0]})
			}
			return o.run(cmd, t, level)
		},
		ValidArgs: []string{string(ledger.StopVoluntary), string(ledger.StopAll)},
	}
	o.flags(cmd)
	return cmd
}

func resumeCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "resume", Short: "Let the services act again after stop", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.viaConsole() {
				if o.why == "" {
					o.why = "resumed by millctl"
				}
				return o.byConsole(cmd, t, "/control/resume", api.Order{})
			}
			return o.run(cmd, t, ledger.StopNone)
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *order) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.why, "reason", "", "why, for the record")
	cmd.Flags().StringVar(&o.by, "by", operator(), "who, for the record")
	cmd.Flags().Lookup("by").DefValue = "USER@HOST" // as help shows it
}

// operator is the user of this process at this host.
func operator() string {
	name, host := os.Getenv("USER"), "unknown host"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

func (o *order) run(cmd *cobra.Command, t *target, level ledger.Stop) (err error) {
	if o.by == "" {
		return errors.New("missing --by")
	}
	s, err := t.open(cmd.Context())
	if err != nil {
		return err
	}
	defer closeInto(s, &err)
	ctx, cancel := context.WithTimeout(cmd.Context(), connectTimeout)
	defer cancel()
	before, rec, err := orders.SetStop(ctx, s.log, ledger.ControlChanged{Stop: level, By: o.by, Why: o.why}, time.Now())
	if err != nil {
		return fmt.Errorf("record the change: %w", err)
	}
	out := cmd.OutOrStdout()
	switch {
	case rec.Seq == 0:
		fmt.Fprintln(out, "not stopped: nothing to resume")
	case level == ledger.StopNone:
		fmt.Fprintf(out, "resumed (record %d); it was stopped: %s\n", rec.Seq, describeStop(before))
	case before.Stop != ledger.StopNone:
		fmt.Fprintf(out, "stopped: %s (record %d); before: %s\n", level, rec.Seq, describeStop(before))
	default:
		fmt.Fprintf(out, "stopped: %s (record %d)\n", level, rec.Seq)
	}
	return nil
}

func describeStop(c ledger.ControlChanged) string {
	return fmt.Sprintf("%s by %s: %s", c.Stop, c.By, c.Why)
}
