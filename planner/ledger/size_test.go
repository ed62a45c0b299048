package ledger_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/resource"
)

// typeNames are n instance types in the order of some prices; which is one of a few orders.
func typeNames(n, which int) []string {
	names := make([]string, n)
	for i := range names {
		k := (i + which*37) % n
		names[i] = fmt.Sprintf("%s%d%s.%dxlarge", []string{"m", "c", "r"}[k%3], 5+k%4, []string{"", "i", "a", "d"}[k/12%4], 1+k/48)
	}
	return names
}

// planned is a claim that up to 600 types and 30 pods were found for.
func planned(i, types, pods int) ledger.PlannedClaim {
	names := typeNames(types, i%5)
	p := ledger.PlannedClaim{
		NodePool: "general", NodePoolUID: "6f1f9a5e-7d43-4b5a-9a0e-2f4b1c6d7e8f",
		NodeClassRef: karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		Labels:       map[string]string{"team": "platform", karpv1.NodePoolLabelKey: "general", "env": "prod"},
		Annotations:  map[string]string{karpv1.NodePoolHashAnnotationKey: "1234567890123456789", karpv1.NodePoolHashVersionAnnotationKey: "v3"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand", "spot"}},
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: typeNames(types, i%5)},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-west-2a", "us-west-2b", "us-west-2c"}},
		},
		InstanceTypes: names, Requests: resource.Vector{MilliCPU: 15000, Memory: 60 << 30, Pods: int64(pods)},
		Capacity: resource.Vector{MilliCPU: 192000, Memory: 768 << 30, Pods: 737},
		Cheapest: ledger.OfferingPrice{InstanceType: names[0], Zone: "us-west-2a", CapacityType: "spot", MicroUSDPerHour: 123456},
	}
	for n := range pods {
		p.Pods = append(p.Pods, ledger.PodRef{UID: uidOf(i, n), Namespace: "team-07", Name: fmt.Sprintf("service-%03d-5d4f8c7b9-%05x", i%500, i*pods+n)})
	}
	return p
}

func uidOf(i, n int) types.UID {
	return types.UID(fmt.Sprintf("%08x-1111-2222-3333-%012x", i, n))
}

func launchedAs(claim, instanceType string, i int) *ledger.Launched {
	l := &ledger.Launched{
		Claim: claim, UID: uidOf(i, 999), Attempt: 1, InstanceID: fmt.Sprintf("i-%017x", i), ProviderID: fmt.Sprintf("aws:///us-west-2a/i-%017x", i),
		InstanceType: instanceType, Zone: "us-west-2a", CapacityType: "spot", ImageID: "ami-0abcdef1234567890", Price: 123456,
		Capacity: resource.Vector{MilliCPU: 16000, Memory: 64 << 30, Pods: 234}, Allocatable: resource.Vector{MilliCPU: 15890, Memory: 57 << 30, Pods: 234},
		Labels: map[string]string{}, Annotations: map[string]string{"karpenter.k8s.aws/ec2nodeclass-hash": "1234567890123456789", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4"},
	}
	for n := range 24 {
		l.Labels[fmt.Sprintf("karpenter.k8s.aws/instance-label-%02d", n)] = fmt.Sprintf("%s-%d", instanceType, n)
	}
	return l
}

// settled is a Ledger of so many claims whose nodes are ready.
func settled(t testing.TB, claims int) *ledger.Ledger {
	l := ledger.New(logID)
	seq := uint64(0)
	add := func(kind ledger.Kind, payload any, advances ...string) {
		seq++
		if err := l.Apply(ledger.Entry{Seq: seq, Time: start, Now: start, Mode: ledger.ModeActive, Kind: kind, Payload: payload, Advances: advances}); err != nil {
			t.Fatal(err)
		}
	}
	add(ledger.KindGenesis, &ledger.Genesis{LogID: logID, Cluster: "c"})
	for i := range claims {
		p := planned(i, 600, 30)
		add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{p}}, "pool/general")
		name := ledger.ClaimName(logID, "general", seq, 0)
		uid := uidOf(i, 999)
		node := fmt.Sprintf("ip-10-0-%d-%d.us-west-2.compute.internal", i/250, i%250)
		add(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: uid}, "claim/"+name)
		add(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: uid, Attempt: 1, Request: make([]byte, 30_000)}, "claim/"+name)
		add(ledger.KindLaunched, launchedAs(name, p.InstanceTypes[3], i), "claim/"+name)
		add(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: name, Node: node}, "claim/"+name, "node/"+node)
		add(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: node}, "claim/"+name)
		var gone []types.UID
		for _, ref := range p.Pods {
			gone = append(gone, ref.UID)
		}
		add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Gone: gone})
	}
	return l
}

// TestLedgerOf5000Claims is the aim: at most 20 MiB of memory for 5,000 nodes, and 10 MiB of checkpoint as it
// is stored.
func TestLedgerOf5000Claims(t *testing.T) {
	const claims, memoryMax, checkpointMax = 5000, 20 << 20, 10 << 20
	before := heap()
	l := settled(t, claims)
	held := int64(heap()) - int64(before)
	data, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	packed := packed(t, data)
	t.Logf("%d claims: %.1f MiB of memory, checkpoint %.2f MiB", claims, float64(held)/(1<<20), float64(packed)/(1<<20))
	if packed > checkpointMax {
		t.Errorf("a checkpoint of %d bytes, at most %d wanted", packed, checkpointMax)
	}
	if held > memoryMax {
		t.Errorf("%d bytes of memory, at most %d wanted", held, memoryMax)
	}
	if len(l.Claims()) != claims || len(l.Verdicts()) != 0 {
		t.Errorf("%d claims, %d verdicts", len(l.Claims()), len(l.Verdicts()))
	}
}

// packed is the size of a checkpoint's blob.
func packed(t testing.TB, data []byte) int {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return len(w.EncodeAll(data, nil))
}

// TestCheckpointsOfEarlierProgramsArePruned: they held each plan whole for life.
func TestCheckpointsOfEarlierProgramsArePruned(t *testing.T) {
	var tree map[string]any
	if err := json.Unmarshal(unpacked(t, "checkpoint-v3.zst"), &tree); err != nil {
		t.Fatal(err)
	}
	var name string
	for n, c := range tree["claims"].(map[string]any) {
		if claim := c.(map[string]any); claim["State"] == string(ledger.ClaimRegisteredState) {
			name = n
			claim["Planned"], claim["State"] = planned(1, 600, 30), ledger.ClaimInitializedState
		}
	}
	old, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := ledger.Restore(old)
	if err != nil {
		t.Fatal(err)
	}
	if p := restored.Claim(name).Planned; len(p.InstanceTypes) != 1 || len(p.Pods) != 0 || len(p.Labels) != 0 {
		t.Errorf("restored with %d types, %d pods and %d labels", len(p.InstanceTypes), len(p.Pods), len(p.Labels))
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
