package etcdlog_test

import (
	"context"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/etcdlog"
)

func TestCandidatesAreLeadersAndStandbys(t *testing.T) {
	server := startEtcd(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := etcdlog.NewElector(server.Client, "test")
	leader, err := e.Campaign(ctx, store.Candidacy{Service: "terminator", Identity: "first", Info: map[string]string{store.InfoKinds: "1-7"}})
	if err != nil {
		t.Fatal(err)
	}
	standing, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = e.Campaign(standing, store.Candidacy{Service: "terminator", Identity: "second", Info: map[string]string{store.InfoKinds: "1-6"}})
	}()
	for {
		list, err := e.Candidates(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < 2 {
			continue
		}
		if list[0].Identity != "first" || list[1].Identity != "second" || list[1].Info[store.InfoKinds] != "1-6" {
			t.Errorf("candidates %+v", list)
		}
		break
	}
	if leaders, err := e.Leaders(ctx); err != nil || len(leaders) != 1 || leaders[0].Identity != "first" {
		t.Errorf("leaders %+v, %v", leaders, err)
	}
	stop()
	<-ended
	_ = leader.Resign(ctx)
}
