package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millwright/tools/ec2sim/simclient"
)

const (
	latencyP50Aim = 20 * time.Millisecond
	latencyP99Aim = 60 * time.Millisecond
	memoryAim     = 250 << 20
	// settleTime lets start-up work end before idle memory is read, and the nodes of a pod before the next
	// one comes.
	settleTime = 10 * time.Second
	podLimit   = 20 * time.Second
)

// measureLatency runs the local stack, has it make nodes, and then times single pods: from the moment
// kube-scheduler is seen to have found no node, over the NodeClaim, to the CreateFleet call as the simulator
// noted it.
func measureLatency(ctx context.Context, b *bench) (figures []figure, err error) {
	r, err := startRig(ctx, b, "latency")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	pid := r.millwright()
	if err := pause(ctx, settleTime); err != nil {
		return nil, err
	}
	idle := residentMemory(pid)
	if err := r.grow(ctx, b.nodes); err != nil {
		return figures, fmt.Errorf("make %d nodes: %w", b.nodes, err)
	}
	if err := pause(ctx, settleTime); err != nil {
		return nil, err
	}
	spans, err := r.timePods(ctx, "single", b.pods)
	figures = append(latencyFigures(spans, b.nodes), memoryFigures(idle, residentMemory(pid), peakMemory(pid), b.nodes)...)
	return figures, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// span of one pod.
type span struct {
	unschedulable, claimed, asked, running time.Time
}

// errNoNode: a pod runs without a new node.
var errNoNode = errors.New("it runs without a new node")

// timePods creates pods one after the other, named after a prefix; each needs a node of its own. On a busy
// machine kube-controller-manager now and then deletes a pod that was bound a moment ago, because it still
// sees the node's registration taint; then a later pod has its room, and is not timed.
func (r *rig) timePods(ctx context.Context, prefix string, n int) ([]span, error) {
	var spans []span
	for i, missed := 0, 0; len(spans) < n; i++ {
		limited, cancel := context.WithTimeout(ctx, podLimit)
		s, err := r.timePod(limited, prefix+"-"+strconv.Itoa(i))
		cancel()
		if errors.Is(err, errNoNode) && missed < 1+n/10 {
			missed++
			continue
		}
		if err != nil {
			return spans, fmt.Errorf("pod %d of %d: %w", i+1, n, err)
		}
		spans = append(spans, s)
	}
	return spans, nil
}

func (r *rig) timePod(ctx context.Context, name string) (s span, err error) {
	since, err := r.lastEntry(ctx)
	if err != nil {
		return s, err
	}
	known := r.claims.names()
	if err := r.createPod(ctx, name); err != nil {
		return s, err
	}
	waits := r.untilItRuns(ctx, name)
	if s.unschedulable, err = r.pods.await(waits, name, unschedulable); err != nil {
		return s, fmt.Errorf("wait until it is unschedulable: %w", err)
	}
	claim, at, err := r.claims.awaitNew(waits, known)
	if err != nil {
		return s, fmt.Errorf("wait for its NodeClaim: %w", err)
	}
	s.claimed = at
	if s.asked, err = r.awaitFleet(ctx, since, claim); err != nil {
		return s, fmt.Errorf("wait for CreateFleet: %w", err)
	}
	if s.running, err = r.pods.await(ctx, name, running); err != nil {
		return s, fmt.Errorf("wait until it runs: %w", err)
	}
	return s, nil
}

// untilItRuns returns a context that ends when a pod runs.
func (r *rig) untilItRuns(ctx context.Context, name string) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		_, err := r.pods.await(ctx, name, running)
		if err == nil {
			err = errNoNode
		}
		end(err)
	}()
	return ctx
}

// lastEntry is the sequence of the last call that launched something.
func (r *rig) lastEntry(ctx context.Context) (uint64, error) {
	entries, err := r.ec2.Ledger(ctx, r.seen)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		r.seen = max(r.seen, e.Seq)
	}
	return r.seen, nil
}

// awaitFleet polls the simulator for the first CreateFleet of a claim. The time is the simulator's, not the
// poll's.
func (r *rig) awaitFleet(ctx context.Context, since uint64, claim string) (time.Time, error) {
	for {
		entries, err := r.ec2.Ledger(ctx, since)
		if err != nil {
			return time.Time{}, err
		}
		for _, e := range entries {
			if isFleetOf(e, claim) {
				return e.Time, nil
			}
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
}

func isFleetOf(e simclient.Entry, claim string) bool {
	return e.Call == "CreateFleet" && e.Tags["karpenter.sh/nodeclaim"] == claim
}

func latencyFigures(spans []span, nodes int) []figure {
	if len(spans) == 0 {
		return nil
	}
	var toClaim, toFleet, toRunning []time.Duration
	for _, s := range spans {
		toClaim = append(toClaim, s.claimed.Sub(s.unschedulable)-batchingWindow)
		toFleet = append(toFleet, s.asked.Sub(s.unschedulable)-batchingWindow)
		toRunning = append(toRunning, s.running.Sub(s.unschedulable))
	}
	p50, p99 := quantile(toFleet, 50), quantile(toFleet, 99)
	at := fmt.Sprintf("latency at %d nodes: pod unschedulable → ", nodes)
	return []figure{
		{name: at + "NodeClaim, less the batching window", measured: shape(toClaim)},
		{name: at + "CreateFleet, less the batching window", aim: "p50 ≤ 20 ms, p99 ≤ 60 ms", measured: shape(toFleet),
			verdict: verdictOf(p50 <= latencyP50Aim && p99 <= latencyP99Aim)},
		{name: at + "running (simulated boot: 500 ms)", measured: shape(toRunning)},
	}
}

func shape(d []time.Duration) string {
	return fmt.Sprintf("p50 %s, p99 %s (%d pods)", duration(quantile(d, 50)), duration(quantile(d, 99)), len(d))
}

func memoryFigures(idle, after, peak int64, nodes int) []figure {
	return []figure{
		{name: "memory: millwright all, idle", aim: "≤ 250 MiB", measured: mebibytes(idle), verdict: verdictOf(idle > 0 && idle <= memoryAim)},
		{name: fmt.Sprintf("memory: millwright all, after %d nodes and the single pods", nodes), aim: "≤ 250 MiB",
			measured: mebibytes(after) + ", highest " + mebibytes(peak), verdict: verdictOf(after > 0 && peak <= memoryAim)},
	}
}
