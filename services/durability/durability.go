// Package durability looks for settings of an external etcd and NATS by which records or observations can
// be lost, or the service with one server: etcd that flushes nothing, one member, a small quota, one
// replica.
//
// It asks the servers' metrics and monitoring pages and the stream, changes nothing, and says of each Finding
// whether it holds, or that it could not be found out. `millctl preflight` shows that, and a running
// process has a metric of it. Test with pages of a test server.
package durability

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Finding names what can be unsafe; it is a label of metrics.
type Finding string

// Findings.
const (
	EtcdOneMember     Finding = "etcd_one_member"
	EtcdEvenMembers   Finding = "etcd_even_members"
	EtcdSmallQuota    Finding = "etcd_small_quota"
	EtcdNotFlushed    Finding = "etcd_not_flushed"
	NATSOneServer     Finding = "nats_one_server"
	NATSNoJetStream   Finding = "nats_no_jetstream"
	NATSFlushedLate   Finding = "nats_flushed_late"
	StreamFewReplicas Finding = "stream_one_replica"
)

// Findings are all of them.
var Findings = []Finding{EtcdOneMember, EtcdEvenMembers, EtcdSmallQuota, EtcdNotFlushed, NATSOneServer, NATSNoJetStream, NATSFlushedLate, StreamFewReplicas}

// Verdict on a Finding.
type Verdict string

// Verdicts. Broken: records are lost with the power, or nothing works at all; Unsafe: less than that.
const (
	Safe    Verdict = "safe"
	Unsafe  Verdict = "unsafe"
	Broken  Verdict = "broken"
	Unknown Verdict = "unknown"
)

// Result is a Verdict on one Finding, about one server or all of them.
type Result struct {
	Finding Finding
	Verdict Verdict
	// Object is the page that says so, "" of what is about all servers.
	Object  string
	Message string
	// Remedy says what to do; "" if nothing is to be done.
	Remedy string
}

// Config says where to look. A part whose configuration is missing is left out.
type Config struct {
	// EtcdMembers asks etcd how many members vote.
	EtcdMembers func(context.Context) (int, error)
	// EtcdMetrics are the metrics pages of its members, asked by EtcdClient.
	EtcdMetrics []string
	EtcdClient  *http.Client
	// NATSMonitoring are the monitoring pages of NATS's servers, asked by NATSClient. One by https is
	// asked by http if it does not answer so.
	NATSMonitoring []string
	NATSClient     *http.Client
	// StreamReplicas asks NATS how many replicas stream and bucket have at least.
	StreamReplicas func(context.Context) (int, error)
}

// external says where more is told.
const external = "docs/external.md says how to set one up."

// askTimeout bounds each question.
const askTimeout = 5 * time.Second

// Check asks everything, one after the other.
func Check(ctx context.Context, cfg Config) []Result {
	r := &report{}
	checkEtcd(ctx, cfg, r)
	checkNATS(ctx, cfg, r)
	checkReplicas(ctx, cfg, r)
	return r.results
}

type report struct{ results []Result }

func (r *report) add(f Finding, v Verdict, object, remedy, format string, args ...any) {
	r.results = append(r.results, Result{Finding: f, Verdict: v, Object: object, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

func checkReplicas(ctx context.Context, cfg Config, r *report) {
	if cfg.StreamReplicas == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	n, err := cfg.StreamReplicas(ctx)
	switch {
	case err != nil:
		r.add(StreamFewReplicas, Unknown, "", "", "%v", err)
	case n == 1:
		r.add(StreamFewReplicas, Unsafe, "", "Run three servers of NATS, and leave --nats-replicas of the watcher at its default. "+external,
			"stream or bucket has one replica: with its server go the observations, by which old decisions are replayed")
	default:
		r.add(StreamFewReplicas, Safe, "", "", "stream and bucket have %d replicas", n)
	}
}
