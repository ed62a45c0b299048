package kubeevent

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright/services/internal/service"
)

type fakeSink struct{ got []string }

func (f *fakeSink) Event(object runtime.Object, eventType, reason, message string) {
	ref := object.(*corev1.ObjectReference)
	f.got = append(f.got, fmt.Sprintf("%s %s/%s %s %s: %s", ref.Kind, ref.Namespace, ref.Name, eventType, reason, message))
}

func pod(namespace, name string) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}
}

func TestPublish(t *testing.T) {
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	type step struct {
		after time.Duration
		event service.KubeEvent
		drop  bool
	}
	evicted := service.KubeEvent{Object: pod("a", "p"), Type: "Normal", Reason: "Evicted", Message: "Evicted pod"}
	other := evicted
	other.Object = pod("b", "p")
	changed := evicted
	changed.Message = "Evicted pod: Empty"
	long := evicted
	long.DedupeFor = 10 * time.Minute
	keyed := evicted
	keyed.DedupeKey = "k"
	keyedChanged := changed
	keyedChanged.DedupeKey = "k"
	cases := map[string][]step{
		"an equal event is dropped for two minutes": {
			{0, evicted, false}, {119 * time.Second, evicted, true}, {time.Second, evicted, false}},
		"a pod of the same name in another namespace has its own events": {{0, evicted, false}, {0, other, false}},
		"a changed message is published at once":                         {{0, evicted, false}, {0, changed, false}},
		"a given time to drop repeats is honoured": {
			{0, long, false}, {9 * time.Minute, long, true}, {time.Minute, long, false}},
		"what was remembered by a clock that was ahead is forgotten": {{0, evicted, false}, {-30 * 24 * time.Hour, evicted, false}, {time.Second, evicted, true}},
		"a given key hides changes of the message":                   {{0, keyed, false}, {0, keyedChanged, true}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			now, sink := start, &fakeSink{}
			p := New(sink, func() time.Time { return now })
			for i, s := range steps {
				now = now.Add(s.after)
				before := len(sink.got)
				p.Publish(s.event)
				if dropped := len(sink.got) == before; dropped != s.drop {
					t.Errorf("step %d: dropped %v, want %v", i, dropped, s.drop)
				}
			}
		})
	}
}

func TestLimitedEventIsNotRemembered(t *testing.T) {
	now, sink := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), &fakeSink{}
	p := New(sink, func() time.Time { return now })
	nominate := func(i int) {
		p.Publish(service.KubeEvent{Object: pod("a", fmt.Sprint(i)), Type: "Normal", Reason: "Nominated", Message: "m"})
	}
	for i := range 15 {
		nominate(i)
	}
	if len(sink.got) != 10 {
		t.Fatalf("a burst of 15 published %d, want 10", len(sink.got))
	}
	now = now.Add(200 * time.Millisecond)
	nominate(14)
	nominate(14)
	if len(sink.got) != 11 {
		t.Fatalf("after one token's time %d were published, want 11: the limited event may come again, once", len(sink.got))
	}
}

func TestRememberedIsBounded(t *testing.T) {
	now, sink := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), &fakeSink{}
	p := New(sink, func() time.Time { return now })
	for i := range rememberedMax + 100 {
		now = now.Add(100 * time.Millisecond)
		p.Publish(service.KubeEvent{Object: pod("a", fmt.Sprint(i)), Reason: "Evicted", DedupeFor: 100 * time.Hour})
	}
	if n := p.until.Len(); n != rememberedMax {
		t.Fatalf("%d events are remembered, not %d", n, rememberedMax)
	}
	before := len(sink.got)
	p.Publish(service.KubeEvent{Object: pod("a", fmt.Sprint(rememberedMax+99)), Reason: "Evicted"})
	if len(sink.got) != before {
		t.Error("the last event was forgotten")
	}
	p.Publish(service.KubeEvent{Object: pod("a", "0"), Reason: "Evicted"})
	if len(sink.got) != before+1 {
		t.Error("the first event is still remembered")
	}
}

// TestWhatIsRememberedOfALongMessageIsShort: FailedScheduling may fill a page for each pod.
func TestWhatIsRememberedOfALongMessageIsShort(t *testing.T) {
	long := service.KubeEvent{Object: pod("a", "p"), Reason: "FailedScheduling", Message: strings.Repeat("no instance type fits; ", 1000)}
	if size := reflect.TypeOf(dedupeKey(long)).Size(); size != 16 {
		t.Errorf("%d bytes for an event", size)
	}
}
