package e2e

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"millwright/tools/rights"
	"millwright/tools/stack"
)

var (
	nodePools   = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	claimsGVR   = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodeClasses = schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}
)

const defaultClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
`

const defaultPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 720h
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 1s
    budgets: [{nodes: "100%"}]
`

// apply creates or replaces the object of a manifest.
func (e *env) apply(manifest string) {
	e.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		e.Fatal(err)
	}
	gvr := map[string]schema.GroupVersionResource{"NodePool": nodePools, "EC2NodeClass": nodeClasses, "NodeClaim": claimsGVR, "NodeOverlay": overlaysGVR, "DisruptionPolicy": policiesGVR}[obj.GetKind()]
	data, err := obj.MarshalJSON()
	if err != nil {
		e.Fatal(err)
	}
	force := true
	if _, err := e.dyn.Resource(gvr).Patch(e.Context(), obj.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "e2e", Force: &force}); err != nil {
		e.Fatalf("apply %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
}

// deploy creates a Deployment of pods that ask for cpu and memory.
func (e *env) deploy(name string, replicas int32, cpu, memory string, change ...func(*corev1.PodTemplateSpec)) {
	e.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "c", Image: "registry.example/pause:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
				}},
			}},
		},
	}
	for _, c := range change {
		c(&template)
	}
	_, err := e.kube.AppsV1().Deployments("default").Create(e.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) scale(name string, replicas int32) {
	e.Helper()
	e.retry("scale "+name, func() error { return e.tryScale(name, replicas) })
}

func (e *env) tryScale(name string, replicas int32) error {
	return e.tryPatchDeployment(name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (e *env) patchDeployment(name, patch string) {
	e.Helper()
	e.retry("patch "+name, func() error { return e.tryPatchDeployment(name, patch) })
}

func (e *env) tryPatchDeployment(name, patch string) error {
	_, err := e.kube.AppsV1().Deployments("default").Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// retry calls the API server again while it cannot be reached: tests restart it.
func (e *env) retry(what string, call func() error) {
	e.Helper()
	e.eventually(what, func() string {
		if err := call(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// running waits until all pods of an app are running.
func (e *env) running(app string, want int) {
	e.Helper()
	e.eventually(fmt.Sprintf("%d pods of %s running", want, app), func() string {
		pods, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err.Error()
		}
		n, waiting := 0, ""
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				n++
			} else if p.DeletionTimestamp == nil {
				waiting = p.Name
			}
		}
		if n == want && len(pods.Items) == want {
			return ""
		}
		return fmt.Sprintf("%d of %d are, %s is not", n, len(pods.Items), waiting)
	})
}

func (e *env) nodeClaims() []unstructured.Unstructured {
	e.Helper()
	list, err := e.dyn.Resource(claimsGVR).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Logf("list NodeClaims: %v", err)
		return []unstructured.Unstructured{{}}
	}
	return list.Items
}

// nodes returns the Nodes that belong to NodePools.
func (e *env) nodes() []corev1.Node {
	e.Helper()
	list, err := e.kube.CoreV1().Nodes().List(e.Context(), metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool"})
	if err != nil {
		e.Logf("list nodes: %v", err)
		return []corev1.Node{{}}
	}
	return list.Items
}

// condition returns status, reason and message of a condition; "" if there is none.
func condition(obj *unstructured.Unstructured, kind string) (status, reason, message string) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range list {
		m, ok := c.(map[string]any)
		if ok && m["type"] == kind {
			s, _ := m["status"].(string)
			r, _ := m["reason"].(string)
			msg, _ := m["message"].(string)
			return s, r, msg
		}
	}
	return "", "", ""
}

// hasCondition waits until an object has a condition with the status and a message that contains the text.
func (e *env) hasCondition(gvr schema.GroupVersionResource, name, kind, status, text string) {
	e.Helper()
	e.eventually(fmt.Sprintf("%s %s: %s=%s (%s)", gvr.Resource, name, kind, status, text), func() string {
		obj, err := e.dyn.Resource(gvr).Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		s, r, m := condition(obj, kind)
		if s == status && strings.Contains(r+" "+m, text) {
			return ""
		}
		return fmt.Sprintf("it is %q, %q, %q", s, r, m)
	})
}

// hasEvent waits for a KubeEvent on an object whose reason or message contains the text.
func (e *env) hasEvent(kind, name, text string) {
	e.Helper()
	e.eventually(fmt.Sprintf("event on %s %s: %s", kind, name, text), func() string {
		events, err := e.kube.CoreV1().Events("").List(e.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var seen []string
		for _, ev := range events.Items {
			if ev.InvolvedObject.Kind == kind && ev.InvolvedObject.Name == name {
				if strings.Contains(ev.Reason+": "+ev.Message, text) {
					return ""
				}
				seen = append(seen, ev.Reason+": "+ev.Message)
			}
		}
		return fmt.Sprintf("there are %q", seen)
	})
}

// protect creates a PodDisruptionBudget that allows no eviction of an app's pods.
func (e *env) protect(app string) {
	e.Helper()
	none := intstr.FromInt32(0)
	_, err := e.kube.PolicyV1().PodDisruptionBudgets("default").Create(e.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// allowed asks the API server whether the ServiceAccount of a service has a right.
func (e *env) allowed(service string, r rights.Right) bool {
	e.Helper()
	resource, sub, _ := strings.Cut(r.Resource, "/")
	review, err := e.kube.AuthorizationV1().SubjectAccessReviews().Create(e.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               rights.AccountPrefix + stack.AccountOf(service),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return review.Status.Allowed
}
