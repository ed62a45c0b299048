package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
)

// version is the Snapshot of a cluster as services have it.
func (c *cluster) version() *planner.Snapshot {
	s := planner.SnapshotAt(c.world.Version(), c.ledger.Version(), c.now)
	s.Options = c.options
	return s
}

// everything that a result says.
func everything(r Result) string {
	verdicts := slices.Clone(r.Verdicts)
	for i := range verdicts {
		verdicts[i].Changed = false
	}
	return fmt.Sprintln(encode(r.Claims), encode(verdicts), r.Refused, r.Uninitialized, r.PricePerHour, r.steps)
}

// remembering compares a Memory with simulations that are worked out.
type remembering struct {
	c *cluster
	m Memory
}

// ask asks for some nodes to go and returns how many answers were given back.
func (x *remembering) ask(t fails, questions [][]string) int {
	_, before := x.m.Counts()
	s := x.c.version()
	x.m.Begin(s)
	for i, without := range questions {
		sc := Scenario{Without: without, Pack: i%2 == 0}
		if got, want := everything(x.m.Simulate(s, sc)), everything(Simulate(x.c.version(), sc)); got != want {
			t.Fatalf("without %v it remembers\n%s\nwhich is\n%s", without, got, want)
		}
	}
	x.m.End()
	_, after := x.m.Counts()
	return after - before
}

// remove asks for some nodes to go, each question by itself, by settings that mark nodes, and returns how
// many answers were given back.
func (x *remembering) remove(t fails, questions [][]string, marked map[string]bool) int {
	before := x.m.removed.Recalled
	s := x.c.version()
	set := Settings{Last: func(n *planner.StateNode) bool { return marked[n.Name] }, Closed: func(n *planner.StateNode) bool { return marked["closed "+n.Name] }}
	x.m.Begin(s)
	removals := NewRemovals(s, set, &x.m)
	if got, want := fmt.Sprint(removals.Waiting()), fmt.Sprint(NewSimulation(x.c.version(), set).Waiting()); got != want {
		t.Fatalf("pods wait for %s, want %s", got, want)
	}
	for _, without := range questions {
		if got, want := allOf(removals.Of(without...)), allOf(NewSimulation(x.c.version(), set).Remove(without...)); got != want {
			t.Fatalf("without %v it remembers\n%s\nwhich is\n%s", without, got, want)
		}
	}
	x.m.End()
	return x.m.removed.Recalled - before
}

// allOf says everything of a Removal.
func allOf(r Removal) string {
	text := &strings.Builder{}
	for _, m := range r.Moves {
		fmt.Fprintln(text, m.Pod.UID, m.From, m.Node, m.Claim, m.NewClaim, m.Relaxed, r.Why[m.Pod.UID])
	}
	for _, id := range r.Claims {
		fmt.Fprintln(text, id, encode(r.Opened[id].Claim), r.Opened[id].Err)
	}
	fmt.Fprintln(text, r.Unplaced, r.PricePerHour, r.Uninitialized)
	return text.String()
}

// fill leaves nodes little room.
func fill(t *rapid.T, c *cluster, nodes []string) {
	for i, n := range c.snapshot().StateNodes() {
		free := rapid.SampledFrom([]int64{20, 20, 50, 400}).Draw(t, "free")
		if left := n.Available.MilliCPU - free; left > 0 {
			c.put(bound(newPod(fmt.Sprint("filler-", i), map[string]string{"cpu": fmt.Sprintf("%dm", left)}), n.Name))
		}
	}
}

// drawSmallChange changes a pod, a node or a setting.
func drawSmallChange(t *rapid.T, c *cluster, nodes []string, n int) {
	on := rapid.SampledFrom(nodes).Draw(t, "on")
	pods := c.world.PodsOn(on)
	switch rapid.IntRange(0, 17).Draw(t, "change") {
	case 0:
		c.put(bound(newPod(fmt.Sprint("small-", n), map[string]string{"cpu": "5m"}), on))
	case 1, 2, 3, 4:
		a := app{name: fmt.Sprint("app-", rapid.IntRange(0, 3).Draw(t, "app")), skew: 1}
		a.kind = rapid.SampledFrom([]string{"plain", "host-spread", "zone-anti", "host-anti", "near"}).Draw(t, "kind")
		a.near = "app-0"
		c.put(bound(a.pod(50+n, "5m"), on))
	case 5, 6, 7:
		if len(pods) > 0 {
			p := rapid.SampledFrom(pods).Draw(t, "pod")
			c.remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
		}
	case 8:
		p := newPod(fmt.Sprint("small-", n), map[string]string{"cpu": "5m"})
		p.Labels = map[string]string{"app": "app-1"}
		bound(p, on).Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodRunning}).Draw(t, "phase")
		c.put(p)
	case 9:
		node := c.world.Node(on).Object.DeepCopy()
		node.Labels[corev1.LabelTopologyZone] = rapid.SampledFrom([]string{"zone-a", "zone-b"}).Draw(t, "zone")
		c.put(node)
	case 10:
		node := c.world.Node(on).Object.DeepCopy()
		node.Spec.Taints = []corev1.Taint{{Key: "two", Effect: corev1.TaintEffectNoSchedule}}
		c.put(node)
	case 11:
		pool := c.world.NodePools()[0].DeepCopy()
		pool.Spec.Limits = karpv1.Limits(amounts(map[string]string{"cpu": fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "limit"))}))
		c.put(pool)
	case 12:
		c.put(newDaemonSet(fmt.Sprint("daemon-", n), map[string]string{"cpu": "300m"}))
	case 13:
		c.options.InstanceTypesMax = rapid.IntRange(1, 60).Draw(t, "types")
	case 14:
		c.put(newPod(fmt.Sprint("waiting-", n), map[string]string{"cpu": "1"}))
	case 16: // it goes, and what cannot move stays until then
		node := c.world.Node(on).Object.DeepCopy()
		node.DeletionTimestamp = &metav1.Time{Time: noon}
		c.put(node)
	case 17:
		if len(pods) > 0 {
			p := rapid.SampledFrom(pods).Draw(t, "pod")
			staying := newPod(p.Name, map[string]string{"cpu": "5m"})
			staying.Labels, staying.Annotations = p.Class.Labels, map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			c.put(bound(staying, on))
		}
	case 15:
		c.put(newNode(fmt.Sprint("new-", n), map[string]string{"cpu": "4", "memory": "64Gi", "pods": "20"}, map[string]string{corev1.LabelTopologyZone: "zone-b"}))
	}
}

// TestWhatIsRememberedIsWhatIsWorkedOut: whatever changes, a Memory says what is worked out without one,
// in as many steps.
func TestWhatIsRememberedIsWhatIsWorkedOut(t *testing.T) {
	recalled, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c, nodes := drawRunning(t)
		fill(t, c, nodes)
		var questions [][]string
		for range rapid.IntRange(1, 4).Draw(t, "questions") {
			questions = append(questions, rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 1, 3, func(n string) string { return n }).Draw(t, "without"))
		}
		x := &remembering{c: c}
		x.ask(t, questions)
		for i := range rapid.IntRange(1, 4).Draw(t, "passes") {
			for j := range rapid.IntRange(0, 2).Draw(t, "changes") {
				drawSmallChange(t, c, nodes, i*10+j)
			}
			recalled, asked = recalled+x.ask(t, questions), asked+len(questions)
		}
	})
	if t.Logf("%d of %d", recalled, asked); recalled*5 < asked {
		t.Errorf("only %d of %d answers were given back", recalled, asked)
	}
}

// TestARemovalThatIsRememberedIsTheOneThatIsWorkedOut: the same of questions to one Simulation.
func TestARemovalThatIsRememberedIsTheOneThatIsWorkedOut(t *testing.T) {
	recalled, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c, nodes := drawRunning(t)
		fill(t, c, nodes)
		marked := map[string]bool{}
		mark := func() {
			marked[rapid.SampledFrom([]string{"", "closed "}).Draw(t, "kind")+rapid.SampledFrom(nodes).Draw(t, "marked")] = rapid.Bool().Draw(t, "is")
		}
		mark()
		questions := make([][]string, len(nodes))
		for i, n := range nodes {
			questions[i] = []string{n}
		}
		questions = append(questions, rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 1, 3, func(n string) string { return n }).Draw(t, "without"))
		x := &remembering{c: c}
		x.remove(t, questions, marked)
		for i := range rapid.IntRange(1, 4).Draw(t, "passes") {
			for j := range rapid.IntRange(0, 2).Draw(t, "changes") {
				drawSmallChange(t, c, nodes, i*10+j)
			}
			if rapid.IntRange(0, 4).Draw(t, "marks") == 0 {
				mark()
			}
			if rapid.Bool().Draw(t, "part") { // so that the pass needs no Simulation, or begins one in the middle
				recalled, asked = recalled+x.remove(t, questions[:1], marked), asked+1
				continue
			}
			recalled, asked = recalled+x.remove(t, questions, marked), asked+len(questions)
		}
	})
	if t.Logf("%d of %d", recalled, asked); recalled*6 < asked {
		t.Errorf("only %d of %d answers were given back", recalled, asked)
	}
}

// TestASmallChangeElsewhereIsRemembered, and each of those that matter is noticed.
func TestASmallChangeElsewhereIsRemembered(t *testing.T) {
	for name, x := range map[string]struct {
		change   func(c *cluster)
		recalled int
	}{
		"nothing":                        {func(*cluster) {}, 1},
		"a pod that nobody looks for":    {func(c *cluster) { c.put(bound(newPod("small", map[string]string{"cpu": "5m"}), "b")) }, 1},
		"a pod ends on a node that goes": {func(c *cluster) { c.remove(newPod("on-a", nil)) }, 0},
		"room for a pod that moves":      {func(c *cluster) { c.remove(newPod("filler", nil)) }, 0},
		"less room than before":          {func(c *cluster) { c.put(bound(newPod("big", map[string]string{"cpu": "1"}), "c")) }, 0},
		"a pod that is counted": {func(c *cluster) {
			a := app{name: "web", kind: "plain"}
			c.put(bound(a.pod(7, "5m"), "b"))
		}, 0},
		"a pod that keeps others away": {func(c *cluster) {
			p := newPod("hostile", map[string]string{"cpu": "5m"})
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}}}
			c.put(bound(p, "b"))
		}, 0},
		"a label": {func(c *cluster) {
			n := c.world.Node("c").Object.DeepCopy()
			n.Labels[corev1.LabelTopologyZone] = "zone-c"
			c.put(n)
		}, 0},
		"a condition of a node": {func(c *cluster) {
			n := c.world.Node("c").Object.DeepCopy()
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(noon)
			c.put(n)
		}, 1},
		"a NodePool": {func(c *cluster) {
			p := c.world.NodePools()[0].DeepCopy()
			p.Spec.Limits = karpv1.Limits(amounts(map[string]string{"cpu": "1"}))
			c.put(p)
		}, 0},
		"a pod that waits": {func(c *cluster) { c.put(newPod("waiting", map[string]string{"cpu": "1"})) }, 0},
		"a volume that was looked up": {func(c *cluster) {
			c.put(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "disk"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "gone"}})
		}, 0},
		"options": {func(c *cluster) { c.options.InstanceTypesMax = 2 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.catalogue()
			c.put(newPool("default"))
			for i, n := range []string{"a", "b", "c"} {
				c.put(newNode(n, map[string]string{"cpu": "4", "memory": "16Gi", "pods": "20"}, map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("zone-%c", 'a'+i%2)}))
			}
			web := app{name: "web", kind: "zone-spread", skew: 1}
			c.put(bound(web.pod(0, "3"), "a"), bound(newPod("on-a", map[string]string{"cpu": "500m"}), "a"), bound(newPod("filler", map[string]string{"cpu": "3900m"}), "b"))
			c.put(bound(newPod("half", map[string]string{"cpu": "3"}), "c"))
			disk := newPod("disk", map[string]string{"cpu": "2"})
			disk.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}
			c.put(bound(disk, "a"))
			r := &remembering{c: c}
			r.ask(t, [][]string{{"a"}})
			x.change(c)
			if got := r.ask(t, [][]string{{"a"}}); got != x.recalled {
				t.Errorf("%d answers were given back, want %d", got, x.recalled)
			}
		})
	}
}

// TestAMemoryIsBounded by the pods it was asked about, and forgets what nobody asks about any more.
func TestAMemoryIsBounded(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(newPool("default"), newNode("a", map[string]string{"cpu": "4", "memory": "16Gi", "pods": "20"}, nil), newNode("b", map[string]string{"cpu": "4", "memory": "16Gi", "pods": "20"}, nil))
	c.put(bound(newPod("on-a", map[string]string{"cpu": "1"}), "a"))
	r := &remembering{c: c}
	r.ask(t, [][]string{{"a"}, {"a", "b"}})
	for range 3 {
		r.ask(t, [][]string{{"b"}})
	}
	if got := r.ask(t, [][]string{{"a"}}); got != 0 {
		t.Error("an answer was remembered for four passes in which nobody asked")
	}
	if got := r.ask(t, [][]string{{"a"}}); got != 1 {
		t.Error("an answer was not remembered")
	}
}
