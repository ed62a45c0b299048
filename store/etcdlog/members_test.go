package etcdlog_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"millwright/store"
	"millwright/store/archive"
	"millwright/store/etcdlog"
)

// trio is an etcd of three members on loopback.
type trio struct {
	endpoints []string
	servers   []*embed.Etcd
	stops     []func()
}

// leader is the index of the member that leads; -1 while none does.
func (m *trio) leader() int {
	return slices.IndexFunc(m.servers, func(s *embed.Etcd) bool { return s.Server.Leader() == s.Server.MemberID() })
}

// stopLeader ends the member that leads.
func (m *trio) stopLeader(t *testing.T) {
	t.Helper()
	n := m.leader()
	if n < 0 {
		t.Fatal("no member leads")
	}
	m.stops[n]()
}

// moveLeader has another member lead, and returns when it does.
func (m *trio) moveLeader(ctx context.Context) error {
	for ctx.Err() == nil {
		n := m.leader()
		if n < 0 {
			continue
		}
		from, to := m.servers[n].Server, m.servers[(n+1)%len(m.servers)].Server
		if err := from.MoveLeader(ctx, uint64(from.MemberID()), uint64(to.MemberID())); err == nil {
			return nil
		}
	}
	return ctx.Err()
}

func members(t *testing.T) *trio {
	t.Helper()
	free := func() url.URL {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return url.URL{Scheme: "http", Host: l.Addr().String()}
	}
	m := &trio{}
	var configs []*embed.Config
	var cluster []string
	for i := range 3 {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprint("member-", i), t.TempDir()
		client, peer := free(), free()
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		cfg.QuotaBackendBytes = 64 << 20
		cfg.TickMs, cfg.ElectionMs = 20, 600
		cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		configs = append(configs, cfg)
		cluster = append(cluster, cfg.Name+"="+peer.String())
		m.endpoints = append(m.endpoints, client.Host)
	}
	for _, cfg := range configs {
		cfg.InitialCluster = strings.Join(cluster, ",")
		s, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceFunc(s.Close)
		t.Cleanup(stop)
		m.servers, m.stops = append(m.servers, s), append(m.stops, stop)
	}
	for _, s := range m.servers {
		select {
		case <-s.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("the members do not find each other")
		}
	}
	return m
}

// TestThreeMembers: the log is appended to, archived and made smaller while the member that led is away.
func TestThreeMembers(t *testing.T) {
	m := members(t)
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: m.endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	log := openLog(t, client, "test")
	ctx := t.Context()
	at := uint64(0)
	appendMany := func(n int) {
		t.Helper()
		for i := range n {
			payload := make([]byte, 64<<10)
			payload[0] = byte(i)
			r, err := log.Append(ctx, store.Draft{Kind: 10, Payload: payload, Expects: map[string]uint64{"pool/a": at}, Advances: []string{"pool/a"}})
			if err != nil {
				t.Fatal(err)
			}
			at = r.Seq
		}
	}
	appendMany(80)
	full, err := log.Usage(ctx)
	for wait := 0; err == nil && full.UsedBytes < 4<<20 && wait < 100; wait++ { // etcd writes its file a little later
		time.Sleep(50 * time.Millisecond)
		full, err = log.Usage(ctx)
	}
	if err != nil || full.QuotaBytes != 64<<20 || full.UsedBytes < 4<<20 {
		t.Fatalf("usage %+v, %v", full, err)
	}

	m.stopLeader(t)
	appendMany(20)
	dir := archive.Open(t.TempDir(), log.ID())
	t.Cleanup(func() { _ = dir.Close() })
	if _, err := archive.NewArchiver(archive.Config{Cluster: "test", Live: log, Archive: dir}).Archive(ctx, at-5); err != nil {
		t.Fatalf("archive while a member is away: %v", err)
	}
	revision, err := log.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Forget(ctx, revision); err != nil {
		t.Fatal(err)
	}
	if err := log.Defragment(ctx); err == nil {
		t.Error("that a member could not be made smaller is not told")
	}
	small, err := log.Usage(ctx)
	if err != nil || small.FileBytes > full.FileBytes/2 {
		t.Errorf("the members that are there are as large as before: from %+v to %+v, %v", full, small, err)
	}
	appendMany(5)
	joined := archive.Join(log, dir)
	if n, err := joined.Verify(ctx); err != nil || n != at {
		t.Errorf("verified %d of %d records: %v", n, at, err)
	}
}
