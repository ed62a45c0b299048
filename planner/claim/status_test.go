package claim_test

import (
	"maps"
	"testing"
	"time"

	"millwright/planner/condition"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	vector "millwright/planner/resource"
)

func object() *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "default-a", UID: "u1", Generation: 1, CreationTimestamp: metav1.NewTime(t0),
			Labels: map[string]string{"team": "blue"}, Annotations: map[string]string{"note": "own"},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints:        []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
			StartupTaints: []corev1.Taint{{Key: "cilium", Effect: corev1.TaintEffectNoExecute}},
		},
	}
}

func node(ready bool, taints ...corev1.Taint) *corev1.Node {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n", Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/i-1", Taints: taints},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}},
	}
}

// inGroup gives the instance of a claim a partition of a placement group.
func inGroup(c *ledger.Claim, partition string) *ledger.Claim {
	launched := *c.Instance
	launched.Labels = map[string]string{awsv1.LabelPlacementGroupID: "pg-1", awsv1.LabelPlacementGroupPartition: partition}
	c.Instance = &launched
	return c
}

// lines shows each condition in one line.
func lines(list []metav1.Condition) []string {
	var out []string
	for _, c := range list {
		s := c.Type + "=" + string(c.Status) + " " + c.Reason
		if c.Message != "" {
			s += " (" + c.Message + ")"
		}
		out = append(out, s)
	}
	return out
}

// The rules: lifecycle §2.
func TestDesiredConditions(t *testing.T) {
	inst := &ledger.Launched{InstanceID: "i-1", ProviderID: "aws:///a/i-1", ImageID: "ami-1", Capacity: vector.Vector{MilliCPU: 2000}}
	at := func(state ledger.ClaimState, node string) *ledger.Claim {
		return &ledger.Claim{UID: "u1", State: state, Node: node, Instance: inst}
	}
	startup := corev1.Taint{Key: "cilium", Effect: corev1.TaintEffectNoExecute}
	cases := map[string]struct {
		facts claim.StatusFacts
		want  []string
	}{
		"before the launch all wait": {facts: claim.StatusFacts{Claim: &ledger.Claim{UID: "u1"}}, want: []string{
			"Launched=Unknown AwaitingReconciliation (object is awaiting reconciliation)",
			"Registered=Unknown NodeNotFound (Node not registered with cluster)",
			"Initialized=Unknown AwaitingReconciliation (object is awaiting reconciliation)",
			"Ready=Unknown ReconcilingDependents (Initialized=Unknown, Registered=Unknown, Launched=Unknown)"}},
		"a failed launch says why": {facts: claim.StatusFacts{Claim: &ledger.Claim{UID: "u1"}, Failure: &claim.Failure{Reason: "Unauthorized", Message: "denied"}}, want: []string{
			"Launched=Unknown Unauthorized (denied)",
			"Registered=Unknown NodeNotFound (Node not registered with cluster)",
			"Initialized=Unknown AwaitingReconciliation (object is awaiting reconciliation)",
			"Ready=Unknown ReconcilingDependents (Initialized=Unknown, Registered=Unknown, Launched=Unknown)"}},
		"launched, no node": {facts: claim.StatusFacts{Claim: at(ledger.ClaimLaunched, "")}, want: []string{
			"Launched=True Launched",
			"Registered=Unknown NodeNotFound (Node not registered with cluster)",
			"Initialized=Unknown AwaitingReconciliation (object is awaiting reconciliation)",
			"Ready=Unknown ReconcilingDependents (Initialized=Unknown, Registered=Unknown)"}},
		"two nodes make Ready False": {facts: claim.StatusFacts{Claim: at(ledger.ClaimLaunched, ""), Nodes: []*corev1.Node{node(true), node(true)}}, want: []string{
			"Launched=True Launched",
			"Registered=False MultipleNodesFound (Invariant violated, matched multiple nodes)",
			"Initialized=Unknown AwaitingReconciliation (object is awaiting reconciliation)",
			"Ready=False UnhealthyDependents (Initialized=Unknown, Registered=False)"}},
		"a node whose partition of a placement group is not known": {facts: claim.StatusFacts{Claim: inGroup(at(ledger.ClaimLaunched, ""), ""), Nodes: []*corev1.Node{node(true)}}, want: []string{
			"Launched=True Launched",
			"Registered=Unknown RegistrationHookPending (PlacementGroupRegistrationHook)",
			"Initialized=Unknown AwaitingReconciliation (object is awaiting reconciliation)",
			"Ready=Unknown ReconcilingDependents (Initialized=Unknown, Registered=Unknown)"}},
		"a node whose partition is known": {facts: claim.StatusFacts{Claim: inGroup(at(ledger.ClaimLaunched, ""), "2"), Nodes: []*corev1.Node{node(true)}}, want: []string{
			"Launched=True Launched",
			"Registered=Unknown NodeNotFound (Node not registered with cluster)",
			"Initialized=Unknown AwaitingReconciliation (object is awaiting reconciliation)",
			"Ready=Unknown ReconcilingDependents (Initialized=Unknown, Registered=Unknown)"}},
		"registered, startup taint": {facts: claim.StatusFacts{Claim: at(ledger.ClaimRegisteredState, "n1"), Nodes: []*corev1.Node{node(true, startup)}}, want: []string{
			"Launched=True Launched", "Registered=True Registered",
			`Initialized=Unknown StartupTaintsExist (StartupTaint "cilium:NoExecute" still exists)`,
			"Ready=Unknown ReconcilingDependents (Initialized=Unknown)"}},
		"initialized is ready": {facts: claim.StatusFacts{Claim: at(ledger.ClaimInitializedState, "n1"), Nodes: []*corev1.Node{node(true)}}, want: []string{
			"Launched=True Launched", "Registered=True Registered", "Initialized=True Initialized", "ConsistentStateFound=True ConsistentStateFound", "Ready=True Ready"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := object()
			got := claim.Desired(o, c.facts, t0)
			if diff := cmp.Diff(c.want, lines(got.Status.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			again := claim.Desired(got, c.facts, t0.Add(time.Hour))
			if !claim.SameStatus(got, again) || !claim.SameMetadata(got, again) {
				t.Errorf("a second look wants another write: %s", cmp.Diff(got.Status, again.Status))
			}
		})
	}
}

// The rules: lifecycle §3, ec2 §5.
func TestDesiredTellsAboutTheInstance(t *testing.T) {
	l := &ledger.Claim{UID: "u1", State: ledger.ClaimLaunched, Instance: &ledger.Launched{
		ProviderID: "aws:///a/i-1", ImageID: "ami-1", Capacity: vector.Vector{MilliCPU: 2000}, Allocatable: vector.Vector{MilliCPU: 1930},
		Labels: map[string]string{"team": "red", "zone": "a"}, Annotations: map[string]string{"hash": "1"},
	}}
	got := claim.Desired(object(), claim.StatusFacts{Claim: l}, t0)
	if diff := cmp.Diff(map[string]string{"team": "blue", "zone": "a"}, got.Labels); diff != "" {
		t.Errorf("own labels must win:\n%s", diff)
	}
	if got.Annotations["hash"] != "1" || got.Status.ImageID != "ami-1" || got.Status.Allocatable.Cpu().MilliValue() != 1930 {
		t.Errorf("status = %+v, annotations = %v", got.Status, got.Annotations)
	}
	other := *l
	other.UID = "u2"
	if got := claim.Desired(object(), claim.StatusFacts{Claim: &other}, t0); got.Status.ProviderID != "" {
		t.Error("another object's instance was told")
	}
}

// What the log says of the instance counts before what somebody has written into the status.
func TestTheProviderIDOfAnotherInstanceIsReplaced(t *testing.T) {
	o := object()
	o.Status = karpv1.NodeClaimStatus{ProviderID: "aws:///a/i-2", ImageID: "ami-2", Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9")}}
	for name, c := range map[string]struct {
		instance   ledger.Launched
		image, cpu string
	}{
		"launched": {ledger.Launched{ProviderID: "aws:///a/i-1", ImageID: "ami-1", Capacity: vector.Vector{MilliCPU: 2000}}, "ami-1", "2"},
		"adopted":  {ledger.Launched{ProviderID: "aws:///a/i-1"}, "ami-2", "9"},
	} {
		got := claim.Desired(o, claim.StatusFacts{Claim: &ledger.Claim{UID: "u1", Instance: &c.instance}}, t0).Status
		if got.ProviderID != "aws:///a/i-1" || got.ImageID != c.image || got.Capacity.Cpu().String() != c.cpu {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The rules: api §3. TestLabelsOfAReservationThatHasEndedDoNotComeBack: an instance outlives its capacity
// reservation (ec2 §2.5).
func TestLabelsOfAReservationThatHasEndedDoNotComeBack(t *testing.T) {
	launched := map[string]string{karpv1.CapacityTypeLabelKey: "reserved", awsv1.LabelCapacityReservationID: "cr-1", "kept": "yes"}
	l := &ledger.Claim{UID: "u", Instance: &ledger.Launched{CapacityType: "reserved", Labels: launched}}
	for name, c := range map[string]struct{ own, want map[string]string }{
		"it has not ended": {nil, launched},
		"it has ended":     {map[string]string{karpv1.CapacityTypeLabelKey: "on-demand"}, map[string]string{karpv1.CapacityTypeLabelKey: "on-demand", "kept": "yes"}},
	} {
		o := &karpv1.NodeClaim{}
		o.UID, o.Labels = "u", c.own
		if got := claim.Desired(o, claim.StatusFacts{Claim: l}, t0).Labels; !maps.Equal(got, c.want) {
			t.Errorf("%s: labels %v, want %v", name, got, c.want)
		}
	}
}

func TestTransitionTimesMoveWithTheStatusOnly(t *testing.T) {
	o := object()
	l := &ledger.Claim{UID: "u1"}
	first := claim.Desired(o, claim.StatusFacts{Claim: l, Failure: &claim.Failure{Message: "a"}}, t0.Add(time.Minute))
	if c := condition.Get(first.Status.Conditions, "Initialized"); !c.LastTransitionTime.Time.Equal(t0) {
		t.Errorf("Unknown stands since creation, not %v", c.LastTransitionTime)
	}
	second := claim.Desired(first, claim.StatusFacts{Claim: l, Failure: &claim.Failure{Message: "b"}}, t0.Add(2*time.Minute))
	a, b := condition.Get(first.Status.Conditions, "Launched"), condition.Get(second.Status.Conditions, "Launched")
	if b.Message != "b" || !a.LastTransitionTime.Equal(&b.LastTransitionTime) {
		t.Errorf("message %q at %v, before at %v", b.Message, b.LastTransitionTime, a.LastTransitionTime)
	}
}

// The rules: api §3.
func TestReadyOfAnOlderSpecIsNotTrue(t *testing.T) {
	c := claim.ConditionsOf(object(), t0)
	for _, k := range c.Dependents {
		c.True(k)
	}
	c.Generation = 2
	list := c.Finish()
	if got := condition.Get(list, "Ready"); got.Status != metav1.ConditionUnknown || got.Reason != condition.ReasonReconciling {
		t.Errorf("Ready = %s %s", got.Status, got.Reason)
	}
	c.Deleting = true
	if got := condition.Get(c.Finish(), "Ready"); got.Status != metav1.ConditionTrue {
		t.Errorf("while deleting Ready flaps to %s", got.Status)
	}
}

// The rules: lifecycle §4.
func TestRegisteredNode(t *testing.T) {
	unregistered := karpv1.UnregisteredTaint()
	o := object()
	o.Finalizers = []string{karpv1.TerminationFinalizer}
	got := claim.RegisteredNode(node(true, unregistered), o)
	want := node(true, o.Spec.Taints[0], o.Spec.StartupTaints[0])
	block := true
	want.Finalizers = []string{karpv1.TerminationFinalizer}
	want.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block}}
	want.Labels = map[string]string{"team": "blue", "karpenter.sh/registered": "true"}
	want.Annotations = map[string]string{"note": "own"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registered node (-want +got):\n%s", diff)
	}
	if again := claim.RegisteredNode(got, o); again != got {
		t.Error("a registered node is written again: a removed startup taint would come back")
	}
	free := node(true, unregistered)
	free.Labels[karpv1.DoNotSyncTaintsLabelKey] = "true"
	if got := claim.RegisteredNode(free, o); len(got.Spec.Taints) != 0 {
		t.Errorf("taints synced although kubelet set them: %v", got.Spec.Taints)
	}
}

// The rules: lifecycle §5.
func TestPendingOf(t *testing.T) {
	o := object()
	o.Spec.Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "cpu": resource.MustParse("1"), "zero": resource.MustParse("0")}
	full := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "cpu": resource.MustParse("500m")}
	taint := func(key, value string, e corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: e}
	}
	cases := map[string]struct {
		ready       bool
		taints      []corev1.Taint
		allocatable corev1.ResourceList
		want        string
	}{
		"not ready comes first":            {taints: o.Spec.StartupTaints, want: "NodeNotReady"},
		"startup taints by key and effect": {ready: true, taints: []corev1.Taint{taint("cilium", "x", "NoExecute")}, want: "StartupTaintsExist"},
		"another effect is another taint":  {ready: true, taints: []corev1.Taint{taint("cilium", "", "NoSchedule")}, allocatable: full},
		"cloud provider taint":             {ready: true, taints: []corev1.Taint{taint("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule")}, want: "KnownEphemeralTaintsExist"},
		"readiness taints by prefix":       {ready: true, taints: []corev1.Taint{taint("readiness.k8s.io/net", "", "NoSchedule")}, want: "KnownEphemeralTaintsExist"},
		"a device that is not registered":  {ready: true, allocatable: corev1.ResourceList{"cpu": resource.MustParse("1")}, want: "ResourceNotRegistered"},
		"presence is enough":               {ready: true, allocatable: full},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := node(c.ready, c.taints...)
			n.Status.Allocatable = c.allocatable
			got := ""
			if p := claim.PendingOf(n, o); p != nil {
				got = p.Reason
			}
			if got != c.want {
				t.Errorf("pending = %q, want %q", got, c.want)
			}
		})
	}
}
