package v1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestUnreadableSpecsKeepTheListReadable(t *testing.T) {
	const good = `{"metadata":{"name":"good"},"spec":{"weight":7,"template":{"spec":{"requirements":[]}}}}`
	for sentence, c := range map[string]struct{ spec, want string }{
		"a duration too long to count": {`{"disruption":{"consolidateAfter":"0s","budgets":[{"nodes":"1"},{"nodes":"1","schedule":"@daily","duration":"99999999999h"}]}}`,
			"spec.disruption.budgets[1].duration: "},
		"a quantity of no form":                 {`{"limits":{"cpu":"1","memory":"1e5.5"}}`, "spec.limits.memory: quantities must match"},
		"a grace period too long to count":      {`{"template":{"spec":{"terminationGracePeriod":"99999999999h"}}}`, "spec.template.spec.terminationGracePeriod: "},
		"two fields at once name what has both": {`{"limits":{"cpu":"1e5.5"},"template":{"spec":{"terminationGracePeriod":"99999999999h"}}}`, "spec: "},
	} {
		t.Run(sentence, func(t *testing.T) {
			list := &NodePoolList{}
			bad := `{"metadata":{"name":"bad","uid":"u"},"status":{"nodes":3},"spec":` + c.spec + `}`
			if err := json.Unmarshal([]byte(`{"items":[`+bad+`,`+good+`]}`), list); err != nil {
				t.Fatalf("the list is unreadable: %v", err)
			}
			b, g := list.Items[0], list.Items[1]
			if g.Unreadable != "" || g.Name != "good" || *g.Spec.Weight != 7 {
				t.Errorf("the good one reads as %+v", g)
			}
			if b.Name != "bad" || b.UID != "u" || *b.Status.Nodes != 3 || !strings.HasPrefix(b.Unreadable, c.want) {
				t.Errorf("the bad one is unreadable by %q, want %q; it reads as %+v", b.Unreadable, c.want, b)
			}
			if b.Spec.Limits != nil || b.Spec.Template.Spec.NodeClassRef != nil || b.DeepCopy().Unreadable != b.Unreadable {
				t.Errorf("the bad one has a spec or loses its fault: %+v", b)
			}
		})
	}
}

// What cannot be read of a status is left out: whoever keeps it writes it anew. The rest of it stays, the spec too.
func TestUnreadableStatusesKeepTheListReadable(t *testing.T) {
	const good = `{"metadata":{"name":"good"},"spec":{"requirements":[]}}`
	const status = `"status":{"providerID":"aws:///a/i-1","lastPodEventTime":"2026-03-01t12:00:00z","capacity":{"cpu":"1e5.5","memory":"1Gi"},
		"conditions":[{"type":"Launched","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z"},{"type":"Ready","status":"True","lastTransitionTime":"2026-03-01t12:00:00z"}]}`
	for sentence, c := range map[string]struct{ spec, unreadable string }{
		"the spec is fine":        {`{"nodeClassRef":{"group":"g","kind":"k","name":"n"},"requirements":[]}`, ""},
		"the spec is no better":   {`{"resources":{"requests":{"cpu":"1e5.5"}}}`, "spec.resources.requests.cpu: "},
		"the spec takes too long": {`{"resources":{"requests":{"cpu":"1e-2000000000"}}}`, "spec.resources.requests.cpu: "},
	} {
		t.Run(sentence, func(t *testing.T) {
			list := &NodeClaimList{}
			bad := `{"metadata":{"name":"bad","uid":"u","generation":9007199254740993},` + status + `,"spec":` + c.spec + `}`
			if err := json.Unmarshal([]byte(`{"items":[`+bad+`,`+good+`]}`), list); err != nil {
				t.Fatalf("the list is unreadable: %v", err)
			}
			b := list.Items[0]
			if !strings.HasPrefix(b.Unreadable, c.unreadable) || (b.Unreadable == "") != (c.unreadable == "") || (b.Spec.NodeClassRef == nil) != (c.unreadable != "") {
				t.Errorf("unreadable by %q: %+v", b.Unreadable, b.Spec)
			}
			if b.UID != "u" || b.Generation != 9007199254740993 || b.Status.ProviderID != "aws:///a/i-1" || b.Status.Capacity.Memory().Value() != 1<<30 || len(b.Status.Capacity) != 1 ||
				!b.Status.LastPodEventTime.IsZero() {
				t.Errorf("it reads as %+v", b)
			}
			if x := b.Status.Conditions; len(x) != 2 || x[0].LastTransitionTime.IsZero() || x[1].Type != "Ready" || x[1].Status != "True" || !x[1].LastTransitionTime.IsZero() {
				t.Errorf("conditions read as %+v", x)
			}
		})
	}
	p := &NodePool{}
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"p"},"spec":{"weight":7},"status":"fine"}`), p); err != nil || p.Unreadable != "" || *p.Spec.Weight != 7 {
		t.Errorf("%v: %+v", err, p)
	}
}

// One amount that cannot be read among very many: what is tried for it must not grow by the square of them.
func TestLargeObjectsAreReadAllTheSame(t *testing.T) {
	const amounts = 20_000
	var text strings.Builder
	for n := range amounts {
		fmt.Fprintf(&text, `"example.com/r%d":"1",`, n)
	}
	o := &NodeClaim{}
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"large"},"status":{"capacity":{`+text.String()+`"x.example.com/last":"1e5.5"}}}`), o); err != nil || len(o.Status.Capacity) != amounts {
		t.Errorf("%d amounts are read: %v", len(o.Status.Capacity), err)
	}
	p := &NodePool{}
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"large"},"spec":{"limits":{`+text.String()+`"x.example.com/last":"1e5.5"}}}`), p); err != nil ||
		!strings.HasPrefix(p.Unreadable, "spec.limits.x.example.com/last: ") {
		t.Errorf("unreadable by %q: %v", p.Unreadable, err)
	}
}

func TestTextThatIsNoJSONStaysAnError(t *testing.T) {
	for _, text := range []string{`{"spec":`, `[]`, `{"metadata":{"name":1}}`} {
		if err := json.Unmarshal([]byte(text), &NodePool{}); err == nil {
			t.Errorf("%s reads", text)
		}
		if err := json.Unmarshal([]byte(text), &NodeClaim{}); err == nil {
			t.Errorf("%s reads as a NodeClaim", text)
		}
	}
}

func TestUnreadableNodeClaim(t *testing.T) {
	c := &NodeClaim{}
	err := json.Unmarshal([]byte(`{"metadata":{"name":"c"},"spec":{"resources":{"requests":{"cpu":"1e5.5"}}},"status":{"providerID":"aws:///a/i-1"}}`), c)
	if err != nil || !strings.HasPrefix(c.Unreadable, "spec.resources.requests.cpu: ") || c.Status.ProviderID != "aws:///a/i-1" {
		t.Errorf("%v: %+v", err, c)
	}
}
