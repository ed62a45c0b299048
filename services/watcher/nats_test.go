package watcher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/events/natsbus"
	"millwright/events/natsbus/embedded"
	"millwright/planner/world"
)

const testLogID = "0123456789abcdef0123456789abcdef"

func startNATS(t testing.TB, dir string, port int) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(dir, embedded.Options{Listen: true, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openBus(t testing.TB, s *embedded.Server) *natsbus.Stream {
	t.Helper()
	stream, err := natsbus.Open(t.Context(), natsbus.Config{URL: s.URL(), Cluster: "test", LogID: testLogID, CheckEvery: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

func stopNATS(t testing.TB, s *embedded.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// foldUntil folds as a service does, starting over whenever the stream says so.
func foldUntil(t *testing.T, s events.Stream, done func(*world.World) bool) *world.World {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	enough := errors.New("enough")
	for {
		state, err := s.State(ctx)
		if err != nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // the server is away
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w := world.New()
		w.SetIncarnation(state.Incarnation)
		err = events.Fold(ctx, s, state.First, events.Folder{Apply: func(sequence uint64, o events.Observation) error {
			if w.Apply(sequence, o); done(w) {
				return enough
			}
			return nil
		}})
		if errors.Is(err, enough) {
			return w
		}
		if !errors.Is(err, events.ErrRenewed) && !errors.Is(err, events.ErrCompacted) {
			t.Fatalf("fold: %v", err)
		}
	}
}

func TestANATSServerThatRestartsOrForgets(t *testing.T) {
	dir := t.TempDir()
	server := startNATS(t, dir, 0)
	port := portOf(t, server)
	kube := newFakeKube("a", "b")
	w, err := New(Config{
		Stream: openBus(t, server), Kube: kube, LogID: testLogID, HeartbeatEvery: 50 * time.Millisecond,
		FlushTimeout: time.Second, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	reader := openBus(t, server)
	has := func(names ...string) func(*world.World) bool {
		return func(w *world.World) bool {
			for _, name := range names {
				if w.Pod(types.UID("uid-"+name)) == nil {
					return false
				}
			}
			return w.Synced() && !w.Torn() && countPods(w) == len(names)
		}
	}
	first := foldUntil(t, reader, has("a", "b"))

	stopNATS(t, server)
	kube.put("c")
	kube.remove("a")
	server = startNATS(t, dir, port)
	second := foldUntil(t, reader, has("b", "c"))
	if second.Position().Incarnation != first.Position().Incarnation {
		t.Errorf("a restart that kept everything changed the incarnation")
	}

	stopNATS(t, server)
	server = startNATS(t, t.TempDir(), port) // an empty disk
	third := foldUntil(t, reader, has("b", "c"))
	if third.Position().Incarnation == first.Position().Incarnation {
		t.Errorf("a stream that lost what was folded is still in force")
	}
	kube.put("d")
	foldUntil(t, reader, has("b", "c", "d"))

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	stopNATS(t, server)
}

func portOf(t *testing.T, s *embedded.Server) int {
	t.Helper()
	var port int
	if _, err := fmt.Sscanf(s.URL()[strings.LastIndex(s.URL(), ":")+1:], "%d", &port); err != nil {
		t.Fatal(err)
	}
	return port
}

// replica is a pod of one of 500 Deployments; encoded it is about 1 KiB.
func replica(i int) *corev1.Pod {
	name := fmt.Sprintf("deployment-%d", i%500)
	amounts := corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("512Mi")}
	yes := true
	labels := map[string]string{"app.kubernetes.io/name": name, "pod-template-hash": "7d9f8c6b5d"}
	for k := range 4 {
		labels[fmt.Sprintf("example.com/label-%d", k)] = fmt.Sprintf("some-value-of-label-%d", k)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-7d9f8c6b5d-%05d", name, i), Namespace: "production", UID: types.UID(fmt.Sprintf("3f1e4c3a-0000-4000-8000-%012d", i)),
			ResourceVersion: fmt.Sprint(1000000 + i), CreationTimestamp: metav1.Unix(1.7e9, 0), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-7d9f8c6b5d", UID: types.UID(name), Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "web", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}},
				{Name: "proxy", Resources: corev1.ResourceRequirements{Requests: amounts}},
			},
			NodeSelector: map[string]string{"kubernetes.io/arch": "amd64"}, SchedulerName: "default-scheduler",
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "DoNotSchedule",
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": name}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: metav1.Unix(1.7e9, 0),
			Message: "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found.",
		}}},
	}
}

// replicas returns a function that gives n pods, over and over. Only one pod of each Deployment is kept: a
// real watcher holds no pods either.
func replicas(n int) func() *corev1.Pod {
	templates := make([]*corev1.Pod, 500)
	for i := range templates {
		templates[i] = replica(i)
	}
	i := 0
	return func() *corev1.Pod {
		pod := *templates[i%len(templates)]
		pod.Name, pod.UID = pod.Name+strconv.Itoa(i%n), types.UID("3f1e4c3a-0000-4000-8000-"+strconv.Itoa(100_000_000_000+i%n))
		pod.ResourceVersion = strconv.Itoa(1_000_000 + i)
		i++
		return &pod
	}
}

// BenchmarkPublishToFolded sends pods through an embedded NATS server on disk and folds them into a World:
// one iteration is one observation encoded, published, acknowledged, consumed, decoded and folded.
func BenchmarkPublishToFolded(b *testing.B) {
	server, err := embedded.Start(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer stopNATS(b, server)
	open := func() *natsbus.Stream {
		s, err := natsbus.Open(b.Context(), natsbus.Config{Server: server, Cluster: "bench", LogID: testLogID})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	publishing, consuming := open(), open()
	defer publishing.Close()
	defer consuming.Close()
	next := replicas(20_000)
	done := make(chan error, 1)
	enough := errors.New("enough")
	total := uint64(b.N) + 1
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		w := world.New()
		done <- events.Fold(b.Context(), consuming, 1, events.Folder{Apply: func(sequence uint64, o events.Observation) error {
			if w.Apply(sequence, o); sequence == total {
				return enough
			}
			return nil
		}})
	}()
	w := &Watcher{cfg: Config{Stream: publishing, FlushTimeout: time.Minute, Clock: time.Now, Logger: zerolog.Nop()}, metrics: newMetrics(nil)}
	p := newPublisher(b.Context(), w, 1, func(error) {})
	if err := p.publishMark(events.OpResyncBegin, nil); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		pod := next()
		if err := p.Publish(Change{Kind: events.KindPod, Op: events.OpUpsert, UID: string(pod.UID), Name: pod.Namespace + "/" + pod.Name, Object: pod}); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; !errors.Is(err, enough) {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "obs/s")
	b.ReportMetric(float64(messageSize(b, consuming)), "B/obs")
}

// messageSize of the last message.
func messageSize(b *testing.B, s events.Stream) int {
	b.Helper()
	state, err := s.State(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	size, enough := 0, errors.New("enough")
	if err := s.Consume(b.Context(), state.Last, func(m events.Message) error { size = len(m.Data); return enough }); !errors.Is(err, enough) {
		b.Fatal(err)
	}
	return size
}
