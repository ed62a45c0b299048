package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/resource"
)

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

const logID = "00112233445566778899aabbccddeeff"

// book appends to a Ledger.
type book struct {
	t rapid.TB
	*ledger.Ledger
	at time.Time
}

func open(t rapid.TB) *book {
	b := &book{t: t, Ledger: ledger.New(logID), at: start}
	b.addRecord(ledger.KindGenesis, &ledger.Genesis{LogID: logID, Cluster: "test"})
	return b
}

func (b *book) addRecord(kind ledger.Kind, payload any, more ...func(*ledger.Entry)) uint64 {
	b.t.Helper()
	e := ledger.Entry{Seq: b.Seq() + 1, Time: b.at, Now: b.at, Mode: ledger.ModeActive, Kind: kind, Payload: payload}
	for _, m := range more {
		m(&e)
	}
	if err := b.Apply(e); err != nil {
		b.t.Fatalf("apply %s: %v", kind, err)
	}
	return e.Seq
}

func want[T comparable](t rapid.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestClaimThroughItsLife(t *testing.T) {
	b := open(t)
	seq := b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{
		{NodePool: "general", Capacity: resource.Vector{MilliCPU: 8000}, Pods: []ledger.PodRef{{UID: "u1", Namespace: "d", Name: "p"}}},
	}})
	name := ledger.ClaimName(logID, "general", seq, 0)
	c := func() *ledger.Claim { return b.Claim(name) }
	want(t, "state", c().State, ledger.ClaimPlanned)
	want(t, "verdict", b.Verdict("u1").Claim, name)
	b.addRecord(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: "claim-uid"})
	want(t, "state", c().State, ledger.ClaimCreatedOnce)
	requested := b.addRecord(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: "claim-uid", Attempt: 1, Token: "t"})
	want(t, "open", c().OpenSeq, requested)
	want(t, "state", c().State, ledger.ClaimLaunching)
	b.addRecord(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: name, Attempt: 1, Class: "no-capacity"})
	want(t, "closed", c().Open == nil, true)
	want(t, "state", c().State, ledger.ClaimLaunchFailed)
	b.addRecord(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: "claim-uid", Attempt: 2})
	b.addRecord(ledger.KindLaunched, &ledger.Launched{Claim: name, Attempt: 2, InstanceID: "i-1", Price: 3, OnDemandPrice: 9, Capacity: resource.Vector{MilliCPU: 4000}})
	want(t, "price", c().Instance.Price, 3)
	want(t, "on-demand price, which only savings are made of", c().Instance.OnDemandPrice, 0)
	want(t, "capacity of the instance", c().Capacity.MilliCPU, 4000)
	want(t, "attempt", c().Attempt, 2)
	b.addRecord(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: name, Node: "n"})
	b.addRecord(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: "n"})
	want(t, "node", c().Node, "n")
	b.addRecord(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: name, Reason: "expired"})
	b.addRecord(ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: name, InstanceID: "i-1"})
	want(t, "terminated", c().Terminated, true)
	want(t, "open until closed by record", len(b.Claims()), 1)
	b.addRecord(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: name})
	want(t, "claims", len(b.Claims()), 0)
}

// TestANodeClaimMadeOfAnEarlierContent: what the object was made of counts, and only that.
func TestANodeClaimMadeOfAnEarlierContent(t *testing.T) {
	ref := func(name string) ledger.PodRef { return ledger.PodRef{UID: types.UID(name), Name: name} }
	content := func(cpu int64, pods ...ledger.PodRef) ledger.PlannedClaim {
		return ledger.PlannedClaim{NodePool: "p", Capacity: resource.Vector{MilliCPU: cpu}, Pods: pods}
	}
	for name, c := range map[string]struct {
		record   uint64 // that the object names; 0: none
		cpu      int64
		verdicts []string
	}{
		"the first one":              {2, 2000, []string{"a"}},
		"one between":                {3, 4000, []string{"a", "b"}},
		"the last one":               {4, 8000, []string{"a", "b", "c"}},
		"not said":                   {0, 8000, []string{"a", "b", "c"}},
		"a record of something else": {1, 8000, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{content(2000, ref("a"))}})
			claim := ledger.ClaimName(logID, "p", 2, 0)
			widen := func(c ledger.PlannedClaim) {
				b.addRecord(ledger.KindProvisioningWidened, &ledger.ProvisioningPlanned{Widened: []ledger.WidenedClaim{{Claim: claim, Content: c}}})
			}
			widen(content(4000, ref("a"), ref("b")))
			widen(content(8000, ref("a"), ref("b"), ref("c")))
			want(t, "content", b.Claim(claim).ContentSeq(), 4)
			want(t, "an earlier one", b.Claim(claim).ContentOf(3).Capacity.MilliCPU, 4000)
			b.addRecord(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim, UID: "u", Record: c.record})
			got := b.Claim(claim)
			want(t, "capacity", got.Capacity.MilliCPU, c.cpu)
			want(t, "pods of the content", len(got.Planned.Pods), len(c.verdicts))
			want(t, "earlier contents kept", len(got.Earlier), 0)
			want(t, "verdicts", len(b.Verdicts()), len(c.verdicts))
			for _, pod := range c.verdicts {
				want(t, "verdict of "+pod, b.Verdict(types.UID(pod)).Claim, claim)
			}
			widen(content(16000, ref("d")))
			want(t, "a made claim is not widened", b.Claim(claim).Capacity.MilliCPU, c.cpu)
		})
	}
}

func TestLaunchOfAnUnknownClaimIsNotLost(t *testing.T) {
	b := open(t)
	b.addRecord(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: "stray", UID: "u", Attempt: 1})
	if c := b.Claim("stray"); c == nil || c.Open == nil {
		t.Error("the open attempt is not in the Ledger")
	}
	b.addRecord(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: "stray"})
	b.addRecord(ledger.KindLaunched, &ledger.Launched{Claim: "stray", UID: "u", Attempt: 1})
	want(t, "a late outcome revives nothing", len(b.Claims()), 0)
}

func TestCommandTakesItsClaims(t *testing.T) {
	b := open(t)
	b.addRecord(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: "c", UID: "u", ProviderID: "aws:///z/i-7"})
	want(t, "adopted instance", b.Claim("c").Instance.InstanceID, "i-7")
	start := &ledger.CommandStarted{
		Reason: karpv1.DisruptionReasonEmpty, Candidates: []ledger.Candidate{{Node: "n", Claim: "c", ClaimUID: "u"}},
		Replacements: []ledger.PlannedClaim{{NodePool: "p"}},
	}
	seq := b.addRecord(ledger.KindCommandStarted, start)
	id := ledger.CommandID(logID, seq)
	want(t, "replacement", b.Claim(ledger.ClaimName(logID, "p", seq, 0)).CommandID, id)
	b.addRecord(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})
	want(t, "state", b.Command(id).State, ledger.CommandConfirmedState)
	b.addRecord(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: id})
	want(t, "commands", len(b.Commands()), 0)
	want(t, "doomed from success on", b.Claim("c").Doomed.Reason, "empty")
	second := ledger.CommandID(logID, b.addRecord(ledger.KindCommandStarted, start))
	b.addRecord(ledger.KindCommandRolledBack, &ledger.CommandRolledBack{ID: second})
	want(t, "commands after rollback", len(b.Commands()), 0)
}

func TestDrainTiers(t *testing.T) {
	b := open(t)
	b.addRecord(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n", Claim: "c"})
	b.addRecord(ledger.KindDrainTierStarted, &ledger.DrainTierStarted{Node: "n", Tier: 1, Evict: []ledger.PodRef{{UID: "a"}}})
	b.addRecord(ledger.KindDrainTierStarted, &ledger.DrainTierStarted{Node: "n", Tier: 1, Held: []ledger.PodRef{{UID: "b"}}})
	want(t, "pods of the tier", len(b.Drain("n").TierPods), 2)
	b.addRecord(ledger.KindDrainTierStarted, &ledger.DrainTierStarted{Node: "n", Tier: 2, Evict: []ledger.PodRef{{UID: "c"}}})
	want(t, "pods of the next tier", len(b.Drain("n").TierPods), 1)
	until := start.Add(10 * time.Minute)
	b.addRecord(ledger.KindSurgeDecided, &ledger.SurgeDecided{Node: "n", Owners: []ledger.SurgedOwner{{Pods: []ledger.PodRef{{UID: "c"}}, Until: until}}})
	want(t, "surging", b.Drain("n").Surges["c"].Running(until.Add(-1)), true)
	want(t, "no longer surging", b.Drain("n").Surges["c"].Running(until), false)
	b.addRecord(ledger.KindSurgeDecided, &ledger.SurgeDecided{Node: "n", Owners: []ledger.SurgedOwner{{Pods: []ledger.PodRef{{UID: "c"}}, Refused: "paused"}}})
	want(t, "refused later", b.Drain("n").Surges["c"].Running(start), false)
	seq := b.addRecord(ledger.KindNodeDrained, &ledger.NodeDrained{Node: "n"})
	want(t, "drained", b.Drain("n").Drained, seq)
	b.addRecord(ledger.KindDrainEnded, &ledger.DrainEnded{Node: "n"})
	want(t, "drains", len(b.Drains()), 0)
}

func TestVerdicts(t *testing.T) {
	b := open(t)
	pod := []ledger.PodRef{{UID: "u", Namespace: "d", Name: "p"}}
	refused := &ledger.ProvisioningPlanned{Refused: []ledger.Refused{{Pods: pod, Reasons: []ledger.Refusal{{Constraint: "taints", Message: "m"}}}}}
	b.addRecord(ledger.KindProvisioningPlanned, refused)
	b.at = b.at.Add(time.Minute)
	b.addRecord(ledger.KindProvisioningPlanned, refused)
	want(t, "an equal verdict keeps its beginning", b.Verdict("u").Since, start)
	want(t, "digest", b.Verdict("u").Digest, ledger.RefusalDigest(refused.Refused[0].Reasons))
	b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Node: "n", Pods: pod}}})
	want(t, "another verdict begins anew", b.Verdict("u").Since, start.Add(time.Minute))
	want(t, "node", b.Verdict("u").Node, "n")
	b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Gone: []types.UID{"u"}})
	want(t, "forgotten", b.Verdict("u") == nil, true)
}

func TestOfferingsBackOff(t *testing.T) {
	b := open(t)
	key := ledger.OfferingKey{InstanceType: "m5.large", Zone: "z", CapacityType: "spot"}
	fail := func(after time.Duration) time.Duration {
		b.at = b.at.Add(after)
		b.addRecord(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "c", Unavailable: []ledger.FailedOffering{{InstanceType: "m5.large", Zone: "z", CapacityType: "spot", Code: "ICE"}}})
		return b.UnavailableOffering(key).Until.Sub(b.at)
	}
	want(t, "first failure", fail(0), 3*time.Minute)
	want(t, "failures under way count once", fail(time.Second), 3*time.Minute)
	want(t, "second in a row", fail(4*time.Minute), 6*time.Minute)
	want(t, "third", fail(7*time.Minute), 12*time.Minute)
	want(t, "fourth", fail(13*time.Minute), 24*time.Minute)
	want(t, "bounded", fail(25*time.Minute), 30*time.Minute)
	want(t, "marked", b.Unavailable(key, b.at.Add(29*time.Minute)), true)
	want(t, "expired", b.Unavailable(key, b.at.Add(30*time.Minute)), false)
	want(t, "listed", len(b.UnavailableOfferings(b.at)), 1)
	want(t, "a new row after long quiet", fail(2*time.Hour), 3*time.Minute)
	b.addRecord(ledger.KindLaunched, &ledger.Launched{Claim: "c", InstanceType: "m5.large", Zone: "z", CapacityType: "spot"})
	want(t, "success resets", b.Unavailable(key, b.at), false)
	b.addRecord(ledger.KindOptionsSet, &ledger.OptionsSet{Options: []byte(`{"offeringBackoff":1000000000,"offeringBackoffMax":2000000000}`)})
	want(t, "options in force", fail(0), time.Second)
	want(t, "their bound", fail(time.Second), 2*time.Second)
}

func TestOfferingsInPlacementGroupsAreMarkedApart(t *testing.T) {
	b := open(t)
	in := func(group string) ledger.OfferingKey {
		return ledger.OfferingKey{InstanceType: "m5.large", Zone: "z", CapacityType: "spot", PlacementGroup: group}
	}
	fail := func(f ledger.FailedOffering) {
		f.Zone, f.Code = "z", "ICE"
		b.addRecord(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "c", Unavailable: []ledger.FailedOffering{f}})
	}
	fail(ledger.FailedOffering{InstanceType: "m5.large", CapacityType: "spot", PlacementGroup: "pg-1/2"})
	want(t, "a partition", b.Unavailable(in("pg-1/2"), b.at), true)
	want(t, "another partition", b.Unavailable(in("pg-1/1"), b.at), false)
	want(t, "the group", b.Unavailable(in("pg-1"), b.at), false)
	want(t, "outside", b.Unavailable(in(""), b.at), false)
	fail(ledger.FailedOffering{InstanceType: "m5.large", CapacityType: "spot", PlacementGroup: "pg-1"})
	want(t, "a partition of the group", b.Unavailable(in("pg-1/1"), b.at), true)
	fail(ledger.FailedOffering{PlacementGroup: "pg-2"})
	want(t, "a group that is full", b.Unavailable(in("pg-2/1"), b.at), true)
	want(t, "in another zone", b.Unavailable(ledger.OfferingKey{InstanceType: "m5.large", Zone: "y", CapacityType: "spot", PlacementGroup: "pg-2"}, b.at), false)
	data, err := b.Checkpoint()
	want(t, "written", err, nil)
	restored, err := ledger.ReadCheckpoint(bytes.NewReader(data))
	want(t, "read", err, nil)
	want(t, "restored", restored.Unavailable(in("pg-1/1"), b.at) && !restored.Unavailable(in(""), b.at), true)
	b.addRecord(ledger.KindLaunched, &ledger.Launched{Claim: "c", InstanceType: "m5.large", Zone: "z", CapacityType: "spot", PlacementGroup: "pg-1/2"})
	want(t, "a success", b.Unavailable(in("pg-1/2"), b.at), false)
	fail(ledger.FailedOffering{InstanceType: "m5.large", CapacityType: "spot"})
	want(t, "no capacity at all", b.Unavailable(in("pg-3/1"), b.at), true)
}

func TestACapacityTypeIsMarkedAsAWhole(t *testing.T) {
	b := open(t)
	of := func(capacityType, group string) ledger.OfferingKey {
		return ledger.OfferingKey{InstanceType: "m5.large", Zone: "z", CapacityType: capacityType, PlacementGroup: group}
	}
	b.addRecord(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "c", Unavailable: []ledger.FailedOffering{{CapacityType: "spot", Code: "SLR"}}})
	data, err := b.Checkpoint()
	want(t, "written", err, nil)
	restored, err := ledger.ReadCheckpoint(bytes.NewReader(data))
	want(t, "read", err, nil)
	for _, l := range []*ledger.Ledger{b.Ledger, restored} {
		want(t, "spot", l.Unavailable(of("spot", ""), b.at), true)
		want(t, "spot in a group", l.Unavailable(of("spot", "pg-1/2"), b.at), true)
		want(t, "on demand", l.Unavailable(of("on-demand", ""), b.at), false)
		want(t, "when the mark has ended", l.Unavailable(of("spot", ""), b.at.Add(3*time.Minute)), false)
	}
	b.addRecord(ledger.KindLaunched, &ledger.Launched{Claim: "c", InstanceType: "m5.large", Zone: "y", CapacityType: "spot"})
	want(t, "a success anywhere", b.Unavailable(of("spot", ""), b.at), false)
}

func TestShadowRecordsChangeNothing(t *testing.T) {
	b := open(t)
	b.addRecord(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: "c", UID: "u"})
	planned := &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}}
	shadow := func(e *ledger.Entry) {
		e.Mode, e.Service, e.Subjects = ledger.ModeShadow, "provisioner", []string{"pod/a"}
	}
	want(t, "not said before", b.Shadowed("provisioner", ledger.KindProvisioningPlanned, []string{"pod/a"}, planned), false)
	b.addRecord(ledger.KindProvisioningPlanned, planned, shadow)
	b.addRecord(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: "c"}, shadow)
	want(t, "claims", len(b.Claims()), 1)
	want(t, "said before", b.Shadowed("provisioner", ledger.KindProvisioningPlanned, []string{"pod/a"}, planned), true)
	other := &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "q"}}}
	want(t, "something new", b.Shadowed("provisioner", ledger.KindProvisioningPlanned, []string{"pod/a"}, other), false)
	want(t, "sequence", b.Seq(), 4)
}

func TestEnvelope(t *testing.T) {
	b := open(t)
	b.addRecord(ledger.KindAlarmRaised, &ledger.AlarmRaised{}, func(e *ledger.Entry) {
		e.Advances, e.Position = []string{"pool/a", "node/b"}, events.Position{Incarnation: "s", Sequence: 70}
	})
	b.at = b.at.Add(-time.Hour)
	b.addRecord(ledger.KindAlarmRaised, &ledger.AlarmRaised{}, func(e *ledger.Entry) { e.Position = events.Position{Incarnation: "s", Sequence: 60} })
	want(t, "aggregate", b.Aggregate("pool/a"), 2)
	want(t, "never advanced", b.Aggregate("pool/z"), 0)
	want(t, "highest position", b.HighestPosition("s"), 70)
	want(t, "last time", b.LastTime(), start.Add(-time.Hour))
	b.addRecord(ledger.KindModeChanged, &ledger.ModeChanged{Service: "disruptor", Mode: ledger.ModeShadow})
	want(t, "mode", b.Mode("disruptor"), ledger.ModeShadow)
	want(t, "mode never changed", b.Mode("provisioner"), ledger.ModeActive)
}

func TestApplyRefuses(t *testing.T) {
	b := open(t)
	before := b.Digest()
	cases := map[string]struct {
		entry ledger.Entry
		err   error
	}{
		"a gap":                           {ledger.Entry{Seq: 3, Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{}}, ledger.ErrGap},
		"an unknown kind":                 {ledger.Entry{Seq: 2, Kind: 9999}, ledger.ErrUnknownKind},
		"a payload of another kind":       {ledger.Entry{Seq: 2, Kind: ledger.KindLaunched, Payload: &ledger.ClaimClosed{}}, ledger.ErrPayload},
		"a known kind without payload":    {ledger.Entry{Seq: 2, Kind: ledger.KindLaunched}, ledger.ErrPayload},
		"nothing of what it has folded":   {ledger.Entry{Seq: 1, Kind: 9999}, nil},
		"nothing of an ignorable unknown": {ledger.Entry{Seq: 2, Kind: 9999, Ignorable: true}, nil},
	}
	for _, name := range []string{"a gap", "an unknown kind", "a payload of another kind", "a known kind without payload", "nothing of what it has folded"} {
		if err := b.Apply(cases[name].entry); !errors.Is(err, cases[name].err) {
			t.Errorf("%s: %v", name, err)
		}
		want(t, "state after "+name, b.Digest(), before)
	}
	if err := b.Apply(cases["nothing of an ignorable unknown"].entry); err != nil {
		t.Error(err)
	}
	want(t, "sequence moves past it", b.Seq(), 2)
}

func TestNames(t *testing.T) {
	long := strings.Repeat("pool-", 14)
	for _, pool := range []string{"p", long} {
		name := ledger.ClaimName(logID, pool, 12, 3)
		if len(name) > 63 || !strings.HasPrefix(name, pool[:1]) || strings.ToLower(name) != name {
			t.Errorf("claim name %q", name)
		}
	}
	want(t, "stable", ledger.ClaimName(logID, "p", 12, 3), ledger.ClaimName(logID, "p", 12, 3))
	if ledger.ClaimName(logID, "p", 12, 3) == ledger.ClaimName(logID, "p", 123, 0) || ledger.ClaimName(logID, "p", 1, 0) == ledger.ClaimName("x", "p", 1, 0) {
		t.Error("different claims share a name")
	}
	want(t, "command id", len(ledger.CommandID(logID, 5)), 12)
	want(t, "token", len(ledger.ClientToken(logID, "u", 1)), 32)
	id, seq, ok := ledger.ParseRecordAnnotation(ledger.RecordAnnotation(logID, 77))
	want(t, "record annotation", id == logID && seq == 77 && ok, true)
}

func TestEveryKindHasAPayloadThatSurvivesJSON(t *testing.T) {
	for _, k := range ledger.Kinds() {
		p := ledger.NewPayload(k)
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%s: %v", k, err)
		}
		if err := json.Unmarshal(b, ledger.NewPayload(k)); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		if strings.HasPrefix(k.String(), "Kind(") {
			t.Errorf("%s has no name", k)
		}
	}
	want(t, "kinds", len(ledger.Kinds()), 47)
}

// records draws a log about few claims, nodes and pods, so that records meet.
func records(t *rapid.T) []ledger.Entry {
	one := func(names ...string) string { return rapid.SampledFrom(names).Draw(t, "name") }
	claim := func() string {
		return one("c", ledger.ClaimName(logID, "p", 2, 0), ledger.ClaimName(logID, "p", 3, 0))
	}
	offering := func() []ledger.FailedOffering {
		return []ledger.FailedOffering{{InstanceType: one("m5.large", "c5.large"), Zone: "z", CapacityType: "spot"}}
	}
	pods := func() []ledger.PodRef { return []ledger.PodRef{{UID: types.UID(one("u1", "u2")), Name: "x"}} }
	list := []ledger.Entry{{Seq: 1, Kind: ledger.KindGenesis, Payload: &ledger.Genesis{LogID: logID}}}
	at := start
	for i := range rapid.IntRange(0, 25).Draw(t, "records") {
		payloads := map[ledger.Kind]any{
			ledger.KindProvisioningPlanned: &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p", Pods: pods()}}, Gone: []types.UID{types.UID(one("u1", "u2"))}},
			ledger.KindProvisioningWidened: &ledger.ProvisioningPlanned{Widened: []ledger.WidenedClaim{{Claim: claim(), Content: ledger.PlannedClaim{NodePool: "p", Pods: pods(), Capacity: resource.Vector{MilliCPU: int64(i)}}}}},
			ledger.KindClaimWithdrawn:      &ledger.ClaimWithdrawn{Claim: claim()},
			ledger.KindClaimCreated:        &ledger.ClaimCreated{Claim: claim(), UID: "u", Record: uint64(rapid.IntRange(0, 6).Draw(t, "record"))},
			ledger.KindLaunchRequested:     &ledger.LaunchRequested{Claim: claim(), UID: "u", Attempt: i, Request: []byte("{}")},
			ledger.KindLaunched:            &ledger.Launched{Claim: claim(), InstanceType: one("m5.large", "c5.large"), Zone: "z", CapacityType: "spot"},
			ledger.KindLaunchFailed:        &ledger.LaunchFailed{Claim: claim(), Unavailable: offering()},
			ledger.KindFleetRequested:      &ledger.LaunchRequested{Claim: claim(), UID: "u", Attempt: i, Request: []byte("{}"), Others: []ledger.FleetMember{{Claim: claim(), UID: "u", Attempt: i}}},
			ledger.KindFleetAnswered:       &ledger.FleetAnswered{Launched: []ledger.Launched{{Claim: claim(), InstanceType: "m5.large", Zone: "z"}}, Failed: []ledger.LaunchFailed{{Claim: claim()}}, Unavailable: offering()},
			ledger.KindClaimClosed:         &ledger.ClaimClosed{Claim: claim()},
			ledger.KindClaimAdopted:        &ledger.ClaimAdopted{Claim: claim(), UID: "u"},
			ledger.KindCommandStarted:      &ledger.CommandStarted{Candidates: []ledger.Candidate{{Claim: claim(), NodePool: one("p", "q")}}, Wave: &ledger.Wave{Target: one("t", "u"), Number: 1, Nodes: 1}},
			ledger.KindCommandSucceeded:    &ledger.CommandSucceeded{ID: ledger.CommandID(logID, uint64(rapid.IntRange(2, 6).Draw(t, "of")))},
			ledger.KindCommandAbandoned:    &ledger.CommandRolledBack{ID: ledger.CommandID(logID, uint64(rapid.IntRange(2, 6).Draw(t, "given up"))), Reason: "late", HaltsRollout: i%2 == 0},
			ledger.KindRolloutResumed:      &ledger.RolloutResumed{NodePool: one("p", "q"), Target: one("t", "u")},
			ledger.KindDrainOutStarted:     &ledger.DrainOutStarted{Nodes: []ledger.NodeDrainingOut{{Node: one("n1", "n2"), Claim: claim(), ClaimUID: "u", NodePool: "p", Policy: "d"}}},
			ledger.KindDrainOutEnded:       &ledger.DrainOutEnded{Nodes: []ledger.DroppedNode{{Node: one("n1", "n2"), Claim: claim()}}},
			ledger.KindSurgeDecided: &ledger.SurgeDecided{Node: one("n1", "n2"), Command: "c", Policy: "d",
				Owners: []ledger.SurgedOwner{{Pods: pods(), Facts: ledger.SurgeFacts{Deployment: "ns/d"}, Until: start.Add(time.Hour)}}},
			ledger.KindDrainStarted:      &ledger.DrainStarted{Node: one("n1", "n2")},
			ledger.KindDrainTierStarted:  &ledger.DrainTierStarted{Node: one("n1", "n2"), Tier: 1, Evict: pods()},
			ledger.KindAggregatesRetired: &ledger.AggregatesRetired{Aggregates: []string{"node/" + one("n1", "n2")}, Shadow: i%2 == 0},
			ledger.KindOptionsSet:        &ledger.OptionsSet{Options: []byte(`{"offeringBackoff":60000000000}`)},
		}
		kind := rapid.SampledFrom(ledger.Kinds()).Draw(t, "kind")
		payload := payloads[kind]
		if payload == nil {
			kind, payload = ledger.KindProvisioningPlanned, payloads[ledger.KindProvisioningPlanned]
		}
		at = at.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
		list = append(list, ledger.Entry{
			Seq: uint64(i + 2), Time: at, Now: at, Kind: kind, Payload: payload, Service: "s",
			Mode:     rapid.SampledFrom([]ledger.Mode{ledger.ModeActive, ledger.ModeActive, ledger.ModeShadow}).Draw(t, "mode"),
			Advances: []string{"pool/" + one("a", "b"), "node/" + one("n1", "n2")}, Position: events.Position{Incarnation: "s", Sequence: uint64(i)},
		})
	}
	return list
}

func TestFoldFromCheckpointEqualsFoldFromZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := records(t)
		cut := rapid.IntRange(0, len(list)).Draw(t, "cut")
		whole, part := ledger.New(logID), ledger.New(logID)
		apply := func(l *ledger.Ledger, list []ledger.Entry) {
			for _, e := range list {
				if err := l.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		apply(whole, list)
		apply(part, list[:cut])
		data, err := part.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		restored, err := ledger.Restore(data)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := restored.Checkpoint()
		if !bytes.Equal(data, again) {
			t.Fatalf("checkpoint changes by restoring:\n%s\n%s", data, again)
		}
		apply(restored, list) // what is already folded is passed over
		if whole.Digest() != restored.Digest() {
			a, _ := whole.Checkpoint()
			b, _ := restored.Checkpoint()
			t.Fatalf("ledgers differ:\n%s\n%s", a, b)
		}
	})
}

// TestVersionsStayAsTheyWereTaken: whatever is folded later, and however it was read meanwhile.
func TestVersionsStayAsTheyWereTaken(t *testing.T) {
	type taken struct {
		*ledger.Ledger
		digest string
		claims []ledger.Claim
	}
	rapid.Check(t, func(t *rapid.T) {
		live := ledger.New(logID)
		var versions []taken
		for _, e := range records(t) {
			if err := live.Apply(e); err != nil {
				t.Fatal(err)
			}
			if !rapid.Bool().Draw(t, "taken") {
				continue
			}
			v := live.Version()
			if v != live.Version() || v != v.Version() {
				t.Fatal("two versions of one Ledger")
			}
			versions = append(versions, taken{v, live.Digest(), values(v.Claims())})
		}
		for i, v := range versions {
			if v.Digest() != v.digest {
				t.Fatalf("version %d is not what it was", i)
			}
			if diff := cmp.Diff(v.claims, values(v.Claims())); diff != "" {
				t.Fatalf("claims of version %d (-was +is):\n%s", i, diff)
			}
		}
	})
}

func values(list []*ledger.Claim) (values []ledger.Claim) {
	for _, c := range list {
		values = append(values, *c)
	}
	return values
}

func TestVersionsCannotBeChanged(t *testing.T) {
	v := open(t).Version()
	defer func() {
		if recover() == nil {
			t.Error("a version was changed")
		}
	}()
	_ = v.Apply(ledger.Entry{Seq: v.Seq() + 1, Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{}})
}
