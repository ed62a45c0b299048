package export_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/services/export"
)

// collector is a server that takes spans as OTLP has them.
type collector struct {
	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	heads    http.Header
	down     atomic.Bool
}

func (c *collector) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var request coltracepb.ExportTraceServiceRequest
	if err != nil || q.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "not spans", http.StatusBadRequest)
		return
	}
	if c.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads, c.resource = q.Header, map[string]string{}
	for _, r := range request.ResourceSpans {
		for _, kv := range r.Resource.Attributes {
			c.resource[kv.Key] = kv.Value.GetStringValue()
		}
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// traces are the spans by trace, each once, as "name (parent) from-to", times in seconds after start. doubled
// names a span that came with different content under one id.
func (c *collector) traces() (list map[string][]string, doubled string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]*tracepb.Span{}
	names := map[string]string{}
	for _, s := range c.spans {
		names[string(s.SpanId)] = s.Name
	}
	list = map[string][]string{}
	seconds := func(ns uint64) int64 { return (int64(ns) - start.UnixNano()) / 1e9 }
	for _, s := range c.spans {
		id := hex.EncodeToString(s.TraceId) + hex.EncodeToString(s.SpanId)
		if before := seen[id]; before != nil {
			if !proto.Equal(before, s) {
				doubled = before.String() + "\n" + s.String()
			}
			continue
		}
		seen[id] = s
		text := fmt.Sprintf("%s (%s) %d-%d", s.Name, names[string(s.ParentSpanId)], seconds(s.StartTimeUnixNano), seconds(s.EndTimeUnixNano))
		if s.Status.GetMessage() != "" {
			text += ": " + s.Status.Message
		}
		list[hex.EncodeToString(s.TraceId)] = append(list[hex.EncodeToString(s.TraceId)], text)
	}
	for _, spans := range list {
		slices.Sort(spans)
	}
	return list, doubled
}

func (c *collector) attribute(name, key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		for _, kv := range s.Attributes {
			if s.Name == name && kv.Key == key {
				return kv.Value.String()
			}
		}
	}
	return ""
}

// linked are the names of the spans that spans of a name are linked to.
func (c *collector) linked(name string) (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		for _, l := range s.Links {
			for _, other := range c.spans {
				if s.Name == name && string(other.TraceId) == string(l.TraceId) && string(other.SpanId) == string(l.SpanId) {
					list = append(list, other.Name)
				}
			}
		}
	}
	return list
}

// lives records how a node is bought for two pods, one of which has waited, and how a command takes it away
// for another one.
func (b *bench) lives(wait func(step int)) {
	step := 0
	add := func(kind ledger.Kind, payload any) uint64 {
		wait(step)
		step++
		return b.recordAt(start.Add(time.Duration(step)*time.Second), kind, payload).Seq
	}
	pod := func(n string) ledger.PodRef {
		return ledger.PodRef{UID: types.UID("uid-" + n), Namespace: "ns", Name: n}
	}
	planned := func(pods ...ledger.PodRef) ledger.PlannedClaim {
		return ledger.PlannedClaim{NodePool: "general", Pods: pods, Cheapest: ledger.OfferingPrice{InstanceType: "c6a.large", Zone: "z", CapacityType: "spot", MicroUSDPerHour: 34000}}
	}
	grows := func(claim, node string) {
		add(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim})
		add(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: claim, Attempt: 1})
		add(ledger.KindLaunched, &ledger.Launched{Claim: claim, InstanceID: "i-" + node, InstanceType: "c6a.large", Zone: "z", Price: 34000})
		add(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: claim, Node: node})
		add(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: claim, Node: node})
	}
	add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Refused: []ledger.Refused{{Pods: []ledger.PodRef{pod("a")}, // 1
		Reasons: []ledger.Refusal{{NodePool: "general", Message: "too large"}}}}})
	seq := add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{planned(pod("a"), pod("b"))}})
	first := ledger.ClaimName(b.log.ID(), "general", seq, 0)
	grows(first, "n1")                                                                                                                 // 3 to 7
	add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Gone: []types.UID{"uid-a", "uid-b"}})                              // 8
	seq = add(ledger.KindCommandProposed, &ledger.CommandProposed{Command: ledger.CommandStarted{Reason: "Drifted", Method: "drift"}}) // 9
	proposal := ledger.CommandID(b.log.ID(), seq)
	seq = add(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Drifted", Method: "drift", Proposal: proposal, PriceBefore: 34000, PriceAfter: 34000, // 10
		Candidates: []ledger.Candidate{{Node: "n1", Claim: first, NodePool: "general", Price: 34000}}, Replacements: []ledger.PlannedClaim{planned(pod("a"))}})
	id, second := ledger.CommandID(b.log.ID(), seq), ledger.ClaimName(b.log.ID(), "general", seq, 0)
	add(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})                                                          // 11
	grows(second, "n2")                                                                                                         // 12 to 16
	add(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: id})                                                          // 17
	add(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n1", Claim: first, Reason: "Drifted"})                             // 18
	add(ledger.KindNodeDrained, &ledger.NodeDrained{Node: "n1", Claim: first})                                                  // 19
	add(ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: first, InstanceID: "i-n1"})                            // 20
	add(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: first, Reason: "gone"})                                              // 21
	add(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: second, Reason: "expired", Message: "after 1h"})                     // 22
	add(ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: second, InstanceID: "i-n2"})                           // 23
	add(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: second, Reason: "gone"})                                             // 24
	add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Refused: []ledger.Refused{{Pods: []ledger.PodRef{pod("c")}, // 25
		Reasons: []ledger.Refusal{{NodePool: "general", Message: "too large"}}}}})
	add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Node: "n3", Pods: []ledger.PodRef{pod("c")}}}}) // 26
	add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Gone: []types.UID{"uid-c"}})                                                    // 27
}

var stories = [][]string{
	{"claim created (pods to node) 3-4", "initialized (pods to node) 7-7", "launch requested (pods to node) 4-5", "launched (pods to node) 5-6", "planned (pods to node) 2-3",
		"pod bound (pods to node) 1-8", "pod bound (pods to node) 2-8", "pod pending (pods to node) 1-2", "pods to node () 1-8", "registered (pods to node) 6-7"},
	{"claim created (disrupt nodes) 12-13", "decided (disrupt nodes) 10-11", "decided (disrupt nodes) 10-18", "disrupt nodes () 9-21", "drain (disrupt nodes) 18-19",
		"initialized (disrupt nodes) 16-16", "launch requested (disrupt nodes) 13-14", "launched (disrupt nodes) 14-15", "planned (disrupt nodes) 10-12", "proposed (disrupt nodes) 9-10",
		"registered (disrupt nodes) 15-16", "replacement planned (disrupt nodes) 10-10", "replacements (disrupt nodes) 11-17", "terminate (disrupt nodes) 19-20", "terminated (disrupt nodes) 20-21"},
	{"claim created (pod to node) 3-4", "decided (pod to node) 2-2", "launch requested (pod to node) 4-5", "launched (pod to node) 5-6", "planned (pod to node) 2-3",
		"pod to node () 1-8", "refused (pod to node) 1-2", "registered (pod to node) 6-7", "waits (pod to node) 7-8"},
	{"claim created (pod to node) 3-4", "decided (pod to node) 2-2", "launch requested (pod to node) 4-5", "launched (pod to node) 5-6", "planned (pod to node) 2-3",
		"pod to node () 2-8", "registered (pod to node) 6-7", "waits (pod to node) 7-8"},
	{"decided (pod to node) 26-26", "pod to node () 25-27", "refused (pod to node) 25-26", "waits (pod to node) 26-27"},
	{"decided (end node) 22-23", "end node () 22-24", "terminated (end node) 23-24"},
}

func checkStories(t *testing.T, c *collector) {
	t.Helper()
	list, doubled := c.traces()
	if doubled != "" {
		t.Errorf("a span came twice, and not the same:\n%s", doubled)
	}
	var got []string
	for _, spans := range list {
		got = append(got, strings.Join(spans, "\n"))
	}
	slices.Sort(got)
	for _, want := range stories {
		if !slices.Contains(got, strings.Join(want, "\n")) {
			t.Errorf("there is no trace\n%s\nbut\n%s", strings.Join(want, "\n"), strings.Join(got, "\n--\n"))
		}
	}
	if len(list) != len(stories) {
		t.Errorf("%d traces, %d wanted", len(list), len(stories))
	}
}

// ended reports that the roots of all stories are there.
func (c *collector) ended() bool {
	list, _ := c.traces()
	n := 0
	for _, spans := range list {
		for _, s := range spans {
			if root, _, ok := strings.Cut(s, " () "); ok && slices.Contains([]string{"pods to node", "pod to node", "disrupt nodes", "end node"}, root) {
				n++
			}
		}
	}
	return n == len(stories)
}

func TestEachNodeIsATraceFromPodsToPodsAndFromDecisionToTheEnd(t *testing.T) {
	b, c := newBench(t), &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	b.lives(func(int) {})
	b.run(settings(t, func(s *export.Settings) { s.Traces = true }))
	until(t, "all have ended", c.ended)
	checkStories(t, c)
	if c.heads.Get("Authorization") != "Bearer t" || c.resource["deployment.environment"] != "test" || c.resource["service.name"] != "millwright" || c.resource["k8s.cluster.name"] != "test" {
		t.Errorf("%v, %v", c.heads, c.resource)
	}
	for key, want := range map[string]string{"millwright.price": "0.034", "host.type": "c6a.large", "millwright.pods.count": "2", "millwright.text": "general"} {
		if got := c.attribute("pod pending", key); !strings.Contains(got, want) {
			t.Errorf("%s is %s", key, got)
		}
	}
	if got := c.attribute("refused", "millwright.text"); !strings.Contains(got, "general: too large") {
		t.Errorf("a pod was refused: %s", got)
	}
	if linked := c.linked("pod to node"); !slices.Equal(linked, []string{"pods to node", "pods to node"}) {
		t.Errorf("pods are linked to %q", linked)
	}
	if got := c.attribute("disrupt nodes", "millwright.price.before"); !strings.Contains(got, "0.034") {
		t.Errorf("the price before is %s", got)
	}
}

// Wherever it is broken off, and however long the collector is away, the spans are the same in the end.
func TestTracesAreTheSameAcrossRestartsAndOutages(t *testing.T) {
	b, c := newBench(t), &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/v1/traces")
	s := settings(t, func(s *export.Settings) { s.Traces = true })
	stop := func() {}
	b.lives(func(step int) {
		if step%3 == 0 {
			if step > 0 {
				head, _ := b.log.Head(t.Context())
				until(t, "it has come so far", func() bool { return c.down.Load() || b.metric("lag_records", "traces") == 0 && b.sent(head.Seq) })
			}
			stop()
			c.down.Store(step%2 == 1)
			stop = b.run(s)
		}
	})
	c.down.Store(false)
	until(t, "all have ended", c.ended)
	checkStories(t, c)
}

// sent reports that the cursor of traces was kept at a record, or after it.
func (b *bench) sent(seq uint64) bool {
	text, err := b.cursors.Cursor(b.t.Context(), "traces")
	var at uint64
	_, scan := fmt.Sscanf(text, `{"seq":%d`, &at)
	return err == nil && scan == nil && (at >= seq || at > 0)
}

// byGRPC takes spans as a collector does by gRPC.
type byGRPC struct {
	coltracepb.UnimplementedTraceServiceServer
	*collector
	refused atomic.Int64
}

func (c *byGRPC) Export(ctx context.Context, r *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	if c.down.Load() {
		c.refused.Add(1)
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads = http.Header{}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		c.heads.Set("Authorization", strings.Join(md.Get("authorization"), ","))
	}
	for _, x := range r.ResourceSpans {
		for _, s := range x.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

func TestSpansGoByGRPCToo(t *testing.T) {
	b, c := newBench(t), &byGRPC{collector: &collector{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=t")
	c.down.Store(true)
	b.lives(func(int) {})
	b.run(settings(t, func(s *export.Settings) { s.Traces = true }))
	until(t, "it was refused", func() bool { return c.refused.Load() > 3 })
	if b.metric("dead_letters_total", "traces") != 0 {
		t.Error("a collector that takes nothing loses spans")
	}
	c.down.Store(false)
	until(t, "all have ended", c.ended)
	checkStories(t, c.collector)
	if c.heads.Get("Authorization") != "t" {
		t.Errorf("%v", c.heads)
	}
}

// What the variables say that cannot be is said at once.
func TestVariablesOfTracesThatMakeNoSense(t *testing.T) {
	for variable, value := range map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			b := newBench(t)
			e := export.New(export.Config{Settings: settings(t, func(s *export.Settings) { s.Traces = true }), Log: b.log, Registerer: prometheus.NewRegistry()})
			if err := e.Open(); err == nil || !strings.Contains(err.Error(), variable) {
				t.Error(err)
			}
		})
	}
}
