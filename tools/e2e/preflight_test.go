package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// checked is one result of `millctl preflight -o json`.
type checked struct{ Check, Verdict, Object, Message, Remedy string }

// preflight runs the command as a caller of AWS, and returns what it found and its exit code.
func (e *env) preflight(caller string, flags ...string) ([]checked, int) {
	e.Helper()
	args := append([]string{"preflight", "-o", "json", "--kubeconfig", e.stack.Kubeconfig()}, e.stack.LogFlags()...)
	cmd := exec.CommandContext(e.Context(), filepath.Join(e.bin, "millctl"), append(args, flags...)...)
	cmd.Env = append(append(os.Environ(), e.stack.Env()...), "AWS_ACCESS_KEY_ID="+caller)
	out, _ := cmd.Output()
	var found []checked
	if err := json.Unmarshal(out, &found); err != nil {
		e.Fatalf("read what preflight says: %v\n%s", err, out)
	}
	return found, cmd.ProcessState.ExitCode()
}

// expect checks for a result about an object, with a text in its message, and with a remedy unless all is
// well.
func (e *env) expect(found []checked, check, verdict, object, text string) {
	e.Helper()
	for _, c := range found {
		if c.Check == check && c.Verdict == verdict && strings.Contains(c.Object, object) && strings.Contains(c.Message, text) {
			if c.Remedy == "" && (verdict == "failed" || verdict == "warning") {
				e.Errorf("%+v has no remedy", c)
			}
			return
		}
	}
	e.Errorf("preflight does not say %s, %s, %q, %q:", check, verdict, object, text)
	for _, c := range found {
		if c.Check == check {
			e.Logf("%+v", c)
		}
	}
}

// worker is a node that belongs to no NodePool.
func (e *env) worker(name string) {
	e.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "CriticalAddonsOnly", Effect: corev1.TaintEffectNoSchedule}}}}
	if _, err := e.kube.CoreV1().Nodes().Create(e.Context(), n, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.eventually("node "+name+" is ready", func() string {
		n, err := e.kube.CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "it is not"
	})
}

// TestPreflight finds nothing wrong with a sound installation, and then each thing that was broken.
func TestPreflight(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses, o.Policies = true, true })
	e.worker("worker-1")
	e.worker("worker-2")
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	found, code := e.preflight("all", "--interruption-queue", stack.ClusterName)
	for _, c := range found {
		if c.Verdict == "failed" {
			t.Errorf("sound, but: %+v", c)
		}
	}
	if code != 0 {
		t.Errorf("sound, but exit code %d", code)
	}
	for _, of := range []struct{ check, verdict, object, text string }{
		{"kubernetes", "ok", "", "Kubernetes v1."}, {"crds", "ok", "nodepools.karpenter.sh", "all fields"}, {"nodes", "ok", "", "2 ready"},
		{"lease", "ok", "kube-system/karpenter-leader-election", "millwright/"}, {"rights", "ok", "kube-system/millwright-lifecycle", "rights"},
		{"aws", "ok", "EKS cluster demo", "exists"}, {"permissions", "ok", "EndInstancesAndTemplates", "ec2:TerminateInstances"},
		{"permissions", "ok", "Launch", "ec2:CreateFleet"}, {"permissions", "ok", "ReadPrices", "pricing:GetProducts"},
		{"queue", "ok", "demo", "exists"}, {"nodeclasses", "ok", "default", "selects"},
		{"etcd", "warning", "", "one member"}, {"etcd", "ok", "/metrics", "flushes"}, {"etcd", "warning", "/metrics", "quota"},
	} {
		e.expect(found, of.check, of.verdict, of.object, of.text)
	}
	if live := e.liveInstances(); len(live) != 1 {
		t.Errorf("dry runs changed the account: %d instances", len(live))
	}
	e.breakAll()
	found, code = e.preflight("watcher")
	if code != 2 {
		t.Errorf("broken, but exit code %d", code)
	}
	for _, of := range []struct{ check, verdict, object, text string }{
		{"crds", "failed", "nodeoverlays.karpenter.sh", "not installed"}, {"crds", "failed", "ec2nodeclasses.karpenter.k8s.aws", "lacks spec.context"},
		{"lease", "failed", "karpenter/karpenter-leader-election", "karpenter-7d9"}, {"rights", "failed", "kube-system/millwright-disruptor", "list nodeclaims.karpenter.sh"},
		{"rights", "ok", "kube-system/millwright-terminator", "rights"}, {"permissions", "failed", "EndInstancesAndTemplates", "ec2:TerminateInstances"},
		{"permissions", "warning", "ReadConsole", "consoles are not quoted"},
		{"queue", "warning", "", "no interruption queue is named"},
	} {
		e.expect(found, of.check, of.verdict, of.object, of.text)
	}
	found, _ = e.preflight("admin", "--interruption-queue", "nobodys")
	e.expect(found, "nodeclasses", "failed", "lost", "subnetSelectorTerms[0] selects no subnet")
	e.expect(found, "queue", "failed", "nobodys", "no such queue")
}

// breakAll breaks what preflight is to find, with Millwright's services stopped, since they would repair some
// of it.
func (e *env) breakAll() {
	e.Helper()
	for _, service := range stack.Services {
		if err := e.stack.Process(service).Stop(); err != nil {
			e.Fatal(err)
		}
	}
	ctx := e.Context()
	e.apply(strings.NewReplacer("name: default", "name: lost", "karpenter.sh/discovery: demo", "karpenter.sh/discovery: nowhere").Replace(defaultClass))
	if err := e.dyn.Resource(definitions).Delete(ctx, "nodeoverlays.karpenter.sh", metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
	without := `[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/context"}]`
	if _, err := e.dyn.Resource(definitions).Patch(ctx, "ec2nodeclasses.karpenter.k8s.aws", types.JSONPatchType, []byte(without), metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
	if err := e.kube.RbacV1().ClusterRoleBindings().Delete(ctx, "millwright-disruptor", metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
	if _, err := e.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karpenter"}}, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	holder, seconds, now := "karpenter-7d9", int32(3600), metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "karpenter-leader-election"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	if _, err := e.kube.CoordinationV1().Leases("karpenter").Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// TestPreflightBeforeTheInstallation: on an empty cluster it says what is missing, and that the caller may
// install it.
func TestPreflightBeforeTheInstallation(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t)
	bin, err := clustertest.Binary("millctl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "preflight", "--kubeconfig", cluster.Kubeconfig)
	cmd.Env = append(os.Environ(), "AWS_EC2_METADATA_DISABLED=true", "AWS_REGION=", "AWS_DEFAULT_REGION=", "AWS_CONFIG_FILE=/nonexistent")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit code %d, %v", code, err)
	}
	for _, want := range []string{"Millwright is not installed in kube-system, and you may install it", "there is no ready node outside of the NodePools",
		"no AWS account is known", "no other autoscaler is active", "Make a small node group"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("preflight does not say %q:\n%s", want, out)
		}
	}
}
