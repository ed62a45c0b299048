package view

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millwright/planner/ledger"
	"millwright/services/console/index"
	"millwright/store/audit/overview"
)

// alarmsMax bounds the alarms that are shown.
const alarmsMax = 100

// Status of the installation, as `millctl status` has it, with how old the World is.
func (v *View) Status(ctx context.Context) (*overview.Status, error) {
	w, l, err := v.versions()
	if err != nil {
		return nil, err
	}
	now := v.cfg.Now()
	st := overview.New(v.cfg.Cluster, l, now)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := st.ReadStop(ctx, v.cfg.Log, l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	leading, err := v.leadersNow(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: read leaders: %w", ErrNotReady, err)
	}
	st.SetLeaders(leading, l)
	at := w.Position()
	st.Stream = &overview.StreamStatus{Incarnation: at.Incarnation, Last: at.Sequence}
	st.DatabaseError = "not asked by the console"
	rows, _ := v.cfg.Index.List(index.Filter{Kinds: []string{ledger.KindAlarmRaised.String()}, Since: now.Add(-overview.AlarmsFor)}, 0, alarmsMax)
	for i := len(rows) - 1; i >= 0; i-- {
		reason, message, _ := strings.Cut(strings.TrimPrefix(rows[i].Text, "alarm "), ": ")
		st.Alarms = append(st.Alarms, overview.AlarmStatus{Seq: rows[i].Seq, At: rows[i].Time, Reason: reason, Message: message})
	}
	return st, nil
}

// Commands that run or wait for approval, oldest first.
func (v *View) Commands() ([]overview.CommandLine, error) {
	_, l, err := v.versions()
	if err != nil {
		return nil, err
	}
	return overview.Commands(l), nil
}

// Rollouts of drifted nodes in waves, by NodePool.
func (v *View) Rollouts() ([]overview.RolloutLine, error) {
	_, l, err := v.versions()
	if err != nil {
		return nil, err
	}
	return overview.Rollouts(l), nil
}

// AsOf is what the World is as of.
func (v *View) AsOf() (time.Time, error) {
	w, _, err := v.versions()
	if err != nil {
		return time.Time{}, err
	}
	return w.AsOf().UTC(), nil
}
