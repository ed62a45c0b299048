package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"millwright/tools/stack"
)

var nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}

// cluster is the stack's cluster, seen from the host.
type cluster struct {
	kube kubernetes.Interface
	dyn  dynamic.Interface
}

// connect with the admin's kubeconfig. It names the container, which only containers can reach; the
// certificate holds for the published port of this host as well.
func connect(ctx context.Context, p *project) (*cluster, error) {
	dir, err := os.MkdirTemp("", "composetest")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "kubeconfig")
	if err := p.copyKubeconfig(ctx, file); err != nil {
		return nil, err
	}
	cfg, err := stack.ClientConfig(file)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.Host, cfg.QPS = fmt.Sprintf("https://127.0.0.1:%d", p.kubePort), -1
	c := &cluster{}
	if c.kube, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if c.dyn, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}

func (c *cluster) scale(ctx context.Context, deployment string, replicas int) error {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := c.kube.AppsV1().Deployments("default").Patch(ctx, deployment, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// running reports what is missing until a Deployment has exactly so many pods, all running.
func (c *cluster) running(ctx context.Context, deployment string, want int) string {
	pods, err := c.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + deployment})
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
func (c *cluster) claims(ctx context.Context) ([]string, error) {
	list, err := c.dyn.Resource(nodeClaims).List(ctx, metav1.ListOptions{})
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
func (c *cluster) nodes(ctx context.Context) ([]string, error) {
	list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool"})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	return names, nil
}
