package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"millwright/tools/clustertest"
)

// example is what a manifest of deploy/examples does, as its comment describes it.
type example struct {
	// pool is the NodePool whose nodes the pods ask for; the name of the file unless set. tolerate makes the
	// pods tolerate every taint.
	pool     string
	tolerate bool
	// startupTaint is removed from the node by the test, as the agent would remove it.
	startupTaint string
	// labels that the node must have; alternatives are separated by |.
	labels map[string]string
	check  func(e *env, n corev1.Node)
}

var onDemand = map[string]string{"karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}

var examples = map[string]example{
	"general-purpose": {labels: map[string]string{"karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64", "karpenter.k8s.aws/instance-category": "c|m|r"}},
	"spot":            {labels: map[string]string{"karpenter.sh/capacity-type": "spot"}},
	"arm64":           {tolerate: true, labels: map[string]string{"kubernetes.io/arch": "arm64"}, check: hasTaint("arch=arm64:NoSchedule")},
	"multi-arch":      {labels: map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64|arm64"}},
	"weights":         {pool: "weights-first", labels: onDemand},
	"limits":          {labels: onDemand},
	"budgets":         {labels: onDemand},
	"never-disrupt":   {labels: onDemand},
	"max-lifetime":    {labels: onDemand, check: claims("spec.expireAfter", "168h")},
	"taints": {tolerate: true, startupTaint: "example.com/agent", labels: map[string]string{"team": "blue"},
		check: hasTaint("team=blue:NoSchedule")},
	"instance-types":        {labels: map[string]string{"node.kubernetes.io/instance-type": "m5.large|c5.large", "topology.kubernetes.io/zone": "us-west-2a|us-west-2b"}},
	"kubelet":               {labels: onDemand, check: capacity("pods", 20, 20)},
	"block-devices":         {labels: onDemand, check: capacity("ephemeral-storage", 90<<30, 100<<30)},
	"instance-store":        {labels: map[string]string{"kubernetes.io/arch": "amd64"}, check: capacity("ephemeral-storage", 90<<30, 1<<50)},
	"ami-selector":          {labels: onDemand, check: image("amazon-eks-node-al2023-x86_64-standard-1.36")},
	"ami-pinned":            {labels: onDemand, check: image("v20260218")},
	"bottlerocket":          {labels: onDemand, check: image("bottlerocket-aws-k8s-1.36")},
	"user-data":             {labels: onDemand},
	"metadata-and-tags":     {labels: onDemand, check: instanceTag("cost-center", "4711")},
	"efa":                   {tolerate: true, labels: map[string]string{"node.kubernetes.io/instance-type": "p4d.24xlarge|p4de.24xlarge"}, check: hasTaint("nvidia.com/gpu:NoSchedule")},
	"network":               {labels: map[string]string{"karpenter.k8s.aws/instance-hypervisor": "nitro", "karpenter.k8s.aws/instance-category": "c|m|r"}},
	"nested-virtualization": {labels: map[string]string{"karpenter.k8s.aws/instance-generation": "7|8", "karpenter.k8s.aws/instance-cpu-manufacturer": "intel"}},
	"placement-group":       {labels: map[string]string{"karpenter.k8s.aws/placement-group-partition": "1|2|3"}},
	"capacity-block":        {tolerate: true, labels: map[string]string{"karpenter.sh/capacity-type": "reserved", "karpenter.k8s.aws/capacity-reservation-type": "capacity-block", "node.kubernetes.io/instance-type": "p4d.24xlarge"}, check: hasTaint("nvidia.com/gpu:NoSchedule")},
	"windows":               {tolerate: true, labels: map[string]string{"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}, check: bootText("Set-TimeZone")},
	"static":                {labels: map[string]string{"node.kubernetes.io/instance-type": "m5.large|c5.large"}},
}

// TestExamples applies every example, creates a pod for each and checks the node it got; then it edits the
// example, checks that node and the new one, and deletes everything.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(clustertest.Root(), "deploy", "examples", "*.yaml"))
	if err != nil || len(files) != len(examples) {
		t.Fatalf("%d files, %d examples with expectations, %v", len(files), len(examples), err)
	}
	e := start(t, nil)
	e.placementGroup("database", ec2types.PlacementStrategyPartition, 3)
	e.capacityBlock("training", 1)
	e.capacityBlock("training-next", 2) // for the edited example
	docs := map[string][]string{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs[name] = strings.Split(string(data), "\n---\n")
		for _, doc := range docs[name] {
			e.apply(doc)
		}
	}
	for name, x := range examples {
		e.deploy(name, 1, "500m", "256Mi", x.wants(name))
	}
	for name, x := range examples {
		if x.startupTaint != "" {
			e.takeOff(x.poolOf(name), x.startupTaint)
		}
		e.running(name, 1)
		e.checkNode(name, x.poolOf(name), x)
		if _, has := edits[name]; !has && !slices.Contains(edited, name) {
			t.Errorf("no edit of %s is tested", name)
		}
	}
	e.editLimits()
	e.editBudgets()
	e.editNeverDisrupt()
	e.editExamples()
	e.editConsolidation()
	e.nodesOf("static", 2)
	e.scaleStatic(3)
	e.nodesOf("static", 3)
	e.editStatic(3)
	for name := range examples {
		e.scale(name, 0)
	}
	for name := range edits {
		e.scale(name+"-new", 0)
	}
	for _, list := range docs {
		for _, doc := range list {
			e.remove(doc)
		}
	}
	e.clean()
	e.eventually("all EC2NodeClasses gone", func() string {
		list, err := e.dyn.Resource(nodeClasses).List(e.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			return fmt.Sprintf("%d left, %v", len(list.Items), err)
		}
		return ""
	})
	e.sound()
}

func (x example) poolOf(name string) string {
	if x.pool != "" {
		return x.pool
	}
	return name
}

// wants makes the pod ask for a node of the example's pool.
func (x example) wants(name string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": x.poolOf(name)}
		if x.tolerate {
			for _, key := range []string{"arch", "team", "os", "nvidia.com/gpu"} {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
			}
		}
	}
}

func (e *env) nodeOf(pool string) (corev1.Node, bool) {
	for _, n := range e.nodes() {
		if n.Labels["karpenter.sh/nodepool"] == pool {
			return n, true
		}
	}
	return corev1.Node{}, false
}

// takeOff removes a startup taint once the node has registered.
func (e *env) takeOff(pool, key string) {
	e.Helper()
	e.eventually("startup taint "+key+" taken off", func() string {
		n, ok := e.nodeOf(pool)
		if !ok || n.Labels["karpenter.sh/registered"] != "true" {
			return "no registered node"
		}
		var kept []corev1.Taint
		for _, taint := range n.Spec.Taints {
			if taint.Key != key {
				kept = append(kept, taint)
			}
		}
		if len(kept) == len(n.Spec.Taints) {
			return "the node lacks the taint"
		}
		n.Spec.Taints = kept
		if _, err := e.kube.CoreV1().Nodes().Update(e.Context(), &n, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// checkNode checks the node that an app's pod runs on.
func (e *env) checkNode(name, pool string, x example) {
	e.Helper()
	n, err := e.nodeUnder(name)
	if err != nil {
		e.Errorf("%s: %v", name, err)
		return
	}
	if got := n.Labels["karpenter.sh/nodepool"]; got != pool {
		e.Errorf("%s: the pod runs on a node of %s, want %s", name, got, pool)
	}
	for key, want := range x.labels {
		if !strings.Contains("|"+want+"|", "|"+n.Labels[key]+"|") {
			e.Errorf("%s: label %s is %q, want %s", name, key, n.Labels[key], want)
		}
	}
	if x.check != nil {
		x.check(e, n)
	}
}

// nodeUnder returns the node that the pod of an app runs on.
func (e *env) nodeUnder(app string) (corev1.Node, error) {
	pods, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return corev1.Node{}, err
	}
	if len(pods.Items) != 1 {
		return corev1.Node{}, fmt.Errorf("%d pods, want one", len(pods.Items))
	}
	n, err := e.kube.CoreV1().Nodes().Get(e.Context(), pods.Items[0].Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return corev1.Node{}, err
	}
	return *n, nil
}

// editLimits: the NodePool gets no more nodes than its limit allows, until the limit is raised.
func (e *env) editLimits() {
	e.Helper()
	big := func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "limits"}
	}
	e.deploy("big", 1, "20", "1Gi", big)
	e.hasEventOnPods("big", "limit")
	e.patch(nodePools, "limits", `{spec: {limits: {cpu: "64"}}}`)
	e.running("big", 1)
	e.scale("big", 0)
}

// scaleStatic does what kubectl scale does.
func (e *env) scaleStatic(replicas int) {
	e.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := e.dyn.Resource(nodePools).Patch(e.Context(), "static", types.MergePatchType, patch, metav1.PatchOptions{}, "scale"); err != nil {
		e.Fatal(err)
	}
}

// editStatic: every node of the static pool is replaced by one that follows the changed template.
func (e *env) editStatic(nodes int) {
	e.Helper()
	e.patch(nodePools, "static", "{spec: {template: {metadata: {labels: {revision: two}}}}}")
	e.eventually("the nodes of static are replaced", func() string {
		fresh, old := 0, 0
		for _, n := range e.nodes() {
			switch {
			case n.Labels["karpenter.sh/nodepool"] != "static":
			case n.Labels["revision"] == "two":
				fresh++
			default:
				old++
			}
		}
		if fresh != nodes || old > 0 {
			return fmt.Sprintf("%d are new, %d old", fresh, old)
		}
		return ""
	})
	e.running("static", 1)
}

// nodesOf waits until a pool has that many registered nodes, and says so in its status.
func (e *env) nodesOf(pool string, want int) {
	e.Helper()
	e.eventually(fmt.Sprintf("%d nodes of %s", want, pool), func() string {
		n := 0
		for _, node := range e.nodes() {
			if node.Labels["karpenter.sh/nodepool"] == pool && node.Labels["karpenter.sh/registered"] == "true" {
				n++
			}
		}
		o, err := e.dyn.Resource(nodePools).Get(e.Context(), pool, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		told, _, _ := unstructured.NestedInt64(o.Object, "status", "nodes")
		if n != want || told != int64(want) {
			return fmt.Sprintf("there are %d, status.nodes is %d", n, told)
		}
		return ""
	})
}

func (e *env) hasEventOnPods(app, text string) {
	e.Helper()
	e.eventually("event on a pod of "+app+": "+text, func() string {
		events, err := e.kube.CoreV1().Events("default").List(e.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var seen []string
		for _, ev := range events.Items {
			if ev.InvolvedObject.Kind == "Pod" && strings.HasPrefix(ev.InvolvedObject.Name, app+"-") {
				if strings.Contains(ev.Message, text) && ev.Source.Component == "karpenter" {
					return ""
				}
				seen = append(seen, ev.Message)
			}
		}
		return fmt.Sprintf("there are %q", seen)
	})
}

func (e *env) remove(doc string) {
	e.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
		e.Fatal(err)
	}
	gvr := nodePools
	if o.GetKind() == "EC2NodeClass" {
		gvr = nodeClasses
	}
	if err := e.dyn.Resource(gvr).Delete(e.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
		e.Fatalf("delete %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

func hasTaint(want string) func(*env, corev1.Node) {
	return func(e *env, n corev1.Node) {
		e.Helper()
		for _, t := range n.Spec.Taints {
			if t.ToString() == want {
				return
			}
		}
		e.Errorf("node of %s lacks taint %s: %v", n.Labels["karpenter.sh/nodepool"], want, n.Spec.Taints)
	}
}

func capacity(name corev1.ResourceName, least, most int64) func(*env, corev1.Node) {
	return func(e *env, n corev1.Node) {
		e.Helper()
		q := n.Status.Capacity[name]
		if q.Value() < least || q.Value() > most {
			e.Errorf("node of %s has %s of %s, want %d to %d", n.Labels["karpenter.sh/nodepool"], q.String(), name, least, most)
		}
	}
}

// claims checks a field of the node's NodeClaim.
func claims(path, want string) func(*env, corev1.Node) {
	return func(e *env, n corev1.Node) {
		e.Helper()
		for _, c := range e.nodeClaims() {
			of, _, _ := unstructured.NestedString(c.Object, "status", "nodeName")
			if got, _, _ := unstructured.NestedString(c.Object, strings.Split(path, ".")...); of == n.Name && got != want {
				e.Errorf("NodeClaim %s: %s is %q, want %q", c.GetName(), path, got, want)
			}
		}
	}
}

// image checks the name of the image, as the EC2NodeClass resolved it.
func image(want string) func(*env, corev1.Node) {
	return func(e *env, n corev1.Node) {
		e.Helper()
		class := n.Labels["karpenter.sh/nodepool"]
		o, err := e.dyn.Resource(nodeClasses).Get(e.Context(), class, metav1.GetOptions{})
		if err != nil {
			e.Errorf("get EC2NodeClass %s: %v", class, err)
			return
		}
		used := ""
		for _, i := range e.liveInstances() {
			if strings.HasSuffix(n.Spec.ProviderID, "/"+i.ID) {
				used = i.ImageID
			}
		}
		amis, _, _ := unstructured.NestedSlice(o.Object, "status", "amis")
		for _, a := range amis {
			ami := a.(map[string]any)
			if ami["id"] == used && strings.Contains(fmt.Sprint(ami["name"]), want) {
				return
			}
		}
		e.Errorf("node of %s runs image %q, want one named %s of %v", class, used, want, amis)
	}
}

func instanceTag(key, want string) func(*env, corev1.Node) {
	return func(e *env, n corev1.Node) {
		e.Helper()
		for _, i := range e.liveInstances() {
			if strings.HasSuffix(n.Spec.ProviderID, "/"+i.ID) && i.Tags[key] != want {
				e.Errorf("instance %s: tag %s is %q, want %q", i.ID, key, i.Tags[key], want)
			}
		}
	}
}
