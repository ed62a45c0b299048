package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// controlTriesMax bounds how often another operator may be faster.
const controlTriesMax = 5

// order is what an operator wants.
type order struct{ by, why string }

func stopCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "stop voluntary|all --reason TEXT", Short: "Stop the services from acting, until resume", Args: cobra.ExactArgs(1),
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
			return o.run(cmd, t, level)
		},
	}
	o.flags(cmd)
	return cmd
}

func resumeCommand(t *target) *cobra.Command {
	o := order{}
	cmd := &cobra.Command{
		Use: "resume", Short: "Let the services act again after stop", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, t, ledger.StopNone) },
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
	before, rec, err := setStop(ctx, s.log, ledger.ControlChanged{Stop: level, By: o.by, Why: o.why})
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

// setStop records the change and sets the switch in one step, and returns what was in force before. Resuming
// what is not stopped records nothing.
func setStop(ctx context.Context, log store.Log, want ledger.ControlChanged) (before ledger.ControlChanged, rec store.Record, err error) {
	for range controlTriesMax {
		// The aggregate first: if another operator comes between, it has moved.
		seen, err := log.Aggregate(ctx, ledger.ControlAggregate)
		if err != nil {
			return before, rec, err
		}
		if before, err = stopInForce(ctx, log); err != nil {
			return before, rec, err
		}
		if before.Stop == ledger.StopNone && want.Stop == ledger.StopNone {
			return before, rec, nil
		}
		draft, err := audit.ControlDraft(&want, seen)
		if err != nil {
			return before, rec, err
		}
		draft.Time = time.Now()
		if rec, err = log.Append(ctx, draft); !errors.Is(err, store.ErrConflict) {
			return before, rec, err
		}
	}
	return before, rec, fmt.Errorf("others changed it %d times meanwhile: %w", controlTriesMax, store.ErrConflict)
}

// stopInForce reads the switch.
func stopInForce(ctx context.Context, log store.Log) (c ledger.ControlChanged, err error) {
	value, _, err := log.Switch(ctx, ledger.SwitchStop)
	if err != nil || value == "" {
		return c, err
	}
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		return c, fmt.Errorf("decode the stop switch: %w", err)
	}
	return c, nil
}
