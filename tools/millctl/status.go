package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/overview"
	"millwright/tools/millctl/remote"
)

// status is what millctl status says; -o json prints it as it is.
type status struct{ *overview.Status }

func statusCommand(t *target) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "status", Short: "Show leaders, lags, stop, claims, commands, drains and alarms at a glance", Args: cobra.NoArgs,
		Long: `Status reads the log and what the leaders report about themselves every few seconds. On a data directory that no
process serves, it shows how things stood.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := o.check(); err != nil {
				return err
			}
			return o.repeat(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
				st, err := t.status(cmd.Context())
				if err != nil {
					return err
				}
				return o.write(out, st, func(out io.Writer) error { return st.print(out, o.wide()) })
			})
		},
	}
	o.register(cmd.Flags(), formatWide)
	o.registerWatch(cmd.Flags(), t)
	return cmd
}

// status by console, which does not know the database, or by log.
func (t *target) status(ctx context.Context) (st *status, err error) {
	if t.viaConsole() {
		st = &status{&overview.Status{}}
		return st, t.askConsole(ctx, func(c *remote.Client) error { return c.Get(ctx, "/status", nil, st.Status) })
	}
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeInto(s, &err)
	return s.status(ctx, time.Now())
}

func (s *session) status(ctx context.Context, now time.Time) (*status, error) {
	l, err := currentLedger(ctx, s.log)
	if err != nil {
		return nil, err
	}
	st := &status{overview.New(s.target.cluster, l, now)}
	st.Offline = s.offline
	if err := st.ReadStop(ctx, s.log, l); err != nil {
		return nil, err
	}
	var leaders []store.Leader
	if !s.offline { // the keys in a copy are of those who led when it was made
		if leaders, err = s.elector.Leaders(ctx); err != nil {
			return nil, fmt.Errorf("read leaders: %w", err)
		}
	}
	st.SetLeaders(leaders, l)
	if st.Alarms, err = overview.Alarms(ctx, s.log, l, now); err != nil {
		return nil, err
	}
	st.takeStream(s.streamStatus(ctx))
	st.Archive = s.archive != nil
	if st.Database, err = s.databaseState(ctx, now); err != nil {
		st.DatabaseError = err.Error()
	}
	return st, nil
}

// streamStatus is of the stream as it is now; millctl makes none.
func (s *session) streamStatus(ctx context.Context) (*overview.StreamStatus, error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	state, err := stream.State(ctx)
	if err != nil {
		return nil, err
	}
	found := &overview.StreamStatus{Incarnation: state.Incarnation, First: state.First, Last: state.Last}
	if s.nats != nil {
		return found, nil
	}
	placed, err := stream.Placement(ctx)
	if err != nil {
		return nil, err
	}
	found.Replicas, found.ReplicasOffline, found.ReplicasPossible = placed.Replicas, placed.Offline, placed.Possible()
	return found, nil
}

// currentLedger folds the log as it stands, from its newest checkpoint.
func currentLedger(ctx context.Context, log store.Log) (*ledger.Ledger, error) {
	l, err := audit.PresentLedger(ctx, log)
	if err != nil {
		return nil, fmt.Errorf("fold the log: %w", err)
	}
	return l, nil
}

func (st *status) takeStream(found *overview.StreamStatus, err error) {
	if err != nil {
		st.StreamError = err.Error()
		return
	}
	st.Stream = found
}
