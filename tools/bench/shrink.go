package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/tools/ec2sim/simclient"
)

const (
	// shrinkReplicas of each of five Deployments run first, shrinkKept after.
	shrinkReplicas, shrinkKept = 200, 60
	// shrinkQuiet is for how long nothing must have changed for the cluster to be at rest.
	shrinkQuiet = 30 * time.Second
	shrinkLimit = 8 * time.Minute
	// Aims: time, evictions, nodes bought and $/h at rest.
	shrinkTime, shrinkEvictions, shrinkBought, shrinkPrice = time.Minute, 90, 1, 6.00

	// taintRuns nodes are emptied, one after the other; each is to be tainted within taintMost.
	taintRuns = 20
	taintMost = 2 * time.Second
)

// shrinkFamilies of instance types, by GiB for each CPU: a CPU costs 0.025 $/h and a GiB 0.001 $/h.
var shrinkFamilies = map[string]int{"c5": 2, "m5": 4, "r5": 8}

// shrinkPool has on-demand nodes of up to 8 CPUs, which are consolidated at once.
const shrinkPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c5, m5, r5]}
        - {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ["9"]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: "100%"}]}
`

var shrinkDeployments = []struct{ name, cpu, memory string }{
	{"tiny", "100m", "256Mi"}, {"small", "250m", "512Mi"}, {"medium", "500m", "1Gi"}, {"large", "1", "2Gi"}, {"huge", "1500m", "4Gi"},
}

// measureShrink scales five Deployments of 1,000 pods in all down to 30 % and watches until the cluster is at
// rest, and for a while after.
func measureShrink(ctx context.Context, b *bench) (figures []figure, err error) {
	r, err := startRig(ctx, b, "shrink")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.ec2.SetPrices(ctx, shrinkPrices()...); err != nil {
		return nil, fmt.Errorf("set prices: %w", err)
	}
	millwright := r.stack.Process("millwright") // it asks for prices when it starts
	if err := errors.Join(millwright.Stop(), millwright.Restart(), r.stack.AwaitReady(ctx, millwright)); err != nil {
		return nil, fmt.Errorf("restart: %w", err)
	}
	if err := r.apply(ctx, poolsGVR, shrinkPool); err != nil {
		return nil, err
	}
	for _, d := range shrinkDeployments {
		if err := r.deploy(ctx, d.name, d.cpu, d.memory, shrinkReplicas); err != nil {
			return nil, err
		}
	}
	if err := r.awaitRunning(ctx, shrinkReplicas*len(shrinkDeployments)); err != nil {
		return nil, err
	}
	if _, err := r.rest(ctx, shrinkQuiet); err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	before, err := r.outlook(ctx, b.bin)
	if err != nil {
		return nil, err
	}
	bought, evicted := len(r.claims.names()), r.pods.count(evicting)
	began := time.Now()
	for _, d := range shrinkDeployments {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, shrinkKept)
		if _, err := r.kube.AppsV1().Deployments(namespace).Patch(ctx, d.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("scale Deployment %s: %w", d.name, err)
		}
	}
	rested, err := r.rest(ctx, shrinkQuiet)
	if err != nil {
		return nil, err
	}
	took := max(0, rested.Sub(began))
	after, err := r.outlook(ctx, b.bin)
	if err != nil {
		return nil, err
	}
	bought, evicted = len(r.claims.names())-bought, r.pods.count(evicting)-evicted
	moved := r.pods.count(evicting)
	if err := pause(ctx, b.after); err != nil {
		return nil, err
	}
	moved = r.pods.count(evicting) - moved
	ok := took <= shrinkTime && evicted <= shrinkEvictions && bought <= shrinkBought && after.price <= shrinkPrice && moved == 0
	return []figure{{
		name: fmt.Sprintf("live: 1,000 pods on %d nodes for $%.2f/h, 30 %% of each Deployment kept", before.nodes, before.price),
		aim:  fmt.Sprintf("≤ %s, ≤ %d evictions, ≤ %d NodeClaim, ≤ $%.2f/h, 0 moves after", shrinkTime, shrinkEvictions, shrinkBought, shrinkPrice), verdict: verdictOf(ok),
		measured: fmt.Sprintf("at rest after %s: %d evictions, %d NodeClaims, %d nodes, $%.2f/h; %d moves in the %s after",
			took.Round(100*time.Millisecond), evicted, bought, after.nodes, after.price, moved, b.after),
	}}, nil
}

func shrinkPrices() (list []simclient.Price) {
	for _, family := range slices.Sorted(maps.Keys(shrinkFamilies)) {
		for i, size := range []string{"large", "xlarge", "2xlarge"} {
			cpu := 2 << i
			list = append(list, simclient.Price{InstanceType: family + "." + size, CapacityType: "on-demand",
				USDPerHour: 0.025*float64(cpu) + 0.001*float64(cpu*shrinkFamilies[family])})
		}
	}
	return list
}

func (r *rig) deploy(ctx context.Context, name, cpu, memory string, replicas int32) error {
	labels := map[string]string{"app": name}
	_, err := r.kube.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/pause:1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Deployment %s: %w", name, err)
	}
	return nil
}

func (r *rig) awaitRunning(ctx context.Context, pods int) error {
	for r.pods.count(running) < pods {
		if err := pause(ctx, time.Second); err != nil {
			return fmt.Errorf("%d of %d pods run: %w", r.pods.count(running), pods, err)
		}
	}
	return nil
}

// rest waits until for a while no NodeClaim or Node came or went, no pod waited and none was evicted, and
// returns when the last of that happened.
func (r *rig) rest(ctx context.Context, quiet time.Duration) (last time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, shrinkLimit, fmt.Errorf("not at rest within %s", shrinkLimit))
	defer cancel()
	was, last := "", time.Now()
	for time.Since(last) < quiet {
		now, err := r.state(ctx)
		if err != nil {
			return last, err
		}
		if now != was {
			was, last = now, time.Now()
		}
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return last, err
		}
	}
	return last, nil
}

// state is a text that changes with nodes, NodeClaims and evictions. It is never the same while a node goes
// or a pod waits.
func (r *rig) state(ctx context.Context) (string, error) {
	nodes, err := r.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	claims, err := r.dyn.Resource(claimsGVR).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return "", fmt.Errorf("list NodeClaims: %w", err)
	}
	waiting, err := r.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d evicted", r.pods.count(evicting))
	if len(waiting.Items) > 0 {
		fmt.Fprintf(&b, " %d waiting at %s", len(waiting.Items), time.Now())
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		fmt.Fprintf(&b, " %s", n.Name)
		if isGoing(n) {
			fmt.Fprintf(&b, " goes at %s", time.Now())
		}
	}
	for i := range claims.Items {
		fmt.Fprintf(&b, " %s", claims.Items[i].GetName())
	}
	return b.String(), nil
}

func isGoing(n *corev1.Node) bool {
	return n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "karpenter.sh/disrupted" })
}

// prospect is how a cluster ends up.
type prospect struct {
	nodes int
	price float64
}

// outlook is what the plan says that the cluster comes to; at rest that is what it is.
func (r *rig) outlook(ctx context.Context, bin string) (p prospect, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "millctl"), append([]string{"plan", "--server", "--disruption", "--until-settled", "-o", "json"}, r.stack.LogFlags()...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("plan: %w: %s", err, complaint.String())
	}
	var answer struct {
		Settled struct {
			Nodes []string
			Price string
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	p.nodes = len(answer.Settled.Nodes)
	p.price, err = strconv.ParseFloat(strings.TrimPrefix(answer.Settled.Price, "$"), 64)
	return p, err
}

// measureTaint empties nodes of a cluster, one after the other, and measures the time from the deletion of
// the last pod until the node is tainted.
func measureTaint(ctx context.Context, b *bench) (figures []figure, err error) {
	r, err := startRig(ctx, b, "taint")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.grow(ctx, b.nodes); err != nil {
		return nil, fmt.Errorf("make %d nodes: %w", b.nodes, err)
	}
	patch := []byte(`{"spec":{"disruption":{"consolidateAfter":"0s","budgets":[{"nodes":"100%"}]}}}`)
	if _, err := r.dyn.Resource(poolsGVR).Patch(ctx, "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return nil, fmt.Errorf("change the NodePool: %w", err)
	}
	if err := pause(ctx, settleTime); err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range min(taintRuns, b.nodes) {
		d, err := r.timeTaint(ctx, fmt.Sprintf("base-%d", i))
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return []figure{{
		name: fmt.Sprintf("disruption at %d nodes: consolidatable → tainted", b.nodes), aim: "≤ " + taintMost.String(), verdict: verdictOf(quantile(took, 100) <= taintMost),
		measured: fmt.Sprintf("p50 %s, longest of %d %s", duration(quantile(took, 50)), len(took), duration(quantile(took, 100))),
	}}, nil
}

// timeTaint deletes the only pod of a node.
func (r *rig) timeTaint(ctx context.Context, pod string) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, podLimit, errors.New("the node is not tainted"))
	defer cancel()
	p, err := r.kube.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("find pod %s: %w", pod, err)
	}
	w, err := r.kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + p.Spec.NodeName})
	if err != nil {
		return 0, fmt.Errorf("watch node %s: %w", p.Spec.NodeName, err)
	}
	defer w.Stop()
	now := int64(0)
	if err := r.kube.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return 0, fmt.Errorf("delete pod %s: %w", pod, err)
	}
	began := time.Now()
	for {
		select {
		case e, open := <-w.ResultChan():
			if n, ok := e.Object.(*corev1.Node); ok && isGoing(n) {
				return time.Since(began), nil
			} else if !open {
				return 0, fmt.Errorf("the watch of node %s ended", p.Spec.NodeName)
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("node %s: %w", p.Spec.NodeName, context.Cause(ctx))
		}
	}
}
