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
	"millwright/store/etcdlog/embedded"
)

// leaderEnv makes the test binary a process that leads until it is killed.
const (
	leaderEnv = "MILLWRIGHT_TEST_LEADER_ENDPOINT"
	// deposableEnv: it may be deposed.
	deposableEnv = "MILLWRIGHT_TEST_LEADER_DEPOSABLE"
)

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
	l, err := etcdlog.NewElector(client, "test").Campaign(context.Background(), store.Candidacy{
		Service: "lifecycle", Identity: "child", Deposable: os.Getenv(deposableEnv) != "",
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(l.Lease()); err != nil {
		return err
	}
	<-l.Done()
	return nil
}

// takeoverMax is how soon a standby leads after kill -9 of the leader, at most.
const takeoverMax = 5 * time.Second

func TestStandbyTakesOverFromKilledLeader(t *testing.T) {
	server := startEtcd(t)
	took := takeOver(t, server, "")
	t.Logf("the standby leads %s after the kill", took.Round(time.Millisecond))
	if took > takeoverMax {
		t.Errorf("the standby led after %s, more than %s", took, takeoverMax)
	}
}

// The lease that the killed leader has just renewed stands for longer than this takes.
func TestAStandbyDeposesASilentLeader(t *testing.T) {
	server := startEtcd(t)
	took := takeOver(t, server, deposableEnv+"=yes")
	t.Logf("the standby leads %s after the kill", took.Round(time.Millisecond))
	if took > 2500*time.Millisecond {
		t.Errorf("the standby led after %s: it waited for the lease", took)
	}
}

// A leader that renews its lease leads for as long as it likes; one that is deposed learns of it.
func TestADeposableLeaderThatIsNotSilentStays(t *testing.T) {
	server := startEtcd(t)
	proxy := startProxy(t, server.Endpoints[0])
	first, err := etcdlog.NewElector(dial(t, proxy.endpoint), "test").Campaign(t.Context(), store.Candidacy{Service: "disruptor", Identity: "first", Deposable: true})
	if err != nil {
		t.Fatal(err)
	}
	won := campaign(t, server, "disruptor")
	select {
	case <-won:
		t.Fatal("a leader that renews its lease was deposed")
	case <-first.Done():
		t.Fatal("a leader that renews its lease lost it")
	case <-time.After(4 * time.Second): // longer than the lease
	}
	proxy.setMute(true)
	await(t, won)
	proxy.setMute(false)
	proxy.cut()
	select {
	case <-first.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the deposed does not learn of it")
	}
}

// takeOver kills a leader that runs in a process of its own, with one more environment variable, and returns
// how long a standby took to lead.
func takeOver(t *testing.T, server *embedded.Server, env string) time.Duration {
	t.Helper()
	l := openLog(t, server.Client, "test")
	child, lease := startLeader(t, server.Endpoints[0], env)
	if _, err := l.Append(t.Context(), store.Draft{Lease: lease}); err != nil {
		t.Fatalf("append of the living leader: %v", err)
	}
	won := campaign(t, server, "lifecycle")
	time.Sleep(leaseRenewals) // the child has renewed its lease: that is the worst case for the standby
	killed := time.Now()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s := await(t, won)
	took := time.Since(killed)
	_, err := l.Append(t.Context(), store.Draft{Lease: lease})
	wantError(t, err, store.ErrFenced)
	if _, err := l.Append(t.Context(), store.Draft{Lease: s.Lease()}); err != nil {
		t.Fatalf("append of the standby: %v", err)
	}
	return took
}

// campaign has a standby stand, until the test ends.
func campaign(t *testing.T, server *embedded.Server, service string) <-chan store.Leadership {
	t.Helper()
	won := make(chan store.Leadership, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	go func() {
		if s, err := etcdlog.NewElector(server.Client, "test").Campaign(ctx, store.Candidacy{Service: service, Identity: "standby", Deposable: true}); err == nil {
			won <- s
		}
	}()
	return won
}

func await(t *testing.T, won <-chan store.Leadership) store.Leadership {
	t.Helper()
	select {
	case s := <-won:
		t.Cleanup(func() { _ = s.Resign(context.Background()) })
		return s
	case <-time.After(time.Minute):
		t.Fatal("the standby never led")
		return nil
	}
}

// leaseRenewals is long enough for a leader to have renewed at least once.
const leaseRenewals = 1500 * time.Millisecond

func startLeader(t *testing.T, endpoint string, env ...string) (*exec.Cmd, store.Lease) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), leaderEnv+"="+endpoint), env...)
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
	l, err := etcdlog.NewElector(dial(t, proxy.endpoint), "test").Campaign(t.Context(), store.Candidacy{Service: "disruptor", Identity: "cut off"})
	if err != nil {
		t.Fatal(err)
	}
	successor := make(chan store.Leadership, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		if s, err := etcdlog.NewElector(server.Client, "test").Campaign(ctx, store.Candidacy{Service: "disruptor", Identity: "successor"}); err == nil {
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
