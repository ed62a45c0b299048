package kube

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/services/watcher"
	"millwright/tools/workload"
)

// encoder is a Sink that encodes as the publisher does, and sends nothing.
type encoder struct{ counter uint64 }

func (e *encoder) Publish(c watcher.Change) error {
	e.counter++
	_, err := events.Encode(events.Observation{
		Epoch: 1, Counter: e.counter, Kind: c.Kind, Op: c.Op, UID: types.UID(c.UID), Name: c.Name, ResourceVersion: c.ResourceVersion, Object: c.Object,
		ObservedAt: time.Unix(1.7e9, 0),
	})
	return err
}

// BenchmarkWatchedPod is the watcher's own work for one event of one of 150,000 pods: trimmed, compared with
// what was published, summed up and encoded. status: what changed is not published.
func BenchmarkWatchedPod(b *testing.B) {
	const nodes, podsPerNode = 5000, 30
	since := time.Unix(1.7e9, 0)
	s := newStore(kindOf(events.KindPod), &encoder{}, func() {})
	list := make([]any, 0, nodes*podsPerNode)
	for i := range nodes * podsPerNode {
		list = append(list, workload.SettledPod(i/podsPerNode, i%podsPerNode, podsPerNode, since))
	}
	if err := s.Replace(list, "1"); err != nil {
		b.Fatal(err)
	}
	version := 1
	for _, name := range []string{"published", "status"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			pod := workload.SettledPod(17, 3, podsPerNode, since)
			i := 0
			for b.Loop() {
				version++
				i++
				pod.ResourceVersion = fmt.Sprint(version)
				if name == "published" {
					pod.Spec.NodeName = fmt.Sprint("node-", i%2)
				}
				if err := s.Update(pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
