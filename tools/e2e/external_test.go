package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millwright/events"
	"millwright/events/natsbus"
	"millwright/store/etcdlog"
	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

// documented are the commands in docs/external.md, by purpose.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(clustertest.Root(), "docs", "external.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- run: (\\w+) -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		found[m[1]] = m[2]
	}
	return found
}

// site is a directory with certificates and the servers that run from it, set up as documented.
type site struct {
	*testing.T
	dir      string
	commands map[string]string
	// endpoints of etcd.
	endpoints string
	env       []string
	running   map[string]*exec.Cmd
	starts    map[string]func()
}

func newSite(t *testing.T) *site {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("the documented commands need openssl, which is not here")
	}
	s := &site{T: t, dir: t.TempDir(), commands: documented(t), running: map[string]*exec.Cmd{}, starts: map[string]func(){}}
	s.env = append(os.Environ(),
		"PATH="+filepath.Join(clustertest.Root(), "bin")+":"+os.Getenv("PATH"), "HOST=localhost", "HOSTS=localhost", "MILLWRIGHT="+clustertest.Root(),
		"CLUSTER_NAME="+stack.ClusterName, `NATS_WATCHER_PASSWORD="w 1"`, `NATS_READER_PASSWORD="r 1"`)
	t.Cleanup(func() {
		for name := range s.running {
			s.kill(name)
		}
		if t.Failed() {
			printLogs(t, s.dir)
		}
	})
	return s
}

// shell is the command in a block of the page, to be run in the directory.
func (s *site) shell(block string, env ...string) *exec.Cmd {
	s.Helper()
	if s.commands[block] == "" {
		s.Fatalf("docs/external.md has no commands for %s", block)
	}
	cmd := exec.Command("bash", "-euc", s.commands[block])
	cmd.Dir, cmd.Env = s.dir, append(slices.Clone(s.env), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *site) run(block string, env ...string) {
	s.Helper()
	if out, err := s.shell(block, env...).CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", block, err, out)
	}
}

// serve runs a server until it is killed; calling start runs it again.
func (s *site) serve(name, block string, env ...string) {
	s.Helper()
	s.starts[name] = func() {
		cmd := s.shell(block, env...)
		log, err := os.OpenFile(filepath.Join(s.dir, "logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			s.Fatal(err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		s.running[name] = cmd
	}
	s.starts[name]()
}

func (s *site) kill(name string) {
	if cmd := s.running[name]; cmd != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
	delete(s.running, name)
}

// serveThree runs three members of a kind; client returns their addresses for clients.
func (s *site) serveThree(kind, shared, format string) (client []string) {
	s.Helper()
	var clients, peers, all []string
	for i := range 3 {
		c, err := stack.FreePort()
		if err != nil {
			s.Fatal(err)
		}
		p, err := stack.FreePort()
		if err != nil {
			s.Fatal(err)
		}
		clients, peers = append(clients, fmt.Sprint(c)), append(peers, fmt.Sprint(p))
		all = append(all, strings.NewReplacer("NAME", fmt.Sprint(kind, "-", i), "PORT", peers[i]).Replace(format))
	}
	value := strings.Join(all, ",")
	if kind == "nats" {
		value = "[" + value + "]"
	}
	for i := range 3 {
		name := fmt.Sprint(kind, "-", i)
		s.serve(name, kind, "NAME="+name, "DATA="+filepath.Join(s.dir, name), "CLIENT_PORT="+clients[i], "PEER_PORT="+peers[i], shared+"="+value)
	}
	return clients
}

// setUp runs three etcd members and three NATS members, set up by the commands of the page.
func (s *site) setUp() *stack.External {
	s.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, "logs"), 0o700); err != nil {
		s.Fatal(err)
	}
	s.run("certificates")
	var endpoints, watcher, reader []string
	for _, port := range s.serveThree("etcd", "CLUSTER", "NAME=https://localhost:PORT") {
		endpoints = append(endpoints, "https://localhost:"+port)
	}
	for _, port := range s.serveThree("nats", "ROUTES", `"nats-route://localhost:PORT"`) {
		watcher = append(watcher, "tls://watcher:w%201@localhost:"+port)
		reader = append(reader, "tls://reader:r%201@localhost:"+port)
	}
	s.endpoints = strings.Join(endpoints, ",")
	s.awaitEtcd()
	s.run("users", "ETCD_ENDPOINTS="+s.endpoints)
	return &stack.External{
		EtcdEndpoints: s.endpoints, WatcherURL: strings.Join(watcher, ","), ReaderURL: strings.Join(reader, ","),
		Flags: []string{
			"--etcd-ca-file", s.file("ca.pem"), "--etcd-cert-file", s.file("millwright.pem"), "--etcd-key-file", s.file("millwright.key"),
			"--nats-ca-file", s.file("ca.pem"), "--nats-cert-file", s.file("millwright.pem"), "--nats-key-file", s.file("millwright.key"),
		},
	}
}

func (s *site) file(name string) string { return filepath.Join(s.dir, name) }

// members are those of both kinds, in the order in which tests kill them.
var members = []string{"etcd-0", "nats-0", "etcd-1", "nats-1", "etcd-2", "nats-2"}

// TestServersAsDocumentedLoseAnyOfTheirMembers: with any one member down, log and stream go on, and what the
// watcher publishes reaches a reader.
func TestServersAsDocumentedLoseAnyOfTheirMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	x := s.setUp()
	ctx, cancel := context.WithTimeout(t.Context(), convergence)
	defer cancel()
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: strings.Split(x.EtcdEndpoints, ","), Security: etcdlog.Security{
		CAFile: s.file("ca.pem"), CertFile: s.file("millwright.pem"), KeyFile: s.file("millwright.key")}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	open := func(url string, readOnly bool) (stream *natsbus.Stream) {
		s.retryUntilDone(ctx, "open the stream", func() (err error) {
			stream, err = natsbus.Open(ctx, natsbus.Config{URL: url, ReadOnly: readOnly, Cluster: stack.ClusterName, LogID: "0123456789abcdef",
				Security: natsbus.Security{CAFile: s.file("ca.pem"), CertFile: s.file("millwright.pem"), KeyFile: s.file("millwright.key")}})
			return err
		})
		t.Cleanup(func() { _ = stream.Close() })
		return stream
	}
	watcher, reader := open(x.WatcherURL, false), open(x.ReaderURL, true)
	read := make(chan string, 100)
	reading, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- reader.Consume(reading, 0, func(m events.Message) error { read <- string(m.Data); return nil })
	}()
	for _, name := range members {
		s.kill(name)
		began := time.Now()
		s.retryUntilDone(ctx, "put a key without "+name, func() error {
			_, err := client.Put(ctx, "/millwright/"+stack.ClusterName+"/test", name)
			return err
		})
		s.retryUntilDone(ctx, "publish without "+name, func() error { return errors.Join(watcher.Publish(ctx, []byte(name)), watcher.Flush(ctx)) })
		for got := ""; got != name; {
			select {
			case got = <-read:
			case <-ctx.Done():
				t.Fatalf("without %s nothing reaches the reader", name)
			}
		}
		t.Logf("without %s: written, published and read after %s", name, time.Since(began).Round(10*time.Millisecond))
		s.starts[name]()
		s.awaitEtcd()
		s.retryUntilDone(ctx, "catch up", func() error {
			p, err := reader.Placement(ctx)
			if err == nil && (p.Replicas != 3 || p.Offline > 0) {
				err = fmt.Errorf("%+v", p)
			}
			return err
		})
	}
	if _, err := client.Put(ctx, "/other", "x"); err == nil {
		t.Error("the user may write other keys than its cluster's")
	}
	stop()
	<-ended
}

// retryUntilDone repeats a call that may fail during an election.
func (s *site) retryUntilDone(ctx context.Context, what string, try func() error) {
	s.Helper()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestExternalServersAsDocumented: pods get nodes while each of the servers is down in turn.
func TestExternalServersAsDocumented(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	x := s.setUp()
	e := startAtOnce(t, func(o *stack.Options) {
		o.FiveProcesses, o.Dir, o.External = true, s.file("stack"), x
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "3", "1Gi")
	e.running("web", 1)
	e.order("3 replicas", "status")
	for i, name := range members {
		s.kill(name)
		began := time.Now()
		e.scale("web", int32(i+2))
		e.running("web", i+2)
		t.Logf("without %s: another pod runs on a node of its own after %s", name, time.Since(began).Round(100*time.Millisecond))
		s.starts[name]()
		e.recovered(s)
	}
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// awaitEtcd waits until the members have a leader.
func (s *site) awaitEtcd() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), convergence)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, filepath.Join(clustertest.Root(), "bin", "etcdctl"), "--endpoints", s.endpoints, "--cacert", "ca.pem",
			"--cert", "root.pem", "--key", "root.key", "endpoint", "health")
		cmd.Dir = s.dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			s.Fatalf("etcd is not healthy: %s", out)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// recovered waits until the restarted member has caught up, so that the next one to be killed is not the
// second one down.
func (e *env) recovered(s *site) {
	s.awaitEtcd()
	e.eventually("all replicas of the stream are back", func() string {
		out, code := e.millctl("status")
		if code != 0 || !strings.Contains(out, ", 3 replicas\n") {
			return out
		}
		return ""
	})
}
