package burst

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/providerid"
	"millwright/planner/resource"
	"millwright/services/internal/ec2"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/host/step"
	"millwright/services/internal/process"
	"millwright/services/lifecycle"
	"millwright/services/lifecycle/launch"
	"millwright/services/lifecycle/nodeclass"
	watcherec2 "millwright/services/watcher/ec2"
	watchedkube "millwright/services/watcher/kube"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/etcdlog"
	"millwright/store/etcdlog/embedded"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

// patience bounds every wait of the tests; a machine that does other work may need minutes.
const patience = 5 * time.Minute

const (
	clusterName = "burst"
	region      = "eu-west-1"
	poolName    = "default"
)

// rig is one cluster with an account of EC2 over HTTP and a log in etcd. Processes of lifecycle come and go.
type rig struct {
	t       *testing.T
	sim     *sim.Server
	url     string
	control *simclient.Client
	cluster *cluster
	log     *etcdlog.Log
	elector *etcdlog.Elector
	stream  *membus.Stream
	// state is the test's own fold of the log.
	state *fold.State
	// terms counts how often a process began to lead.
	terms atomic.Int64

	mu      sync.Mutex
	counter uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, cluster: newCluster(), stream: membus.NewBus().Connect(membus.QueueMax)}
	r.sim = sim.New(sim.Config{ClusterName: clusterName, Region: region, KubernetesVersion: "1.32", Settings: sim.DefaultSettings(), ClusterCA: []byte("ca")})
	server := httptest.NewServer(r.sim)
	t.Cleanup(server.Close)
	r.url, r.control = server.URL, simclient.New(server.URL)
	etcd, err := embedded.Start(t.TempDir())
	r.must(err)
	t.Cleanup(func() { _ = etcd.Close() })
	r.log, err = etcdlog.Open(t.Context(), etcdlog.Config{Client: etcd.Client, Cluster: clusterName})
	r.must(err)
	t.Cleanup(func() { _ = r.log.Close() })
	r.elector = etcdlog.NewElector(etcd.Client, clusterName, etcdlog.LeaseTTLAlone)
	r.state = r.fold()
	r.must(r.send(events.Observation{Op: events.OpResyncBegin}))
	r.background(r.watch)
	r.background(r.kubelets)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// background runs fn until the test ends, and waits for it.
func (r *rig) background(fn func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { fn(ctx) })
	r.t.Cleanup(func() { cancel(); group.Wait() })
}

// fold is a process's view of log and stream.
func (r *rig) fold() *fold.State {
	state := fold.NewState(fold.StateConfig{Log: r.log, Stream: r.stream, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	r.background(func(ctx context.Context) { _ = state.Run(ctx) })
	return state
}

// every calls fn until ctx ends.
func every(ctx context.Context, d time.Duration, fn func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		fn()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// account is how a process reaches AWS.
func (r *rig) account() aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String(r.url), HTTPClient: &http.Client{Timeout: 30 * time.Second},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}
}

// watch is the watcher: its own poller of AWS, and heartbeats.
func (r *rig) watch(ctx context.Context) {
	cloud, pricing := watcherec2.Clients(ec2.NewBudgets(ec2.RoleWatching, nil).Bind(r.account()))
	poller, err := watcherec2.New(watcherec2.Config{
		EC2: cloud, Pricing: pricing, Region: region, Cluster: clusterName, Classes: r.cluster.NodeClasses,
		Options: watcherec2.Options{VMMemoryOverheadPercent: 0.075}, Logger: zerolog.Nop(),
	}, emitter{r})
	if err != nil {
		panic(err)
	}
	var group sync.WaitGroup
	group.Go(func() { _ = poller.Run(ctx) })
	every(ctx, time.Second, func() { _ = r.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}}) })
	group.Wait()
}

// emitter publishes what the poller finds.
type emitter struct{ *rig }

func (e emitter) Emit(kind events.Kind, op events.Op, uid, name string, object any) error {
	return e.send(events.Observation{Kind: kind, Op: op, UID: types.UID(uid), Name: name, Object: object})
}
func (e emitter) Polled(events.Kind, time.Time) {}
func (e emitter) Blobs() events.Blobs           { return e.stream.Blobs() }

func (r *rig) send(o events.Observation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter++
	o.Epoch, o.Counter, o.ObservedAt = 1, r.counter, time.Now()
	data, err := events.Encode(o)
	if err != nil {
		return err
	}
	return r.stream.Publish(context.Background(), data)
}

// see publishes an object of the cluster.
func (r *rig) see(o runtime.Object) {
	trimmed, err := watchedkube.Trim(o)
	r.must(err)
	r.must(r.send(plannertest.Observe(trimmed)))
}

// kubelets have a Node register for each instance that runs.
func (r *rig) kubelets(ctx context.Context) {
	every(ctx, 200*time.Millisecond, func() {
		for _, i := range r.sim.Instances() {
			if i.State == ec2.StateRunning {
				r.cluster.join("node-"+i.ID, providerid.Of(i.Zone, i.ID))
			}
		}
	})
}

// prepare makes a NodeClass and a NodePool, and waits until lifecycle has made the class ready and the
// watcher has published what EC2 offers to it.
func (r *rig) prepare() {
	r.t.Helper()
	tags := map[string]string{sim.DiscoveryTag: clusterName}
	add(r.cluster, r.cluster.classes, &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: awsv1.EC2NodeClassSpec{
			Role: r.sim.Defaults().Role, AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{Tags: tags}}, SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: tags}},
		},
	})
	pool := plannertest.Pool(poolName)
	add(r.cluster, r.cluster.pools, pool)
	r.eventually("the class is ready", func() bool { return nodeclass.Ready(r.cluster.NodeClass("default")) == nil })
	r.see(r.cluster.NodeClass("default"))
	r.see(pool)
	r.must(r.send(events.Observation{Op: events.OpResyncEnd}))
	r.eventually("the catalogue is published", func() bool {
		return r.state.Version().HasCatalog("default")
	})
}

// eventually waits until done, for a minute.
func (r *rig) eventually(what string, done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		if done() {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	r.t.Fatalf("never: %s\nclaims: %v\nrecords: %v\ncalls: %v", what, r.states(), r.records(), r.sim.Calls())
}

// plan records n claims that may have these instance types, as the provisioner would.
func (r *rig) plan(n int, names ...string) {
	r.t.Helper()
	planned := &ledger.ProvisioningPlanned{}
	for range n {
		planned.Claims = append(planned.Claims, ledger.PlannedClaim{
			NodePool: poolName, NodePoolUID: r.cluster.NodePool(poolName).UID,
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Labels:       map[string]string{karpv1.NodePoolLabelKey: poolName},
			Requests:     resource.Vector{MilliCPU: 1500, Pods: 10}, Capacity: resource.Vector{MilliCPU: 2000}, InstanceTypes: names,
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
				{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
				{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: names},
			},
		})
	}
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindProvisioningPlanned, Payload: planned, Advances: []string{ledger.PoolAggregate(poolName)}})
	r.must(err)
	draft.Time, draft.Now, draft.Service, draft.Mode = time.Now(), time.Now(), ledger.ServiceProvisioner, string(ledger.ModeActive)
	_, err = r.log.Append(r.t.Context(), draft)
	r.must(err)
}

// program is a process of lifecycle.
type program struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// start runs a process that leads lifecycle as soon as nobody else does.
func (r *rig) start(name string) *program {
	r.t.Helper()
	state := r.fold()
	sdk := r.account()
	budgets := ec2.NewBudgets(ec2.RoleActing, nil)
	cloud, err := ec2.New(r.t.Context(), ec2.Config{Cluster: clusterName, AWS: &sdk, Budgets: budgets})
	r.must(err)
	source := launch.NewClusterSource(launch.ClusterConfig{
		Given: launch.Cluster{Name: clusterName}, Describe: cloud.DescribeCluster, Now: time.Now,
		DNS:     func(context.Context) (string, error) { return "10.100.0.10", nil },
		Version: func(context.Context) (string, error) { return "1.32", nil },
	})
	builder := launch.New(launch.Config{Cloud: cloud, DryRun: cloud, Cluster: source.Get, Region: region, Now: time.Now})
	classes := nodeclass.New(nodeclass.Config{
		Authorize: builder.Authorize, Cloud: cloud, Cluster: clusterName, Region: region, Version: source.Version, CIDR: source.CIDR,
		DeleteTemplates: builder.DeleteTemplates, SubnetsSeen: builder.SubnetsSeen, Now: time.Now,
	})
	host := step.New(step.Config{Service: ledger.ServiceLifecycle, Mode: ledger.ModeActive, State: state, Options: planner.DefaultOptions(),
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	service := lifecycle.New(host, lifecycle.Deps{
		Cluster: clusterName, Cache: r.cluster, Kube: r.cluster, EC2: cloud, Launcher: builder, Classes: classes, Reservations: cloud,
		Templates: builder, Profiles: classes, Boots: cloud, Logger: zerolog.Nop(),
	})
	steps := process.NewSteps(service, host, zerolog.Nop(), prometheus.NewRegistry(), state, r.cluster)
	steps.OnLead(budgets.TookOver)
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		for ctx.Err() == nil {
			lead, err := r.elector.Campaign(ctx, store.Candidacy{Service: ledger.ServiceLifecycle, Identity: name})
			if err != nil {
				continue
			}
			r.terms.Add(1)
			_ = steps.Lead(ctx, lead)
			_ = lead.Resign(context.WithoutCancel(ctx))
		}
	}()
	r.t.Cleanup(func() { cancel(); <-p.ended })
	return p
}

// records counts the records of a kind.
func (r *rig) records() map[ledger.Kind]int {
	r.t.Helper()
	counts := map[ledger.Kind]int{}
	for from := uint64(1); ; {
		list, err := r.log.Read(r.t.Context(), from, 1000)
		r.must(err)
		if len(list) == 0 {
			return counts
		}
		for _, rec := range list {
			counts[ledger.Kind(rec.Kind)]++
		}
		from = list[len(list)-1].Seq + 1
	}
}

// states counts the open claims by state.
func (r *rig) states() map[ledger.ClaimState]int {
	counts := map[ledger.ClaimState]int{}
	for _, c := range r.state.Ledger().Claims() {
		counts[c.State]++
	}
	return counts
}

// claims counts the open claims of the log for which something holds.
func (r *rig) claims(is func(*ledger.Claim) bool) (n int) {
	for _, c := range r.state.Ledger().Claims() {
		if is(c) {
			n++
		}
	}
	return n
}

func launched(c *ledger.Claim) bool { return c.Instance != nil }

func registered(c *ledger.Claim) bool {
	return c.State == ledger.ClaimRegisteredState || c.State == ledger.ClaimInitializedState
}

func (r *rig) print(what string, since time.Time) {
	r.t.Logf("%s after %s", what, time.Since(since).Round(10*time.Millisecond))
}
