package etcdlog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"millwright/store"
	"millwright/store/etcdlog"
)

// etcd spends a tenth of a second of processor time on each check of a password: neither renewals nor appends
// that queue may cause one.
func TestAUserWithAPasswordIsCheckedOncePerConnection(t *testing.T) {
	endpoint, security := startSecured(t)
	setUpUsers(t, dialSecured(t, endpoint, security), "/millwright/prod/")
	security.Username, security.Password = "millwright", "m-secret"
	const processes = 2
	var logs []*etcdlog.Log
	watched := make(chan uint64, 1024)
	for i := range processes {
		client := dialSecured(t, endpoint, security)
		log, err := etcdlog.Open(bounded(t), etcdlog.Config{Client: client, Cluster: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		logs = append(logs, log)
		watching, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = log.Watch(watching, 1, func(r store.Record) error { watched <- r.Seq; return nil })
		}()
		t.Cleanup(func() { stop(); <-ended })
		elector := etcdlog.NewElector(client, "prod")
		for n := range 3 {
			l, err := elector.Campaign(bounded(t), store.Candidacy{Service: fmt.Sprintf("service-%d-%d", i, n), Identity: "me", Deposable: n == 0})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Resign(context.Background()) })
		}
	}
	contend(t, logs) // what is opened once is open now
	checked, renewed := counted(t, "Authenticate", "grpc_server_started_total"), counted(t, "LeaseKeepAlive", "grpc_server_msg_received_total")
	contend(t, logs)
	for ctx := bounded(t); counted(t, "LeaseKeepAlive", "grpc_server_msg_received_total") < renewed+20; {
		if ctx.Err() != nil {
			t.Fatal("no lease is renewed")
		}
	}
	if n := counted(t, "Authenticate", "grpc_server_started_total") - checked; n > 0 {
		t.Errorf("%d renewals and %d appends: the password was checked %.0f times", 20, 2*processes*contended, n)
	}
}

const contended = 50

// contend has all logs append at once.
func contend(t *testing.T, logs []*etcdlog.Log) {
	t.Helper()
	var group sync.WaitGroup
	for _, log := range logs {
		group.Go(func() {
			for range contended {
				if _, err := log.Append(context.Background(), store.Draft{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// counted is what etcd counted of a method, since the test binary began.
func counted(t testing.TB, method, metric string) (n float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "grpc_method" && label.GetValue() == method {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
