package world_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

// replica is the i-th pod of a large cluster, spread over deployments and nodes, with what pods really carry.
func replica(i, deployments, nodes int) *corev1.Pod {
	d := i % deployments
	name := fmt.Sprintf("service-%03d-5d4f8c7b9-%05x", d, i)
	return pt.Pod(name, pt.On(fmt.Sprintf("ip-10-0-%d-%d.us-west-2.compute.internal", i%nodes/250, i%nodes%250)),
		pt.Namespace(fmt.Sprintf("team-%02d", d%50)), pt.OwnedBy("apps/v1", "ReplicaSet", fmt.Sprintf("service-%03d-5d4f8c7b9", d)),
		pt.Labels("app.kubernetes.io/name", fmt.Sprintf("service-%03d", d), "pod-template-hash", "5d4f8c7b9", "team", fmt.Sprint(d%50)),
		pt.Requests("cpu", "250m", "memory", "512Mi"), func(p *corev1.Pod) {
			p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("%08x-1111-2222-3333-%012x", i, i)), fmt.Sprint(1000000+i)
			p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-" + name[len(name)-5:], VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
			p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		})
}

// observations decodes each pod from bytes, as services do, so that nothing is shared that would not be.
func observations(tb testing.TB, pods, deployments, nodes int) []events.Observation {
	list := make([]events.Observation, pods)
	for i := range list {
		p := replica(i, deployments, nodes)
		b, err := p.Marshal()
		if err != nil {
			tb.Fatal(err)
		}
		decoded := &corev1.Pod{}
		if err := decoded.Unmarshal(b); err != nil {
			tb.Fatal(err)
		}
		list[i] = pt.Observe(decoded)
		list[i].Epoch, list[i].Counter = 1, uint64(i+2)
	}
	return list
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func grown(pods, deployments, nodes int, tb testing.TB) *world.World {
	w := world.New()
	w.Apply(1, events.Observation{Epoch: 1, Counter: 1, Op: events.OpResyncBegin})
	const chunk = 1000
	for from := 0; from < pods; from += chunk {
		for i := from; i < min(from+chunk, pods); i++ {
			p := replica(i, deployments, nodes)
			b, _ := p.Marshal()
			decoded := &corev1.Pod{}
			if err := decoded.Unmarshal(b); err != nil {
				tb.Fatal(err)
			}
			o := pt.Observe(decoded)
			o.Epoch, o.Counter = 1, uint64(i+2)
			w.Apply(uint64(i+2), o)
		}
	}
	return w
}

// TestWorldBytesPerPod keeps to the aim: at most 1 KiB of World per pod at 100,000 pods of 500
// Deployments.
func TestWorldBytesPerPod(t *testing.T) {
	const pods = 100_000
	before := heap()
	w := grown(pods, 500, 2000, t)
	perPod := (heap() - before) / pods
	t.Logf("%d bytes of World per pod at %d pods in %d classes", perPod, w.PodCount(), w.ClassCount())
	if perPod > 1024 {
		t.Errorf("%d bytes per pod, at most 1024 wanted", perPod)
	}
	runtime.KeepAlive(w)
}

func BenchmarkApplyPod(b *testing.B) {
	list := observations(b, 20_000, 500, 1000)
	w := world.New()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		o := list[i%len(list)]
		o.Counter = uint64(i + 2)
		w.Apply(uint64(i+1), o)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "obs/s")
}

// large is a World of 1,000 nodes and 20,000 pods.
func large(b *testing.B) *world.World {
	w := grown(20_000, 500, 1000, b)
	for i := range 1000 {
		o := pt.Observe(pt.Node(fmt.Sprintf("ip-10-0-%d-%d.us-west-2.compute.internal", i/250, i%250), pt.InPool("default")))
		o.Epoch, o.Counter = 1, uint64(30_000+i)
		w.Apply(o.Counter, o)
		o = pt.Observe(pt.Claim(fmt.Sprintf("default-%d", i), o.Name, "default"))
		o.Epoch, o.Counter = 1, uint64(31_000+i)
		w.Apply(o.Counter, o)
	}
	return w
}

func BenchmarkCheckpoint1000Nodes20000Pods(b *testing.B) {
	w := large(b)
	b.ResetTimer()
	var size int
	for range b.N {
		data, err := w.Checkpoint()
		if err != nil {
			b.Fatal(err)
		}
		size = len(data)
	}
	b.ReportMetric(float64(size), "bytes")
}

func BenchmarkRestore1000Nodes20000Pods(b *testing.B) {
	data, err := large(b).Checkpoint()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		if _, err := world.Restore(data); err != nil {
			b.Fatal(err)
		}
	}
}
