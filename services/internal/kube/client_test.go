package kube_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/services/internal/kube"
	"millwright/tools/clustertest"
)

// TestClient talks to a real API server.
func TestClient(t *testing.T) {
	cluster := clustertest.Start(t)
	client, err := kube.New(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, *kube.Client){
		"a deletion is bound to the UID":                      testDeleteUID,
		"a patch is bound to the UID":                         testPatchUID,
		"a patch is bound to the resourceVersion":             testPatchVersion,
		"a condition is set, kept and removed":                testCondition,
		"the disrupted taint comes and goes":                  testTaint,
		"an eviction against a budget is blocked":             testEvictBlocked,
		"an eviction of several budgets is blocked":           testEvictManyBudgets,
		"an eviction of another pod by the name conflicts":    testEvictUID,
		"pods of a node are listed":                           testPodsOnNode,
		"a surge changes the template of the Deployment read": testSurge,
		"a status that Go cannot read makes no list so":       testUnreadableStatus,
		"what can never be made is invalid":                   testInvalid,
		"what a webhook denies is invalid":                    testDenied,
		"a placement hint is told from a nomination":          testHint,
	} {
		t.Run(name, func(t *testing.T) { test(t, client) })
	}
}

func newClaim(t *testing.T, c *kube.Client) *karpv1.NodeClaim {
	t.Helper()
	claim, err := c.CreateNodeClaim(t.Context(), &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "claim-", Finalizers: []string{karpv1.TerminationFinalizer}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func newNode(t *testing.T, c *kube.Client) *corev1.Node {
	t.Helper()
	n, err := c.Core.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newPod(t *testing.T, c *kube.Client, node string, labels map[string]string) *corev1.Pod {
	t.Helper()
	p, err := c.Core.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantClass(t *testing.T, err error, want kube.Class) {
	t.Helper()
	if got := kube.Classify(err); got != want {
		t.Errorf("error %v is %s, want %s", err, got, want)
	}
}

func testDeleteUID(t *testing.T, c *kube.Client) {
	claim := newClaim(t, c)
	wantClass(t, c.DeleteNodeClaim(t.Context(), claim.Name, "another"), kube.Conflict)
	wantClass(t, c.DeleteNodeClaim(t.Context(), claim.Name, claim.UID), kube.None)
	wantClass(t, c.DeleteNodeClaim(t.Context(), "no-such-claim", claim.UID), kube.NotFound)
	_, err := c.CreateNodeClaim(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}, Spec: claim.Spec})
	wantClass(t, err, kube.AlreadyExists)
}

// testInvalid: what a NodePool is not valid for, the API server refuses, whoever asks; and what others are in
// the way of is not invalid.
func testInvalid(t *testing.T, c *kube.Client) {
	claim := newClaim(t, c)
	for sentence, change := range map[string]func(*karpv1.NodeClaim){
		"a label's value": func(o *karpv1.NodeClaim) {
			o.Labels = map[string]string{karpv1.NodePoolLabelKey: strings.Repeat("p", 64)}
		},
		"an annotation's name": func(o *karpv1.NodeClaim) { o.Annotations = map[string]string{"not a name": ""} },
		"annotations' size":    func(o *karpv1.NodeClaim) { o.Annotations = map[string]string{"a": strings.Repeat("x", 256<<10)} },
		"a number below nothing": func(o *karpv1.NodeClaim) {
			o.Spec.Requirements[0].Operator, o.Spec.Requirements[0].Values = "Lte", []string{"-1"}
		},
		"more requirements than the schema takes": func(o *karpv1.NodeClaim) {
			o.Spec.Requirements = slices.Repeat(o.Spec.Requirements, 101)
		},
	} {
		o := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "claim-"}, Spec: *claim.Spec.DeepCopy()}
		change(o)
		if _, err := c.CreateNodeClaim(t.Context(), o); !kube.IsInvalid(err) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
	taint := map[string]any{"spec": map[string]any{"taints": []any{map[string]any{"key": "a", "value": "example.com/b", "effect": "NoSchedule"}}}}
	if _, err := c.PatchNode(t.Context(), newNode(t, c).Name, kube.Patch{Body: taint}); !kube.IsInvalid(err) {
		t.Errorf("a taint's value: %v", err)
	}
	message := func(length int) error {
		return c.SetClaimCondition(t.Context(), claim.Name, claim.UID, metav1.Condition{Type: "Long", Status: "True", Message: strings.Repeat("ü", length)}, time.Now())
	}
	if err := message(32768); err != nil {
		t.Errorf("the longest message: %v", err)
	}
	_, err := c.CreateNodeClaim(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}, Spec: claim.Spec})
	foreign := c.DeleteNodeClaim(t.Context(), claim.Name, "another")
	for _, err := range []error{nil, err, foreign} {
		if kube.IsInvalid(err) {
			t.Errorf("invalid: %v", err)
		}
	}
}

// testDenied: policy engines refuse by webhooks, with whatever code they like. One that does not answer has
// refused nothing.
func testDenied(t *testing.T, c *kube.Client) {
	var answer atomic.Pointer[metav1.Status] // nil: none
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		status := answer.Load()
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || status == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: status}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer server.Close()
	label, fail, none := map[string]string{"test": "denied"}, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	webhooks := c.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "policies"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.policies.example", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, ObjectSelector: &metav1.LabelSelector{MatchLabels: label},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{karpv1.Group}, APIVersions: []string{"v1"}, Resources: []string{"nodeclaims"}}}},
		}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = webhooks.Delete(context.Background(), "policies", metav1.DeleteOptions{}) }()
	claim := newClaim(t, c)
	create := func() error {
		_, err := c.CreateNodeClaim(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "denied-", Labels: label}, Spec: claim.Spec})
		return err
	}
	for create() == nil { // the API server does not know of the webhook yet
		time.Sleep(50 * time.Millisecond)
	}
	if err := create(); err == nil || kube.IsInvalid(err) {
		t.Errorf("a webhook that does not answer: %v", err)
	}
	for sentence, status := range map[string]*metav1.Status{
		"without a word":   {},
		"as OPA does":      {Message: "every object needs an owner", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden},
		"as Kyverno does":  {Message: "\n\nresource NodeClaim//denied was blocked due to the following policies\n\nowner:\n  owner: validation error", Code: http.StatusBadRequest},
		"with an odd code": {Message: "no", Code: http.StatusInternalServerError},
	} {
		answer.Store(status)
		if err := create(); !kube.IsInvalid(err) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

// testUnreadableStatus: the API server takes a status that Go cannot read.
func testUnreadableStatus(t *testing.T, c *kube.Client) {
	claim := newClaim(t, c)
	_, err := c.NodeClaims.PatchStatus(t.Context(), claim.Name, kube.Patch{UID: claim.UID, Body: map[string]any{"status": map[string]any{
		"providerID": "aws:///a/i-1", "lastPodEventTime": "2026-03-01t12:00:00z", "capacity": map[string]any{"cpu": "1e5.5", "memory": "1Gi"},
	}}})
	wantClass(t, err, kube.None)
	claims, err := c.ListNodeClaims(t.Context())
	i := slices.IndexFunc(claims, func(o *karpv1.NodeClaim) bool { return o.Name == claim.Name })
	if err != nil || i < 0 || claims[i].Status.ProviderID != "aws:///a/i-1" || claims[i].Status.Capacity.Memory().Value() != 1<<30 || claims[i].Spec.NodeClassRef == nil {
		t.Errorf("%v: %+v", err, claims)
	}
}

func label(value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"test": value}}}
}

func testPatchUID(t *testing.T, c *kube.Client) {
	claim, node := newClaim(t, c), newNode(t, c)
	_, err := c.NodeClaims.Patch(t.Context(), claim.Name, kube.Patch{UID: "another", Body: label("a")})
	wantClass(t, err, kube.Conflict)
	_, err = c.PatchNode(t.Context(), node.Name, kube.Patch{UID: "another", Body: label("a")})
	wantClass(t, err, kube.Conflict)
	labelled, err := c.PatchNode(t.Context(), node.Name, kube.Patch{UID: node.UID, Body: label("a")})
	wantClass(t, err, kube.None)
	if labelled.Labels["test"] != "a" {
		t.Errorf("labels %v", labelled.Labels)
	}
}

func testPatchVersion(t *testing.T, c *kube.Client) {
	claim := newClaim(t, c)
	if _, err := c.NodeClaims.Patch(t.Context(), claim.Name, kube.Patch{Body: label("a")}); err != nil {
		t.Fatal(err)
	}
	_, err := c.NodeClaims.Patch(t.Context(), claim.Name, kube.Patch{UID: claim.UID, ResourceVersion: claim.ResourceVersion, Body: label("b")})
	wantClass(t, err, kube.Conflict)
}

func testCondition(t *testing.T, c *kube.Client) {
	claim, now := newClaim(t, c), time.Now()
	set := func(kind string, status metav1.ConditionStatus, at time.Time) *karpv1.NodeClaim {
		t.Helper()
		if err := c.SetClaimCondition(t.Context(), claim.Name, claim.UID, metav1.Condition{Type: kind, Status: status}, at); err != nil {
			t.Fatal(err)
		}
		got, err := c.GetNodeClaim(t.Context(), claim.Name)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	set(karpv1.ConditionTypeReady, metav1.ConditionTrue, now)
	first := set(karpv1.ConditionTypeDrained, metav1.ConditionTrue, now)
	again := set(karpv1.ConditionTypeDrained, metav1.ConditionTrue, now.Add(time.Hour))
	if first.ResourceVersion != again.ResourceVersion {
		t.Error("a condition that stands was written again")
	}
	if list := again.Status.Conditions; len(list) != 2 || list[1].Type != karpv1.ConditionTypeReady {
		t.Errorf("conditions %+v, want Ready last", list)
	}
	if list := set(karpv1.ConditionTypeDrained, "", now).Status.Conditions; len(list) != 1 {
		t.Errorf("conditions %+v after the removal", list)
	}
	set(karpv1.ConditionTypeDrained, metav1.ConditionUnknown, now.Add(time.Minute))
	if err := c.DeleteNodeClaim(t.Context(), claim.Name, claim.UID); err != nil {
		t.Fatal(err)
	}
	going := set(karpv1.ConditionTypeVolumesDetached, metav1.ConditionTrue, now.Add(time.Minute))
	var order []string
	for _, x := range going.Status.Conditions {
		order = append(order, x.Type)
		if x.ObservedGeneration != going.Generation {
			t.Errorf("%s is of generation %d, the claim is deleted at %d", x.Type, x.ObservedGeneration, going.Generation)
		}
	}
	if !slices.Equal(order, []string{karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeReady}) {
		t.Errorf("in the order %v", order)
	}
	if err := c.SetClaimCondition(t.Context(), claim.Name, "another", metav1.Condition{Type: "X", Status: "True"}, now); err != nil {
		t.Errorf("a condition for another object: %v", err)
	}
}

// patched builds a patch for the Node as it is and applies it, again if a controller wrote in between.
func patched(t *testing.T, c *kube.Client, name string, build func(*corev1.Node) *kube.Patch) (before, after *corev1.Node) {
	t.Helper()
	for range 20 {
		before, err := c.Node(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		patch := build(before)
		if patch == nil {
			t.Fatalf("no patch for taints %v", before.Spec.Taints)
		}
		after, err := c.PatchNode(t.Context(), name, *patch)
		if err == nil {
			return before, after
		}
		wantClass(t, err, kube.Conflict)
	}
	t.Fatal("the node is written all the time")
	return nil, nil
}

func testTaint(t *testing.T, c *kube.Client) {
	name := newNode(t, c).Name
	before, tainted := patched(t, c, name, func(n *corev1.Node) *kube.Patch { return kube.WithDisruptedTaint(n, true) })
	if !kube.IsDisrupted(tainted) || tainted.Labels[corev1.LabelNodeExcludeBalancers] != "karpenter" {
		t.Errorf("taints %v, labels %v", tainted.Spec.Taints, tainted.Labels)
	}
	if len(tainted.Spec.Taints) != len(before.Spec.Taints)+1 {
		t.Errorf("taints %v became %v", before.Spec.Taints, tainted.Spec.Taints)
	}
	if kube.WithDisruptedTaint(tainted, true) != nil {
		t.Error("a patch for a node that has it all")
	}
	_, err := c.PatchNode(t.Context(), name, *kube.WithDisruptedTaint(before, false))
	wantClass(t, err, kube.Conflict)
	_, marked := patched(t, c, name, func(n *corev1.Node) *kube.Patch { return kube.WithCommandMark(n, "log/7") })
	if !kube.IsDisrupted(marked) || marked.Annotations[karpv1.RecordAnnotationKey] != "log/7" || marked.ResourceVersion == tainted.ResourceVersion {
		t.Errorf("marked: taints %v, annotations %v, version %s after %s", marked.Spec.Taints, marked.Annotations, marked.ResourceVersion, tainted.ResourceVersion)
	}
	if kube.WithCommandMark(marked, "log/7") != nil {
		t.Error("a patch for a node that bears the mark")
	}
	_, clean := patched(t, c, name, kube.WithoutDisruptedTaint)
	if kube.IsDisrupted(clean) {
		t.Errorf("taints %v", clean.Spec.Taints)
	}
}

func budget(t *testing.T, c *kube.Client, name string, labels map[string]string) {
	t.Helper()
	none := intstr.FromInt32(0)
	_, err := c.Core.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// running makes the pod one that budgets count.
func running(t *testing.T, c *kube.Client, p *corev1.Pod) {
	t.Helper()
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := c.Core.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testEvictBlocked(t *testing.T, c *kube.Client) {
	labels := map[string]string{"app": "blocked"}
	p := newPod(t, c, newNode(t, c).Name, labels)
	running(t, c, p)
	budget(t, c, "blocked", labels)
	err := c.EvictPod(t.Context(), p.Namespace, p.Name, p.UID)
	wantClass(t, err, kube.Blocked)
	if kube.IsMultiplePDBs(err) {
		t.Error("one budget counts as several")
	}
}

func testEvictManyBudgets(t *testing.T, c *kube.Client) {
	labels := map[string]string{"app": "many"}
	p := newPod(t, c, newNode(t, c).Name, labels)
	running(t, c, p)
	budget(t, c, "many-1", labels)
	budget(t, c, "many-2", labels)
	err := c.EvictPod(t.Context(), p.Namespace, p.Name, p.UID)
	wantClass(t, err, kube.Blocked)
	if !kube.IsMultiplePDBs(err) {
		t.Errorf("not seen as several budgets: %v", err)
	}
}

func testEvictUID(t *testing.T, c *kube.Client) {
	p := newPod(t, c, newNode(t, c).Name, nil)
	wantClass(t, c.EvictPod(t.Context(), p.Namespace, p.Name, "another"), kube.Conflict)
	wantClass(t, c.DeletePod(t.Context(), p.Namespace, p.Name, "another", 1), kube.Conflict)
	wantClass(t, c.EvictPod(t.Context(), p.Namespace, p.Name, p.UID), kube.None)
	wantClass(t, c.EvictPod(t.Context(), p.Namespace, "no-such-pod", types.UID("x")), kube.NotFound)
}

func testPodsOnNode(t *testing.T, c *kube.Client) {
	node := newNode(t, c)
	want := map[string]bool{}
	for range 3 {
		want[newPod(t, c, node.Name, nil).Name] = true
	}
	newPod(t, c, newNode(t, c).Name, nil)
	pods, err := c.PodsOnNode(context.Background(), node.Name)
	if err != nil || len(pods) != len(want) {
		t.Fatalf("%d pods, error %v", len(pods), err)
	}
	for i := range pods {
		if !want[pods[i].Name] {
			t.Errorf("pod %s is of node %s", pods[i].Name, fmt.Sprint(pods[i].Spec.NodeName))
		}
	}
}

func testHint(t *testing.T, c *kube.Client) {
	p, err := c.Core.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read := func() *corev1.Pod {
		t.Helper()
		got, err := c.Core.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := func(when, node string, hint bool) {
		t.Helper()
		if got := read(); got.Status.NominatedNodeName != node || kube.IsHint(got) != hint {
			t.Errorf("%s: nominated %q, a hint: %v; want %q, %v", when, got.Status.NominatedNodeName, kube.IsHint(got), node, hint)
		}
	}
	version, err := c.HintPod(t.Context(), p.Namespace, p.Name, p.UID, read().ResourceVersion, "node-a")
	if err != nil || version != read().ResourceVersion {
		t.Fatalf("version %s, %v", version, err)
	}
	want("hinted", "node-a", true)
	_, err = c.HintPod(t.Context(), p.Namespace, p.Name, p.UID, p.ResourceVersion, "node-b")
	wantClass(t, err, kube.Conflict)
	_, err = c.HintPod(t.Context(), p.Namespace, p.Name, "another", version, "node-b")
	wantClass(t, err, kube.Conflict)
	_, err = c.Core.CoreV1().Pods(p.Namespace).Patch(t.Context(), p.Name, types.StrategicMergePatchType,
		[]byte(`{"status":{"nominatedNodeName":"node-c"}}`), metav1.PatchOptions{FieldManager: "kube-scheduler"}, "status")
	if err != nil {
		t.Fatal(err)
	}
	want("the scheduler preempts", "node-c", false)
	if _, err = c.HintPod(t.Context(), p.Namespace, p.Name, p.UID, read().ResourceVersion, ""); err != nil {
		t.Fatal(err)
	}
	want("cleared", "", false)
}

func testSurge(t *testing.T, c *kube.Client) {
	labels := map[string]string{"app": "surge"}
	d, err := c.Core.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "surge"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"kept": "yes"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/pause:1"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stale := d.DeepCopy()
	stale.ResourceVersion = "1"
	wantClass(t, c.SurgeDeployment(t.Context(), stale, "cmd"), kube.Conflict)
	foreign := d.DeepCopy()
	foreign.UID, foreign.ResourceVersion = "another", ""
	wantClass(t, c.SurgeDeployment(t.Context(), foreign, "cmd"), kube.Conflict)
	for {
		if d, err = c.Deployment(t.Context(), "default", "surge"); err != nil {
			t.Fatal(err)
		}
		if err = c.SurgeDeployment(t.Context(), d, "cmd"); !kube.IsConflict(err) { // the Deployment's controller writes too
			break
		}
	}
	wantClass(t, err, kube.None)
	if d, err = c.Deployment(t.Context(), "default", "surge"); err != nil {
		t.Fatal(err)
	}
	if a := d.Spec.Template.Annotations; a[mwv1alpha1.SurgeAnnotationKey] != "cmd" || a["kept"] != "yes" || *d.Spec.Replicas != 0 {
		t.Errorf("template %v, replicas %d", a, *d.Spec.Replicas)
	}
	_, err = c.ReplicaSet(t.Context(), "default", "none")
	wantClass(t, err, kube.NotFound)
}
