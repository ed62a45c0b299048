package etcdlog_test

import (
	"context"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/etcdlog"
)

// moves are faults by which another member of etcd really leads from then on.
func (m *trio) moves(disturb func(ctx context.Context) error, _ *clientv3.Client) map[string]around {
	return map[string]around{
		"another member leads before it, and another actor": {before: func(ctx context.Context) error {
			return firstOf(disturb(ctx), m.moveLeader(ctx))
		}},
		"another member leads after it, and its answer is lost": {after: func(ctx context.Context) error {
			return firstOf(m.moveLeader(ctx), errAnswerLost)
		}},
	}
}

func startTrio(t *testing.T) (*trio, *clientv3.Client) {
	m := members(t)
	return m, dial(t, m.endpoints...)
}

// The same as with one member, when the lead of etcd moves at each point.
func TestTheLogKeepsItsPromisesWhenEtcdChangesItsLeader(t *testing.T) {
	t.Parallel()
	m, client := startTrio(t)
	logKeepsItsPromises(t, client, m.moves)
}

func TestACandidateLeadsWhenEtcdChangesItsLeader(t *testing.T) {
	t.Parallel()
	m, client := startTrio(t)
	candidateLeads(t, client, m.moves)
}

// The alarm of a full member is taken back, whatever happens around the calls.
func TestAnAlarmIsTakenBackWhateverHappensAroundItsCalls(t *testing.T) {
	t.Parallel()
	m, client := startTrio(t)
	alarms := etcdserverpb.NewMaintenanceClient(client.ActiveConnection())
	for name, faults := range map[string]injection{"one lead": faults, "another lead": m.moves} {
		t.Run(name, func(t *testing.T) {
			eachFault(t, client, faults, func(t *testing.T, p *tap, arm func(func(context.Context) error)) {
				log, err := etcdlog.Open(bounded(t), etcdlog.Config{Client: p.client(t, client), Cluster: "alarm"})
				if err != nil {
					t.Fatal(err)
				}
				defer log.Close()
				raise := func(ctx context.Context) error {
					_, err := alarms.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE,
						MemberID: uint64(m.servers[1].Server.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE})
					return err
				}
				until(t, "raise", raise)
				if u, err := log.Usage(bounded(t)); err == nil && !u.NoSpace {
					t.Error("the alarm is not seen")
				}
				arm(func(context.Context) error { return nil })
				until(t, "disarm", log.Disarm)
				var u store.Usage
				until(t, "usage", func(ctx context.Context) (err error) { u, err = log.Usage(ctx); return err })
				if u.NoSpace {
					t.Errorf("usage %+v", u)
				}
			})
		})
	}
}
