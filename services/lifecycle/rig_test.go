package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/planner/world"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/launch"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// fault is what happens at one numbered append or call.
type fault int

const (
	_ fault = iota
	// crashBefore and crashAfter end the process before or after the act took effect.
	crashBefore
	crashAfter
	// errorBefore fails the act; loseAnswer lets it happen and answers with an error.
	errorBefore
	loseAnswer
)

func (f fault) String() string {
	return [...]string{"none", "crash before", "crash after", "error before", "lose answer"}[f]
}

// crashed is the panic that ends a process.
type crashed struct{}

// errLost is a transport error.
var errLost = errors.New("connection reset")

// rig is a world of maps around one service: in-memory log, cluster and EC2, a kubelet and a terminator, all
// on one thread and one clock.
type rig struct {
	t    testing.TB
	now  time.Time
	log  *memlog.Log
	led  *ledger.Ledger
	w    *world.World
	kube *fakeKube
	ec2  *fakeEC2
	svc  *Service
	mode ledger.Mode
	// together: the launcher asks for the same for all claims. configs are what it asks for, by key.
	together bool
	configs  map[string]ec2types.FleetLaunchTemplateConfigRequest
	// requested is called with what a request is about to be made of.
	requested func(launch.Built, launch.Order)
	// forgotten are the launch templates that the launcher was told are not there.
	forgotten []string
	// others changes what the service depends on.
	others func(*Deps)

	queue []queued
	// lanes say what waits for room; hung are effects whose call EC2 does not answer.
	lanes   *lane.Queue[queued]
	hung    []hung
	failed  []string
	events  []service.KubeEvent
	records []store.Record

	// acts counts appends and writing calls; the at-th one meets the fault.
	acts  int
	trail []string
	at    int
	fault fault
	// nodeMemory is what Nodes have; zero: what the catalogue says.
	nodeMemory quantity.Quantity
	// noKubelet: instances boot and no Node joins. noDrain: nobody drains.
	noKubelet, noDrain bool
	// noHeartbeats: the World grows no newer. messages counts what the World was told.
	noHeartbeats bool
	messages     uint64
	// recorded is called right after a record of the kind is stored.
	recorded map[ledger.Kind]func()
	// logAway: the log can't be reached; appends fail and are noted in unstored.
	logAway  bool
	unstored []string
}

type queued struct {
	key string
	fn  func(context.Context) error
}

// hung is an effect that ends when its time is over.
type hung struct {
	key   string
	until time.Time
}

// hangs is the panic of a call without an answer.
type hangs struct{}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, log: memlog.New("test"), mode: ledger.ModeActive, configs: map[string]ec2types.FleetLaunchTemplateConfigRequest{}}
	r.led = ledger.New(r.log.ID())
	r.fold()
	r.now = r.led.LastTime().Truncate(time.Hour).Add(time.Hour) // the log never goes back behind its genesis
	r.w = world.New()
	r.observe(1, events.Observation{Op: events.OpResyncBegin})
	r.observe(2, events.Observation{Kind: events.KindCatalog, Op: events.OpUpsert, Name: "default", UID: "default", Object: &events.CatalogRef{
		NodeClass: "default", Hash: "h", Catalog: catalogOf("m5.large", "c5.large"),
	}})
	r.observe(3, events.Observation{Op: events.OpResyncEnd})
	r.kube, r.ec2 = newFakeKube(r), newFakeEC2(r)
	r.kube.put(&r.kube.classes, &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "class", Generation: 1},
		Status: awsv1.EC2NodeClassStatus{Conditions: []metav1.Condition{{
			Type: "Ready", Status: "True", ObservedGeneration: 1, Reason: "Ready", LastTransitionTime: metav1.NewTime(r.now),
		}}},
	})
	r.kube.put(&r.kube.pools, poolNamed("default", "pool-uid"))
	r.restart()
	return r
}

func poolNamed(name, uid string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	p.UID = uidOf(uid)
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
	return p
}

func catalogOf(names ...string) *events.Catalog {
	c := &events.Catalog{NodeClass: "default", Generation: 1}
	for _, n := range names {
		c.InstanceTypes = append(c.InstanceTypes, events.CatalogInstanceType{
			Name: n, Requirements: map[string][]string{"kubernetes.io/arch": {"amd64"}},
			Capacity: map[string]int64{"cpu": 2000, "memory": 8 << 30, "pods": 29}, Overhead: map[string]int64{"cpu": 70},
			Offerings: []events.CatalogOffering{{Zone: "eu-1a", ZoneID: "euw1-az1", CapacityType: "on-demand", Available: true}},
		})
	}
	return c
}

func (r *rig) observe(sequence uint64, o events.Observation) {
	r.messages = max(r.messages, sequence)
	o.Epoch, o.Counter, o.ObservedAt = 1, sequence, r.now
	r.w.Apply(sequence, o)
}

// restart drops everything the process knew.
func (r *rig) restart() {
	r.queue, r.hung, r.lanes = nil, nil, lane.NewQueue[queued](0)
	deps := Deps{Cluster: "test", Cache: r.kube, Kube: r.kube, EC2: r.ec2, Launcher: fakeLauncher{r}, Logger: zerolog.Nop()}
	if r.others != nil {
		r.others(&deps)
	}
	r.svc = New(r, deps)
}

// with starts the service with other dependencies.
func (r *rig) with(others func(*Deps)) {
	r.others = others
	r.restart()
}

// act counts one act and lets the fault meet it.
func (r *rig) act(name string, lost error, do func() error) error {
	r.acts++
	r.trail = append(r.trail, name)
	if r.acts != r.at {
		return do()
	}
	switch r.fault {
	case crashBefore:
		panic(crashed{})
	case errorBefore:
		return lost
	}
	err := do()
	switch r.fault {
	case crashAfter:
		panic(crashed{})
	case loseAnswer:
		return lost
	}
	return err
}

// The rig is a service.Host.

func (r *rig) Now() time.Time    { return r.now }
func (r *rig) LogID() string     { return r.log.ID() }
func (r *rig) Mode() ledger.Mode { return r.mode }

func (r *rig) Snapshot(_ service.Freshness, fn func(*planner.Snapshot) error) error {
	if !r.noHeartbeats && r.w.AsOf().Before(r.now) {
		r.messages++
		r.observe(r.messages, events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
	}
	return fn(planner.NewSnapshot(r.w, r.led, r.now))
}

func (r *rig) Ledger(fn func(*ledger.Ledger) error) error { return fn(r.led) }

func (r *rig) Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	draft, err := audit.DecisionDraft(basis, d)
	if err != nil {
		return store.Record{}, err
	}
	return r.append(ctx, draft)
}

func (r *rig) Outcome(ctx context.Context, o service.Outcome) (store.Record, error) {
	if r.mode == ledger.ModeShadow {
		return store.Record{}, nil
	}
	draft, err := audit.OutcomeDraft(o)
	if err != nil {
		return store.Record{}, err
	}
	return r.append(ctx, draft)
}

func (r *rig) append(ctx context.Context, d store.Draft) (rec store.Record, err error) {
	if r.logAway {
		r.unstored = append(r.unstored, ledger.Kind(d.Kind).String())
		return rec, errLost
	}
	d.Time, d.Service, d.Mode = r.now, ledger.ServiceLifecycle, string(r.mode)
	if d.Mode == "shadow" {
		d.Expects, d.Advances = nil, nil
	}
	err = r.act("append "+ledger.Kind(d.Kind).String(), errLost, func() error {
		rec, err = r.log.Append(ctx, d)
		r.fold()
		if then := r.recorded[ledger.Kind(d.Kind)]; then != nil && err == nil {
			then()
		}
		return err
	})
	return rec, err
}

func (r *rig) fold() {
	records, err := r.log.Read(context.Background(), r.led.Seq()+1, 1000)
	if err != nil {
		r.t.Fatalf("read log: %v", err)
	}
	for _, rec := range records {
		entry, err := audit.Decode(rec)
		if err == nil {
			err = r.led.Apply(entry)
		}
		if err != nil {
			r.t.Fatalf("fold record %d: %v", rec.Seq, err)
		}
		r.records = append(r.records, rec)
	}
}

func (r *rig) Stop() ledger.Stop { return r.led.Stop() }

func (r *rig) LogAway() bool { return r.logAway }

func (r *rig) Effect(key string, l lane.Lane, _ time.Duration, fn func(context.Context) error) bool {
	if r.mode == ledger.ModeShadow || l.Creates() && r.logAway {
		return false
	}
	start, taken := r.lanes.Offer(l, key, queued{key, fn})
	if start {
		r.queue = append(r.queue, queued{key, fn})
	}
	return taken
}

// carryOut runs the effect that was started first.
func (r *rig) carryOut() {
	q := r.queue[0]
	r.queue = r.queue[1:]
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(hangs); !ok {
				panic(p)
			}
			r.hung = append(r.hung, hung{q.key, r.now.Add(effects.Timeout)})
		}
	}()
	if err := q.fn(context.Background()); err != nil { // the next step tries again
		r.failed = append(r.failed, err.Error())
	}
	r.end(q.key)
}

// end makes room for what waits.
func (r *rig) end(key string) {
	if _, next, ok := r.lanes.End(key); ok {
		r.queue = append(r.queue, next)
	}
}

// timeOut ends the effects that have hung for long enough.
func (r *rig) timeOut() {
	r.hung = slices.DeleteFunc(r.hung, func(h hung) bool {
		if r.now.Before(h.until) {
			return false
		}
		r.svc.effects.End()
		r.end(h.key)
		return true
	})
}

func (r *rig) Event(e service.KubeEvent) { r.events = append(r.events, e) }

// other appends as another service would; it meets no fault.
func (r *rig) other(service string, kind ledger.Kind, payload any, advances ...string) store.Record {
	r.t.Helper()
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload, Advances: advances})
	if err != nil {
		r.t.Fatal(err)
	}
	draft.Time, draft.Service, draft.Mode, draft.Now = r.now, service, "active", r.now
	rec, err := r.log.Append(context.Background(), draft)
	if err != nil {
		r.t.Fatalf("append %s: %v", kind, err)
	}
	r.fold()
	return rec
}

// plan has the provisioner plan one claim and returns its name.
func (r *rig) plan(reqs ...karpv1.NodeSelectorRequirementWithMinValues) string {
	r.t.Helper()
	rec := r.other(ledger.ServiceProvisioner, ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{
		NodePool: "default", NodePoolUID: "pool-uid", NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
		Labels:   map[string]string{karpv1.NodePoolLabelKey: "default"},
		Taints:   []corev1.Taint{{Key: "team", Value: "blue", Effect: corev1.TaintEffectNoSchedule}},
		Requests: resource.Vector{MilliCPU: 100}, Capacity: resource.Vector{MilliCPU: 2000}, InstanceTypes: []string{"c5.large", "m5.large"},
		Requirements: append([]karpv1.NodeSelectorRequirementWithMinValues{}, reqs...),
	}}}, ledger.PoolAggregate("default"))
	return ledger.ClaimName(r.log.ID(), "default", rec.Seq, 0)
}

// turn lets everybody act once, then a second pass.
func (r *rig) turn() {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crashed); !ok {
				panic(p)
			}
			r.restart()
		}
	}()
	r.kube.remember()
	r.timeOut()
	r.kubelet()
	r.terminator()
	r.ec2.tick()
	for range 4 {
		if _, err := r.svc.Step(context.Background()); err != nil && !errors.Is(err, errLost) {
			r.t.Fatalf("step: %v", err)
		}
		if len(r.queue) == 0 {
			break
		}
		for len(r.queue) > 0 {
			r.carryOut()
		}
	}
}

// run takes turns of a second until done says so.
func (r *rig) run(what string, done func() bool) {
	r.t.Helper()
	for range 400 {
		if done() {
			return
		}
		r.turn()
		r.now = r.now.Add(time.Second)
	}
	r.t.Fatalf("never: %s\nlog: %v\nclaims: %v\nec2: %v\nfailed: %v", what, r.kinds(), r.kube.describe(), r.ec2.describe(), r.failed)
}

func (r *rig) wait(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	r.run(fmt.Sprintf("%v pass", d), func() bool { return !r.now.Before(end) })
}

func (r *rig) kinds() []string {
	var kinds []string
	for _, rec := range r.records {
		text := ledger.Kind(rec.Kind).String()
		if k := ledger.Kind(rec.Kind); k == ledger.KindClaimDoomed || k == ledger.KindLaunchFailed {
			text += string(rec.Payload)
		}
		kinds = append(kinds, text)
	}
	return kinds
}

func (r *rig) count(kind ledger.Kind) (n int) {
	for _, rec := range r.records {
		if ledger.Kind(rec.Kind) == kind {
			n++
		}
	}
	return n
}

func (r *rig) hasEvent(reason string) bool {
	return slices.ContainsFunc(r.events, func(e service.KubeEvent) bool { return e.Reason == reason })
}

// kubelet joins a Node for each running instance and stops answering for each terminated one.
func (r *rig) kubelet() {
	if r.noKubelet {
		return
	}
	byProvider := map[string][]*corev1.Node{}
	for _, n := range r.kube.nodes {
		byProvider[n.Spec.ProviderID] = append(byProvider[n.Spec.ProviderID], n)
	}
	for _, i := range r.ec2.sorted() {
		id := "aws:///" + i.Zone + "/" + i.ID
		nodes := byProvider[id]
		switch {
		case i.State == "running" && len(nodes) == 0 && !r.ec2.booted[i.ID]:
			r.ec2.booted[i.ID] = true
			memory := int64(8 << 30)
			if !r.nodeMemory.IsZero() {
				memory = r.nodeMemory.Value()
			}
			r.kube.put(&r.kube.nodes, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "node-" + i.ID, UID: uidOf("node-" + i.ID), CreationTimestamp: metav1.NewTime(r.now)},
				Spec:       corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{karpv1.UnregisteredTaint()}},
				Status: corev1.NodeStatus{
					Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					Capacity:    resource.Vector{MilliCPU: 2000, Memory: memory, Pods: 29}.List(),
					Allocatable: resource.Vector{MilliCPU: 1930, Memory: 7 << 30, Pods: 29}.List(),
				},
			})
		case i.State == "terminated" && len(nodes) == 1:
			n := nodes[0].DeepCopy()
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			r.kube.put(&r.kube.nodes, n)
		}
	}
}

// terminator drains every Node that is being deleted, at once.
func (r *rig) terminator() {
	if r.noDrain {
		return
	}
	for _, n := range values(r.kube.nodes) {
		if n.DeletionTimestamp.IsZero() || r.led.Drain(n.Name) != nil {
			continue
		}
		r.other(ledger.ServiceTerminator, ledger.KindDrainStarted, &ledger.DrainStarted{Node: n.Name})
		r.other(ledger.ServiceTerminator, ledger.KindNodeDrained, &ledger.NodeDrained{Node: n.Name, VolumesDetached: true})
	}
}
