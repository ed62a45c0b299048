package export

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"millwright/services/export/story"
	"millwright/store"
	"millwright/store/audit/line"
)

const (
	// sinkTraces is the name of the sink of spans, in its cursor and metrics.
	sinkTraces = "traces"
	// spanBatchMax bounds the records whose spans go in a request.
	spanBatchMax = 16
	// stopTimeout bounds the end of connections.
	stopTimeout = 2 * time.Second
)

// traces is the sink of spans. Their ids follow from the log, so what is sent again is the same span.
type traces struct {
	logID    string
	teller   *story.Teller
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	build    func() otlptrace.Client
	client   otlptrace.Client
}

// newTraces reads the OTEL_ variables.
func newTraces(cfg Config) (string, sink, error) {
	if !cfg.Settings.Traces || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return "", nil, nil
	}
	switch which := os.Getenv("OTEL_TRACES_EXPORTER"); which {
	case "", "otlp":
	case "none":
		return "", nil, nil
	default:
		return "", nil, fmt.Errorf("--export-traces: OTEL_TRACES_EXPORTER is otlp or none, not %q", which)
	}
	t := &traces{logID: cfg.Log.ID(), teller: story.New(cfg.Log.ID()), scope: &commonpb.InstrumentationScope{Name: "millwright", Version: cfg.Version}}
	switch protocol := firstOf("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf": // who tries again is the feed, which knows of no end
		t.build = func() otlptrace.Client {
			return otlptracehttp.NewClient(otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
		}
	case "grpc":
		t.build = func() otlptrace.Client {
			return otlptracegrpc.NewClient(otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
		}
	default:
		return "", nil, fmt.Errorf("--export-traces: OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf or grpc, not %q", protocol)
	}
	named := resource.NewSchemaless(attribute.String("service.name", "millwright"), attribute.String("service.version", cfg.Version),
		attribute.String("k8s.cluster.name", cfg.Cluster), attribute.String("millwright.log", cfg.Log.ID()))
	given, err := resource.New(context.Background(), resource.WithFromEnv())
	if err != nil {
		return "", nil, fmt.Errorf("--export-traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	all, err := resource.Merge(named, given)
	if err != nil {
		return "", nil, fmt.Errorf("--export-traces: %w", err)
	}
	t.resource = &resourcepb.Resource{}
	for _, kv := range all.Attributes() {
		t.resource.Attributes = append(t.resource.Attributes, keyValue(string(kv.Key), kv.Value.Emit()))
	}
	return sinkTraces, t, nil
}

func firstOf(variables ...string) string {
	for _, v := range variables {
		if value := os.Getenv(v); value != "" {
			return value
		}
	}
	return ""
}

func (t *traces) atOnce() int  { return spanBatchMax }
func (t *traces) open() uint64 { return t.teller.From() }
func (t *traces) reset()       { t.teller = story.New(t.logID) }

func (t *traces) encode(rec store.Record) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil { // a payload that no program of ours wrote
			err = fmt.Errorf("make spans of record %d: %v", rec.Seq, p)
		}
	}()
	e, err := line.Decode(rec)
	if err != nil {
		return nil, err
	}
	var list []*tracepb.Span
	for _, s := range t.teller.Add(e) {
		list = append(list, protoSpan(s))
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, nil
}

// send connects when it is needed, and anew after an error, for the variables' files may have changed.
func (t *traces) send(ctx context.Context, bodies []any) error {
	if t.client == nil {
		client := t.build()
		if err := client.Start(ctx); err != nil {
			return fmt.Errorf("connect to the collector: %w", err)
		}
		t.client = client
	}
	var spans []*tracepb.Span
	for _, b := range bodies {
		spans = append(spans, b.([]*tracepb.Span)...)
	}
	err := t.client.UploadTraces(ctx, []*tracepb.ResourceSpans{{Resource: t.resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: t.scope, Spans: spans}}}})
	if err == nil {
		return nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_ = t.client.Stop(stop)
	t.client = nil
	if ctx.Err() != nil || unanswered(err) {
		return fmt.Errorf("send spans: %w", err)
	}
	return &refusal{status: "not taken", text: clip(answerBytesMax, err.Error())}
}

// unanswered: nobody was reached.
func unanswered(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) || strings.Contains(err.Error(), "code = Unavailable")
}

func protoSpan(s story.Span) *tracepb.Span {
	p := &tracepb.Span{TraceId: s.Trace[:], SpanId: s.ID[:], Name: s.Name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: unixNano(s.Start), EndTimeUnixNano: unixNano(s.End), Flags: 1}
	if s.Parent != ([8]byte{}) {
		p.ParentSpanId = s.Parent[:]
	}
	for _, l := range s.Links {
		p.Links = append(p.Links, &tracepb.Span_Link{TraceId: l.Trace[:], SpanId: l.ID[:], Flags: 1})
	}
	if s.Failed != "" {
		p.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: s.Failed}
	}
	for _, a := range s.Attributes {
		p.Attributes = append(p.Attributes, keyValue(a.Key, a.Value))
	}
	return p
}

func unixNano(t time.Time) uint64 { return uint64(max(0, min(t.UnixNano(), math.MaxInt64))) }

func keyValue(key string, value any) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: anyValue(value)}
}

func anyValue(value any) *commonpb.AnyValue {
	switch v := value.(type) {
	case int64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case []string:
		list := &commonpb.ArrayValue{}
		for _, s := range v {
			list.Values = append(list.Values, anyValue(s))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	default:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(fmt.Sprint(v), "?")}}
	}
}
