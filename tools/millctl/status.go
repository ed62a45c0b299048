package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// status is what millctl status says; -o json prints it as it is.
type status struct {
	Cluster string    `json:"cluster"`
	LogID   string    `json:"logID"`
	At      time.Time `json:"at"`
	// Offline: no process serves the data directory, so no service has a leader.
	Offline bool    `json:"offline,omitempty"`
	Head    uint64  `json:"head"`
	Last    instant `json:"last"`
	// Stop is nil while nothing is stopped.
	Stop     *stopStatus     `json:"stop,omitempty"`
	Services []serviceStatus `json:"services"`
	// Stream is nil if it can't be had; StreamError says why.
	Stream      *streamStatus `json:"stream,omitempty"`
	StreamError string        `json:"streamError,omitempty"`
	// Database is nil if it can't be had; DatabaseError says why. Archive: an archive directory is known
	// here.
	Database      *databaseStatus `json:"database,omitempty"`
	DatabaseError string          `json:"databaseError,omitempty"`
	Archive       bool            `json:"archive"`
	// Claims counts the open claims by state.
	Claims   map[ledger.ClaimState]int `json:"claims"`
	Going    int                       `json:"claimsGoing"`
	Commands []commandStatus           `json:"commands"`
	Drains   []drainStatus             `json:"drains"`
	Alarms   []alarmStatus             `json:"alarms"`
}

// instant marshals as RFC 3339, and as nothing if it is not known.
type instant = time.Time

type stopStatus struct {
	Level ledger.Stop `json:"level"`
	By    string      `json:"by"`
	Why   string      `json:"why"`
	At    instant     `json:"at,omitzero"`
	Seq   uint64      `json:"seq,omitempty"`
}

// serviceStatus of a service; without Identity nobody leads it. The numbers are of its last report.
type serviceStatus struct {
	Service  string      `json:"service"`
	Identity string      `json:"identity,omitempty"`
	Version  string      `json:"version,omitempty"`
	Planner  string      `json:"planner,omitempty"`
	Mode     ledger.Mode `json:"mode,omitempty"`
	// Folded is the last record it has folded, Lag how many it is behind.
	Folded uint64 `json:"folded,omitempty"`
	Lag    uint64 `json:"lag"`
	// Position is the last message it has folded of Stream; AsOf is what its World is as of.
	Stream   string  `json:"stream,omitempty"`
	Position uint64  `json:"position,omitempty"`
	AsOf     instant `json:"asOf,omitzero"`
	Stop     string  `json:"stop,omitempty"`
	// Clock says why the leader's clock cannot be relied on; it gives the leadership up.
	Clock      string  `json:"clock,omitempty"`
	ReportedAt instant `json:"reportedAt,omitzero"`
}

type streamStatus struct {
	Incarnation string `json:"incarnation"`
	First       uint64 `json:"first"`
	Last        uint64 `json:"last"`
	// Replicas there are, of which some may be Offline, and that there could be; 0 if the stream is embedded.
	Replicas         int `json:"replicas,omitempty"`
	ReplicasOffline  int `json:"replicasOffline,omitempty"`
	ReplicasPossible int `json:"replicasPossible,omitempty"`
}

type commandStatus struct {
	ID     string              `json:"id"`
	State  ledger.CommandState `json:"state"`
	Reason string              `json:"reason"`
	Nodes  []string            `json:"nodes"`
	At     instant             `json:"at"`
}

type drainStatus struct {
	Node    string  `json:"node"`
	Reason  string  `json:"reason"`
	Tier    int     `json:"tier"`
	Drained bool    `json:"drained,omitempty"`
	At      instant `json:"at"`
}

type alarmStatus struct {
	Seq     uint64  `json:"seq"`
	At      instant `json:"at"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
}

const (
	// alarmsFor is how far back alarms are shown, alarmRecordsMax how many records are searched for them.
	alarmsFor       = 24 * time.Hour
	alarmRecordsMax = 10_000
)

func statusCommand(t *target) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "status", Short: "Show leaders, lags, stop, claims, commands, drains and alarms at a glance", Args: cobra.NoArgs,
		Long: `Status reads the log and what the leaders report about themselves every few seconds. On a data directory that no
process serves, it shows how things stood.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if output != "text" && output != "json" {
				return fmt.Errorf("invalid -o %q: must be text or json", output)
			}
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			st, err := s.status(cmd.Context(), time.Now())
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(st)
			}
			return st.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func (s *session) status(ctx context.Context, now time.Time) (*status, error) {
	st := &status{Cluster: s.target.cluster, LogID: s.log.ID(), At: now.UTC(), Offline: s.offline}
	l, err := currentLedger(ctx, s.log)
	if err != nil {
		return nil, err
	}
	st.takeLedger(l)
	if err := st.takeStop(ctx, s.log, l); err != nil {
		return nil, err
	}
	var leaders []store.Leader
	if !s.offline { // the keys in a copy are of those who led when it was made
		if leaders, err = s.elector.Leaders(ctx); err != nil {
			return nil, fmt.Errorf("read leaders: %w", err)
		}
	}
	st.takeLeaders(leaders, l)
	if st.Alarms, err = alarms(ctx, s.log, l, now); err != nil {
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
func (s *session) streamStatus(ctx context.Context) (*streamStatus, error) {
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
	found := &streamStatus{Incarnation: state.Incarnation, First: state.First, Last: state.Last}
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
	l, err := audit.NewestLedger(ctx, log, 0, func(error) {})
	if errors.Is(err, audit.ErrNoCheckpoint) {
		l = ledger.New("")
	} else if err != nil {
		return nil, fmt.Errorf("fold the log: %w", err)
	}
	for {
		records, err := log.Read(ctx, l.Seq()+1, pageSize)
		for _, rec := range records {
			e, err := audit.Decode(rec)
			if err == nil {
				err = l.Apply(e)
			}
			if err != nil {
				return nil, fmt.Errorf("fold the log: %w", err)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("fold the log: %w", err)
		}
		if len(records) < pageSize {
			return l, nil
		}
	}
}

func (st *status) takeLedger(l *ledger.Ledger) {
	st.Head, st.Last = l.Seq(), l.LastTime()
	st.Claims, st.Commands, st.Drains = map[ledger.ClaimState]int{}, []commandStatus{}, []drainStatus{}
	for _, c := range l.Claims() {
		st.Claims[c.State]++
		if c.Doomed != nil || c.Terminated {
			st.Going++
		}
	}
	for _, c := range l.Commands() {
		x := commandStatus{ID: c.ID, State: c.State, Reason: string(c.Started.Reason), Nodes: []string{}, At: c.At}
		for _, candidate := range c.Started.Candidates {
			x.Nodes = append(x.Nodes, candidate.Node)
		}
		st.Commands = append(st.Commands, x)
	}
	for _, d := range l.Drains() {
		st.Drains = append(st.Drains, drainStatus{Node: d.Started.Node, Reason: d.Started.Reason, Tier: d.Tier, Drained: d.Drained > 0, At: d.At})
	}
}

// takeStop reads the switch, which is what services act on; when it was set stands in the record.
func (st *status) takeStop(ctx context.Context, log store.Log, l *ledger.Ledger) error {
	c, err := stopInForce(ctx, log)
	if err != nil || c.Stop == ledger.StopNone {
		return err
	}
	st.Stop = &stopStatus{Level: c.Stop, By: c.By, Why: c.Why}
	if recorded := l.Control(); recorded != nil && *recorded == c {
		st.Stop.At, st.Stop.Seq = l.ControlAt(), l.ControlSeq()
	}
	return nil
}

// services in the order they are shown.
var services = []string{ledger.ServiceWatcher, ledger.ServiceProvisioner, ledger.ServiceDisruptor, ledger.ServiceTerminator, ledger.ServiceLifecycle}

func (st *status) takeLeaders(leaders []store.Leader, l *ledger.Ledger) {
	for _, name := range services {
		x := serviceStatus{Service: name}
		if name != ledger.ServiceWatcher {
			x.Mode = l.Mode(name)
		}
		for _, leader := range leaders {
			if leader.Service == name {
				x.lead(leader, st.Head)
			}
		}
		st.Services = append(st.Services, x)
	}
}

func (x *serviceStatus) lead(leader store.Leader, head uint64) {
	x.Identity, x.Version, x.Planner = leader.Identity, leader.Info["version"], leader.Info["planner"]
	r := leader.Report
	if len(r) == 0 {
		return
	}
	x.Folded, _ = strconv.ParseUint(r[audit.ReportFolded], 10, 64)
	x.Lag = head - min(x.Folded, head)
	x.Stream = r[audit.ReportStream]
	x.Position, _ = strconv.ParseUint(r[audit.ReportPosition], 10, 64)
	x.AsOf, _ = time.Parse(time.RFC3339, r[audit.ReportAsOf])
	x.ReportedAt, _ = time.Parse(time.RFC3339, r[audit.ReportAt])
	x.Stop, x.Clock = r[audit.ReportStop], r[audit.ReportClock]
}

func (st *status) takeStream(found *streamStatus, err error) {
	if err != nil {
		st.StreamError = err.Error()
		return
	}
	st.Stream = found
}

// alarms are those of the last day among the newest records.
func alarms(ctx context.Context, log store.Log, l *ledger.Ledger, now time.Time) ([]alarmStatus, error) {
	list := []alarmStatus{}
	from := uint64(1)
	if head := l.Seq(); head > alarmRecordsMax {
		from = head - alarmRecordsMax
	}
	for {
		records, err := log.Read(ctx, from, pageSize)
		if errors.Is(err, store.ErrCompacted) { // what is archived is older than what is shown at a glance
			if from, err = firstLive(ctx, log, from, l.Seq()); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("look for alarms: %w", err)
		}
		for _, rec := range records {
			from = rec.Seq + 1
			if ledger.Kind(rec.Kind) != ledger.KindAlarmRaised || now.Sub(rec.Time) > alarmsFor {
				continue
			}
			if e, err := audit.Decode(rec); err == nil {
				a := e.Payload.(*ledger.AlarmRaised)
				list = append(list, alarmStatus{Seq: rec.Seq, At: rec.Time.UTC(), Reason: a.Reason, Message: a.Message})
			}
		}
		if len(records) < pageSize {
			return list, nil
		}
	}
}

// firstLive is the first record after from that is still in the live log.
func firstLive(ctx context.Context, log store.Log, from, head uint64) (uint64, error) {
	low, high := from, head
	for low < high {
		middle := low + (high-low)/2
		_, err := log.Read(ctx, middle, 1)
		switch {
		case errors.Is(err, store.ErrCompacted):
			low = middle + 1
		case err != nil:
			return 0, err
		default:
			high = middle
		}
	}
	return low, nil
}
