package kube

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

// encoded is what would leave the watcher for an object.
func encoded(t *testing.T, k events.Kind, object runtime.Object) []byte {
	t.Helper()
	trimmed, err := Trim(object)
	if err != nil {
		t.Fatal(err)
	}
	data, err := events.Encode(events.Observation{Epoch: 1, Kind: k, Op: events.OpUpsert, ObservedAt: time.Unix(1, 0), Object: trimmed})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// leaving returns the fields whose text is in the message of an object with every field set.
func leaving(t *testing.T, k kind) []string {
	t.Helper()
	f := newFiller()
	object := reflect.New(reflect.TypeOf(k.example).Elem()).Interface().(runtime.Object)
	f.fill(object)
	data := encoded(t, k.kind, object)
	left := map[string]bool{}
	for token, path := range f.paths {
		// JSON writes < and > as \u003c and \u003e.
		quoted := strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(token)
		if bytes.Contains(data, []byte(token)) || bytes.Contains(data, []byte(quoted)) {
			left[path] = true
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// TestOnlyNamedFieldsLeave is the proof that nothing leaves by accident: with every field of every type set,
// also those that a later version of Kubernetes adds, exactly the fields listed in testdata leave.
func TestOnlyNamedFieldsLeave(t *testing.T) {
	for _, k := range allKinds() {
		t.Run(k.kind.String(), func(t *testing.T) {
			got := strings.Join(leaving(t, k), "\n") + "\n"
			file := filepath.Join("testdata", "leaving", k.kind.String()+".txt")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("fields that leave differ from %s; got\n%s", file, got)
			}
		})
	}
}

// TestUserDataNeverLeaves, whatever stands in testdata: it holds what nodes join the cluster with.
func TestUserDataNeverLeaves(t *testing.T) {
	for _, secret := range []string{"UserData", "Spec.Context", "MetadataOptions", "EC2NodeClass.Spec"} {
		for _, k := range allKinds() {
			for _, path := range leaving(t, k) {
				if strings.Contains(path, secret) {
					t.Errorf("%s leaves", path)
				}
			}
		}
	}
}

// forbidden parts of field paths, whatever stands in testdata.
var forbidden = []string{
	".Env", ".EnvFrom", ".Args", ".Command", ".ImagePullSecrets", ".Image", ".Annotations", ".ManagedFields", ".VolumeMounts",
	".Lifecycle", ".LivenessProbe", ".ReadinessProbe", ".StartupProbe", ".SecurityContext", ".ServiceAccount", ".EphemeralContainers", ".Secret", ".ConfigMap", ".Projected",
	".HostAliases", ".DNSConfig", "SecretRef", ".VolumeAttributes", ".Parameters", ".MountOptions",
}

func TestSecretsOfWorkloadsNeverLeave(t *testing.T) {
	for _, k := range allKinds() {
		if _, ours := k.example.(interface{ Marshal() ([]byte, error) }); !ours {
			continue // our own kinds have no workload in them; their templates' annotations are for nodes
		}
		for _, path := range leaving(t, k) {
			for _, word := range forbidden {
				if strings.Contains(path, word) {
					t.Errorf("%s leaves", path)
				}
			}
		}
	}
}

func TestAnnotationsOfOthersAreDropped(t *testing.T) {
	keep := map[string]string{
		"karpenter.sh/do-not-disrupt": "true", "millwright.sh/record": "id/7", "karpenter.k8s.aws/ec2nodeclass-hash": "1",
		"compatibility.karpenter.k8s.aws/cluster-name-tagged": "true",
	}
	foreign := map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "vault.example.com/token": "s3cret", "karpenter.sh": "no domain",
		"notkarpenter.sh/x": "y", "karpenter.sh.example.com/x": "y",
	}
	all := maps.Clone(keep)
	maps.Copy(all, foreign)
	for _, k := range kinds {
		object := reflect.New(reflect.TypeOf(k.example).Elem()).Interface().(runtime.Object)
		object.(metav1.Object).SetAnnotations(all)
		trimmed, err := Trim(object)
		if err != nil {
			t.Fatal(err)
		}
		if got := trimmed.GetAnnotations(); !maps.Equal(got, keep) {
			t.Errorf("%s: kept %v, want %v", k.kind, got, keep)
		}
	}
}

func TestAnnotationsOfKubernetesThatPlannersReadAreKept(t *testing.T) {
	cases := map[string]struct {
		object runtime.Object
		keys   []string
	}{
		"the deletion cost of a pod":             {&corev1.Pod{}, []string{"controller.kubernetes.io/pod-deletion-cost"}},
		"whether a claim is bound, and where to": {&corev1.PersistentVolumeClaim{}, []string{"pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node"}},
		"who made a volume":                      {&corev1.PersistentVolume{}, []string{"pv.kubernetes.io/provisioned-by"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := map[string]string{"example.com/foreign": "x"}
			for _, k := range c.keys {
				all[k] = "kept"
			}
			c.object.(metav1.Object).SetAnnotations(all)
			trimmed, err := Trim(c.object)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(trimmed.GetAnnotations())); !slices.Equal(got, slices.Sorted(slices.Values(c.keys))) {
				t.Fatalf("kept %v", got)
			}
		})
	}
}

func TestTrimmingTwiceChangesNothing(t *testing.T) {
	for _, k := range allKinds() {
		object := reflect.New(reflect.TypeOf(k.example).Elem()).Interface().(runtime.Object)
		newFiller().fill(object)
		once, err := Trim(object)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encoded(t, k.kind, object), encoded(t, k.kind, once.(runtime.Object))) {
			t.Errorf("%s: trimming again changes it", k.kind)
		}
	}
}

func TestTrimLeavesTheOriginalAlone(t *testing.T) {
	for _, k := range allKinds() {
		object := reflect.New(reflect.TypeOf(k.example).Elem()).Interface().(runtime.Object)
		newFiller().fill(object)
		before := object.DeepCopyObject()
		if _, err := Trim(object); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, object) {
			t.Errorf("%s: the original changed", k.kind)
		}
	}
}

func TestTrimRefusesOtherKinds(t *testing.T) {
	if _, err := Trim(&corev1.Service{}); err == nil {
		t.Fatal("trimmed a Service")
	}
}

func TestPodKeepsWhatPlannersRead(t *testing.T) {
	pod := &corev1.Pod{}
	newFiller().fill(pod)
	trimmed, err := Trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	got := trimmed.(*corev1.Pod)
	same := map[string][2]any{
		"node selector": {got.Spec.NodeSelector, pod.Spec.NodeSelector}, "affinity": {got.Spec.Affinity, pod.Spec.Affinity},
		"tolerations": {got.Spec.Tolerations, pod.Spec.Tolerations}, "spread": {got.Spec.TopologySpreadConstraints, pod.Spec.TopologySpreadConstraints},
		"overhead": {got.Spec.Overhead, pod.Spec.Overhead}, "priority": {got.Spec.Priority, pod.Spec.Priority},
		"gates": {got.Spec.SchedulingGates, pod.Spec.SchedulingGates}, "claims": {len(got.Spec.ResourceClaims), len(pod.Spec.ResourceClaims)},
		"grace": {got.Spec.TerminationGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds}, "resources": {got.Spec.Resources.Requests, pod.Spec.Resources.Requests},
		"container resources": {got.Spec.Containers[1].Resources.Limits, pod.Spec.Containers[1].Resources.Limits}, "labels": {got.Labels, pod.Labels},
		"sidecar policy": {got.Spec.InitContainers[0].RestartPolicy, pod.Spec.InitContainers[0].RestartPolicy},
		"owners":         {got.OwnerReferences, pod.OwnerReferences}, "deletion": {got.DeletionTimestamp, pod.DeletionTimestamp},
		"claim volume":     {got.Spec.Volumes[0].PersistentVolumeClaim.ClaimName, pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName},
		"ephemeral volume": {got.Spec.Volumes[1].Ephemeral != nil, true},
		"phase":            {got.Status.Phase, pod.Status.Phase}, "nomination": {got.Status.NominatedNodeName, pod.Status.NominatedNodeName},
		"scheduler's message": {got.Status.Conditions[0].Message, pod.Status.Conditions[0].Message},
	}
	for what, pair := range same {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: got %v, want %v", what, pair[0], pair[1])
		}
	}
	if port := got.Spec.Containers[0].Ports[0]; port.HostPort != 7 || port.HostIP == "" || port.Protocol == "" {
		t.Errorf("host port: %+v", port)
	}
}

// kube-scheduler's condition does not say when it was last written, as long as its status stays.
func TestPodKeepsWhenKubeSchedulerLastRefusedIt(t *testing.T) {
	at := func(minute int) *metav1.Time { return new(metav1.Date(2026, 1, 1, 10, minute, 0, 0, time.UTC)) }
	entry := func(minute int, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: "m", Time: at(minute), FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const scheduled = `{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"PodScheduled\"}":{".":{},"f:message":{}}}}}`
	p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no"}}}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{entry(5, `{"f:spec":{}}`), entry(3, scheduled), entry(2, scheduled), entry(6, `{"f:status":{"f:nominatedNodeName":{}}}`)}
	kept := trimPod(p)
	if got := kept.Status.Conditions[0].LastProbeTime; !got.Equal(at(3)) {
		t.Errorf("kube-scheduler is said to have refused the pod at %v, want %v", got, at(3))
	}
	if again := trimPod(kept).Status.Conditions[0].LastProbeTime; !again.Equal(at(3)) {
		t.Errorf("trimmed again it is %v", again)
	}
	p.Status.Conditions[0].Status = corev1.ConditionTrue
	if got := trimPod(p).Status.Conditions[0].LastProbeTime; !got.IsZero() {
		t.Errorf("of a bound pod it says %v", got)
	}
}

// TestTemplatesOnTheHostsNetworkKeepTheirPorts: the API server makes host ports of them in pods alone.
func TestTemplatesOnTheHostsNetworkKeepTheirPorts(t *testing.T) {
	for _, hostNetwork := range []bool{false, true} {
		d := &appsv1.DaemonSet{}
		d.Spec.Template.Spec = corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9100}}}}}
		trimmed, err := Trim(d)
		if err != nil {
			t.Fatal(err)
		}
		ports := trimmed.(*appsv1.DaemonSet).Spec.Template.Spec.Containers[0].Ports
		if kept := len(ports) == 1 && ports[0].ContainerPort == 9100; kept != hostNetwork {
			t.Errorf("on the host's network (%v): ports %+v", hostNetwork, ports)
		}
	}
}

func TestContainerStatusLeavesOnlyWhileResizing(t *testing.T) {
	requests := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	cases := map[string]struct {
		allocated, held string
		leaves          bool
	}{
		"it holds what it asks for":          {"1", "1", false},
		"it holds the same in other words":   {"1000m", "1000m", false},
		"it has not yet got what it asks":    {"500m", "500m", true},
		"it was granted but does not run so": {"1", "500m", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: requests("1")}}}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
					Name: "web", AllocatedResources: requests(c.allocated), Resources: &corev1.ResourceRequirements{Requests: requests(c.held)},
				}}},
			}
			if got := len(trimPod(pod).Status.ContainerStatuses) == 1; got != c.leaves {
				t.Fatalf("leaves: %v", got)
			}
		})
	}
}

// "For ever", as people west of Greenwich write it, is the year 10000 in UTC, in which times are published.
func TestAPauseForEverCanBeReadBack(t *testing.T) {
	for text, want := range map[string]string{
		"9999-12-31T23:59:59Z":      "9999-12-31T23:59:59Z",
		"9999-12-31T23:59:59-05:00": "9999-12-31T23:59:59Z",
		"2026-12-31T23:59:59-05:00": "2027-01-01T04:59:59Z",
	} {
		p := &mwv1alpha1.DisruptionPolicy{}
		if err := json.Unmarshal([]byte(`{"metadata": {"name": "p"}, "spec": {"pause": {"until": "`+text+`", "reason": "r"}}}`), p); err != nil {
			t.Fatal(err)
		}
		trimmed, err := Trim(p)
		if err != nil {
			t.Fatal(err)
		}
		data, err := events.Encode(events.Observation{Epoch: 1, Counter: 1, Kind: events.KindDisruptionPolicy, Op: events.OpUpsert, UID: "u", Name: "p", Object: trimmed})
		if err != nil {
			t.Fatal(err)
		}
		o, err := events.Decode(data)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if pause := o.Object.(*mwv1alpha1.DisruptionPolicy).Spec.Pause; pause.Until.UTC().Format(time.RFC3339) != want || pause.Reason != "r" {
			t.Errorf("%s: paused until %s, %q", text, pause.Until.UTC().Format(time.RFC3339), pause.Reason)
		}
	}
}
