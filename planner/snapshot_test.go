package planner_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/resource"
)

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The rules: DESIGN §2.
func TestNowIsRaisedALittleAtMost(t *testing.T) {
	c := pt.New()
	want(t, "a slow clock", planner.NewSnapshot(c.World, c.Ledger, pt.Start.Add(-ledger.ClockTolerance)).Now, pt.Start)
	want(t, "a fast clock", planner.NewSnapshot(c.World, c.Ledger, pt.Start.Add(time.Hour)).Now, pt.Start.Add(time.Hour))
	c.Clock = pt.Start.Add(time.Minute)
	c.Record(ledger.KindAlarmRaised, &ledger.AlarmRaised{})
	want(t, "a record and a heartbeat a minute ahead", planner.NewSnapshot(c.World, c.Ledger, pt.Start).Now, pt.Start)
	want(t, "a record a little ahead", planner.NewSnapshot(c.World, c.Ledger, pt.Start.Add(57*time.Second)).Now, pt.Start.Add(time.Minute))
}

func TestOptionsComeFromTheLedger(t *testing.T) {
	c := pt.New()
	want(t, "defaults", string(planner.EncodeOptions(c.Snapshot().Options)), string(planner.EncodeOptions(planner.DefaultOptions())))
	o := planner.DefaultOptions()
	o.InstanceTypesMax = 7
	c.Options(o)
	s := c.Snapshot()
	want(t, "recorded", string(planner.EncodeOptions(s.Options)), string(planner.EncodeOptions(o)))
	want(t, "sequence", s.OptionsSeq, c.Ledger.Seq())
	partial, err := planner.DecodeOptions([]byte(`{"instanceTypesMax":9}`))
	want(t, "missing options keep their default", partial.BatchMaxDuration, planner.DefaultOptions().BatchMaxDuration)
	want(t, "error", err, nil)
}

func TestExpectSortsAndKeepsOne(t *testing.T) {
	c := pt.New()
	c.Record(ledger.KindAlarmRaised, &ledger.AlarmRaised{}, "pool/b")
	got := c.Snapshot().Expect("pool/c", "pool/b", "pool/c")
	want(t, "length", len(got), 2)
	want(t, "first", got[0], planner.Expectation{Aggregate: "pool/b", Seq: 2})
	want(t, "never advanced", got[1], planner.Expectation{Aggregate: "pool/c"})
}

func node(t *testing.T, c *pt.Cluster, name string) *planner.StateNode {
	t.Helper()
	n := c.Snapshot().StateNode(name)
	if n == nil {
		t.Fatalf("no node %s", name)
	}
	return n
}

// The rules: scheduling §3.
func TestStateNodeJoinsClaimAndNode(t *testing.T) {
	launched := pt.Claim("c", "n", "p")
	c := pt.New(launched, pt.Claim("unlaunched", "x", "p", func(c *karpv1.NodeClaim) { c.Status = karpv1.NodeClaimStatus{} }))
	want(t, "nodes", len(c.Snapshot().StateNodes()), 1)
	n := node(t, c, "c")
	want(t, "allocatable is the claim's", n.Allocatable.MilliCPU, 3900)
	want(t, "registered", n.Registered, false)
	c.See(pt.Node("n", func(n *corev1.Node) { n.Status.Allocatable = pt.Resources("cpu", "3920m") }))
	n = node(t, c, "n")
	want(t, "pool label is the claim's until registered", n.NodePool, "p")
	want(t, "cpu is the node's", n.Allocatable.MilliCPU, 3920)
	want(t, "missing memory is the claim's", n.Allocatable.Memory, 14<<30)
	c.See(pt.Node("n", pt.InPool("p"), func(n *corev1.Node) { n.Labels["only"] = "node" }), pt.Pod("a", pt.On("n"), pt.Requests("cpu", "1")))
	n = node(t, c, "n")
	want(t, "label is the node's once registered", n.Labels["only"], "node")
	want(t, "initialized", n.Initialized, true)
	want(t, "available", n.Available.MilliCPU, 2920)
	want(t, "memory is the node's alone once initialized", n.Allocatable.Memory, 15<<30)
	want(t, "by claim", c.Snapshot().StateNodeOfClaim("c").Name, "n")
}

// The rules: scheduling §3.
func TestUnmanagedNodes(t *testing.T) {
	c := pt.New(pt.Node("n", pt.Tainted(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})))
	n := node(t, c, "n")
	want(t, "managed", n.Managed, false)
	want(t, "initialized", n.Initialized && n.Registered, true)
	want(t, "all its taints count", len(n.Taints), 1)
}

// The rules: scheduling §3.
func TestTaintsUntilInitialized(t *testing.T) {
	startup := corev1.Taint{Key: "cni", Effect: corev1.TaintEffectNoSchedule}
	own := corev1.Taint{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}
	claim := pt.Claim("c", "n", "p", func(c *karpv1.NodeClaim) {
		c.Spec.StartupTaints, c.Spec.Taints = []corev1.Taint{startup}, []corev1.Taint{own}
	})
	fresh := pt.Node("n", pt.InPool("p"), pt.Tainted(startup, own, karpv1.UnregisteredTaint(), corev1.Taint{Key: "readiness.k8s.io/net", Effect: corev1.TaintEffectNoSchedule},
		corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}))
	delete(fresh.Labels, karpv1.NodeInitializedLabelKey)
	c := pt.New(claim, fresh)
	got := node(t, c, "n").Taints
	if len(got) != 1 || got[0].Key != "team" {
		t.Errorf("taints until initialized: %v", got)
	}
	fresh = fresh.DeepCopy()
	fresh.Labels[karpv1.NodeInitializedLabelKey] = "true"
	c.See(fresh)
	want(t, "taints once initialized", len(node(t, c, "n").Taints), 5)
}

// The rules: scheduling §2.3.
func TestMarkedForDeletion(t *testing.T) {
	deleted := metav1.NewTime(pt.Start)
	cases := map[string]struct {
		do   func(*pt.Cluster)
		want bool
	}{
		"a healthy node":                     {func(*pt.Cluster) {}, false},
		"its claim is deleted":               {func(c *pt.Cluster) { k := pt.Claim("n-claim", "n", "p"); k.DeletionTimestamp = &deleted; c.See(k) }, true},
		"its Node is deleted, its claim not": {func(c *pt.Cluster) { n := pt.Node("n", pt.InPool("p")); n.DeletionTimestamp = &deleted; c.See(n) }, false},
		"its Node is deleted, and has no claim": {func(c *pt.Cluster) {
			c.Gone(pt.Claim("n-claim", "n", "p"))
			n := pt.Node("n", pt.InPool("p"))
			n.DeletionTimestamp = &deleted
			c.See(n)
		}, true},
		"its instance ends":     {func(c *pt.Cluster) { c.See(&events.InstanceState{ID: "i-n", State: "shutting-down"}) }, true},
		"its instance runs":     {func(c *pt.Cluster) { c.See(&events.InstanceState{ID: "i-n", State: "running"}) }, false},
		"the Ledger dooms it":   {func(c *pt.Cluster) { c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: "n-claim"}) }, true},
		"a command takes it":    {func(c *pt.Cluster) { start(c) }, true},
		"a command gives it up": {func(c *pt.Cluster) { c.Record(ledger.KindCommandRolledBack, &ledger.CommandRolledBack{ID: start(c)}) }, false},
		"a command is done":     {func(c *pt.Cluster) { c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: start(c)}) }, true},
		"the condition says so": {func(c *pt.Cluster) {
			k := pt.Claim("n-claim", "n", "p")
			k.Status.Conditions = append(k.Status.Conditions, pt.True(karpv1.ConditionTypeInstanceTerminating, pt.Start))
			c.See(k)
		}, true},
		"another node is doomed": {func(c *pt.Cluster) { c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: "other"}) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := pt.New(pt.Pool("p"))
			c.AddNode("n", "p")
			tc.do(c)
			want(t, "marked", node(t, c, "n").MarkedForDeletion, tc.want)
		})
	}
}

func start(c *pt.Cluster) string {
	seq := c.Record(ledger.KindCommandStarted, &ledger.CommandStarted{Candidates: []ledger.Candidate{{Node: "n", Claim: "n-claim", ClaimUID: "claim-n-claim"}}})
	return ledger.CommandID(pt.LogID, seq)
}

// No capacity is missed and none counted twice while a claim comes into being, whichever of World and Ledger
// is ahead.
func TestAClaimIsInFlightOrANode(t *testing.T) {
	c := pt.New()
	check := func(when string, inFlight, nodes int) {
		t.Helper()
		s := c.Snapshot()
		want(t, "in flight "+when, len(s.InFlight()), inFlight)
		want(t, "nodes "+when, len(s.StateNodes()), nodes)
	}
	seq := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}})
	name := ledger.ClaimName(pt.LogID, "p", seq, 0)
	check("when planned", 1, 0)
	bare := pt.Claim(name, "n", "p", func(k *karpv1.NodeClaim) { k.Status = karpv1.NodeClaimStatus{} })
	c.See(bare)
	check("when the object exists", 1, 0)
	c.Record(ledger.KindLaunched, &ledger.Launched{Claim: name, ProviderID: pt.ProviderID("n")})
	check("when the Ledger knows the instance", 1, 0)
	c.See(pt.Claim(name, "n", "p"))
	check("when the World knows it", 0, 1)
	c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: "n"})
	c.Gone(pt.Claim(name, "n", "p"))
	check("when the object is gone", 0, 0)
	doomed := ledger.ClaimName(pt.LogID, "p", c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}}), 0)
	c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: doomed})
	check("when doomed", 0, 0)
}

// Lifecycle may have registered a node before the World shows even the claim: its pods must not be planned
// twice.
func TestARegisteredClaimIsInFlightWhileTheWorldIsBehind(t *testing.T) {
	c := pt.New()
	seq := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}})
	name := ledger.ClaimName(pt.LogID, "p", seq, 0)
	c.Record(ledger.KindLaunched, &ledger.Launched{Claim: name, ProviderID: pt.ProviderID("n")})
	c.Clock = c.Clock.Add(5 * time.Second) // without a heartbeat
	c.Record(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: name, Node: "n"})
	want(t, "in flight while the World is behind", len(c.Snapshot().InFlight()), 1)
	c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: "n"})
	want(t, "in flight still", len(c.Snapshot().InFlight()), 1)
	c.Advance(2*ledger.ClockTolerance - 1)
	want(t, "in flight though clocks that are trusted may differ", len(c.Snapshot().InFlight()), 1)
	c.Advance(1)
	want(t, "in flight once the World would show it", len(c.Snapshot().InFlight()), 0)
}

// Users can make a NodeClaim vanish, by removing its finalizers, before its Node is recorded as registered.
// The Node then counts by itself: otherwise pods, and a drain that waits for their places, would wait for the
// claim forever.
func TestAClaimWithoutObjectIsNotInFlightOnceItsNodeIsThere(t *testing.T) {
	c := pt.New()
	seq := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}})
	name := ledger.ClaimName(pt.LogID, "p", seq, 0)
	c.Record(ledger.KindLaunched, &ledger.Launched{Claim: name, ProviderID: pt.ProviderID("n")})
	c.See(pt.Node("n"), pt.Claim(name, "n", "p"))
	c.Gone(pt.Claim(name, "n", "p"))
	want(t, "in flight", len(c.Snapshot().InFlight()), 0)
	want(t, "nodes", len(c.Snapshot().StateNodes()), 1)
}

// Nodes and NodeClaims are watched separately, and either may come first. A claim of which the World has only
// the Node is in flight as long as its NodeClaim may still come: otherwise a static NodePool would buy
// another one.
func TestAClaimWhoseNodeComesBeforeItsObjectIsInFlight(t *testing.T) {
	c := pt.New()
	seq := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}})
	name := ledger.ClaimName(pt.LogID, "p", seq, 0)
	c.Record(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: "u", Attempt: 1})
	c.Record(ledger.KindLaunched, &ledger.Launched{Claim: name, ProviderID: pt.ProviderID("n")})
	c.See(pt.Node("n"))
	c.Advance(time.Second)
	want(t, "in flight while its NodeClaim may still come", len(c.Snapshot().InFlight()), 1)
	c.Advance(2 * ledger.ClockTolerance)
	want(t, "in flight once the World would show it", len(c.Snapshot().InFlight()), 0)
}

func TestAClaimThatSaysNoAmountsHasThoseThatWerePlanned(t *testing.T) {
	c := pt.New(pt.Pool("p"))
	seq := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{
		NodePool: "p", Capacity: resource.Vector{MilliCPU: 8000}, Requests: resource.Vector{MilliCPU: 2600},
	}}})
	name := ledger.ClaimName(pt.LogID, "p", seq, 0)
	c.Record(ledger.KindLaunched, &ledger.Launched{Claim: name, InstanceID: "i-x", ProviderID: pt.ProviderID("x")})
	silent := pt.Claim(name, "x", "p")
	silent.Status.Capacity, silent.Status.Allocatable = nil, nil
	c.See(silent)
	n := c.Snapshot().StateNodeOfClaim(name)
	want(t, "capacity", n.Capacity.MilliCPU, int64(8000))
	want(t, "allocatable", n.Allocatable.MilliCPU, int64(2600))
}

// The rules: scheduling §2.1.
func TestIsProvisionable(t *testing.T) {
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"unschedulable":  {pt.Pod("p", pt.Unschedulable()), true},
		"not tried yet":  {pt.Pod("p"), false},
		"bound":          {pt.Pod("p", pt.Unschedulable(), pt.On("n")), false},
		"nominated":      {pt.Pod("p", pt.Unschedulable(), func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" }), false},
		"of a DaemonSet": {pt.Pod("p", pt.Unschedulable(), pt.OwnedBy("apps/v1", "DaemonSet", "d")), false},
		"static":         {pt.Pod("p", pt.Unschedulable(), pt.OwnedBy("v1", "Node", "n")), false},
		"being deleted":  {pt.Pod("p", pt.Unschedulable(), pt.Deleting(pt.Start)), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := pt.New(tc.pod)
			want(t, "provisionable", planner.IsProvisionable(c.World.Pod("pod-p")), tc.want)
		})
	}
}

// The rules: disruption §2.
func TestIsReschedulable(t *testing.T) {
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":                            {pt.Pod("p", pt.On("n")), true},
		"being deleted":                      {pt.Pod("p", pt.On("n"), pt.Deleting(pt.Start)), false},
		"of a StatefulSet, being deleted":    {pt.Pod("p", pt.On("n"), pt.Deleting(pt.Start), pt.OwnedBy("apps/v1", "StatefulSet", "s")), true},
		"of a DaemonSet":                     {pt.DaemonPod("p", "n"), false},
		"ended":                              {pt.Pod("p", pt.On("n"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
		"owned by another group's DaemonSet": {pt.Pod("p", pt.On("n"), pt.OwnedBy("x/v1", "DaemonSet", "d")), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want(t, "reschedulable", planner.IsReschedulable(pt.New(tc.pod).World.Pod("pod-p")), tc.want)
		})
	}
}

// The rules: disruption §2.
func TestDoNotDisrupt(t *testing.T) {
	annotated := func(value string, more ...func(*corev1.Pod)) *corev1.Pod {
		return pt.Pod("p", append([]func(*corev1.Pod){pt.On("n"), pt.Annotation(karpv1.DoNotDisruptAnnotationKey, value)}, more...)...)
	}
	after := func(d time.Duration) time.Time { return pt.Start.Add(d) }
	unstarted := func(p *corev1.Pod) { p.Status.StartTime = nil }
	cases := map[string]struct {
		pod  *corev1.Pod
		now  time.Time
		want planner.DoNotDisruptState
	}{
		"true protects for ever":      {annotated("true"), after(1000 * time.Hour), planner.DoNotDisruptState{InEffect: true}},
		"within the duration":         {annotated("1h"), after(59 * time.Minute), planner.DoNotDisruptState{InEffect: true, Until: after(time.Hour)}},
		"when the duration ends":      {annotated("1h"), after(time.Hour), planner.DoNotDisruptState{Until: after(time.Hour)}},
		"a duration before the start": {annotated("1h", unstarted), after(9 * time.Hour), planner.DoNotDisruptState{InEffect: true}},
		"false is invalid":            {annotated("false"), pt.Start, planner.DoNotDisruptState{Invalid: true}},
		"a negative duration":         {annotated("-1h"), pt.Start, planner.DoNotDisruptState{Invalid: true}},
		"a pod that is being deleted": {annotated("true", pt.Deleting(pt.Start)), pt.Start, planner.DoNotDisruptState{}},
		"no annotation":               {pt.Pod("p", pt.On("n")), pt.Start, planner.DoNotDisruptState{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want(t, "state", planner.DoNotDisrupt(pt.New(tc.pod).World.Pod("pod-p"), tc.now), tc.want)
		})
	}
}

// The rules: disruption §2.
func TestPodBudgets(t *testing.T) {
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	lenient := pt.PDB("default", "a", 0, "app", "web")
	always := policyv1.AlwaysAllow
	lenient.Spec.UnhealthyPodEvictionPolicy = &always
	noSelector := pt.PDB("default", "a", 0)
	noSelector.Spec.Selector = nil
	cases := map[string]struct {
		pod      *corev1.Pod
		budgets  []any
		blocking int
		multiple bool
	}{
		"none":                              {pt.Pod("p", pt.On("n")), nil, 0, false},
		"exhausted":                         {pt.Pod("p", pt.On("n")), []any{pt.PDB("default", "a", 0, "app", "web")}, 1, false},
		"with a disruption to give":         {pt.Pod("p", pt.On("n")), []any{pt.PDB("default", "a", 1, "app", "web")}, 0, false},
		"of another namespace":              {pt.Pod("p", pt.On("n")), []any{pt.PDB("other", "a", 0, "app", "web")}, 0, false},
		"for other labels":                  {pt.Pod("p", pt.On("n")), []any{pt.PDB("default", "a", 0, "app", "db")}, 0, false},
		"an empty selector selects all":     {pt.Pod("p", pt.On("n")), []any{pt.PDB("default", "a", 0)}, 1, false},
		"no selector selects none":          {pt.Pod("p", pt.On("n")), []any{noSelector}, 0, false},
		"two on one pod":                    {pt.Pod("p", pt.On("n")), []any{pt.PDB("default", "a", 1, "app", "web"), pt.PDB("default", "b", 1)}, 2, true},
		"unready pods may go if it says so": {pt.Pod("p", pt.On("n"), unready), []any{lenient}, 0, false},
		"ready pods may not":                {pt.Pod("p", pt.On("n")), []any{lenient}, 1, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := pt.New(append(tc.budgets, tc.pod)...).Snapshot()
			blocking, multiple := s.PodBudgets().Blocking(s.World.Pod("pod-p"))
			want(t, "blocking", len(blocking), tc.blocking)
			want(t, "multiple", multiple, tc.multiple)
		})
	}
}

// The rules: scheduling §2.3.
func TestIsMoving(t *testing.T) {
	zero, all := intstr.FromInt32(0), intstr.FromString("100%")
	never := pt.PDB("default", "a", 0, "app", "web")
	never.Spec.MaxUnavailable = &zero
	whole := pt.PDB("default", "a", 0, "app", "web")
	whole.Spec.MaxUnavailable, whole.Spec.MinAvailable = nil, &all
	cases := map[string]struct {
		pod    *corev1.Pod
		budget *policyv1.PodDisruptionBudget
		want   bool
	}{
		"a plain pod":                             {pt.Pod("p", pt.On("n")), pt.PDB("default", "a", 0, "app", "web"), true},
		"held by maxUnavailable 0":                {pt.Pod("p", pt.On("n")), never, false},
		"held by minAvailable 100%":               {pt.Pod("p", pt.On("n")), whole, false},
		"tolerating the taint, whatever holds it": {pt.Pod("p", pt.On("n"), pt.Toleration(karpv1.DisruptedTaintKey)), never, true},
		"protected":                               {pt.Pod("p", pt.On("n"), pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")), whole, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := pt.New(tc.pod, tc.budget).Snapshot()
			want(t, "moving", s.PodBudgets().IsMoving(s.World.Pod("pod-p"), s.Now), tc.want)
		})
	}
}

// TestWhatExpectsNothingOfANameExpectsThatNothingIsRetired: otherwise a plan made before a node existed could
// be appended after the node is gone and forgotten.
func TestWhatExpectsNothingOfANameExpectsThatNothingIsRetired(t *testing.T) {
	c := pt.New()
	expects := func(names ...string) string { return fmt.Sprint(c.Snapshot().Expect(names...)) }
	want(t, "a new node", expects("pool/p", "node/n"), "[{ledger/retired 0} {node/n 0} {pool/p 0}]")
	want(t, "a new pool", expects("pool/p"), "[{pool/p 0}]")
	seq := c.Record(ledger.KindDrainEnded, &ledger.DrainEnded{Node: "n"}, "node/n")
	want(t, "a known node", expects("node/n"), fmt.Sprintf("[{node/n %d}]", seq))
	retired := c.Record(ledger.KindAggregatesRetired, &ledger.AggregatesRetired{Aggregates: []string{"node/n"}}, ledger.RetiredAggregate)
	want(t, "a node that is no more", expects("node/n", "node/m"), fmt.Sprintf("[{ledger/retired %d} {node/m 0} {node/n 0}]", retired))
}
