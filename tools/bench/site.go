package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/events/natsbus"
	natsembedded "millwright/events/natsbus/embedded"
	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/resource"
	"millwright/planner/world"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/etcdlog"
	etcdembedded "millwright/store/etcdlog/embedded"
)

// requestBytes is what a recorded CreateFleet request takes.
const requestBytes = 12 << 10

// site is a log and a stream, with the fold of what was published.
type site struct {
	cluster, dir, kubeconfig string

	api    *http.Server
	etcd   *etcdembedded.Server
	nats   *natsembedded.Server
	log    *etcdlog.Log
	stream *natsbus.Stream
	// endBeats ends the heartbeats.
	endBeats func()

	mu      sync.Mutex // guards what follows
	epoch   uint64
	counter uint64
	first   uint64 // sequence before the first message
	world   *world.World
}

// startSite starts both in an empty directory of this name, fills them with the cluster, and keeps the stream
// alive by heartbeats.
func startSite(ctx context.Context, b *bench, name string) (*site, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	s := &site{cluster: "bench", dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig"), epoch: uint64(time.Now().UnixMilli()) << 16,
		world: world.New(), endBeats: func() {}}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.fill(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("make the cluster: %w", err), s.close())
	}
	s.endBeats = s.beat(ctx)
	return s, nil
}

func (s *site) start(ctx context.Context) (err error) {
	dir := s.dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if s.api, err = startAPI(s.kubeconfig); err != nil {
		return err
	}
	if s.etcd, err = etcdembedded.Start(filepath.Join(dir, "etcd")); err != nil {
		return err
	}
	if s.log, err = etcdlog.Open(ctx, etcdlog.Config{Client: s.etcd.Client, Cluster: s.cluster}); err != nil {
		return err
	}
	if s.nats, err = natsembedded.Start(filepath.Join(dir, "nats"), natsembedded.Options{Listen: true}); err != nil {
		return err
	}
	if s.stream, err = natsbus.Open(ctx, natsbus.Config{Server: s.nats, Cluster: s.cluster, LogID: s.log.ID(), Name: "bench"}); err != nil {
		return err
	}
	state, err := s.stream.State(ctx)
	if err != nil {
		return err
	}
	s.first = state.Last
	s.world.SetIncarnation(state.Incarnation)
	return nil
}

// close ends what was started, last first.
func (s *site) close() error {
	s.endBeats()
	var errs []error
	if s.stream != nil {
		errs = append(errs, s.stream.Close())
	}
	if s.nats != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		errs = append(errs, s.nats.Stop(ctx))
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.etcd != nil {
		errs = append(errs, s.etcd.Close())
	}
	if s.api != nil {
		errs = append(errs, s.api.Close())
	}
	return errors.Join(errs...)
}

// publish gives an observation its place, sends it, and folds what was sent.
func (s *site) publish(ctx context.Context, o events.Observation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counter++
	o.Epoch, o.Counter = s.epoch, s.counter
	if o.ObservedAt.IsZero() {
		o.ObservedAt = time.Now()
	}
	data, err := events.Encode(o)
	if err != nil {
		return err
	}
	for err = s.stream.Publish(ctx, data); errors.Is(err, events.ErrFull); err = s.stream.Publish(ctx, data) {
		if err := s.stream.Flush(ctx); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	decoded, err := events.Decode(data)
	if err != nil {
		return err
	}
	if err := events.ResolveCatalog(ctx, s.stream.Blobs(), &decoded, s.world.HoldsCatalog); err != nil {
		return err
	}
	s.world.Apply(s.first+s.counter, decoded)
	return nil
}

// beat publishes a heartbeat each half second until stop is called.
func (s *site) beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_ = s.publish(ctx, events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
			select {
			case <-ctx.Done():
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-done }
}

// fill makes the cluster: the lives of its claims in the log, its objects on the stream, a checkpoint, and
// what came after.
func (s *site) fill(ctx context.Context) error {
	claims, err := s.recordClaims(ctx)
	if err != nil {
		return fmt.Errorf("record claims: %w", err)
	}
	if err := s.resync(ctx, claims); err != nil {
		return fmt.Errorf("publish the cluster: %w", err)
	}
	if err := s.checkpoint(ctx); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	for i := range startupTail {
		p := replica(i)
		p.ResourceVersion = "2"
		if err := s.publish(ctx, pt.Observe(p)); err != nil {
			return err
		}
	}
	return s.stream.Flush(ctx)
}

func (s *site) resync(ctx context.Context, claims []string) error {
	reference, prices := pt.Catalogue("default", sixHundredTypes())
	reference, err := events.StoreCatalog(ctx, s.stream.Blobs(), reference.Catalog)
	if err != nil {
		return err
	}
	list := []events.Observation{{Op: events.OpResyncBegin}}
	for _, o := range []any{pt.NodeClass("default"), reference, prices, pt.Pool("default")} {
		list = append(list, pt.Observe(o))
	}
	for i, name := range claims {
		list = append(list, pt.Observe(pt.Node(nodeName(i), pt.InPool("default"))), pt.Observe(pt.Claim(name, nodeName(i), "default")))
	}
	for i := range startupPods {
		list = append(list, pt.Observe(replica(i)))
	}
	for _, o := range append(list, events.Observation{Op: events.OpResyncEnd}) {
		if err := s.publish(ctx, o); err != nil {
			return err
		}
	}
	return s.stream.Flush(ctx)
}

func (s *site) checkpoint(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, err := events.WriteCheckpoint(ctx, s.stream.Blobs(), s.world.Position(), s.world.WriteCheckpoint)
	return err
}

// recordClaims appends what a log holds of 1,000 claims that became nodes, many at a time, and returns their
// names.
func (s *site) recordClaims(ctx context.Context) ([]string, error) {
	if _, err := s.append(ctx, ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(planner.PresentOptions())}); err != nil {
		return nil, err
	}
	names, errs := make([]string, startupNodes), make([]error, startupNodes)
	var group sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range startupNodes {
		slots <- struct{}{}
		group.Go(func() {
			names[i], errs[i] = s.recordClaim(ctx, i)
			<-slots
		})
	}
	group.Wait()
	return names, errors.Join(errs...)
}

func (s *site) recordClaim(ctx context.Context, i int) (string, error) {
	capacity := resource.From(pt.Resources("cpu", "4", "memory", "16Gi", "pods", "58"))
	planned := ledger.PlannedClaim{NodePool: "default", NodeClassRef: *pt.ClassRef("default"), InstanceTypes: []string{"m5.xlarge"}, Capacity: capacity}
	for p := i; p < startupPods; p += startupNodes {
		planned.Pods = append(planned.Pods, ledger.PodRef{UID: replica(p).UID, Namespace: "default", Name: replica(p).Name})
	}
	rec, err := s.append(ctx, ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{planned}})
	if err != nil {
		return "", err
	}
	name := ledger.ClaimName(s.log.ID(), "default", rec.Seq, 0)
	uid := types.UID("claim-" + name)
	for _, next := range []struct {
		kind    ledger.Kind
		payload any
	}{
		{ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: uid}},
		{ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: uid, Attempt: 1, Request: make([]byte, requestBytes)}},
		{ledger.KindLaunched, &ledger.Launched{
			Claim: name, UID: uid, Attempt: 1, InstanceID: "i-" + nodeName(i), ProviderID: pt.ProviderID(nodeName(i)),
			InstanceType: "m5.xlarge", Zone: pt.Zones[0], CapacityType: karpv1.CapacityTypeOnDemand, Capacity: capacity, Price: 192_000,
		}},
		{ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: name, Node: nodeName(i)}},
		{ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: nodeName(i)}},
		{ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Gone: uids(planned.Pods)}},
	} {
		if _, err := s.append(ctx, next.kind, next.payload); err != nil {
			return name, err
		}
	}
	return name, nil
}

func uids(pods []ledger.PodRef) []types.UID {
	list := make([]types.UID, len(pods))
	for i, p := range pods {
		list[i] = p.UID
	}
	return list
}

func (s *site) append(ctx context.Context, kind ledger.Kind, payload any) (store.Record, error) {
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload})
	if err != nil {
		return store.Record{}, err
	}
	draft.Time, draft.Service, draft.Mode = time.Now(), "bench", string(ledger.ModeActive)
	return s.log.Append(ctx, draft)
}

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-0-%d-%d.us-west-2.compute.internal", i/250, i%250)
}

// replica is the i-th running pod: of one of 500 Deployments, on one of 1,000 nodes, 20 of which fill a node.
func replica(i int) *corev1.Pod {
	deployment := fmt.Sprintf("service-%03d", i%500)
	return pt.Pod(fmt.Sprintf("%s-5d4f8c7b9-%05d", deployment, i), pt.On(nodeName(i%startupNodes)), pt.OwnedBy("apps/v1", "ReplicaSet", deployment+"-5d4f8c7b9"),
		pt.Labels("app.kubernetes.io/name", deployment), pt.Requests("cpu", "190m", "memory", "700Mi"))
}

// sixHundredTypes is a table for plannertest.Catalogue as large as what EC2 offers, m5.xlarge among it.
func sixHundredTypes() string {
	var text strings.Builder
	fmt.Fprintln(&text, "m5.xlarge 4 16 192000 amd64")
	for family := range 75 {
		for size := range 8 {
			cpu := 2 << size
			ratio := []int{2, 4, 8}[family%3]
			fmt.Fprintf(&text, "%s%d.size%d %d %d %d amd64\n", []string{"c", "m", "r"}[family%3], family, size, cpu, cpu*ratio, cpu*(20_000+4000*ratio)+family*100)
		}
	}
	return text.String()
}
