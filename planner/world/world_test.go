package world_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

func podNames(pods []*world.Pod) []string {
	names := []string{}
	for _, p := range pods {
		names = append(names, p.Key())
	}
	return names
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestWorldIsSyncedByItsFirstWholeResync(t *testing.T) {
	w := world.New()
	send := sender(w)
	send(1, 1, events.OpResyncBegin)
	send(1, 2, events.OpHeartbeat)
	want(t, "synced while resyncing", w.Synced(), false)
	want(t, "as-of while resyncing", w.AsOf().IsZero(), true)
	send(1, 3, events.OpResyncEnd)
	want(t, "synced after resync end", w.Synced(), true)
	want(t, "as-of is the heartbeat within the resync", w.AsOf(), pt.Start.Add(2*time.Second))
	want(t, "torn", w.Torn(), false)
}

func sender(w *world.World) func(epoch, counter uint64, op events.Op) {
	sequence := uint64(0)
	return func(epoch, counter uint64, op events.Op) {
		sequence++
		w.Apply(sequence, events.Observation{Epoch: epoch, Counter: counter, Op: op, ObservedAt: pt.Start.Add(time.Duration(counter) * time.Second)})
	}
}

func TestGapsTearTheWorldUntilAWholeResync(t *testing.T) {
	w := world.New()
	send := sender(w)
	send(1, 1, events.OpResyncBegin)
	send(1, 2, events.OpResyncEnd)
	send(1, 4, events.OpHeartbeat)
	want(t, "torn after a gap", w.Torn(), true)
	want(t, "still synced", w.Synced(), true)
	send(2, 1, events.OpResyncBegin)
	send(2, 3, events.OpResyncEnd)
	want(t, "torn after a resync with a gap", w.Torn(), true)
	send(3, 1, events.OpResyncBegin)
	send(3, 2, events.OpResyncEnd)
	want(t, "torn after a whole resync", w.Torn(), false)
}

func TestAWorldThatDiffersFromTheSumsIsTorn(t *testing.T) {
	w := world.New()
	epoch, counter := uint64(0), uint64(0)
	apply := func(o events.Observation) {
		counter++
		o.Epoch, o.Counter, o.ObservedAt = epoch, counter, pt.Start
		w.Apply(epoch*100+counter, o)
	}
	resync := func(objects ...any) {
		epoch, counter = epoch+1, 0
		apply(events.Observation{Op: events.OpResyncBegin})
		for _, object := range objects {
			apply(pt.Observe(object))
		}
		apply(events.Observation{Op: events.OpResyncEnd})
	}
	beat := func(sums map[string]events.Sum) {
		apply(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{Sums: sums}})
	}
	pod, node, pool := pt.Pod("a"), pt.Node("n"), pt.Pool("p")
	resync(pod, node, pool)
	apply(events.Observation{Kind: events.KindPod, Op: events.OpUnreadable, Name: "default/huge", UID: "h", ResourceVersion: "7"})

	var pods, nodes, pools events.Sum
	pods.Add("default/a", pod.UID, pod.ResourceVersion)
	pods.Add("default/huge", "h", "7")
	nodes.Add("n", node.UID, node.ResourceVersion)
	pools.Add("p", pool.UID, pool.ResourceVersion)
	published := map[string]events.Sum{"Pod": pods, "Node": nodes, "NodePool": pools, "Namespace": {}, "KindOfALaterVersion": {Count: 3}}
	beat(published)
	want(t, "torn while all is as published", w.Torn(), false)

	data, err := w.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if w, err = world.Restore(data); err != nil {
		t.Fatal(err)
	}
	beat(published)
	want(t, "torn after a checkpoint", w.Torn(), false)

	nodes.Remove("n", node.UID, node.ResourceVersion)
	nodes.Add("n", node.UID, "a version that never came")
	pools.Add("another", "u", "1")
	beat(map[string]events.Sum{"Pod": pods, "Node": nodes, "NodePool": pools})
	want(t, "torn by what is missing", w.Torn(), true)
	want(t, "what differs", strings.Join(w.Drifted(), " "), "Node NodePool")
	resync(pod, node, pool)
	want(t, "torn after a whole resync", w.Torn() || len(w.Drifted()) > 0, false)

	ref := events.Observation{Kind: events.KindCatalog, Op: events.OpUpsert, Name: "default", Object: &events.CatalogRef{NodeClass: "default", Hash: "lost"}}
	apply(ref)
	beat(map[string]events.Sum{"Namespace": {}})
	want(t, "what differs without the content of a catalogue", strings.Join(w.Drifted(), " "), "Catalog")
	resync(pod, node, pool)
	ref.Object = &events.CatalogRef{NodeClass: "default", Hash: "lost", Catalog: &events.Catalog{NodeClass: "default"}}
	apply(ref)
	beat(map[string]events.Sum{"Namespace": {}})
	want(t, "torn with it", w.Torn(), false)
}

func TestResyncWithAGapDropsNothing(t *testing.T) {
	c := pt.New(pt.Node("a"), pt.Node("b"))
	c.Lose()
	node := pt.Node("a")
	begin := events.Observation{Op: events.OpResyncBegin}
	// The message about b is lost within the resync.
	w := c.World
	n := uint64(len(c.Messages))
	begin.Epoch, begin.Counter = 2, 1
	w.Apply(n+1, begin)
	a := pt.Observe(node)
	a.Epoch, a.Counter = 2, 2
	w.Apply(n+2, a)
	w.Apply(n+4, events.Observation{Op: events.OpResyncEnd, Epoch: 2, Counter: 4})
	if w.Node("b") == nil {
		t.Error("a node whose message was lost is gone")
	}
	want(t, "torn", w.Torn(), true)
}

func TestResyncDropsWhatItDoesNotMention(t *testing.T) {
	c := pt.New(pt.Node("a"), pt.Node("b"), pt.Pod("p", pt.On("b")), pt.Claim("c", "a", "x"), &events.Prices{Entries: []events.Price{
		{InstanceType: "m5.large", CapacityType: "on-demand", MicroUSDPerHour: 5},
	}})
	c.Resync(pt.Node("a"))
	want(t, "nodes", len(c.World.Nodes()), 1)
	want(t, "pods", c.World.PodCount(), 0)
	want(t, "classes", c.World.ClassCount(), 0)
	want(t, "claims", len(c.World.NodeClaims()), 0)
	want(t, "price", c.World.Price("m5.large", "on-demand", "z"), int64(0))
	if pods := c.World.PodsOn("b"); len(pods) > 0 {
		t.Errorf("pods on a dropped node: %v", podNames(pods))
	}
}

func TestLateAndRepeatedMessagesAreIgnored(t *testing.T) {
	c := pt.New(pt.Node("a"))
	before := c.World.Position()
	old := pt.Observe(pt.Node("b"))
	old.Epoch, old.Counter = 1, 1
	c.World.Apply(uint64(len(c.Messages))+1, old)
	if c.World.Node("b") != nil {
		t.Error("a repeated counter was folded")
	}
	want(t, "digest", c.World.Position().Digest, before.Digest)
	want(t, "ignored", c.World.Ignored(), 1)
	c.Resync(pt.Node("a"))
	old.Epoch, old.Counter = 1, 99
	c.World.Apply(uint64(len(c.Messages))+1, old)
	if c.World.Node("b") != nil {
		t.Error("a lower epoch was folded")
	}
}

func TestAnotherIncarnationStartsEmpty(t *testing.T) {
	c := pt.New(pt.Node("a"))
	c.World.SetIncarnation("stream-1")
	want(t, "same name keeps", len(c.World.Nodes()), 1)
	c.World.SetIncarnation("stream-2")
	want(t, "nodes", len(c.World.Nodes()), 0)
	want(t, "synced", c.World.Synced(), false)
	want(t, "position", c.World.Position(), events.Position{Incarnation: "stream-2"})
}

func TestUnreadableObjectsAreNamed(t *testing.T) {
	c := pt.New(pt.Pod("p", pt.On("a")))
	o := pt.Observe(pt.Pod("p"))
	o.Op, o.Object = events.OpUnreadable, nil
	c.Send(o)
	want(t, "pods", c.World.PodCount(), 0)
	if u := c.World.Unreadable(); len(u) != 1 || u[0].Kind != events.KindPod || u[0].Name != "default/p" {
		t.Errorf("unreadable: %v", u)
	}
	c.See(pt.Pod("p"))
	want(t, "unreadable after it could be read", len(c.World.Unreadable()), 0)
}

func TestObjectsOfAnotherTypeNeverPanic(t *testing.T) {
	c := pt.New()
	for kind := events.KindNone; kind < 64; kind++ {
		for _, object := range []any{nil, "text", &events.Heartbeat{}, (*corev1.Pod)(nil), (*corev1.Node)(nil), (*karpv1.NodeClaim)(nil)} {
			for op := events.Op(0); op < 8; op++ {
				c.Send(events.Observation{Kind: kind, Op: op, Name: "x", Object: object})
			}
		}
	}
	if _, err := c.World.Checkpoint(); err != nil {
		t.Error(err)
	}
}

func TestNodeSumsFollowPods(t *testing.T) {
	c := pt.New(pt.Node("a"),
		pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1", "memory", "1Gi")),
		pt.Pod("ended", pt.On("a"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pt.Pod("leaving", pt.On("a"), pt.Requests("cpu", "2"), pt.Deleting(pt.Start.Add(time.Minute))),
		pt.DaemonPod("d", "a", pt.Requests("cpu", "100m")), pt.Pod("waiting", pt.Unschedulable()))
	n := c.World.Node("a")
	want(t, "used cpu, terminating pods included", n.Used.MilliCPU, 3100)
	want(t, "used pods", n.Used.Pods, 3)
	want(t, "daemon cpu", n.DaemonUsed.MilliCPU, 100)
	c.Gone(pt.Pod("p"))
	want(t, "used cpu after deletion", c.World.Node("a").Used.MilliCPU, 2100)
	want(t, "pending", len(c.World.PendingPods()), 1)
	c.See(pt.Pod("waiting", pt.On("a")))
	want(t, "pending after binding", len(c.World.PendingPods()), 0)
	want(t, "pods on a", len(c.World.PodsOn("a")), 4)
}

func TestPodReplacedUnderItsName(t *testing.T) {
	c := pt.New(pt.Node("a"), pt.Pod("p", pt.On("a")))
	second := pt.Pod("p", pt.On("a"))
	second.UID = "second"
	c.See(second)
	want(t, "pods", c.World.PodCount(), 1)
	want(t, "pods on a", len(c.World.PodsOn("a")), 1)
	c.Gone(pt.Pod("p")) // the first pod of that name
	want(t, "pods after a late deletion of the first", c.World.PodCount(), 1)
}

func TestPodEvents(t *testing.T) {
	at := func(c *pt.Cluster) time.Duration { return c.World.LastPodEvent("a").Sub(pt.Start) }
	seen := func() *pt.Cluster { return pt.New(pt.Node("a"), pt.Pod("p", pt.On("a")), pt.DaemonPod("d", "a")) }
	cases := map[string]struct {
		do   func(*pt.Cluster)
		none bool
	}{
		"what the first resync finds is no event": {do: func(*pt.Cluster) {}, none: true},
		"a pod is bound": {do: func(c *pt.Cluster) { c.See(pt.Pod("q", pt.On("a"))) }},
		"a pod ends": {do: func(c *pt.Cluster) {
			c.See(pt.Pod("p", pt.On("a"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
		}},
		"a pod is being deleted":        {do: func(c *pt.Cluster) { c.See(pt.Pod("p", pt.On("a"), pt.Deleting(pt.Start))) }},
		"a pod vanishes unseen":         {do: func(c *pt.Cluster) { c.Gone(pt.Pod("p")) }},
		"a resync misses a pod":         {do: func(c *pt.Cluster) { c.Resync(pt.Node("a")) }},
		"a daemon's pod is deleted":     {do: func(c *pt.Cluster) { c.Gone(pt.DaemonPod("d", "a")) }, none: true},
		"a pod changes otherwise":       {do: func(c *pt.Cluster) { c.See(pt.Pod("p", pt.On("a"), pt.Annotation("x", "y"))) }, none: true},
		"the node is made anew":         {do: func(c *pt.Cluster) { c.Gone(pt.Pod("p")); n := pt.Node("a"); n.UID = "new"; c.See(n) }, none: true},
		"a pod of another node changes": {do: func(c *pt.Cluster) { c.See(pt.Pod("q", pt.On("b"))) }, none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := seen()
			c.Advance(time.Minute)
			tc.do(c)
			if tc.none {
				want(t, "no event", c.World.LastPodEvent("a").IsZero(), true)
				return
			}
			want(t, "event", at(c), time.Minute)
		})
	}
}

func TestReplicasShareAClass(t *testing.T) {
	replica := func(name string) *corev1.Pod {
		return pt.Pod(name, pt.OwnedBy("apps/v1", "ReplicaSet", "web-1"), func(p *corev1.Pod) {
			p.Spec.Hostname = name
			p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-" + name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
			p.Annotations = map[string]string{"foreign": name}
		})
	}
	c := pt.New(replica("a"), replica("b"), replica("c"), pt.Pod("other", pt.Requests("cpu", "9")))
	want(t, "classes", c.World.ClassCount(), 2)
	want(t, "refs", c.World.PodsOfClass(c.World.Pod("pod-a").Class.Digest), 3)
	c.Gone(replica("a"), replica("b"))
	want(t, "refs", c.World.PodsOfClass(c.World.Pod("pod-c").Class.Digest), 1)
	c.Gone(replica("c"))
	want(t, "classes", c.World.ClassCount(), 1)
	daemon := func(node string) *corev1.Pod {
		return pt.DaemonPod("d-"+node, node, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{node}}}}},
			}}}
		})
	}
	c = pt.New(daemon("a"), daemon("b"))
	want(t, "classes of a DaemonSet", c.World.ClassCount(), 1)
}

func TestNamedRecords(t *testing.T) {
	annotated := func(name, value string) *karpv1.NodeClaim {
		return pt.Claim(name, name, "p", func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.RecordAnnotationKey: value}
		})
	}
	c := pt.New(annotated("a", "log/7"), annotated("b", "log/12"), annotated("c", "other/99"), annotated("d", "nonsense"))
	want(t, "highest", c.World.NamedRecords("log").Highest(), 12)
	want(t, "other log", c.World.NamedRecords("other").Highest(), 99)
	c.Gone(annotated("b", ""))
	want(t, "after deletion", c.World.NamedRecords("log").Highest(), 7)
	node := func(name, value string) *corev1.Node {
		return pt.Node(name, func(n *corev1.Node) { n.Annotations = map[string]string{karpv1.RecordAnnotationKey: value} })
	}
	c.See(node("x", "log/20"), node("y", "log/9"), node("z", "log/20"), node("v", "log/18446744073709551615"))
	want(t, "of a node", c.World.NamedRecords("log").Highest(), 20)
	want(t, "refuted of nodes", c.World.NamedRecords("log").Highest(20), 9)
	want(t, "refuted of a claim", c.World.NamedRecords("log").Highest(7, 9, 20), 7)
	if got := c.World.NamedRecords("log").OfNodesAfter(9); !slices.Equal(got, []uint64{20}) {
		t.Errorf("after 9 are %v", got)
	}
}

func TestPricesAreDifferences(t *testing.T) {
	ref, prices := pt.Catalogue("default", pt.Types)
	c := pt.New(ref, prices)
	offering := func() int64 {
		for _, o := range c.World.Catalog("default").Type("m5.large").Offerings {
			if o.Zone == "us-west-2a" && o.CapacityType == "spot" {
				return o.Price
			}
		}
		return -1
	}
	want(t, "spot price", offering(), 38400)
	c.See(&events.Prices{Entries: []events.Price{{InstanceType: "m5.large", CapacityType: "spot", Zone: "us-west-2a", MicroUSDPerHour: 1000}}})
	want(t, "spot price after a difference", offering(), 1000)
	want(t, "on-demand holds in every zone", c.World.Price("m5.large", "on-demand", "us-west-2c"), 96000)
	c.See(&events.Prices{Entries: []events.Price{{InstanceType: "m5.large", CapacityType: "spot", Zone: "us-west-2a"}}})
	want(t, "spot price that is no longer known", c.World.Price("m5.large", "spot", "us-west-2a"), 0)
}

func TestFirstSeen(t *testing.T) {
	c := pt.New(pt.Node("a"))
	c.Advance(time.Hour)
	c.See(pt.Node("a"))
	want(t, "first seen", c.World.FirstSeen("a"), pt.Start)
}

// The watcher that leads is of a later version.
func TestObjectsOfUnknownKindsArePassedOver(t *testing.T) {
	w := world.New()
	at := func(sequence, epoch uint64, o events.Observation) {
		o.Epoch, o.Counter, o.ObservedAt = epoch, sequence, pt.Start
		w.Apply(sequence, o)
	}
	at(1, 1, events.Observation{Op: events.OpResyncBegin})
	before := w.Position().Digest
	at(2, 1, events.Observation{Kind: 200, Op: events.OpUpsert, Name: "a", UID: "u"})
	want(t, "its message is part of the position", w.Position().Digest != before, true)
	at(3, 1, events.Observation{Op: events.OpResyncEnd})
	want(t, "whole", w.Synced() && !w.Torn(), true)
	want(t, "unreadable", len(w.Unreadable()), 0)
	want(t, "incomplete", world.IsIncomplete(w), true)
	at(4, 1, events.Observation{Kind: 200, Op: events.OpUnreadable, Name: "b", UID: "v"})
	at(5, 1, events.Observation{Kind: 200, Op: events.OpDelete, Name: "a", UID: "u"})
	want(t, "unreadable", len(w.Unreadable()), 0)
	want(t, "torn", w.Torn(), false)
	at(6, 2, events.Observation{Op: events.OpResyncBegin})
	want(t, "incomplete until the watcher of this version has published everything", world.IsIncomplete(w), true)
	at(7, 2, events.Observation{Op: events.OpResyncEnd})
	want(t, "incomplete after that", world.IsIncomplete(w), false)
}
