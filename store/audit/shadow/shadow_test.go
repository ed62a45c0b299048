package shadow_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/store/audit"
	"millwright/store/audit/shadow"
	"millwright/store/memlog"
)

// site is a cluster in which somebody else works and Millwright looks on.
type site struct {
	t       *testing.T
	stream  *membus.Stream
	log     *memlog.Log
	world   *world.World
	counter uint64
	now     time.Time
}

func newSite(t *testing.T, objects ...any) *site {
	t.Helper()
	s := &site{t: t, stream: membus.NewBus().Connect(membus.QueueMax), world: world.New(), now: pt.Start}
	log, err := memlog.Open(memlog.Config{Cluster: "test", LogID: pt.LogID, Clock: func() time.Time { return s.now }})
	s.check(err)
	s.log = log
	st, err := s.stream.State(t.Context())
	s.check(err)
	s.world.SetIncarnation(st.Incarnation)
	s.send(events.Observation{Op: events.OpResyncBegin})
	s.see(objects...)
	s.send(events.Observation{Op: events.OpResyncEnd})
	s.after(0)
	return s
}

func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) send(o events.Observation) {
	s.counter++
	o.Epoch, o.Counter, o.ObservedAt = 1, s.counter, s.now
	data, err := events.Encode(o)
	s.check(err)
	s.check(s.stream.Publish(s.t.Context(), data))
	s.check(s.stream.Flush(s.t.Context()))
	read, err := events.Decode(data)
	s.check(err)
	s.check(events.ResolveCatalog(s.t.Context(), s.stream.Blobs(), &read, nil))
	s.world.Apply(s.counter, read)
}

func (s *site) see(objects ...any) {
	for _, o := range objects {
		if ref, ok := o.(*events.CatalogRef); ok {
			stored, err := events.StoreCatalog(s.t.Context(), s.stream.Blobs(), ref.Catalog)
			s.check(err)
			o = stored
		}
		s.send(pt.Observe(o))
	}
}

func (s *site) gone(objects ...any) {
	for _, object := range objects {
		o := pt.Observe(object)
		o.Op, o.Object = events.OpDelete, nil
		s.send(o)
	}
}

// after lets time go by, to a heartbeat.
func (s *site) after(d time.Duration) {
	s.now = s.now.Add(d)
	s.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

// decides records a decision in mode shadow.
func (s *site) decides(service string, kind ledger.Kind, payload any) uint64 {
	snap := planner.NewSnapshot(s.world, ledger.New(pt.LogID), s.now)
	draft, err := audit.DecisionDraft(snap.Basis(), planner.Decision{Kind: kind, Payload: payload})
	s.check(err)
	draft.Time, draft.Service, draft.Mode = s.now, service, string(ledger.ModeShadow)
	rec, err := s.log.Append(s.t.Context(), draft)
	s.check(err)
	return rec.Seq
}

func (s *site) report() *shadow.Report {
	s.t.Helper()
	r, err := shadow.Compare(s.t.Context(), s.log, s.stream, pt.Start)
	s.check(err)
	return r
}

func priced(instanceType string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels[corev1.LabelInstanceTypeStable], n.Labels[karpv1.CapacityTypeLabelKey] = instanceType, karpv1.CapacityTypeOnDemand
	}
}

func about(got, want float64) bool { return math.Abs(got-want) < 1e-6 }

const (
	m5large  = 0.096 // USD per hour, as pt.Catalogue has it
	m5xlarge = 0.192
)

func planned(price int64, pods ...*corev1.Pod) *ledger.ProvisioningPlanned {
	c := ledger.PlannedClaim{NodePool: "p", InstanceTypes: []string{"m5.large"},
		Cheapest: ledger.OfferingPrice{InstanceType: "m5.large", Zone: "us-west-2a", CapacityType: karpv1.CapacityTypeOnDemand, MicroUSDPerHour: price}}
	for _, p := range pods {
		c.Pods = append(c.Pods, ledger.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name})
	}
	return &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{c}}
}

// A pod waits; Millwright would have bought an m5.large at once, somebody else buys an m5.xlarge after a
// minute. The difference lasts as long as the m5.xlarge does, and no round counts twice.
func TestACheaperNodeSavesWhileTheDearerOneExists(t *testing.T) {
	s := newSite(t, append(pt.WithCatalogue(), pt.Pool("p"))...)
	pod := pt.Pod("a", pt.Unschedulable(), pt.Requests("cpu", "1"))
	s.see(pod)
	s.after(time.Second)
	record := s.decides(ledger.ServiceProvisioner, ledger.KindProvisioningPlanned, planned(96_000, pod))
	s.after(59 * time.Second)
	s.decides(ledger.ServiceProvisioner, ledger.KindProvisioningPlanned, planned(97_000, pod))
	claim, node := pt.Claim("a-claim", "n", "p"), pt.Node("n", pt.InPool("p"), priced("m5.xlarge"))
	s.see(claim, node)
	s.after(0)
	s.after(30 * time.Second)
	s.see(pt.Pod("a", pt.On("n"), pt.Requests("cpu", "1")))
	s.after(time.Hour)
	s.gone(pt.Pod("a"), node, claim)
	s.after(0)
	s.after(time.Hour)
	r := s.report()
	if r.Decisions != 1 || r.Repeated != 1 || r.Actual.Launched != 1 || r.Actual.Removed != 1 || r.Millwright.Launched != 1 || r.Actual.NodesMost != 1 || r.Millwright.NodesMost != 1 {
		t.Errorf("%+v %+v, %d, %d", r.Actual, r.Millwright, r.Decisions, r.Repeated)
	}
	hours := 1 + 30.0/3600
	if !about(r.Actual.USD, hours*m5xlarge) || !about(r.Millwright.USD, (hours+59.0/3600)*m5large) {
		t.Errorf("$%f happened, $%f with Millwright", r.Actual.USD, r.Millwright.USD)
	}
	if r.Actual.Waited != 1 || r.Actual.WaitedMost != 90 || r.Millwright.WaitedMost != 1 {
		t.Errorf("%+v, %+v", r.Actual, r.Millwright)
	}
	if len(r.Differences) != 1 || r.Differences[0].Record != record || !about(r.Actual.USD-r.Millwright.USD, r.Differences[0].SavedUSD) || r.Differences[0].Until.IsZero() {
		t.Errorf("%+v", r.Differences)
	}
	if last := r.Curve[len(r.Curve)-1]; last.ActualNodes != 0 || last.MillwrightNodes != 0 || len(r.Curve) < 90 {
		t.Errorf("%d points, the last is %+v", len(r.Curve), last)
	}
}

// A node that stays empty for two hours is one that Millwright would have taken; a pod that is evicted
// from a node that goes is counted, one that ends by itself is not.
func TestANodeThatMillwrightWouldHaveTaken(t *testing.T) {
	claim, node := pt.Claim("a-claim", "a", "p"), pt.Node("a", pt.InPool("p"), priced("m5.xlarge"))
	other, stays := pt.Claim("b-claim", "b", "p"), pt.Node("b", pt.InPool("p"), priced("m5.large"))
	objects := append(pt.WithCatalogue(), pt.Pool("p"), claim, node, other, stays, pt.Pod("moves", pt.On("b")), pt.Pod("ends", pt.On("a")))
	s := newSite(t, objects...)
	s.gone(pt.Pod("ends"))
	s.after(time.Minute)
	take := &ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: "a", Claim: "a-claim", ProviderID: node.Spec.ProviderID}}}
	record := s.decides(ledger.ServiceDisruptor, ledger.KindCommandStarted, take)
	s.after(time.Hour)
	s.decides(ledger.ServiceDisruptor, ledger.KindCommandStarted, take)
	s.after(time.Hour)
	s.see(pt.Node("b", pt.InPool("p"), priced("m5.large"), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()} }))
	s.see(pt.Pod("moves", pt.On("b"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: s.now} }))
	s.after(time.Second)
	s.gone(pt.Pod("moves"), stays, other, node, claim)
	s.after(time.Second)
	r := s.report()
	if r.Decisions != 1 || r.Repeated != 1 || r.Actual.Evictions != 1 || r.Millwright.Evictions != 0 || r.Actual.Removed != 2 || r.Millwright.Removed != 2 || r.Actual.Launched != 0 {
		t.Errorf("%+v", r)
	}
	if len(r.Differences) != 1 || r.Differences[0].Record != record || math.Abs(r.Differences[0].SavedUSD-2*m5xlarge) > 0.001 || !about(r.Actual.USD-r.Millwright.USD, r.Differences[0].SavedUSD) {
		t.Errorf("%+v; $%f and $%f", r.Differences, r.Actual.USD, r.Millwright.USD)
	}
}

func TestNothingToCompare(t *testing.T) {
	s := newSite(t, pt.Pool("p"))
	if _, err := shadow.Compare(t.Context(), s.log, s.stream, pt.Start); !errors.Is(err, shadow.ErrNothing) {
		t.Error(err)
	}
}

// Of many decisions, all of which have ended, those that made the largest difference are told, wherever in
// the span they were, and waits by their length.
func TestTheLargestOfMany(t *testing.T) {
	s := newSite(t, append(pt.WithCatalogue(), pt.Pool("p"))...)
	const many = 60
	var records []uint64
	for i := range many {
		name := fmt.Sprintf("n-%02d", i)
		claim, node, pod := pt.Claim(name+"-claim", name, "p"), pt.Node(name, pt.InPool("p"), priced("m5.large")), pt.Pod(name, pt.Unschedulable())
		s.see(pod)
		s.after(time.Duration(i) * time.Second)
		s.see(claim, node, pt.Pod(name, pt.On(name)))
		s.after(time.Second)
		s.gone(pt.Pod(name))
		records = append(records, s.decides(ledger.ServiceDisruptor, ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Empty", Method: "emptiness",
			Candidates: []ledger.Candidate{{Node: name, Claim: claim.Name, ProviderID: node.Spec.ProviderID}}}))
		s.after(time.Second)
		s.after(time.Duration((i*7)%many) * time.Minute) // each another time, in no order
		s.gone(node, claim)
		s.after(time.Second)
	}
	r := s.report()
	if r.Decisions != many || len(r.Differences) != 10 || r.Actual.Waited != many || r.Actual.WaitedMost != many-1 || r.Actual.WaitedMedian != many/2 || r.Actual.WaitedSeconds != many*(many-1)/2 {
		t.Fatalf("%d decisions, %d differences; %+v", r.Decisions, len(r.Differences), r.Actual)
	}
	for i, d := range r.Differences {
		if at := slices.Index(records, d.Record); at < 0 || (at*7)%many != many-1-i || !strings.Contains(d.Instead, fmt.Sprintf("n-%02d", at)) {
			t.Errorf("difference %d is record %d: %s", i, d.Record, d.Instead)
		}
	}
}
