package etcdlog_test

import (
	"testing"
	"time"

	"millwright/store"
	"millwright/store/etcdlog"
)

func TestDeposeEndsEveryLeadership(t *testing.T) {
	server := startEtcd(t)
	elector := etcdlog.NewElector(server.Client, "c")
	dead, err := elector.Campaign(t.Context(), store.Candidacy{Service: "lifecycle", Identity: "dead"})
	if err != nil {
		t.Fatal(err)
	}
	if err := elector.Depose(t.Context()); err != nil {
		t.Fatal(err)
	}
	leaders, err := elector.Leaders(t.Context())
	if err != nil || len(leaders) > 0 {
		t.Errorf("leaders %+v, error %v", leaders, err)
	}
	next, err := elector.Campaign(t.Context(), store.Candidacy{Service: "lifecycle", Identity: "next"})
	if err != nil {
		t.Fatal(err)
	}
	if next.Lease() == dead.Lease() {
		t.Error("the successor has the lease of the deposed")
	}
	select {
	case <-dead.Done():
	case <-time.After(30 * time.Second):
		t.Error("the deposed does not learn of it")
	}
	_ = next.Resign(t.Context())
}
