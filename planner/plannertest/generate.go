package plannertest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
)

// History draws a sequence of observations as a watcher could have published them: epochs with resyncs,
// changes between them, counters without gaps. Objects are few, so that changes meet.
func History(t *rapid.T) []events.Observation {
	h := &history{t: t, live: map[string]any{}}
	for range rapid.IntRange(1, 3).Draw(t, "epochs") {
		h.resync()
		for range rapid.IntRange(0, 15).Draw(t, "changes") {
			h.change()
		}
	}
	return h.messages
}

type history struct {
	t              *rapid.T
	epoch, counter uint64
	at             int
	// live objects by name.
	live     map[string]any
	messages []events.Observation
}

func (h *history) send(o events.Observation) {
	h.counter++
	h.at++
	o.Epoch, o.Counter, o.ObservedAt = h.epoch, h.counter, Start.Add(time.Duration(h.at)*time.Second)
	h.messages = append(h.messages, o)
}

// resync changes the objects unseen, then lists them.
func (h *history) resync() {
	for range rapid.IntRange(0, 6).Draw(h.t, "unseen") {
		h.mutate()
	}
	h.epoch, h.counter = h.epoch+1, 0
	h.send(events.Observation{Op: events.OpResyncBegin})
	for _, name := range sortedNames(h.live) {
		h.send(Observe(h.live[name]))
	}
	h.send(events.Observation{Op: events.OpResyncEnd})
	h.beat()
}

func (h *history) beat() {
	h.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

func (h *history) change() {
	if rapid.IntRange(0, 4).Draw(h.t, "beat") == 0 {
		h.beat()
		return
	}
	before, after := h.mutate()
	switch {
	case after != nil:
		h.send(Observe(after))
	case before != nil:
		o := Observe(before)
		o.Op, o.Object = events.OpDelete, nil
		h.send(o)
	}
}

// mutate makes, changes or deletes one object.
func (h *history) mutate() (before, after any) {
	name := rapid.SampledFrom([]string{"pod-a", "pod-b", "pod-c", "pod-d", "node-a", "node-b", "claim-a", "pool-a", "prices"}).Draw(h.t, "object")
	before = h.live[name]
	if before != nil && name != "prices" && rapid.IntRange(0, 3).Draw(h.t, "delete") == 0 {
		delete(h.live, name)
		return before, nil
	}
	after = h.object(name)
	h.live[name] = after
	return before, after
}

func (h *history) object(name string) any {
	version := fmt.Sprint(h.at + rapid.IntRange(1, 1000).Draw(h.t, "version"))
	switch name[:3] {
	case "pod":
		return h.pod(name, version)
	case "nod":
		n := Node(name, InPool("pool-a"))
		n.ResourceVersion = version
		return n
	case "cla":
		return Claim(name, "node-a", "pool-a", func(c *karpv1.NodeClaim) { c.ResourceVersion = version })
	case "poo":
		return Pool(name, func(p *karpv1.NodePool) { p.ResourceVersion = version })
	}
	return &events.Prices{Entries: []events.Price{{InstanceType: "m5.large", CapacityType: "on-demand", MicroUSDPerHour: 96000}}}
}

func (h *history) pod(name, version string) *corev1.Pod {
	p := Pod(name, Requests("cpu", rapid.SampledFrom([]string{"100m", "1", "2500m"}).Draw(h.t, "cpu"), "nvidia.com/gpu", rapid.SampledFrom([]string{"0", "1"}).Draw(h.t, "gpu")))
	p.ResourceVersion = version
	if old, ok := h.live[name].(*corev1.Pod); ok && rapid.Bool().Draw(h.t, "same pod") {
		p.UID, p.Spec = old.UID, old.Spec
	} else {
		p.UID += types.UID("-" + version) // another pod of the name
	}
	if p.Spec.NodeName == "" && rapid.Bool().Draw(h.t, "bind") {
		On(rapid.SampledFrom([]string{"node-a", "node-b"}).Draw(h.t, "node"))(p)
	}
	p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}).Draw(h.t, "phase")
	if rapid.IntRange(0, 3).Draw(h.t, "daemon") == 0 {
		OwnedBy("apps/v1", "DaemonSet", "ds")(p)
	}
	if rapid.IntRange(0, 3).Draw(h.t, "deleting") == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: Start.Add(time.Hour)}
	}
	return p
}

func sortedNames(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
