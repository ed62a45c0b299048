package e2e

import (
	"context"
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

	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

// documented are the commands of docs/external.md by what they are for.
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

// site is a directory with certificates, and the servers that run there as documented.
type site struct {
	*testing.T
	dir      string
	commands map[string]string
	env      []string
	running  map[string]*exec.Cmd
	starts   map[string]func()
}

func newSite(t *testing.T) *site {
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

// shell is the command of a block of the page, in the directory.
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

// serve runs a server until it is killed; start runs it again.
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

// serveThree runs three members of a kind; client returns the addresses for clients.
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

// TestExternalServersAsDocumented: three etcd and three NATS, set up by the commands of the page, of which each dies once.
func TestExternalServersAsDocumented(t *testing.T) {
	s := newSite(t)
	if err := os.MkdirAll(filepath.Join(s.dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
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
	s.awaitEtcd(strings.Join(endpoints, ","))
	s.run("users", "ETCD_ENDPOINTS="+strings.Join(endpoints, ","))

	file := func(name string) string { return filepath.Join(s.dir, name) }
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses, o.Dir = true, filepath.Join(s.dir, "stack")
		o.External = &stack.External{
			EtcdEndpoints: strings.Join(endpoints, ","), WatcherURL: strings.Join(watcher, ","), ReaderURL: strings.Join(reader, ","),
			Flags: []string{
				"--etcd-ca-file", file("ca.pem"), "--etcd-cert-file", file("millwright.pem"), "--etcd-key-file", file("millwright.key"),
				"--nats-ca-file", file("ca.pem"), "--nats-cert-file", file("millwright.pem"), "--nats-key-file", file("millwright.key"),
			},
		}
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "3", "1Gi")
	e.running("web", 1)
	e.order("3 replicas", "status")
	for i, name := range []string{"etcd-0", "nats-0", "etcd-1", "nats-1", "etcd-2", "nats-2"} {
		s.kill(name)
		began := time.Now()
		e.scale("web", int32(i+2))
		e.running("web", i+2)
		t.Logf("without %s: another pod runs on a node of its own after %s", name, time.Since(began).Round(100*time.Millisecond))
		s.starts[name]()
		e.recovered(s, endpoints)
	}
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// awaitEtcd waits until the members have a leader.
func (s *site) awaitEtcd(endpoints string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), convergence)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, filepath.Join(clustertest.Root(), "bin", "etcdctl"), "--endpoints", endpoints, "--cacert", "ca.pem",
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

// recovered waits until the member that came back has caught up: the next one that dies must not be the second.
func (e *env) recovered(s *site, endpoints []string) {
	s.awaitEtcd(strings.Join(endpoints, ","))
	e.eventually("all replicas of the stream are back", func() string {
		out, code := e.millctl("status")
		if code != 0 || !strings.Contains(out, ", 3 replicas\n") {
			return out
		}
		return ""
	})
}
