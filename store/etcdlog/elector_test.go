package etcdlog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/etcdlog"
)

// leaderEnv makes the test binary a process that leads until it is killed.
const leaderEnv = "MILLWRIGHT_TEST_LEADER_ENDPOINT"

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(leaderEnv); endpoint != "" {
		if err := leadForever(endpoint); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func leadForever(endpoint string) error {
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	l, err := etcdlog.NewElector(client, "test").Campaign(context.Background(), "lifecycle", "child", nil)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(l.Lease()); err != nil {
		return err
	}
	<-l.Done()
	return nil
}

// takeoverMax is what issue 2 promises: kill -9 of the leader, the standby leads within 5 s.
const takeoverMax = 5 * time.Second

func TestStandbyTakesOverFromKilledLeader(t *testing.T) {
	server := startEtcd(t)
	l := openLog(t, server.Client, "test")
	child, lease := startLeader(t, server.Endpoints[0])
	if _, err := l.Append(t.Context(), store.Draft{Lease: lease}); err != nil {
		t.Fatalf("append of the living leader: %v", err)
	}
	won := make(chan store.Leadership, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if s, err := etcdlog.NewElector(server.Client, "test").Campaign(ctx, "lifecycle", "standby", nil); err == nil {
			won <- s
		}
	}()
	time.Sleep(leaseRenewals) // the child has renewed its lease: that is the worst case for the standby
	killed := time.Now()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-won:
		took := time.Since(killed)
		t.Logf("the standby leads %s after the kill", took.Round(time.Millisecond))
		if took > takeoverMax {
			t.Errorf("the standby led after %s, more than %s", took, takeoverMax)
		}
		defer s.Resign(context.Background())
		_, err := l.Append(t.Context(), store.Draft{Lease: lease})
		wantError(t, err, store.ErrFenced)
		if _, err := l.Append(t.Context(), store.Draft{Lease: s.Lease()}); err != nil {
			t.Fatalf("append of the standby: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the standby never led")
	}
}

// leaseRenewals is long enough for a leader to have renewed at least once.
const leaseRenewals = 1500 * time.Millisecond

func startLeader(t *testing.T, endpoint string) (*exec.Cmd, store.Lease) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), leaderEnv+"="+endpoint)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the leader said nothing: %v", err)
	}
	var lease store.Lease
	if err := json.Unmarshal(line, &lease); err != nil {
		t.Fatal(err)
	}
	return cmd, lease
}

// etcd cannot be reached: the leader knows, by its own clock, before anyone else can lead.
func TestLeaderWithoutEtcdKnowsThatItLost(t *testing.T) {
	server := startEtcd(t)
	proxy := startProxy(t, server.Endpoints[0])
	l, err := etcdlog.NewElector(dial(t, proxy.endpoint), "test").Campaign(t.Context(), "disruptor", "cut off", nil)
	if err != nil {
		t.Fatal(err)
	}
	successor := make(chan store.Leadership, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		if s, err := etcdlog.NewElector(server.Client, "test").Campaign(ctx, "disruptor", "successor", nil); err == nil {
			successor <- s
		}
	}()
	proxy.setMute(true)
	var deadline time.Time
	select {
	case <-l.Done():
	case s := <-successor:
		// Its Done may be a moment late, but nothing creating may begin after the deadline.
		deadline = l.Deadline()
		if time.Now().Before(deadline) {
			t.Fatalf("two lead: the old one until %s, the new one by %v", deadline, s.Lease())
		}
		successor <- s
	case <-ctx.Done():
		t.Fatal("the leader never knew")
	}
	select {
	case <-successor:
	case <-ctx.Done():
		t.Fatal("nobody leads")
	}
	proxy.setMute(false)
	proxy.cut()
}
