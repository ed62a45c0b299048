package ledger_test

import (
	"testing"

	"millwright/planner/ledger"
)

// TestAFleetIsOpenAndClosedAsAWhole: the first claim's attempt holds the request, and one record closes all.
func TestAFleetIsOpenAndClosedAsAWhole(t *testing.T) {
	b := open(t)
	b.addRecord(ledger.KindFleetRequested, &ledger.LaunchRequested{
		Claim: "a", UID: "ua", Attempt: 2, Token: "t", Request: []byte(`{"Type":"instant"}`), LaunchTemplates: []ledger.LaunchTemplateRef{{ID: "lt-1"}},
		Others: []ledger.FleetMember{{Claim: "b", UID: "ub", Attempt: 1}, {Claim: "c", UID: "uc", Attempt: 1}},
	})
	l := b.Ledger
	for name, attempt := range map[string]int{"a": 2, "b": 1, "c": 1} {
		c := l.Claim(name)
		if c == nil || c.Open == nil || c.Attempt != attempt || c.Open.Attempt != attempt || c.State != ledger.ClaimLaunching || c.OpenSeq != l.Seq() {
			t.Fatalf("%s: %+v", name, c)
		}
		if lead := name == "a"; lead != (len(c.Open.Request) > 0) || lead != (c.Open.Lead == "") || len(c.Open.LaunchTemplates) != 1 {
			t.Errorf("%s: %+v", name, c.Open)
		}
	}
	key := ledger.OfferingKey{InstanceType: "m5.large", Zone: "z", CapacityType: "spot"}
	b.addRecord(ledger.KindFleetAnswered, &ledger.FleetAnswered{
		Claim: "a",
		Launched: []ledger.Launched{
			{Claim: "a", UID: "ua", Attempt: 2, InstanceID: "i-1", InstanceType: "m5.large", Zone: "z", CapacityType: "spot"},
			{Claim: "b", UID: "ub", Attempt: 1, InstanceID: "i-2", InstanceType: "m5.large", Zone: "z", CapacityType: "spot"},
		},
		Failed:      []ledger.LaunchFailed{{Claim: "c", UID: "uc", Attempt: 1, Class: "no-capacity"}},
		Unavailable: []ledger.FailedOffering{{InstanceType: "m5.large", Zone: "z", CapacityType: "spot", Code: "InsufficientInstanceCapacity"}},
	})
	l = b.Ledger
	if a, b, c := l.Claim("a"), l.Claim("b"), l.Claim("c"); a.Open != nil || b.Open != nil || c.Open != nil || a.Instance.InstanceID != "i-1" ||
		b.Instance.InstanceID != "i-2" || c.Instance != nil || c.Failed == nil || c.State != ledger.ClaimLaunchFailed {
		t.Errorf("%+v %+v %+v", a, b, c)
	}
	if u := l.UnavailableOffering(key); u == nil || u.Failures != 1 {
		t.Errorf("what has run out after two instances is marked once: %+v", u)
	}
}
