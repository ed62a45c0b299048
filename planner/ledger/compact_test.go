package ledger_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/planner/ledger/compact"
)

// TestCompactPayloadsExpandToTheSame, whatever is in them; what earlier programs wrote is read as it is.
func TestCompactPayloadsExpandToTheSame(t *testing.T) {
	sorted := func(p ledger.PlannedClaim) ledger.PlannedClaim {
		for i := range p.Requirements {
			if p.Requirements[i].Key == corev1.LabelInstanceTypeStable {
				p.Requirements[i].Values = slices.Sorted(slices.Values(p.InstanceTypes))
			}
		}
		return p
	}
	static := planned(1, 1, 0)
	static.InstanceTypes, static.Requirements = nil, static.Requirements[:2]
	some := sorted(planned(3, 600, 30))
	two := 2
	some.Requirements[2].MinValues = &two
	cases := map[string]struct {
		payload any
		shorter bool
	}{
		"sorted values":       {&ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{sorted(planned(1, 600, 30)), some}}, true},
		"values in an order":  {&ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{planned(2, 600, 30)}}, false},
		"one type":            {&ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{sorted(planned(1, 1, 1))}}, true},
		"of a static pool":    {&ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{static}}, false},
		"no claim":            {&ledger.ProvisioningPlanned{}, false},
		"widened":             {&ledger.ProvisioningPlanned{Widened: []ledger.WidenedClaim{{Claim: "c", Content: sorted(planned(1, 60, 3))}}}, true},
		"a command":           {&ledger.CommandStarted{Method: "single", Replacements: []ledger.PlannedClaim{sorted(planned(1, 60, 3))}}, true},
		"a request":           {&ledger.LaunchRequested{Claim: "c", Request: []byte(`{"ClientToken":"a\u0026b","Type":"instant","Overrides":["m5.large","c5.large","r5.large"]}`)}, true},
		"no JSON":             {&ledger.LaunchRequested{Claim: "c", Request: []byte(`{"ClientToken"`)}, false},
		"other spaces":        {&ledger.LaunchRequested{Claim: "c", Request: []byte(`{"ClientToken": "a"}`)}, false},
		"an unescaped letter": {&ledger.LaunchRequested{Claim: "c", Request: []byte(`{"ClientToken":"a&b"}`)}, false},
		"no request":          {&ledger.LaunchRequested{Claim: "c"}, false},
		"another kind":        {&ledger.ClaimCreated{Claim: "c", UID: "u"}, false},
	}
	for title, c := range cases {
		t.Run(title, func(t *testing.T) {
			before, err := json.Marshal(c.payload)
			if err != nil {
				t.Fatal(err)
			}
			short, err := json.Marshal(compact.Payload(c.payload))
			if err != nil {
				t.Fatal(err)
			}
			if after, _ := json.Marshal(c.payload); string(after) != string(before) {
				t.Error("Payload changed what it was given")
			}
			if (len(short) < len(before)) != c.shorter {
				t.Errorf("%d bytes became %d", len(before), len(short))
			}
			for form, data := range map[string][]byte{"compact": short, "as earlier programs wrote it": before} {
				got := reflect.New(reflect.TypeOf(c.payload).Elem()).Interface()
				if err := json.Unmarshal(data, got); err != nil {
					t.Fatal(err)
				}
				if again, _ := json.Marshal(compact.Expand(got)); string(again) != string(before) {
					t.Errorf("%s: expanded to\n%s\nnot\n%s", form, again, before)
				}
			}
		})
	}
}
