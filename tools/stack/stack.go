package stack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"millwright/tools/clustertest"
)

const (
	// ClusterName and Region of the simulated cloud.
	ClusterName = "demo"
	Region      = "us-west-2"

	startTimeout = 90 * time.Second
)

// Options of a stack. Dir and BinDir are required.
type Options struct {
	// Dir holds all data and logs; BinDir the binaries that `make build` made.
	Dir, BinDir string
	// FiveProcesses runs the five services as processes against an external etcd and NATS.
	FiveProcesses bool
	// External is an etcd and a NATS that run already; nil: FiveProcesses starts one of each, without TLS.
	External *External
	// Console runs the console as a process of its own beside FiveProcesses.
	Console bool
	// Standbys runs each of the five services twice.
	Standbys bool
	// NoCRDs leaves it to others to install them.
	NoCRDs bool
	// Bare starts cluster and EC2 alone; StartMillwright does the rest.
	Bare bool
	// Binaries names another binary than millwright for some services.
	Binaries map[string]string
	// Endpoint is the URL of an account that others simulate, in place of ours, and EndpointRegion the region
	// there; "": Region.
	Endpoint, EndpointRegion string
	// EC2SimArgs and MillwrightArgs are added to the defaults.
	EC2SimArgs, MillwrightArgs []string
	// ServiceArgs are added to those of single services of FiveProcesses, by name.
	ServiceArgs map[string][]string
	// Admin has Millwright act as the cluster's admin, not as the ServiceAccounts of deploy/manifests. So it
	// does with Through.
	Admin bool
	// Policies has the account enforce the IAM policies of deploy/iam: each service signs with a key of its
	// own, its name.
	Policies bool
	// ClusterArgs are added to those of the control plane.
	ClusterArgs []string
	// Through puts a proxy between Millwright and what it talks to: it gets the addresses of the cluster and
	// EC2, and returns those that Millwright is to use. nil: no proxy.
	Through func(cluster *rest.Config, ec2 string) (kubeconfig, endpoint string, err error)
	// EtcdArgs are added to those of the etcd of FiveProcesses.
	EtcdArgs []string
	// Progress is called with the name of each part that is being started; nil is fine.
	Progress func(string)
}

// Stack of running processes.
type Stack struct {
	Cluster *clustertest.Cluster
	opts    Options
	procs   []*Process

	ec2Endpoint, natsURL, etcdEndpoint string
	// consoleAddress of `millwright all`, or of the console's own process.
	consoleAddress string
	// kubeconfig and awsEndpoint are what Millwright is given.
	kubeconfig, awsEndpoint string
	// kubeconfigs are those of the ServiceAccounts, by command; without one a command is given kubeconfig.
	kubeconfigs map[string]string
	etcdPeer    string
	ports       map[string]ports
}

// External servers, and how Millwright reaches them.
type External struct {
	EtcdEndpoints string
	// WatcherURL and ReaderURL of NATS, with user and password.
	WatcherURL, ReaderURL string
	// Flags for certificates.
	Flags []string
}

// ports of a Millwright process.
type ports struct{ metrics, health, profiling int }

// Services in the order they are started.
var Services = []string{"watcher", "provisioner", "disruptor", "terminator", "lifecycle"}

// Start runs everything and returns when all is ready. On an error what was started is stopped.
func Start(ctx context.Context, opts Options) (_ *Stack, err error) {
	s := &Stack{opts: opts, ports: map[string]ports{}, kubeconfigs: map[string]string{}}
	if s.opts.Progress == nil {
		s.opts.Progress = func(string) {}
	}
	for _, sub := range []string{"logs", "cluster", "ec2sim", "millwright"} {
		if err := os.MkdirAll(filepath.Join(opts.Dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("create directory: %w", err)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	s.opts.Progress("Kubernetes control plane")
	if s.Cluster, err = clustertest.Launch(ctx, filepath.Join(opts.Dir, "cluster"), opts.ClusterArgs...); err != nil {
		return s, err
	}
	if !opts.NoCRDs {
		if err := clustertest.InstallCRDs(ctx, s.Config()); err != nil {
			return s, err
		}
	}
	if s.ec2Endpoint = opts.Endpoint; s.ec2Endpoint == "" {
		if err := s.startEC2Sim(ctx); err != nil {
			return s, err
		}
	}
	s.kubeconfig, s.awsEndpoint = s.Kubeconfig(), s.ec2Endpoint
	if opts.Through != nil {
		if s.kubeconfig, s.awsEndpoint, err = opts.Through(s.Config(), s.ec2Endpoint); err != nil {
			return s, err
		}
	} else if !opts.Admin {
		if err := s.useAccounts(ctx); err != nil {
			return s, fmt.Errorf("make the ServiceAccounts: %w", err)
		}
	}
	switch {
	case opts.Bare:
		return s, nil
	case opts.FiveProcesses:
		return s, s.startFive(ctx)
	}
	return s, s.startAll(ctx)
}

// StartMillwright starts `millwright all` on a Bare stack and returns at once, ready or not.
func (s *Stack) StartMillwright() (*Process, error) {
	p, err := s.all()
	if err != nil {
		return nil, err
	}
	return p, p.Start()
}

// RestartCluster stops the control plane and starts it again, with the same ports, once between has returned.
func (s *Stack) RestartCluster(ctx context.Context, between func() error) (err error) {
	s.Cluster.Stop()
	if err := between(); err != nil {
		return err
	}
	s.Cluster, err = clustertest.Launch(ctx, s.Cluster.DataDir, s.opts.ClusterArgs...)
	return err
}

// Stop ends all processes, last started first.
func (s *Stack) Stop() error {
	var errs []error
	for _, p := range slices.Backward(s.procs) {
		errs = append(errs, p.Stop())
	}
	if s.Cluster != nil {
		s.Cluster.Stop()
	}
	return errors.Join(errs...)
}

// Process by name: ec2sim, millwright, etcd, nats, or a service (service-2 for its standby).
func (s *Stack) Process(name string) *Process {
	for _, p := range s.procs {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Processes in the order they were started.
func (s *Stack) Processes() []*Process { return slices.Clone(s.procs) }

// Kubeconfig of the cluster admin.
func (s *Stack) Kubeconfig() string { return s.Cluster.Kubeconfig }

// Config of the cluster admin.
func (s *Stack) Config() *rest.Config { return rest.CopyConfig(s.Cluster.Config) }

// EtcdEndpoint is the URL of the etcd that the stack started; "" if it started none.
func (s *Stack) EtcdEndpoint() string { return s.etcdEndpoint }

// EC2Endpoint is the URL of the simulator.
func (s *Stack) EC2Endpoint() string { return s.ec2Endpoint }

// Env is what the AWS SDK needs to talk to the simulator.
func (s *Stack) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + cmp.Or(s.awsEndpoint, s.ec2Endpoint), "AWS_REGION=" + cmp.Or(s.opts.EndpointRegion, Region), "AWS_ACCESS_KEY_ID=local",
		"AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true",
	}
}

// LogFlags are the flags of millctl that name the log and the stream.
func (s *Stack) LogFlags() []string {
	if x := s.opts.External; x != nil {
		return append([]string{"--cluster-name", ClusterName, "--etcd-endpoints", x.EtcdEndpoints, "--nats-url", x.ReaderURL}, x.Flags...)
	}
	if s.opts.FiveProcesses {
		return []string{"--cluster-name", ClusterName, "--etcd-endpoints", s.etcdEndpoint, "--nats-url", s.natsURL}
	}
	return []string{"--cluster-name", ClusterName, "--data-dir", s.MillwrightDir()}
}

// HasServers reports that etcd and NATS are processes of their own.
func (s *Stack) HasServers() bool { return s.opts.FiveProcesses || s.opts.External != nil }

// Dir holds all data and logs; an external NATS keeps its files in Dir/nats.
func (s *Stack) Dir() string { return s.opts.Dir }

// MillwrightDir is the data directory of `millwright all`.
func (s *Stack) MillwrightDir() string { return filepath.Join(s.opts.Dir, "millwright") }

// Readiness returns what a Millwright process says on /readyz, ready or not; "" while it does not answer.
func (s *Stack) Readiness(ctx context.Context, name string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", s.ports[name].health), nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// Metrics returns the metrics page of a Millwright process.
func (s *Stack) Metrics(ctx context.Context, name string) (string, error) {
	return get(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", s.ports[name].metrics))
}

// MetricsAddresses are the addresses of the metrics pages of all Millwright processes, by name.
func (s *Stack) MetricsAddresses() map[string]string {
	out := map[string]string{}
	for name, p := range s.ports {
		out[name] = fmt.Sprintf("127.0.0.1:%d", p.metrics)
	}
	return out
}

// CollectGarbage has a Millwright process do so, which must run with --enable-profiling.
func (s *Stack) CollectGarbage(ctx context.Context, name string) error {
	_, err := getWithin(ctx, time.Minute, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/heap?gc=1&debug=1", s.ports[name].profiling))
	return err
}

func (s *Stack) startEC2Sim(ctx context.Context) error {
	s.opts.Progress("EC2 simulator")
	file := filepath.Join(s.opts.Dir, "ec2sim", "endpoint")
	_ = os.Remove(file)
	port, err := freePort()
	if err != nil {
		return err
	}
	policies, err := s.writePolicies()
	if err != nil {
		return err
	}
	p := s.process("ec2sim", "ec2sim", nil, append([]string{
		"--listen", "127.0.0.1:" + strconv.Itoa(port), "--endpoint-file", file, "--kubeconfig", s.Kubeconfig(),
		"--cluster-name", ClusterName, "--region", Region, "--data-dir", filepath.Join(s.opts.Dir, "ec2sim"),
	}, append(policies, s.opts.EC2SimArgs...)...)...)
	if err := p.Start(); err != nil {
		return err
	}
	return p.await(ctx, startTimeout, func() error {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s.ec2Endpoint = strings.TrimSpace(string(b))
		_, err = get(ctx, s.ec2Endpoint+"/healthz")
		return err
	})
}

func (s *Stack) startAll(ctx context.Context) error {
	s.opts.Progress("Millwright")
	p, err := s.all()
	if err != nil {
		return err
	}
	return s.startMillwright(ctx, p)
}

// all makes the process of all services.
func (s *Stack) all() (*Process, error) {
	if err := s.placeConsole(); err != nil {
		return nil, err
	}
	return s.millwright("millwright", "all", "--data-dir", s.MillwrightDir(), "--console-address", s.consoleAddress, "--console-trust-configmap", consoleTrust)
}

// placeConsole finds a port for the console.
func (s *Stack) placeConsole() error {
	port, err := freePort()
	s.consoleAddress = "127.0.0.1:" + strconv.Itoa(port)
	return err
}

// ConsoleURL is where the console is, and ConsoleCA the file with the CA that `millwright all` makes for it.
func (s *Stack) ConsoleURL() string { return "https://" + s.consoleAddress }
func (s *Stack) ConsoleCA() string  { return filepath.Join(s.MillwrightDir(), "console", "ca.crt") }

// ConsoleTrust names the ConfigMap in which the console says by which certificate it is known.
func (s *Stack) ConsoleTrust() (namespace, name string) {
	namespace, name, _ = strings.Cut(consoleTrust, "/")
	return namespace, name
}

func (s *Stack) startFive(ctx context.Context) error {
	if err := errors.Join(s.startServers(ctx), s.placeConsole()); err != nil {
		return err
	}
	var started []*Process
	for _, service := range s.services() {
		names := []string{service}
		if s.opts.Standbys && service != serviceConsole {
			names = append(names, service+"-2")
		}
		for _, name := range names {
			s.opts.Progress("Millwright " + name)
			flags := s.serverFlags(service)
			if service == serviceConsole {
				flags = append(flags, "--console-address", s.consoleAddress, "--console-trust-configmap", consoleTrust)
			}
			p, err := s.millwright(name, service, flags...)
			if err != nil {
				return err
			}
			if err := p.Start(); err != nil {
				return err
			}
			started = append(started, p)
		}
	}
	for _, p := range started {
		if err := s.AwaitReady(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// serviceConsole is the sixth service, for people.
const serviceConsole = "console"

// services that run as processes of their own.
func (s *Stack) services() []string {
	if s.opts.Console {
		return append(slices.Clone(Services), serviceConsole)
	}
	return Services
}

func (s *Stack) startServers(ctx context.Context) error {
	if s.opts.External != nil {
		return nil
	}
	if err := s.startEtcd(ctx); err != nil {
		return err
	}
	return s.startNATS(ctx)
}

// serverFlags are the flags of a service that name etcd and NATS.
func (s *Stack) serverFlags(service string) []string {
	x := s.opts.External
	if x == nil {
		return []string{"--etcd-endpoints", s.etcdEndpoint, "--nats-url", s.natsURL}
	}
	url := x.ReaderURL
	if service == "watcher" {
		url = x.WatcherURL
	}
	return append([]string{"--etcd-endpoints", x.EtcdEndpoints, "--nats-url", url}, x.Flags...)
}

func (s *Stack) startMillwright(ctx context.Context, p *Process) error {
	if err := p.Start(); err != nil {
		return err
	}
	return s.AwaitReady(ctx, p)
}

// AwaitReady waits until a Millwright process answers /readyz.
func (s *Stack) AwaitReady(ctx context.Context, p *Process) error {
	return p.await(ctx, startTimeout, func() error {
		_, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", s.ports[p.Name].health))
		return err
	})
}

// millwright makes the process of a sub-command with ports of its own.
func (s *Stack) millwright(name, command string, args ...string) (*Process, error) {
	metrics, err := freePort()
	if err != nil {
		return nil, err
	}
	health, err := freePort()
	if err != nil {
		return nil, err
	}
	profiling, err := freePort()
	if err != nil {
		return nil, err
	}
	s.ports[name] = ports{metrics, health, profiling}
	args = append([]string{
		command, "--kubeconfig", cmp.Or(s.kubeconfigs[command], s.kubeconfig), "--cluster-name", ClusterName,
		"--metrics-port", strconv.Itoa(metrics), "--health-probe-port", strconv.Itoa(health),
		"--profiling-address", "127.0.0.1:" + strconv.Itoa(profiling),
	}, args...)
	env := s.Env()
	if s.opts.Policies {
		env = append(env, "AWS_ACCESS_KEY_ID="+command)
	}
	return s.process(name, cmp.Or(s.opts.Binaries[name], "millwright"), env,
		slices.Concat(args, s.opts.MillwrightArgs, s.opts.ServiceArgs[command])...), nil
}

func (s *Stack) startEtcd(ctx context.Context) error {
	s.opts.Progress("etcd")
	client, err := freePort()
	if err != nil {
		return err
	}
	peer, err := freePort()
	if err != nil {
		return err
	}
	s.etcdEndpoint = "http://127.0.0.1:" + strconv.Itoa(client)
	s.etcdPeer = "http://127.0.0.1:" + strconv.Itoa(peer)
	p := s.process("etcd", "etcd", nil, append([]string{"--data-dir", filepath.Join(s.opts.Dir, "etcd"), "--log-level", "error",
		"--listen-client-urls", s.etcdEndpoint, "--advertise-client-urls", s.etcdEndpoint,
		"--listen-peer-urls", s.etcdPeer, "--initial-advertise-peer-urls", s.etcdPeer,
		"--initial-cluster", "default=" + s.etcdPeer}, s.opts.EtcdArgs...)...)
	if err := p.Start(); err != nil {
		return err
	}
	return p.await(ctx, startTimeout, func() error {
		_, err := get(ctx, s.etcdEndpoint+"/health")
		return err
	})
}

func (s *Stack) startNATS(ctx context.Context) error {
	s.opts.Progress("NATS")
	client, err := freePort()
	if err != nil {
		return err
	}
	monitor, err := freePort()
	if err != nil {
		return err
	}
	s.natsURL = "nats://127.0.0.1:" + strconv.Itoa(client)
	p := s.process("nats", "nats-server", nil, "--addr", "127.0.0.1", "--port", strconv.Itoa(client),
		"--http_port", strconv.Itoa(monitor), "--jetstream", "--store_dir", filepath.Join(s.opts.Dir, "nats"))
	if err := p.Start(); err != nil {
		return err
	}
	return p.await(ctx, startTimeout, func() error {
		_, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz", monitor))
		return err
	})
}

// Client configuration from a kubeconfig file.
func ClientConfig(kubeconfig string) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// Ports are taken from below the range the kernel gives to outgoing connections, and from outside of the one
// that localcluster takes its own from, so that nobody else takes one before the process that is to listen
// on it does.
const (
	portsFrom  = 12000
	portsCount = 18000
	portTries  = 200
)

// given are the ports that stacks of this process were given: their owners may not be listening yet, or may
// be restarting.
var given sync.Map

// FreePort for a server beside the stack.
func FreePort() (int, error) { return freePort() }

func freePort() (int, error) {
	for range portTries {
		port := portsFrom + rand.IntN(portsCount)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port)) // on all addresses, as the services do
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port from %d on: none in %d tries", portsFrom, portTries)
}

func get(ctx context.Context, url string) (string, error) {
	return getWithin(ctx, 3*time.Second, url)
}

func getWithin(ctx context.Context, d time.Duration, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return body.String(), nil
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
