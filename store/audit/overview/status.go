// Package overview says how an installation stands: leaders, lags, what is stopped, claims, commands, drains
// and alarms, and what keeps a node. It is for people; nothing of it is ever recorded, and no decision
// depends on it.
package overview

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/orders"
)

// Status is how an installation stands at a moment.
type Status struct {
	Cluster string    `json:"cluster"`
	LogID   string    `json:"logID"`
	At      time.Time `json:"at"`
	// Offline: no process serves the data directory, so no service has a leader.
	Offline bool      `json:"offline,omitempty"`
	Head    uint64    `json:"head"`
	Last    time.Time `json:"last"`
	// Stop is nil while nothing is stopped.
	Stop     *StopStatus     `json:"stop,omitempty"`
	Services []ServiceStatus `json:"services"`
	// Stream is nil if it can't be had; StreamError says why.
	Stream      *StreamStatus `json:"stream,omitempty"`
	StreamError string        `json:"streamError,omitempty"`
	// Database is nil if it can't be had; DatabaseError says why. Archive: an archive directory is known
	// here.
	Database      *DatabaseStatus `json:"database,omitempty"`
	DatabaseError string          `json:"databaseError,omitempty"`
	Archive       bool            `json:"archive"`
	// Claims counts the open claims by state.
	Claims   map[ledger.ClaimState]int `json:"claims"`
	Going    int                       `json:"claimsGoing"`
	Commands []CommandStatus           `json:"commands"`
	Drains   []DrainStatus             `json:"drains"`
	Alarms   []AlarmStatus             `json:"alarms"`
}

type StopStatus struct {
	Level ledger.Stop `json:"level"`
	By    string      `json:"by"`
	Why   string      `json:"why"`
	At    time.Time   `json:"at,omitzero"`
	Seq   uint64      `json:"seq,omitempty"`
}

// ServiceStatus of a service; without Identity nobody leads it. The numbers are of its last report.
type ServiceStatus struct {
	Service  string      `json:"service"`
	Identity string      `json:"identity,omitempty"`
	Version  string      `json:"version,omitempty"`
	Planner  string      `json:"planner,omitempty"`
	Mode     ledger.Mode `json:"mode,omitempty"`
	// Folded is the last record it has folded, Lag how many it is behind.
	Folded uint64 `json:"folded,omitempty"`
	Lag    uint64 `json:"lag"`
	// Position is the last message it has folded of Stream; AsOf is what its World is as of.
	Stream   string    `json:"stream,omitempty"`
	Position uint64    `json:"position,omitempty"`
	AsOf     time.Time `json:"asOf,omitzero"`
	Stop     string    `json:"stop,omitempty"`
	// Clock says why the leader's clock cannot be relied on; it gives the leadership up.
	Clock      string    `json:"clock,omitempty"`
	ReportedAt time.Time `json:"reportedAt,omitzero"`
}

type StreamStatus struct {
	Incarnation string `json:"incarnation"`
	First       uint64 `json:"first"`
	Last        uint64 `json:"last"`
	// Replicas there are, of which some may be Offline, and that there could be; 0 if the stream is embedded.
	Replicas         int `json:"replicas,omitempty"`
	ReplicasOffline  int `json:"replicasOffline,omitempty"`
	ReplicasPossible int `json:"replicasPossible,omitempty"`
}

type CommandStatus struct {
	ID     string              `json:"id"`
	State  ledger.CommandState `json:"state"`
	Reason string              `json:"reason"`
	Nodes  []string            `json:"nodes"`
	At     time.Time           `json:"at"`
}

type DrainStatus struct {
	Node    string    `json:"node"`
	Reason  string    `json:"reason"`
	Tier    int       `json:"tier"`
	Drained bool      `json:"drained,omitempty"`
	At      time.Time `json:"at"`
}

type AlarmStatus struct {
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// DatabaseStatus is how full the database of the log is. The times are estimates.
type DatabaseStatus struct {
	QuotaBytes int64 `json:"quotaBytes"`
	// QuotaAssumed: the database does not report its quota.
	QuotaAssumed bool  `json:"quotaAssumed,omitempty"`
	FileBytes    int64 `json:"fileBytes"`
	UsedBytes    int64 `json:"usedBytes"`
	// NoSpace: it accepts no more writes.
	NoSpace bool `json:"noSpace,omitempty"`
	// Archived is the last record in the archive that left the log; 0: none did.
	Archived uint64 `json:"archived"`
	// FullAt is when the quota is reached if records come as they did last, and none leaves; zero if that
	// cannot be known, as where the quota is assumed.
	FullAt time.Time `json:"fullAt,omitzero"`
}

const (
	// AlarmsFor is how far back alarms are shown, alarmRecordsMax how many records are searched for them.
	AlarmsFor       = 24 * time.Hour
	alarmRecordsMax = 10_000
	pageSize        = 500
)

// New is the status as far as a Ledger tells.
func New(cluster string, l *ledger.Ledger, now time.Time) *Status {
	st := &Status{Cluster: cluster, LogID: l.LogID(), At: now.UTC(), Alarms: []AlarmStatus{}}
	st.Head, st.Last = l.Seq(), l.LastTime()
	st.Claims, st.Commands, st.Drains = map[ledger.ClaimState]int{}, []CommandStatus{}, []DrainStatus{}
	for _, c := range l.Claims() {
		st.Claims[c.State]++
		if c.Doomed != nil || c.Terminated {
			st.Going++
		}
	}
	for _, c := range l.Commands() {
		x := CommandStatus{ID: c.ID, State: c.State, Reason: string(c.Started.Reason), Nodes: []string{}, At: c.At}
		for _, candidate := range c.Started.Candidates {
			x.Nodes = append(x.Nodes, candidate.Node)
		}
		st.Commands = append(st.Commands, x)
	}
	for _, d := range l.Drains() {
		st.Drains = append(st.Drains, DrainStatus{Node: d.Started.Node, Reason: d.Started.Reason, Tier: d.Tier, Drained: d.Drained > 0, At: d.At})
	}
	return st
}

// ReadStop reads the switch, which is what services act on; when it was set stands in the record.
func (st *Status) ReadStop(ctx context.Context, log store.Log, l *ledger.Ledger) error {
	c, err := orders.StopInForce(ctx, log)
	if err != nil || c.Stop == ledger.StopNone {
		return err
	}
	st.Stop = &StopStatus{Level: c.Stop, By: c.By, Why: c.Why}
	if recorded := l.Control(); recorded != nil && *recorded == c {
		st.Stop.At, st.Stop.Seq = l.ControlAt(), l.ControlSeq()
	}
	return nil
}

// services in the order they are shown.
var services = []string{ledger.ServiceWatcher, ledger.ServiceProvisioner, ledger.ServiceDisruptor, ledger.ServiceTerminator, ledger.ServiceLifecycle}

// SetLeaders says who leads each service, and how far it is.
func (st *Status) SetLeaders(leaders []store.Leader, l *ledger.Ledger) {
	for _, name := range services {
		x := ServiceStatus{Service: name}
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

func (x *ServiceStatus) lead(leader store.Leader, head uint64) {
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

// Alarms are those of the last day among the newest records.
func Alarms(ctx context.Context, log store.Log, l *ledger.Ledger, now time.Time) ([]AlarmStatus, error) {
	list := []AlarmStatus{}
	from := uint64(1)
	if head := l.Seq(); head > alarmRecordsMax {
		from = head - alarmRecordsMax
	}
	for {
		records, err := log.Read(ctx, from, pageSize)
		if errors.Is(err, store.ErrCompacted) { // what is archived is older than what is shown at a glance
			if from, err = FirstLive(ctx, log, from, l.Seq()); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("look for alarms: %w", err)
		}
		for _, rec := range records {
			from = rec.Seq + 1
			if ledger.Kind(rec.Kind) != ledger.KindAlarmRaised || now.Sub(rec.Time) > AlarmsFor {
				continue
			}
			if e, err := audit.Decode(rec); err == nil {
				a := e.Payload.(*ledger.AlarmRaised)
				list = append(list, AlarmStatus{Seq: rec.Seq, At: rec.Time.UTC(), Reason: a.Reason, Message: a.Message})
			}
		}
		if len(records) < pageSize {
			return list, nil
		}
	}
}

// FirstLive is the first record after from that is still in the live log.
func FirstLive(ctx context.Context, log store.Log, from, head uint64) (uint64, error) {
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
