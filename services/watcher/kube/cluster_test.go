package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright/events"
	"millwright/events/membus"
	"millwright/services/watcher"
	"millwright/services/watcher/kube"
	"millwright/tools/clustertest"
)

// live collects what is on the bus, by kind and name; deleted objects are gone.
type live struct {
	mu       sync.Mutex
	messages [][]byte
	objects  map[string]events.Observation
	ends     int
	beats    int
	changed  chan struct{}
}

func follow(ctx context.Context, s events.Stream) *live {
	l := &live{objects: map[string]events.Observation{}, changed: make(chan struct{}, 1)}
	go func() {
		_ = s.Consume(ctx, 1, func(m events.Message) error {
			o, err := events.Decode(m.Data)
			if err != nil {
				return err
			}
			l.apply(m.Data, o)
			return nil
		})
	}()
	return l
}

func (l *live) apply(data []byte, o events.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, data)
	key := o.Kind.String() + " " + o.Name
	switch o.Op {
	case events.OpUpsert:
		l.objects[key] = o
	case events.OpDelete:
		delete(l.objects, key)
	case events.OpResyncBegin:
		l.objects = map[string]events.Observation{}
	case events.OpResyncEnd:
		l.ends++
	case events.OpHeartbeat:
		l.beats++
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// until waits for a condition on what was collected.
func (l *live) until(t *testing.T, what string, holds func(l *live) bool) {
	t.Helper()
	limit := time.After(90 * time.Second)
	for {
		l.mu.Lock()
		ok := holds(l)
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-l.changed:
		case <-limit:
			t.Fatalf("still not so: %s", what)
		}
	}
}

func (l *live) has(key string) func(*live) bool {
	return func(l *live) bool { _, ok := l.objects[key]; return ok }
}

func (l *live) lacks(key string) func(*live) bool {
	return func(l *live) bool { _, ok := l.objects[key]; return !ok }
}

const secret = "s3cr3t-of-the-workload"

func TestAgainstARealAPIServer(t *testing.T) {
	cluster := clustertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	createOneOfEach(t, client, cluster.Config)
	bus := membus.NewBus()
	source, err := kube.New(cluster.Config, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	w, err := watcher.New(watcher.Config{
		Stream: bus.Connect(1024), Kube: source, LogID: "0123456789abcdef", HeartbeatEvery: 100 * time.Millisecond, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	l := follow(ctx, bus.Connect(1))

	l.until(t, "the resync has ended", func(l *live) bool { return l.ends == 1 })
	for _, key := range []string{
		"Pod default/web", "NodePool default", "EC2NodeClass default", "NodeClaim claim-1", "Namespace default", "DaemonSet default/agent",
		"PodDisruptionBudget default/web", "PersistentVolumeClaim default/data", "PersistentVolume volume", "StorageClass gp3", "CSINode node-1",
		"VolumeAttachment attachment", "PriorityClass system-node-critical", "Node node-1",
	} {
		l.until(t, key+" is there", l.has(key))
	}
	changes(t, client, l)
	failures(t, cluster, client, bus, registry, l)

	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, data := range l.messages {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("message %d carries a secret", i+1)
		}
	}
}

func changes(t *testing.T, client kubernetes.Interface, l *live) {
	pods := client.CoreV1().Pods("default")
	create(t, pods.Create, workload("late"))
	l.until(t, "a new pod is there", l.has("Pod default/late"))
	grace := int64(0)
	if err := pods.Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	l.until(t, "a deleted pod is gone", l.lacks("Pod default/web"))
	l.until(t, "heartbeats come", func(l *live) bool { return l.beats > 2 })
}

// failures: an API server that was away causes no resync and loses no change; a bus that was away causes one.
func failures(t *testing.T, cluster *clustertest.Cluster, client kubernetes.Interface, bus *membus.Bus, registry *prometheus.Registry, l *live) {
	if err := cluster.Kill("kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	createEventually(t, client, workload("after-restart"))
	l.until(t, "a pod made after the API server was killed is there", l.has("Pod default/after-restart"))
	l.mu.Lock()
	beats, ends := l.beats, l.ends
	l.mu.Unlock()
	l.until(t, "heartbeats come again", func(l *live) bool { return l.beats > beats })
	if ends != 1 {
		t.Errorf("%d resyncs for a restart of the API server", ends)
	}
	bus.Fail()
	create(t, client.CoreV1().Pods("default").Create, workload("while-bus-away"))
	for resyncs(t, registry) < 2 { // until the watcher has noticed
		time.Sleep(10 * time.Millisecond)
	}
	bus.Release()
	l.until(t, "the resync after the bus was away has ended", func(l *live) bool { return l.ends == ends+1 })
	l.until(t, "the pod it missed is there", l.has("Pod default/while-bus-away"))
}

func resyncs(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "millwright_watcher_resyncs_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("no metric of resyncs")
	return 0
}

func createEventually(t *testing.T, client kubernetes.Interface, p *corev1.Pod) {
	t.Helper()
	for {
		_, err := client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{})
		if err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(errors.Join(t.Context().Err(), err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func create[T any](t *testing.T, f func(context.Context, T, metav1.CreateOptions) (T, error), object T) {
	t.Helper()
	if _, err := f(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
}

func template() corev1.PodTemplateSpec {
	p := workload("x")
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec}
}

// workload is a pod with secrets where people put them.
func workload(name string) *corev1.Pod {
	container := corev1.Container{
		Name: "web", Image: "nginx", Command: []string{"run", secret}, Args: []string{"--token", secret},
		Env:       []corev1.EnvVar{{Name: "TOKEN", Value: secret}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
	}
	first := *container.DeepCopy()
	first.Name = "init"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"example.com/token": secret}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"no": "where"}, InitContainers: []corev1.Container{first}, Containers: []corev1.Container{container},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: secret}},
		},
	}
}

func createOneOfEach(t *testing.T, client kubernetes.Interface, config *rest.Config) {
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	class, volume := "gp3", "volume"
	create(t, client.CoreV1().Nodes().Create, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	create(t, client.StorageV1().StorageClasses().Create, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "ebs.csi.aws.com"})
	create(t, client.StorageV1().CSINodes().Create, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	create(t, client.StorageV1().VolumeAttachments().Create, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attachment"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "ebs.csi.aws.com", NodeName: "node-1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	})
	storage := corev1.ResourceList{"storage": resource.MustParse("1Gi")}
	create(t, client.CoreV1().PersistentVolumes().Create, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{Capacity: storage, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1", VolumeAttributes: map[string]string{"key": secret}}}},
	})
	create(t, client.CoreV1().PersistentVolumeClaims("default").Create, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: storage}},
	})
	one := intstr.FromInt32(1)
	create(t, client.PolicyV1().PodDisruptionBudgets("default").Create, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: labels, MaxUnavailable: &one}})
	create(t, client.AppsV1().DaemonSets("default").Create, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{Selector: labels, Template: template()}})
	create(t, client.SchedulingV1().PriorityClasses().Create, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
	create(t, client.CoreV1().Pods("default").Create, workload("web"))
	createOurs(t, client)
}

// createOurs sends manifests as users write them.
func createOurs(t *testing.T, client kubernetes.Interface) {
	nodeClassRef := `{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"default"}`
	requirements := `[{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]`
	manifests := map[string]string{
		"/apis/karpenter.k8s.aws/v1/ec2nodeclasses": `{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","metadata":{"name":"default"},"spec":{"role":"node","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"id":"subnet-12345678"}],"securityGroupSelectorTerms":[{"id":"sg-12345678"}]}}`,
		"/apis/karpenter.sh/v1/nodepools":           fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"default"},"spec":{"template":{"spec":{"nodeClassRef":%s,"requirements":%s}}}}`, nodeClassRef, requirements),
		"/apis/karpenter.sh/v1/nodeclaims":          fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{"name":"claim-1"},"spec":{"nodeClassRef":%s,"requirements":%s}}`, nodeClassRef, requirements),
	}
	for path, manifest := range manifests {
		err := client.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(manifest)).Do(t.Context()).Error()
		if err != nil {
			t.Fatalf("create %s: %v", strings.TrimPrefix(path, "/apis/"), err)
		}
	}
}
