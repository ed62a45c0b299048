package recall

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/overlay"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

var (
	pool    = &karpv1.NodePool{}
	offered = &catalog.Catalog{}
	agent   = &corev1.PodSpec{}
	web     = &world.PodClass{Labels: map[string]string{"app": "web"}, Spec: &corev1.PodSpec{}, Requests: resource.Vector{MilliCPU: 1000}}
)

// newQuestion makes each part anew that is compared by its content.
func newQuestion() *question {
	return &question{
		options:  "{}",
		pods:     []*world.Pod{{UID: "1", Namespace: "default", Name: "a", Class: web}},
		pools:    []offer.PoolInput{{Pool: overlay.Pool{NodePool: pool, Catalog: offered, PriceOverlaid: map[string]bool{"m5.large": true}}, Used: resource.Vector{MilliCPU: 4000}, Nodes: 2}},
		daemons:  []offer.DaemonSet{{Spec: agent, Requests: resource.Vector{MilliCPU: 100}}},
		spaces:   []topology.Namespace{{Name: "default", Labels: map[string]string{"team": "a"}}},
		marked:   [2][]ledger.OfferingKey{{{InstanceType: "m5.large", Zone: "a"}}, {{InstanceType: "c5.large", Zone: "a"}}},
		launched: []offer.Launch{{NodePool: "default", InstanceType: "m5.large"}},
		subnets:  []string{"subnet-1"},
		without:  []string{"node-1"},
	}
}

// TestAQuestionIsTheSameOnlyIfAllOfItIs: an answer that was given to another question is not this one's.
func TestAQuestionIsTheSameOnlyIfAllOfItIs(t *testing.T) {
	if again := newQuestion(); !newQuestion().same(again) {
		t.Fatal("a question that was asked again is another one")
	}
	for name, change := range map[string]func(*question){
		"options":                     func(q *question) { q.options = "{ }" },
		"what is known of a node":     func(q *question) { q.marks = "last node-2" },
		"a pod more":                  func(q *question) { q.pods = append(q.pods, q.pods[0]) },
		"a pod's class":               func(q *question) { q.pods[0].Class = &world.PodClass{} },
		"a NodePool":                  func(q *question) { q.pools[0].NodePool = &karpv1.NodePool{} },
		"a catalogue":                 func(q *question) { q.pools[0].Catalog = &catalog.Catalog{} },
		"an overlay of prices":        func(q *question) { q.pools[0].PriceOverlaid["m5.large"] = false },
		"an overlay of capacity":      func(q *question) { q.pools[0].CapacityOverlaid = map[string]bool{"m5.large": true} },
		"what counts against a limit": func(q *question) { q.pools[0].Used.MilliCPU++ },
		"how many nodes there are":    func(q *question) { q.pools[0].Nodes++ },
		"a DaemonSet":                 func(q *question) { q.daemons[0].Spec = &corev1.PodSpec{} },
		"what a DaemonSet requests":   func(q *question) { q.daemons[0].Requests.MilliCPU++ },
		"a namespace's labels":        func(q *question) { q.spaces[0].Labels["team"] = "b" },
		"a namespace's name":          func(q *question) { q.spaces[0].Name = "other" },
		"an unavailable offering":     func(q *question) { q.marked[0][0].Zone = "b" },
		"an unproven offering":        func(q *question) { q.marked[1] = nil },
		"a launch":                    func(q *question) { q.launched[0].InstanceType = "c5.large" },
		"a full subnet":               func(q *question) { q.subnets = nil },
		"a node that goes":            func(q *question) { q.without[0] = "node-2" },
	} {
		other := newQuestion()
		if change(other); newQuestion().same(other) || other.same(newQuestion()) {
			t.Errorf("another %s, and it counts as the same", name)
		}
	}
	again := newQuestion()
	if again.pods[0].ResourceVersion = "2"; !newQuestion().same(again) {
		t.Error("a resourceVersion counts as a change")
	}
}

// TestNodesAreAlikeOnlyIfPodsAndAmountsDiffer at most.
func TestNodesAreAlikeOnlyIfPodsAndAmountsDiffer(t *testing.T) {
	made := func() *node {
		return &node{name: "a", claim: "c", pool: "default", hasNode: true, hasClaim: true, firm: true, initialized: true,
			labels: map[string]string{"zone": "a"}, taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}}
	}
	for name, change := range map[string]func(*node){
		"pool":        func(n *node) { n.pool = "extra" },
		"Node":        func(n *node) { n.hasNode = false },
		"NodeClaim":   func(n *node) { n.hasClaim = false },
		"firm":        func(n *node) { n.firm = false },
		"initialized": func(n *node) { n.initialized = false },
		"drains out":  func(n *node) { n.drainsOut = true },
		"marked":      func(n *node) { n.marked = true },
		"labels":      func(n *node) { n.labels["zone"] = "b" },
		"taint":       func(n *node) { n.taints[0].Effect = corev1.TaintEffectPreferNoSchedule },
		"no taint":    func(n *node) { n.taints = nil },
	} {
		other := made()
		if change(other); made().alike(other) || other.alike(made()) {
			t.Errorf("%s: alike", name)
		}
	}
	other := made()
	if other.free.MilliCPU, other.reserved.MilliCPU = 1, 1; !made().alike(other) {
		t.Error("amounts make nodes unlike")
	}
}

// TestWhatChangedOnNodes: whatever counts to pods that are placed elsewhere.
func TestWhatChangedOnNodes(t *testing.T) {
	running := func() *world.Pod {
		return &world.Pod{UID: "1", Namespace: "default", Name: "a", Class: web, NodeName: "n"}
	}
	made := func(pods ...*world.Pod) []node { return []node{{name: "n", firm: true, pods: pods}} }
	ended, others := running(), running()
	ended.Phase, others.Class = corev1.PodSucceeded, &world.PodClass{}
	going, gone := running(), running()
	going.Deleting, gone.Deleting, gone.Phase = 1, 1, corev1.PodSucceeded
	for name, x := range map[string]struct {
		old, now []node
		pods     int
	}{
		"a pod comes":          {made(), made(running()), 1},
		"a pod goes":           {made(running()), made(), 1},
		"a pod ends":           {made(running()), made(ended), 2},
		"one that goes ends":   {made(going), made(gone), 2},
		"another class":        {made(running()), made(others), 2},
		"nothing but its read": {made(running()), made(running()), 0},
	} {
		d := compareNodes(x.old, x.now)
		got := 0
		for _, c := range d.changes {
			got += len(c.pods)
		}
		if d.whole || len(d.others) > 0 || got != x.pods {
			t.Errorf("%s: %d pods differ, want %d; %+v", name, got, x.pods, d)
		}
	}
	more := made()
	if more[0].free.MilliCPU = 100; len(compareNodes(made(), more).changes) != 1 {
		t.Error("another free room is no change")
	}
	more = made()
	if more[0].reserved.MilliCPU = 100; len(compareNodes(made(), more).changes) != 1 {
		t.Error("what DaemonSet pods take is no change")
	}
	if more = append(made(), made()...); !compareNodes(made(), more).whole {
		t.Error("a node more is none")
	}
	if more = made(); more[0].claim != "" || !compareNodes(made(), []node{{name: "n", claim: "c", firm: true}}).whole {
		t.Error("another NodeClaim of a node is the same")
	}
}

// TestChangesOfANodeThatGoes count for a solver that has the node, and for no other.
func TestChangesOfANodeThatGoes(t *testing.T) {
	labelled := node{name: "n", firm: true, labels: map[string]string{"zone": "b"}}
	for name, now := range map[string]node{"its amounts": {name: "n", firm: true, free: resource.Vector{MilliCPU: 1}}, "its labels": labelled} {
		d := compareNodes([]node{{name: "n", firm: true}}, []node{now})
		for _, own := range []bool{false, true} {
			q := &question{without: []string{"n"}, own: own}
			if got := q.untouched(q.kinds(), d); got == own {
				t.Errorf("%s, in a solver that has the node (%v): untouched %v", name, own, got)
			}
		}
	}
}

// TestPodsThatStayOnANodeThatGoes count if they concern the question, for the rules by which they do.
func TestPodsThatStayOnANodeThatGoes(t *testing.T) {
	apart := &world.PodClass{Labels: map[string]string{"app": "web"}, Spec: &corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: web.Labels}}}}}}}
	other := &world.PodClass{Labels: map[string]string{"app": "other"}, Spec: &corev1.PodSpec{}}
	for _, x := range []struct {
		class     *world.PodClass
		staying   bool
		untouched bool
	}{{apart, true, false}, {apart, false, true}, {other, true, true}} {
		for _, marked := range []bool{false, true} {
			with := node{name: "n", firm: true, marked: marked, pods: []*world.Pod{{UID: "2", Namespace: "default", Class: x.class}}}
			d := compareNodes([]node{{name: "n", firm: true, marked: marked}}, []node{with})
			q := &question{pods: []*world.Pod{{UID: "1", Namespace: "default", Class: web}}, staying: x.staying}
			if !marked {
				q.without = []string{"n"}
			}
			if got := q.untouched(q.kinds(), d); got != x.untouched {
				t.Errorf("a pod of %v on a node that goes, which counts (%v): untouched %v", x.class.Labels, x.staying, got)
			}
		}
	}
}

// source has one object of each kind.
type source struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
	class  *storagev1.StorageClass
	csi    *storagev1.CSINode
	holder *world.Pod
}

func (s *source) PersistentVolumeClaim(string) *corev1.PersistentVolumeClaim { return s.claim }
func (s *source) PersistentVolume(string) *corev1.PersistentVolume           { return s.volume }
func (s *source) StorageClass(string) *storagev1.StorageClass                { return s.class }
func (s *source) CSINode(string) *storagev1.CSINode                          { return s.csi }
func (s *source) Holder(string) *world.Pod                                   { return s.holder }

// TestWhatWasLookedUpIsLookedUpAgain, and whatever is another thing by then ends the answer.
func TestWhatWasLookedUpIsLookedUpAgain(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	made := func() (*source, *solve.Input) {
		in, s := &solve.Input{}, &source{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, nil}
		in.Volumes = s
		in.ClosedZones = func(string) []string { return []string{"a"} }
		in.FreeReserved = func(_ string, free int64, _ time.Time) int64 { return free }
		return s, in
	}
	s, in := made()
	r := watch(in)
	in.Volumes.PersistentVolumeClaim("x")
	in.Volumes.PersistentVolume("x")
	in.Volumes.StorageClass("x")
	in.Volumes.CSINode("x")
	in.Volumes.Holder("x")
	in.ClosedZones("default")
	in.FreeReserved("cr-1", 3, at)
	for name, change := range map[string]func(*source, *solve.Input){
		"claim":       func(s *source, _ *solve.Input) { s.claim = nil },
		"volume":      func(s *source, _ *solve.Input) { s.volume = &corev1.PersistentVolume{} },
		"class":       func(s *source, _ *solve.Input) { s.class = nil },
		"CSINode":     func(s *source, _ *solve.Input) { s.csi = nil },
		"holder":      func(s *source, _ *solve.Input) { s.holder = &world.Pod{} },
		"zones":       func(_ *source, in *solve.Input) { in.ClosedZones = func(string) []string { return nil } },
		"reservation": func(_ *source, in *solve.Input) { in.FreeReserved = func(string, int64, time.Time) int64 { return 2 } },
	} {
		_, later := made()
		again := *s
		if later.Volumes = &again; !r.hold(later, &moment{}) {
			t.Fatal("nothing has changed, and it does not hold")
		}
		if change(&again, later); r.hold(later, &moment{}) {
			t.Errorf("%s: another, and it holds", name)
		}
	}
}

// TestWhatCannotBeRemembered: pods that an earlier verdict has put somewhere or keeps away, and planned
// claims.
func TestWhatCannotBeRemembered(t *testing.T) {
	made := func() *solve.Input {
		in := &solve.Input{Pods: []*world.Pod{{UID: "1", Class: web}}}
		in.Prior = func(types.UID) place.Target { return place.Target{} }
		in.Excluded = func(types.UID) []ledger.ExcludedNode { return nil }
		return in
	}
	if questionOf("", made(), nil) == nil {
		t.Fatal("nothing can be")
	}
	for name, change := range map[string]func(*solve.Input){
		"a place": func(in *solve.Input) { in.Prior = func(types.UID) place.Target { return place.Target{Node: "n"} } },
		"a node to avoid": func(in *solve.Input) {
			in.Excluded = func(types.UID) []ledger.ExcludedNode { return make([]ledger.ExcludedNode, 1) }
		},
		"a pod that is to wait": func(in *solve.Input) { in.Pods[0].Displaced = 1 },
		"a planned claim":       func(in *solve.Input) { in.Planned = make([]place.PlannedInput, 1) },
	} {
		in := made()
		if change(in); questionOf("", in, nil) != nil {
			t.Errorf("%s can be", name)
		}
	}
}
