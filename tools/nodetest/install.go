//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newcomer is what somebody who has just installed Millwright tries: a pod that fits on no node.
const newcomer = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: inflate
          image: public.ecr.aws/eks-distro/kubernetes/pause:3.7
          resources: {requests: {cpu: "1"}}
`

// install is the way of docs/install.md from nothing to the first node: mode embedded, the example of a
// NodePool, a pod, the reasons for its node, and removal.
func install(ctx context.Context, n *node) error {
	if err := n.apply(ctx, []byte(restricted)); err != nil {
		return err
	}
	if err := n.helm(ctx, "install", "millwright-crds", "deploy/charts/millwright-crds", "--namespace", namespace); err != nil {
		return err
	}
	if err := n.helm(ctx, "install", "millwright", "deploy/charts/millwright", "--namespace", namespace, "--skip-crds",
		"--values", n.file("values.yaml"), "--set", "controller.image.tag=dev"); err != nil {
		return err
	}
	if _, err := n.run(ctx, "kubectl", "--namespace", namespace, "rollout", "status", "statefulset/millwright", "--timeout", rolloutLimit); err != nil {
		return err
	}
	n.Out.Say("millwright is ready")
	example, err := os.ReadFile("deploy/examples/general-purpose.yaml")
	if err != nil {
		return err
	}
	if err := errors.Join(n.apply(ctx, example), n.apply(ctx, []byte(newcomer))); err != nil {
		return err
	}
	err = n.Out.Await(ctx, "the first node", func(ctx context.Context) string {
		list, err := n.Kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) != 1 {
			return "the pod waits"
		}
		return ""
	})
	if err != nil {
		return err
	}
	claim, err := n.run(ctx, "kubectl", "get", "nodeclaims", "--output", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	why, err := n.run(ctx, "kubectl", "--namespace", namespace, "exec", "millwright-0", "--", "/millctl", "why", "nodeclaim", strings.TrimSpace(claim))
	if err != nil {
		return err
	}
	if !strings.Contains(why, "default/inflate-") {
		return fmt.Errorf("millctl why does not name the pod:\n%s", why)
	}
	n.Out.Say("the pod runs on a node of its own, and millctl says why")
	// The same, from outside and by the kubeconfig alone: through API server and kubelet to the console.
	why, err = n.run(ctx, "millctl", "why", "nodeclaim", strings.TrimSpace(claim))
	if err != nil {
		return err
	}
	if !strings.Contains(why, "default/inflate-") {
		return fmt.Errorf("millctl why by the kubeconfig does not name the pod:\n%s", why)
	}
	n.Out.Say("the same by the kubeconfig alone")
	if err := n.refusals(); err != nil {
		return err
	}
	return n.remove(ctx)
}
