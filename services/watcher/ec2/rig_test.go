package ec2

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/events/membus"
	"millwright/tools/ec2sim/sim"
)

// rig is a simulated account with a poller, which the test steps by hand or runs.
type rig struct {
	*Poller
	t   *testing.T
	sim *sim.Server
	sdk aws.Config
	out *recorder

	mu      sync.Mutex
	classes []*karpawsv1.EC2NodeClass
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, sim: sim.New(sim.Config{ClusterName: "blue", Region: "us-west-2", Settings: sim.DefaultSettings()}), out: newRecorder()}
	r.sdk = aws.Config{
		Region: "us-west-2", BaseEndpoint: aws.String("http://aws.simulated"), HTTPClient: &http.Client{Transport: r.sim.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
	cfg := Config{
		Region: "us-west-2", Cluster: "blue", Options: Options{VMMemoryOverheadPercent: 0.075},
		Classes: func() []*karpawsv1.EC2NodeClass {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.classes
		},
	}
	cfg.EC2, cfg.Pricing = Clients(r.sdk)
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg, r.out)
	if err != nil {
		t.Fatal(err)
	}
	r.Poller = p
	return r
}

// setClasses replaces the NodeClasses while the poller runs.
func (r *rig) setClasses(classes ...*karpawsv1.EC2NodeClass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.classes = classes
}

// poll runs one poll of each name and fails the test if one fails.
func (r *rig) poll(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := r.task(name).poll(context.Background()); err != nil {
			r.t.Fatalf("poll %s: %v", name, err)
		}
	}
}

// control calls the simulator's control interface.
func (r *rig) control(method, path string, body any) {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequest(method, "http://aws.simulated/_control/"+path, bytes.NewReader(b))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.sim.Transport().RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("control %s: %v %v", path, resp, err)
	}
}

func nodeClass(name string, change func(*karpawsv1.EC2NodeClass)) *karpawsv1.EC2NodeClass {
	nc := &karpawsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	nc.Spec.AMISelectorTerms = []karpawsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	nc.Status.Subnets = []karpawsv1.Subnet{
		{ID: "subnet-2", Zone: "us-west-2b", ZoneID: "usw2-az1"}, {ID: "subnet-1", Zone: "us-west-2a", ZoneID: "usw2-az2"},
	}
	if change != nil {
		change(nc)
	}
	return nc
}

// emitted is one observation.
type emitted struct {
	Kind   events.Kind
	Op     events.Op
	Name   string
	Object any
}

// recorder implements Emitter.
type recorder struct {
	blobs events.Blobs

	mu     sync.Mutex
	all    []emitted
	broken bool
	polled map[events.Kind]time.Time
}

func newRecorder() *recorder {
	return &recorder{blobs: membus.New().Blobs(), polled: map[events.Kind]time.Time{}}
}

func (r *recorder) Emit(kind events.Kind, op events.Op, uid, name string, object any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return errors.New("bus is gone")
	}
	if uid != name {
		return errors.New("uid and name differ")
	}
	r.all = append(r.all, emitted{kind, op, name, object})
	return nil
}

func (r *recorder) Polled(kind events.Kind, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polled[kind] = at
}

func (r *recorder) Blobs() events.Blobs { return r.blobs }

func (r *recorder) polledAt(kind events.Kind) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.polled[kind]
}

func (r *recorder) setBroken(broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = broken
}

// take returns what was emitted of a kind since the last take.
func (r *recorder) take(kind events.Kind) []emitted {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []emitted
	r.all = slices.DeleteFunc(r.all, func(e emitted) bool {
		if e.Kind == kind {
			out = append(out, e)
		}
		return e.Kind == kind
	})
	return out
}

// prices returns the emitted differences.
func (r *recorder) prices() map[priceKey]int64 {
	out := map[priceKey]int64{}
	for _, e := range r.take(events.KindPrices) {
		for _, p := range e.Object.(*events.Prices).Entries {
			out[priceKey{p.InstanceType, p.CapacityType, p.Zone}] = p.MicroUSDPerHour
		}
	}
	return out
}

// catalog resolves the one emitted catalogue by way of its blob.
func (r *rig) catalog() *events.Catalog {
	r.t.Helper()
	got := r.out.take(events.KindCatalog)
	if len(got) != 1 || got[0].Op != events.OpUpsert {
		r.t.Fatalf("emitted %d catalogues, want one: %+v", len(got), got)
	}
	return r.resolved(got[0].Object.(*events.CatalogRef))
}

func (r *rig) resolved(ref *events.CatalogRef) *events.Catalog {
	r.t.Helper()
	data, err := r.out.blobs.Get(context.Background(), events.CatalogBlob(ref.Hash))
	if err != nil {
		r.t.Fatal(err)
	}
	var c events.Catalog
	if err := json.Unmarshal(data, &c); err != nil {
		r.t.Fatal(err)
	}
	return &c
}

func typeOf(t *testing.T, c *events.Catalog, name string) events.CatalogInstanceType {
	t.Helper()
	for _, it := range c.InstanceTypes {
		if it.Name == name {
			return it
		}
	}
	t.Fatalf("no %s among %d types", name, len(c.InstanceTypes))
	return events.CatalogInstanceType{}
}
