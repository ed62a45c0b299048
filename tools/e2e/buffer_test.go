package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"millwright/deploy/crds"
	"millwright/tools/stack"
)

var buffersGVR = schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1beta1", Resource: "capacitybuffers"}

// buffer creates a CapacityBuffer in the namespace default, once its CRD is installed.
func (e *env) buffer(name, spec string) {
	e.Helper()
	obj := &unstructured.Unstructured{}
	text := fmt.Sprintf("apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		e.Fatal(err)
	}
	e.retry("create buffer "+name, func() error {
		_, err := e.dyn.Resource(buffersGVR).Namespace("default").Create(e.Context(), obj, metav1.CreateOptions{})
		return err
	})
}

// bufferIs waits for a status: "REPLICAS Ready reason Provisioning reason".
func (e *env) bufferIs(name, want string) {
	e.Helper()
	e.eventually(fmt.Sprintf("buffer %s is %q", name, want), func() string {
		obj, err := e.dyn.Resource(buffersGVR).Namespace("default").Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got := bufferStatus(obj); got != want {
			return got
		}
		return ""
	})
}

func bufferStatus(obj *unstructured.Unstructured) string {
	replicas, found, _ := unstructured.NestedInt64(obj.Object, "status", "replicas")
	text := "-"
	if found {
		text = fmt.Sprint(replicas)
	}
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, kind := range []string{"ReadyForProvisioning", "Provisioning"} {
		for _, c := range list {
			if m := c.(map[string]any); m["type"] == kind {
				text += fmt.Sprintf(" %s", m["reason"])
			}
		}
	}
	return text
}

func (e *env) podTemplate(name, cpu string) {
	e.Helper()
	t := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Template.Labels = map[string]string{"app": name}
	t.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/pause:1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}}}}
	if _, err := e.kube.CoreV1().PodTemplates("default").Create(e.Context(), t, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// instances waits until exactly n instances are alive, and returns their ids.
func (e *env) instances(n int) map[string]bool {
	e.Helper()
	ids := map[string]bool{}
	e.eventually(fmt.Sprintf("%d instances", n), func() string {
		clear(ids)
		for _, i := range e.liveInstances() {
			ids[i.ID] = true
		}
		if len(ids) != n {
			return fmt.Sprintf("%d instances", len(ids))
		}
		return ""
	})
	return ids
}

// twoCPU is the default NodePool, with nodes that hold one pod of 1500m each.
var twoCPU = strings.Replace(defaultPool, "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
	"{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}", 1)

// TestCapacityBuffers: nodes are ready before there are pods; real pods take them at once, and the room is
// refilled; empty nodes stay as long as a buffer needs them; and limits hold.
func TestCapacityBuffers(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.MillwrightArgs = append(o.MillwrightArgs, "--feature-gates=CapacityBuffer=true")
	})
	e.apply(defaultClass)
	e.apply(twoCPU)
	e.buffer("fixed", "podTemplateRef: {name: spare}, replicas: 1") // Millwright has installed the CRD, since there was none
	e.bufferIs("fixed", "- PodTemplateNotFound NotReadyForProvisioning")
	e.podTemplate("spare", "1500m")
	e.bufferIs("fixed", "1 Resolved FitsExistingCapacity")
	first := e.instances(1)
	time.Sleep(8 * time.Second) // consolidateAfter is a second
	for id := range e.instances(1) {
		if !first[id] {
			t.Errorf("instance %s has taken the place of the buffer's", id)
		}
	}

	e.deploy("web", 1, "1500m", "1Gi")
	e.running("web", 1)
	pods, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		n, err := e.kube.CoreV1().Nodes().Get(e.Context(), p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if id := n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:]; !first[id] {
			t.Errorf("the pod runs on %s, not in the buffer's room", id)
		}
	}
	e.instances(2)
	e.bufferIs("fixed", "1 Resolved FitsExistingCapacity")

	e.buffer("share", "scalableRef: {apiGroup: apps, kind: Deployment, name: later}, percentage: 50")
	e.bufferIs("share", "- ScalableRefNotFound NotReadyForProvisioning")
	e.deploy("later", 0, "1500m", "1Gi")
	e.bufferIs("share", "1 Resolved FitsExistingCapacity")
	e.instances(3)
	e.apply(strings.Replace(twoCPU, "  disruption:", "  limits: {cpu: 10}\n  disruption:", 1))
	e.scale("later", 2) // two of the pods, one of each buffer
	e.running("later", 2)
	e.bufferIs("share", "1 Resolved FitsExistingCapacity")
	e.instances(5)
	e.scale("later", 3) // takes the room of a buffer, which cannot be refilled
	e.running("later", 3)
	e.eventually("one buffer has no room", func() string {
		list, err := e.dyn.Resource(buffersGVR).Namespace("default").List(e.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		text := ""
		for i := range list.Items {
			text += bufferStatus(&list.Items[i]) + "; "
		}
		if !strings.Contains(text, "Resolved RequiresNewCapacity") {
			return text
		}
		return ""
	})
	e.instances(5)
	events, err := e.kube.CoreV1().Events("default").List(e.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events.Items {
		if strings.HasPrefix(ev.InvolvedObject.Name, "capacity-buffer-") {
			t.Errorf("event about a pod that does not exist: %s", ev.Message)
		}
	}
	for _, name := range []string{"fixed", "share"} {
		if err := e.dyn.Resource(buffersGVR).Namespace("default").Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e.scale("web", 0)
	e.scale("later", 0)
	e.clean()
	e.sound()
}

// TestCapacityBuffersNeedTheirGate: without the feature gate they are ignored.
func TestCapacityBuffersNeedTheirGate(t *testing.T) {
	e := start(t, nil)
	text, err := crds.Shared.ReadFile("shared/autoscaling.x-k8s.io_capacitybuffers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := e.dyn.Resource(gvr).Create(e.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.apply(defaultClass)
	e.apply(twoCPU)
	e.podTemplate("spare", "1500m")
	e.buffer("b", "podTemplateRef: {name: spare}, replicas: 1")
	e.deploy("web", 1, "1500m", "1Gi")
	e.running("web", 1)
	time.Sleep(3 * time.Second)
	e.instances(1)
	obj, err := e.dyn.Resource(buffersGVR).Namespace("default").Get(e.Context(), "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := bufferStatus(obj); got != "-" {
		t.Errorf("status %q", got)
	}
	e.scale("web", 0)
	e.clean()
	e.sound()
}
