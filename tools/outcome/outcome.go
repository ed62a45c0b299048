// Package outcome says what must be true of a cluster and its simulated account whatever was done to
// Millwright meanwhile: pods run, each NodeClaim was launched once and has one instance, and nothing is left
// once no pod is. The tests that install Millwright in containers and in pods share it; the demo's
// Deployments inflate and cache, in the namespace default, are the pods.
package outcome

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright/tools/ec2sim/simclient"
)

const namespace = "default"

var nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}

// Cluster with Millwright, and its account.
type Cluster struct {
	Kube kubernetes.Interface
	Dyn  dynamic.Interface
	EC2  *simclient.Client
	Out  *Progress
}

// Connect to a cluster as cfg says, and to the simulator at a URL.
func Connect(cfg *rest.Config, ec2 string, out *Progress) (*Cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	c := &Cluster{EC2: simclient.New(ec2), Out: out}
	var err error
	if c.Kube, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if c.Dyn, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}

// Scale the Deployments; the API server may be away for a moment.
func (c *Cluster) Scale(ctx context.Context, inflate, cache int) error {
	c.Out.Say("scale inflate to %d, cache to %d", inflate, cache)
	return c.Out.Await(ctx, "the API server", func(ctx context.Context) string {
		for name, replicas := range map[string]int{"inflate": inflate, "cache": cache} {
			patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
			if _, err := c.Kube.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

// Settled waits until all pods run, and each NodeClaim has its one instance.
func (c *Cluster) Settled(ctx context.Context, inflate, cache int) error {
	err := c.Out.Await(ctx, "running pods", func(ctx context.Context) string {
		if missing := c.running(ctx, "inflate", inflate); missing != "" {
			return missing
		}
		return c.running(ctx, "cache", cache)
	})
	if err != nil {
		return err
	}
	err = c.Out.Await(ctx, "one instance per NodeClaim", func(ctx context.Context) string {
		claims, err := c.claims(ctx)
		if err != nil {
			return err.Error()
		}
		instances, err := c.EC2.Instances(ctx)
		if err != nil {
			return err.Error()
		}
		return mismatch(claims, instances)
	})
	if err != nil {
		return err
	}
	c.Out.Say("all %d pods run, one instance per NodeClaim", inflate+cache)
	return nil
}

// Empty waits until there is no NodeClaim, no node of a NodePool and no live instance.
func (c *Cluster) Empty(ctx context.Context) error {
	err := c.Out.Await(ctx, "nothing left over", func(ctx context.Context) string {
		claims, err := c.claims(ctx)
		if err != nil {
			return err.Error()
		}
		nodes, err := c.nodes(ctx)
		if err != nil {
			return err.Error()
		}
		instances, err := c.EC2.Instances(ctx)
		if err != nil {
			return err.Error()
		}
		if missing := mismatch(nil, instances); missing != "" || len(claims)+len(nodes) > 0 {
			return strings.TrimSpace(fmt.Sprintf("NodeClaims %v, nodes %v %s", claims, nodes, missing))
		}
		return ""
	})
	if err != nil {
		return err
	}
	c.Out.Say("no NodeClaim, node or instance is left")
	return nil
}

// LaunchedOnce checks that the simulator launched nothing twice.
func (c *Cluster) LaunchedOnce(ctx context.Context) error {
	entries, err := c.EC2.Ledger(ctx, 0)
	if err != nil {
		return err
	}
	instances, err := c.EC2.Instances(ctx)
	if err != nil {
		return err
	}
	launches, err := launchedOnce(entries, instances)
	if err != nil {
		return err
	}
	c.Out.Say("%d NodeClaims, one launch each", launches)
	return nil
}

// running reports what is missing until a Deployment has exactly so many pods, all running.
func (c *Cluster) running(ctx context.Context, deployment string, want int) string {
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + deployment})
	if err != nil {
		return err.Error()
	}
	running := 0
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running++
		}
	}
	if running == want && len(pods.Items) == want {
		return ""
	}
	return fmt.Sprintf("%d of %s's %d pods run, %d are wanted", running, deployment, len(pods.Items), want)
}

// claims are the names of all NodeClaims.
func (c *Cluster) claims(ctx context.Context) ([]string, error) {
	list, err := c.Dyn.Resource(nodeClaims).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	var names []string
	for _, claim := range list.Items {
		names = append(names, claim.GetName())
	}
	return names, nil
}

// nodes are the names of all Nodes that NodePools own.
func (c *Cluster) nodes(ctx context.Context) ([]string, error) {
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool"})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	return names, nil
}
