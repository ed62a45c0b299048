package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/providerid"
	"millwright/planner/resource"
	"millwright/services/disruptor"
	"millwright/services/internal/host/fold"
	hoststep "millwright/services/internal/host/step"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
	"millwright/services/lifecycle"
	"millwright/services/provisioner"
	"millwright/services/terminator"
	watchedkube "millwright/services/watcher/kube"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
	"millwright/tools/workload"
)

const (
	nodes       = 5000
	podsPerNode = 30
)

// rig is the settled cluster, as one process folds it, with all services of it leading.
type rig struct {
	state   *fold.State
	stream  *membus.Stream
	log     *memlog.Log
	hosts   map[string]*hoststep.Host
	elector *memlog.Elector
	cancel  context.CancelFunc
	since   time.Time
	// counter of the epoch, sequence of the stream: they are the same.
	mu      sync.Mutex
	counter uint64
	version int
	// claims are the names of the NodeClaims, cluster is what lifecycle sees of it.
	claims  []string
	cluster *cluster
}

// settled is built once: it takes some seconds.
var settled = sync.OnceValues(newRig)

func settledRig(tb testing.TB) *rig {
	tb.Helper()
	r, err := settled()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func newRig() (*rig, error) {
	r := &rig{since: time.Now().Add(-time.Hour), hosts: map[string]*hoststep.Host{}, stream: membus.NewBus().Connect(membus.QueueMax)}
	log, err := memlog.Open(memlog.Config{Cluster: "test", LogID: plannertest.LogID})
	if err != nil {
		return nil, err
	}
	r.log, r.elector = log, memlog.NewElector(log)
	r.state = fold.NewState(fold.StateConfig{Log: log, Stream: r.stream, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { _ = r.state.Run(ctx) }()
	problem := workload.Settled(nodes, podsPerNode, r.since)
	if err := r.record(problem); err != nil {
		return nil, err
	}
	r.cluster = newCluster(problem)
	if err := r.resync(problem); err != nil {
		return nil, err
	}
	for _, name := range served {
		if err := r.lead(ctx, name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// record writes the life of each NodeClaim, from a plan with many instance types to a node that is ready, and
// names the NodeClaims by it.
func (r *rig) record(p *workload.Problem) error {
	for _, o := range p.Objects {
		c, ok := o.(*karpv1.NodeClaim)
		if !ok {
			continue
		}
		planned := plannedOf(c, len(r.claims))
		seq, err := r.append(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{planned}}, ledger.PoolAggregate("default"))
		if err != nil {
			return err
		}
		c.Name = ledger.ClaimName(plannertest.LogID, "default", seq, 0)
		r.claims = append(r.claims, c.Name)
		var gone []types.UID
		for _, ref := range planned.Pods {
			gone = append(gone, ref.UID)
		}
		for _, next := range []struct {
			kind    ledger.Kind
			payload any
		}{
			{ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: c.Name, UID: c.UID}},
			{ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: c.Name, UID: c.UID, Attempt: 1, Token: "token-" + c.Name, Request: fleetOf(c)}},
			{ledger.KindLaunched, launchedOf(c)},
			{ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: c.Name, Node: c.Status.NodeName}},
			{ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: c.Name, Node: c.Status.NodeName}},
			{ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Gone: gone}},
		} {
			if _, err := r.append(next.kind, next.payload, ledger.ClaimAggregate(c.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// plannedOf is the plan that the i-th NodeClaim was made of.
func plannedOf(c *karpv1.NodeClaim, i int) ledger.PlannedClaim {
	p := ledger.PlannedClaim{
		NodePool: "default", NodePoolUID: "pool-default", NodeClassRef: *c.Spec.NodeClassRef, Labels: c.Labels, Annotations: c.Annotations,
		Requirements: c.Spec.Requirements, Requests: resource.From(c.Spec.Resources.Requests), ExpireAfter: c.Spec.ExpireAfter,
		Capacity: resource.Vector{MilliCPU: 192_000, Memory: 768 << 30, Pods: 737},
	}
	for _, r := range c.Spec.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable {
			p.InstanceTypes = append(slices.Clone(r.Values[i%7:]), r.Values[:i%7]...) // by price, which changes
		}
	}
	p.Cheapest = ledger.OfferingPrice{InstanceType: p.InstanceTypes[0], Zone: "us-west-2a", CapacityType: "on-demand", MicroUSDPerHour: 768_000}
	for j := range podsPerNode {
		pod := workload.SettledPod(i, j, podsPerNode, time.Time{})
		p.Pods = append(p.Pods, ledger.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name})
	}
	return p
}

// fleetOf is a request as long as a real one for 60 types in three subnets.
func fleetOf(c *karpv1.NodeClaim) []byte {
	var overrides []map[string]string
	for _, t := range c.Spec.Requirements[2].Values[:60] {
		for _, subnet := range []string{"subnet-0a1b2c3d4e5f60718", "subnet-1a1b2c3d4e5f60718", "subnet-2a1b2c3d4e5f60718"} {
			overrides = append(overrides, map[string]string{"InstanceType": t, "SubnetId": subnet, "ImageId": c.Status.ImageID})
		}
	}
	b, err := json.Marshal(map[string]any{"ClientToken": c.UID, "LaunchTemplateConfigs": []any{map[string]any{"Overrides": overrides}}, "Tags": c.Labels})
	if err != nil {
		panic(err)
	}
	return b
}

func launchedOf(c *karpv1.NodeClaim) *ledger.Launched {
	_, instance := providerid.Split(c.Status.ProviderID)
	return &ledger.Launched{
		Claim: c.Name, UID: c.UID, Attempt: 1, InstanceID: instance, ProviderID: c.Status.ProviderID, InstanceType: c.Labels[corev1.LabelInstanceTypeStable],
		Zone: c.Labels[corev1.LabelTopologyZone], CapacityType: "on-demand", ImageID: c.Status.ImageID, Price: 768_000,
		Capacity: resource.From(c.Status.Capacity), Allocatable: resource.From(c.Status.Allocatable), Labels: c.Labels, Annotations: c.Annotations,
	}
}

func (r *rig) append(kind ledger.Kind, payload any, advances ...string) (uint64, error) {
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload, Advances: advances})
	if err != nil {
		return 0, err
	}
	draft.Time, draft.Service, draft.Mode = time.Now(), "test", string(ledger.ModeActive)
	rec, err := r.log.Append(context.Background(), draft)
	return rec.Seq, err
}

func (r *rig) resync(p *workload.Problem) error {
	errs := []error{r.send(events.Observation{Op: events.OpResyncBegin})}
	p.Catalogue.Types.Generation = 1 // the NodeClass's
	ref, err := events.StoreCatalog(context.Background(), r.stream.Blobs(), p.Catalogue.Types)
	if err != nil {
		return err
	}
	errs = append(errs, r.send(plannertest.Observe(ref)), r.send(plannertest.Observe(p.Catalogue.Prices)),
		r.send(plannertest.Observe(plannertest.NodeClass(workload.NodeClass))))
	for _, o := range p.Objects {
		errs = append(errs, r.send(observe(o)))
	}
	errs = append(errs, r.send(events.Observation{Op: events.OpResyncEnd}), r.beat())
	r.folded()
	return errors.Join(errs...)
}

func (r *rig) lead(ctx context.Context, name string) error {
	h := hoststep.New(hoststep.Config{Service: name, Mode: ledger.ModeActive, State: r.state, Options: planner.DefaultOptions(), Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	r.hosts[name] = h
	lead, ok := r.elector.TryCampaign(store.Candidacy{Service: name, Identity: "test"})
	if !ok {
		return fmt.Errorf("%s does not lead", name)
	}
	_, _, err := h.Lead(ctx, lead)
	return err
}

// observe is what the watcher would publish of an object.
func observe(o metav1.Object) events.Observation {
	trimmed, err := watchedkube.Trim(o.(runtime.Object))
	if err != nil {
		panic(err)
	}
	return plannertest.Observe(trimmed)
}

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

func (r *rig) beat() error {
	return r.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

// folded waits until all that was sent is folded.
func (r *rig) folded() {
	changed, cancel := r.state.Subscribe()
	defer cancel()
	for {
		if at, _ := r.state.Position(); at.Sequence >= r.counter {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// podEvent is what happens to one pod of many: its status changes, or it ends and another one comes in its
// place.
type podEvent func(r *rig, i int) []events.Observation

// statusChanges: a pod gets another resourceVersion and nothing that planners read.
func statusChanges(r *rig, i int) []events.Observation {
	pod := workload.SettledPod(i*7919%nodes, i%podsPerNode, podsPerNode, r.since)
	r.version++
	pod.ResourceVersion = fmt.Sprint(10 + r.version)
	return []events.Observation{observe(pod)}
}

// replaced: a pod is gone, and its successor runs on the same node.
func replaced(r *rig, i int) []events.Observation {
	pod := workload.SettledPod(i*7919%nodes, i%podsPerNode, podsPerNode, r.since)
	if i%2 == 0 {
		gone := observe(pod)
		gone.Op, gone.Object = events.OpDelete, nil
		return []events.Observation{gone}
	}
	pod = workload.SettledPod((i-1)*7919%nodes, (i-1)%podsPerNode, podsPerNode, r.since)
	return []events.Observation{observe(pod)}
}

func (r *rig) happen(tb testing.TB, list []events.Observation) {
	for _, o := range list {
		if err := r.send(o); err != nil {
			tb.Fatal(err)
		}
	}
}

func (r *rig) service(name string) service.Service {
	switch name {
	case ledger.ServiceProvisioner:
		return provisioner.New(r.hosts[name], provisioner.Deps{Logger: zerolog.Nop(), Kube: nobody{}})
	case ledger.ServiceDisruptor:
		return disruptor.New(r.hosts[name], disruptor.Deps{Logger: zerolog.Nop(), Kube: nobody{}})
	}
	if name == ledger.ServiceLifecycle {
		return lifecycle.New(r.hosts[name], lifecycle.Deps{Cluster: "test", Cache: r.cluster, Kube: r.cluster, EC2: r.cluster, Launcher: r.cluster, Logger: zerolog.Nop()})
	}
	return terminator.New(r.hosts[name], terminator.Deps{Logger: zerolog.Nop(), Kube: nobody{}, Cluster: nobody{}})
}

func (r *rig) snapshot(tb testing.TB) *planner.Snapshot {
	var found *planner.Snapshot
	if err := r.hosts[ledger.ServiceProvisioner].Snapshot(service.ForEffects, func(s *planner.Snapshot) error { found = s; return nil }); err != nil {
		tb.Fatal(err)
	}
	return found
}

// nobody is an API server that a settled cluster asks for nothing, and its informers.
type nobody struct{}

var errAsked = errors.New("the API server was asked in a settled cluster")

func (nobody) Synced() bool                                             { return true }
func (nobody) NodesByProviderID(string) []*corev1.Node                  { return nil }
func (nobody) NodeClaimsByProviderID(string) []*karpv1.NodeClaim        { return nil }
func (nobody) DeletingNodes() []*corev1.Node                            { return nil }
func (nobody) DeletingNodeClaims() []*karpv1.NodeClaim                  { return nil }
func (nobody) VolumeAttachmentsOf(string) []*storagev1.VolumeAttachment { return nil }
func (nobody) PodsOnNode(context.Context, string) ([]corev1.Pod, error) {
	return nil, errAsked
}
func (nobody) Node(context.Context, string) (*corev1.Node, error) { return nil, errAsked }
func (nobody) PatchNode(context.Context, string, kube.Patch) (*corev1.Node, error) {
	return nil, errAsked
}
func (nobody) EvictPod(context.Context, string, string, types.UID) error { return errAsked }
func (nobody) DeletePod(context.Context, string, string, types.UID, int64) error {
	return errAsked
}
func (nobody) ReplicaSet(context.Context, string, string) (*appsv1.ReplicaSet, error) {
	return nil, errAsked
}
func (nobody) Deployment(context.Context, string, string) (*appsv1.Deployment, error) {
	return nil, errAsked
}
func (nobody) SurgeDeployment(context.Context, *appsv1.Deployment, string) error { return errAsked }
func (nobody) SetClaimCondition(context.Context, string, types.UID, metav1.Condition, time.Time) error {
	return errAsked
}
func (nobody) GetPolicy(context.Context, string) (*mwv1alpha1.DisruptionPolicy, error) {
	return nil, errAsked
}
func (nobody) UpdatePolicyStatus(context.Context, *mwv1alpha1.DisruptionPolicy, *mwv1alpha1.DisruptionPolicy) (*mwv1alpha1.DisruptionPolicy, error) {
	return nil, errAsked
}
func (nobody) GetNodeClaim(context.Context, string) (*karpv1.NodeClaim, error) { return nil, errAsked }
func (nobody) DeleteNodeClaim(context.Context, string, types.UID) error        { return errAsked }
func (nobody) HintPod(context.Context, string, string, types.UID, string, string) (string, error) {
	return "", errAsked
}

// steady is a Host that leads already, and goes on to.
type steady struct{ *hoststep.Host }

// Lead implements process.Leader.
func (s steady) Lead(ctx context.Context, _ store.Leadership) (context.Context, func(context.Context), error) {
	return ctx, func(context.Context) {}, nil
}
