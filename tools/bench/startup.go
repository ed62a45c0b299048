package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	pt "millwright/planner/plannertest"

	"millwright/planner/ledger"
	"millwright/store"
)

const (
	startupNodes   = 1000
	startupPods    = 20_000
	startupTail    = 2000
	startupRuns    = 3
	batchingWindow = 200 * time.Millisecond
)

// measureStartup starts a provisioner several times on the log and the stream of a cluster of 1,000 nodes: a
// checkpoint and 2,000 later messages, and a log with the whole life of 1,000 claims. The time runs from the
// start of the process until the record of its first decision, about a pod that has waited all along, is in
// the log.
func measureStartup(ctx context.Context, b *bench) (figures []figure, err error) {
	s, err := startSite(ctx, b, "startup")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var took []time.Duration
	var memory int64
	for i := range startupRuns {
		d, rss, err := s.startProvisioner(ctx, b.bin, i)
		if err != nil {
			return nil, fmt.Errorf("start %d: %w", i+1, err)
		}
		took, memory = append(took, d), max(memory, rss)
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return nil, err
	}
	median := quantile(took, 50)
	return []figure{{
		name: "start: provisioner, process start → first decision recorded", aim: "≤ 3 s", verdict: verdictOf(median.Seconds() <= startupAimSeconds),
		measured: fmt.Sprintf("%s (longest of %d: %s), log of %s records; less the batching window", duration(median), startupRuns,
			duration(quantile(took, 100)), count(float64(head.Seq))),
	}, {
		name: "memory: millwright provisioner at 1,000 nodes, 20,000 pods", measured: mebibytes(memory),
	}}, nil
}

// startProvisioner starts the process, waits for the decision about a pod that is new to it, and stops it.
func (s *site) startProvisioner(ctx context.Context, bin string, run int) (took time.Duration, memory int64, err error) {
	name := "waits-" + strconv.Itoa(run)
	if err := s.publish(ctx, pt.Observe(pt.Pod(name, pt.Unschedulable(), pt.Requests("cpu", "1", "memory", "1Gi")))); err != nil {
		return 0, 0, err
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return 0, 0, err
	}
	p := s.provisioner(bin, "provisioner")
	began := time.Now()
	if err := p.start(); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := s.awaitDecision(ctx, head.Seq+1, "pod/default/"+name); err != nil {
		return 0, 0, fmt.Errorf("%w\n%s", err, p.end())
	}
	took = time.Since(began) - batchingWindow
	return took, residentMemory(p.pid()), nil
}

// provisioner works in shadow mode: there is no API server whose Lease it could hold, and it plans and
// records alike.
func (s *site) provisioner(bin, name string) *process {
	return newProcess(filepath.Join(bin, "millwright"), filepath.Join(s.dir, name+".log"), "provisioner", "--cluster-name", s.cluster,
		"--etcd-endpoints", s.etcd.Endpoints[0], "--nats-url", s.nats.URL(), "--kubeconfig", s.kubeconfig, "--identity", name,
		"--metrics-port", "0", "--health-probe-port", "0", "--mode", "shadow")
}

var errFound = errors.New("found")

// awaitDecision watches the log for a round of the provisioner that names the pod.
func (s *site) awaitDecision(ctx context.Context, from uint64, subject string) error {
	err := s.log.Watch(ctx, from, func(r store.Record) error {
		if k := ledger.Kind(r.Kind); (k == ledger.KindProvisioningPlanned || k == ledger.KindProvisioningWidened) && holds(r.Subjects, subject) {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return fmt.Errorf("wait for the decision about %s: %w", subject, errors.Join(err, ctx.Err()))
}

func holds(list []string, text string) bool {
	for _, s := range list {
		if s == text {
			return true
		}
	}
	return false
}

// startAPI starts an API server that has no objects and takes none, and writes a kubeconfig for it. A
// provisioner asks it for nothing, but no service decides before its clock has been checked against another:
// each answer has the date.
func startAPI(kubeconfig string) (*http.Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	})}
	go func() { _ = server.Serve(listener) }()
	const text = `apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: "http://%s"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
`
	return server, os.WriteFile(kubeconfig, fmt.Appendf(nil, text, listener.Addr()), 0o600)
}
