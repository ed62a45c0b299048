package launch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/planner/ledger/compact"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/record"
)

// lifeMax is what all records of one claim may take in the log, from the plan to its end.
const lifeMax = 6 << 10

// TestAClaimsLifeInBytes plans ten pods onto one claim of as many types as a catalogue offers, asks EC2 for
// it in three zones, and counts what the log keeps of it all, explanation included.
func TestAClaimsLifeInBytes(t *testing.T) {
	life := &life{t: t}
	names, ref := life.plan()
	b := newBench(t)
	var kinds []kind
	for i, name := range names {
		kinds = append(kinds, kind{name: name, price: int64(96 + i), cpu: 2, pods: 29})
	}
	built, err := b.Build(context.Background(), input(readyClass("AL2023"), claim(capacityTypes("spot", "on-demand")), kinds...))
	if err != nil {
		t.Fatal(err)
	}
	request, err := EncodeRequest(requestOf(b, built, "token-1"))
	if err != nil {
		t.Fatal(err)
	}
	const claimName, uid, node = "general-3k5m0q7d2f", "6f1f9a5e-7d43-4b5a-9a0e-2f4b1c6d7e8f", "ip-10-0-17-203.us-west-2.compute.internal"
	claimed, noded := "claim/"+claimName, "node/"+node
	life.outcome(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claimName, UID: uid}, claimed)
	life.outcome(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: claimName, UID: uid, Attempt: 1, Token: "0123456789abcdef0123456789abcdef",
		Request: request, LaunchTemplates: built.Templates}, claimed)
	life.outcome(ledger.KindLaunched, launchedAs(claimName, names[0]), claimed, "pool/general")
	life.outcome(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: claimName, Node: node}, claimed, noded)
	life.outcome(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: claimName, Node: node}, claimed, noded)
	life.outcome(ledger.KindDrainStarted, &ledger.DrainStarted{Node: node, Claim: claimName, ClaimUID: uid, Reason: "Underutilized"}, noded)
	life.outcome(ledger.KindDrainTierStarted, &ledger.DrainTierStarted{Node: node, Tier: 1, Evict: ref}, noded)
	life.outcome(ledger.KindNodeDrained, &ledger.NodeDrained{Node: node, Claim: claimName, VolumesDetached: true}, noded)
	life.outcome(ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: claimName, InstanceID: "i-0123456789abcdef0"}, claimed)
	life.outcome(ledger.KindDrainEnded, &ledger.DrainEnded{Node: node}, noded)
	life.outcome(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: claimName, UID: uid, Reason: "deleted"}, claimed, "pool/general")
	t.Logf("%d bytes in all, %d without compression", life.bytes, life.plain)
	t.Log(archiveOf(life.bytes))
	if life.bytes > lifeMax {
		t.Errorf("a claim's life takes %d bytes, at most %d wanted", life.bytes, lifeMax)
	}
}

// What an archive in a bucket takes and costs, of the cluster that docs/operations.md (Retention)
// describes; the prices are S3's in us-east-1 of November 2026.
const (
	nodesADay, roundsADay, roundBytes = 1000, 3000, 8 << 10
	archivedDays, monthDays           = 400, 30
	recordsOfALife, segmentRecords    = 12, 10000
	// A segment and its claim are put, and there are some lists and reads for each.
	putsASegment, getsASegment                                    = 3, 8
	standardGB, infrequentGB, instantGB, putThousand, getThousand = 0.023, 0.0125, 0.004, 0.005, 0.0004
)

// archiveOf says how large the archive of 400 days is, without what its segments compress once more.
func archiveOf(lifeBytes int) string {
	gb := float64(archivedDays*(nodesADay*lifeBytes+roundsADay*roundBytes)) / 1e9
	segments := float64(monthDays*(nodesADay*recordsOfALife+roundsADay)) / segmentRecords
	requests := segments * (putsASegment*putThousand + getsASegment*getThousand) / 1000
	return fmt.Sprintf("%d days of %d nodes replaced daily, %d rounds a day: %.1f GB at most, a month $%.2f in S3 Standard, $%.2f in Standard-IA, $%.2f in Glacier Instant Retrieval; requests $%.4f",
		archivedDays, nodesADay, roundsADay, gb, gb*standardGB, gb*infrequentGB, gb*instantGB, requests)
}

// life counts the bytes of records.
type life struct {
	t            *testing.T
	bytes, plain int
}

// plan records a decision about ten pods and returns the types of its claim and the pods.
func (l *life) plan() (types []string, pods []ledger.PodRef) {
	var table strings.Builder
	sizes := []string{"large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge", "24xlarge"}
	for i := range 600 {
		family := fmt.Sprintf("%s%d%s", []string{"m", "c", "r"}[i%3], 4+i/3%5, []string{"i", "a", "id", "ad", "n"}[i/15%5])
		cpu := []int{2, 4, 8, 16, 32, 48, 64, 96}[i/75]
		fmt.Fprintf(&table, "%s.%s %d %d %d amd64\n", family, sizes[i/75], cpu, cpu*4, cpu*(48_000+i%75*137))
	}
	ref, prices := pt.Catalogue("default", table.String())
	objects := []any{pt.NodeClass("default"), ref, prices, pt.Pool("general")}
	for i := range 10 {
		objects = append(objects, pt.Pod(fmt.Sprintf("service-042-5d4f8c7b9-%05x", i), pt.Unschedulable(), pt.Requests("cpu", "100m", "memory", "128Mi")))
	}
	snapshot := pt.New(objects...).Snapshot()
	d, _ := provision.Plan(snapshot)
	if d == nil {
		l.t.Fatal("nothing is planned")
	}
	planned := d.Payload.(*ledger.ProvisioningPlanned).Claims
	if len(planned) != 1 || len(planned[0].Pods) != 10 {
		l.t.Fatalf("%d claims are planned", len(planned))
	}
	short := *d
	short.Payload = compact.Payload(d.Payload)
	draft, err := audit.DecisionDraft(snapshot.Basis(), short)
	if err != nil {
		l.t.Fatal(err)
	}
	l.addDraft(ledger.KindProvisioningPlanned, draft)
	return planned[0].InstanceTypes, planned[0].Pods
}

func (l *life) outcome(kind ledger.Kind, payload any, advances ...string) {
	l.t.Helper()
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: compact.Payload(payload), Subjects: advances, Causation: 4711, Advances: advances})
	if err != nil {
		l.t.Fatal(err)
	}
	l.addDraft(kind, draft)
}

func (l *life) addDraft(kind ledger.Kind, draft store.Draft) {
	l.t.Helper()
	draft.Time, draft.Service, draft.Mode = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), ledger.ServiceLifecycle, string(ledger.ModeActive)
	plain := encodedBytes(l.t, draft)
	draft.Format = record.Format
	short := encodedBytes(l.t, draft)
	l.t.Logf("%-20s %6d bytes, %6d without compression", kind, short, plain)
	l.bytes, l.plain = l.bytes+short, l.plain+plain
}

func encodedBytes(t *testing.T, draft store.Draft) int {
	t.Helper()
	p, err := record.Prepare(draft)
	if err != nil {
		t.Fatal(err)
	}
	data, err := record.Marshal(p.Seal(record.Place{Head: store.Head{Seq: 123456}}))
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

func launchedAs(claimName, instanceType string) *ledger.Launched {
	l := &ledger.Launched{
		Claim: claimName, UID: "6f1f9a5e-7d43-4b5a-9a0e-2f4b1c6d7e8f", Attempt: 1, InstanceID: "i-0123456789abcdef0", ProviderID: "aws:///us-west-2a/i-0123456789abcdef0",
		InstanceType: instanceType, Zone: "us-west-2a", CapacityType: "spot", ImageID: "ami-0abcdef1234567890", Price: 123456,
		Labels: map[string]string{}, Annotations: map[string]string{"karpenter.k8s.aws/ec2nodeclass-hash": "1234567890123456789", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4"},
	}
	for _, label := range []string{"category", "cpu", "cpu-manufacturer", "cpu-sustained-clock-speed-mhz", "ebs-bandwidth", "encryption-in-transit-supported", "family",
		"generation", "hypervisor", "local-nvme", "memory", "network-bandwidth", "size"} {
		l.Labels["karpenter.k8s.aws/instance-"+label] = fmt.Sprintf("%s-%d", label, len(l.Labels))
	}
	return l
}
