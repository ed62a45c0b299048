//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	namespace = "millwright"
	// rolloutLimit bounds the wait for a rollout, as kubectl and helm spell it.
	rolloutLimit = "5m"
	// evictionLimit bounds the eviction of all pods, which goes member by member.
	evictionLimit = 12 * time.Minute
)

// scenarios by name.
var scenarios = map[string]func(context.Context, *node) error{"upgrades": upgrades, "install": install}

// restricted is a namespace whose pods must be so.
const restricted = `
apiVersion: v1
kind: Namespace
metadata:
  name: ` + namespace + `
  labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}
`

// upgrades is what happens to an installation of several pods in its life.
func upgrades(ctx context.Context, n *node) error {
	if err := n.installDistributed(ctx); err != nil {
		return err
	}
	for _, manifest := range []string{"nodepool.yaml", "workload.yaml"} {
		data, err := os.ReadFile("tools/demo/manifests/" + manifest)
		if err != nil {
			return err
		}
		if err := n.apply(ctx, data); err != nil {
			return err
		}
	}
	if err := errors.Join(n.Scale(ctx, 3, 2), n.Settled(ctx, 3, 2)); err != nil {
		return err
	}
	l := startLoad(ctx, n)
	steps := []func(context.Context) error{n.upgrade, n.restartAll, n.deleteEach, n.evictAll}
	if n.policies { // each new pod waits for the network then, and the rest would take an hour
		steps = []func(context.Context) error{n.policiesHold}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return errors.Join(err, l.finish())
		}
	}
	if err := l.finish(); err != nil {
		return err
	}
	if err := errors.Join(n.Scale(ctx, 12, 4), n.Settled(ctx, 12, 4)); err != nil {
		return err
	}
	if err := errors.Join(n.Scale(ctx, 0, 0), n.Empty(ctx), n.LaunchedOnce(ctx)); err != nil {
		return err
	}
	if err := errors.Join(n.record(ctx, "deployment/millwright-provisioner"), n.refusals()); err != nil {
		return err
	}
	if err := n.preflight(ctx); err != nil { // it asks for more than the account that it borrows may know
		return err
	}
	return n.remove(ctx)
}

func (n *node) installDistributed(ctx context.Context) error {
	if err := n.apply(ctx, []byte(restricted)); err != nil {
		return err
	}
	if err := n.helm(ctx, "install", "millwright-crds", "deploy/charts/millwright-crds", "--namespace", namespace); err != nil {
		return err
	}
	build := "older"
	if n.policies { // it is not upgraded, and without some kinds of records no node goes
		build = "dev"
	}
	return n.helm(ctx, "install", "millwright", "deploy/charts/millwright", "--namespace", namespace, "--skip-crds", "--wait", "--timeout", rolloutLimit,
		"--values", n.file("values.yaml"), "--set", "mode=distributed", "--set", "controller.image.tag="+build, "--set", n.policyValues())
}

// helm runs a command of Helm; a warning of the API server is an error.
func (n *node) helm(ctx context.Context, args ...string) error {
	start := time.Now()
	out, err := n.run(ctx, "helm", args...)
	if err != nil {
		return err
	}
	if strings.Contains(strings.ToLower(out), "warning") {
		return fmt.Errorf("helm %s: the API server warns: %s", args[0], out)
	}
	n.Out.Say("helm %s, in %s", strings.Join(args[:2], " "), time.Since(start).Round(time.Second))
	return nil
}

// upgrade to another build, of which some kinds of records are new.
func (n *node) upgrade(ctx context.Context) error {
	return n.helm(ctx, "upgrade", "millwright", "deploy/charts/millwright", "--namespace", namespace, "--skip-crds", "--reset-then-reuse-values",
		"--set", "controller.image.tag=dev", "--wait", "--timeout", rolloutLimit)
}

// preflight as docs/install.md says: what an admin can find out, and what a service can.
func (n *node) preflight(ctx context.Context) error {
	for _, by := range []struct {
		command []string
		found   []string
	}{
		{[]string{"millctl", "preflight", "--cluster-name", "demo", "--namespace", namespace},
			[]string{"ServiceAccount millwright/millwright-terminator", "nodepools.karpenter.sh", "is held by millwright/"}},
		{[]string{"kubectl", "--namespace", namespace, "exec", "deployment/millwright-lifecycle", "--", "/millctl", "preflight", "--service", "lifecycle"},
			[]string{"etcd has 3 members", "it flushes its writes to disk", "one of 3 servers", "EKS cluster demo", "the interruption queue exists", "LaunchFrom"}},
	} {
		out, err := n.run(ctx, by.command[0], by.command[1:]...)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		for _, text := range by.found {
			if !strings.Contains(out, text) {
				return fmt.Errorf("%s does not say %q:\n%s", strings.Join(by.command, " "), text, out)
			}
		}
	}
	n.Out.Say("millctl preflight finds nothing wrong")
	return nil
}

// restartAll at once.
func (n *node) restartAll(ctx context.Context) error {
	start := time.Now()
	if _, err := n.run(ctx, "kubectl", "--namespace", namespace, "rollout", "restart", "deployment,statefulset"); err != nil {
		return err
	}
	if err := n.rolledOut(ctx); err != nil {
		return err
	}
	n.Out.Say("everything was restarted at once, in %s", time.Since(start).Round(time.Second))
	return nil
}

func (n *node) rolledOut(ctx context.Context) error {
	_, err := n.run(ctx, "kubectl", "--namespace", namespace, "rollout", "status", "deployment,statefulset", "--selector", "app.kubernetes.io/instance=millwright",
		"--timeout", rolloutLimit)
	return err
}

// components are the kinds of pods: the services, what they need, and who keeps the certificates.
func (n *node) components(ctx context.Context) (map[string][]corev1.Pod, error) {
	pods, err := n.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	all := map[string][]corev1.Pod{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			kind := p.Labels["app.kubernetes.io/component"]
			all[kind] = append(all[kind], p)
		}
	}
	return all, nil
}

// deleteEach deletes one pod of each kind without grace, as a node that fails does, and waits until all is
// well again.
func (n *node) deleteEach(ctx context.Context) error {
	start := time.Now()
	all, err := n.components(ctx)
	if err != nil {
		return err
	}
	now := int64(0)
	for kind, pods := range all {
		if err := n.Kube.CoreV1().Pods(namespace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			return fmt.Errorf("delete pod of %s: %w", kind, err)
		}
		if err := n.rolledOut(ctx); err != nil {
			return fmt.Errorf("after a pod of %s was deleted: %w", kind, err)
		}
	}
	n.Out.Say("one pod of each of %d kinds was killed, one after the other, in %s", len(all), time.Since(start).Round(time.Second))
	return nil
}

// evict asks once, and does not wait for as long as the API server asks for.
func (n *node) evict(ctx context.Context, name string, uid types.UID) error {
	return n.Kube.PolicyV1().RESTClient().Post().AbsPath("/api/v1").Namespace(namespace).Resource("pods").Name(name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: name, Namespace: namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		}).MaxRetries(0).Do(ctx).Error()
}

// evictAll evicts every pod, as a drain of the node does: it asks again while a PodDisruptionBudget refuses.
func (n *node) evictAll(ctx context.Context) error {
	start := time.Now()
	all, err := n.components(ctx)
	if err != nil {
		return err
	}
	uids, refused := map[types.UID]string{}, 0
	for _, pods := range all {
		for _, p := range pods {
			uids[p.UID] = p.Name
		}
	}
	count := len(uids)
	err = n.Out.AwaitFor(ctx, evictionLimit, "all pods to be evicted", func(ctx context.Context) string {
		// All at once, as kubectl does: one that hangs in the API server must not hold up the others.
		type answer struct {
			uid types.UID
			err error
		}
		answers := make(chan answer)
		for uid, name := range uids {
			go func() { answers <- answer{uid, n.evict(ctx, name, uid)} }()
		}
		var failed error
		for range len(uids) {
			switch a := <-answers; {
			case a.err == nil, apierrors.IsNotFound(a.err), apierrors.IsConflict(a.err):
				delete(uids, a.uid)
			case apierrors.IsTooManyRequests(a.err):
				refused++
			default:
				failed = a.err
			}
		}
		switch {
		case failed != nil:
			return fmt.Sprintf("%d are left, %v", len(uids), failed)
		case len(uids) > 0:
			return fmt.Sprintf("%d are left", len(uids))
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := n.rolledOut(ctx); err != nil {
		return err
	}
	if refused == 0 {
		return errors.New("no PodDisruptionBudget kept the pods of one kind from being evicted together")
	}
	n.Out.Say("all %d pods were evicted within the budgets, in %s", count, time.Since(start).Round(time.Second))
	return nil
}

var replayed = regexp.MustCompile(`([1-9]\d*) decisions replayed, 0 divergences`)

// record checks what was written, with millctl in one of the pods.
func (n *node) record(ctx context.Context, pod string) error {
	for _, command := range []string{"verify", "replay"} {
		out, err := n.run(ctx, "kubectl", "--namespace", namespace, "exec", pod, "--", "/millctl", command)
		if err != nil {
			return err
		}
		n.Out.Say("millctl %s: %s", command, strings.TrimSpace(out))
		if command == "replay" && !replayed.MatchString(out) {
			return errors.New("replay: no decisions were replayed")
		}
	}
	return nil
}

// refusals are what the API server refused to the accounts of the release.
func (n *node) refusals() error {
	log, err := os.Open(n.file("logs/audit.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	var refused []string
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e := struct {
			Verb           string
			RequestURI     string
			User           struct{ Username string }
			ResponseStatus struct{ Code int }
		}{}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		if e.ResponseStatus.Code == 403 || e.ResponseStatus.Code == 401 {
			refused = append(refused, fmt.Sprintf("%s: %s %s", e.User.Username, e.Verb, e.RequestURI))
		}
	}
	slices.Sort(refused)
	if refused = slices.Compact(refused); len(refused) > 0 {
		return fmt.Errorf("the API server refused:\n%s", strings.Join(refused, "\n"))
	}
	n.Out.Say("the API server refused nothing")
	return lines.Err()
}

// everyNamespace has these.
var everyNamespace = []string{"configmap/kube-root-ca.crt", "serviceaccount/default"}

// remove as docs/install.md says: then nothing is left, and every container has ended by itself.
func (n *node) remove(ctx context.Context) error {
	start := time.Now()
	killed, err := n.watchKilled(ctx)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"kubectl", "delete", "nodepools", "--all", "--timeout", rolloutLimit},
		{"kubectl", "wait", "--for=delete", "nodeclaims", "--all", "--timeout", rolloutLimit},
		{"kubectl", "delete", "ec2nodeclasses", "--all", "--timeout", rolloutLimit},
		{"helm", "uninstall", "millwright", "--namespace", namespace, "--wait", "--timeout", rolloutLimit},
		{"kubectl", "--namespace", namespace, "wait", "--for=delete", "pods", "--all", "--timeout", rolloutLimit},
		{"kubectl", "--namespace", namespace, "delete", "lease", "karpenter-leader-election"},
		{"kubectl", "--namespace", namespace, "delete", "pvc", "--selector", "app.kubernetes.io/instance=millwright"},
		{"kubectl", "--namespace", namespace, "delete", "secret", "--selector", "app.kubernetes.io/managed-by=millwright-certificates"},
		{"helm", "uninstall", "millwright-crds", "--namespace", namespace},
		{"kubectl", "wait", "--for=delete", "crd/nodepools.karpenter.sh", "crd/ec2nodeclasses.karpenter.k8s.aws", "--timeout", rolloutLimit},
	} {
		if _, err := n.run(ctx, args[0], args[1:]...); err != nil {
			return err
		}
	}
	out, err := n.run(ctx, "kubectl", "--namespace", namespace, "get",
		"all,secrets,configmaps,leases,persistentvolumeclaims,roles,rolebindings,serviceaccounts,poddisruptionbudgets", "--output", "name")
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(strings.Fields(out), func(name string) bool { return slices.Contains(everyNamespace, name) })
	if len(left) > 0 {
		return fmt.Errorf("after the removal there are still: %s", strings.Join(left, " "))
	}
	if err := killed(); err != nil {
		return err
	}
	n.Out.Say("removed, in %s", time.Since(start).Round(time.Second))
	return nil
}

// explain prints what is known about pods that are not as they should be.
func (n *node) explain(ctx context.Context) {
	if n.stack == nil {
		return
	}
	for _, args := range [][]string{{"get", "pods", "--all-namespaces", "--output", "wide"}, {"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"}} {
		out, err := n.run(ctx, "kubectl", args...)
		lines := strings.Split(out, "\n")
		fmt.Println(strings.Join(lines[max(0, len(lines)-60):], "\n"))
		if err != nil {
			fmt.Println(err)
		}
	}
	pods, err := n.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range pods.Items {
		for _, previous := range []string{"--previous=false", "--previous=true"} {
			if out, err := n.run(ctx, "kubectl", "--namespace", p.Namespace, "logs", p.Name, "--tail=12", previous); err == nil {
				fmt.Printf("== %s %s\n%s\n", p.Name, previous, out)
			}
		}
	}
}
