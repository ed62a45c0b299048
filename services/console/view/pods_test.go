package view_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/services/console/consoletest"
	"millwright/services/console/view"
)

// Pages of pods go on where the one before ended, whatever namespaces are called: "a" comes before "a-b",
// although "a/" comes after "a-b/".
func TestPagesOfPods(t *testing.T) {
	c := plannertest.New(plannertest.WithCatalogue()...)
	for _, namespace := range []string{"a", "a-b", "b"} {
		for _, name := range []string{"x", "y"} {
			c.See(plannertest.Pod(name+"-of-"+namespace, plannertest.Namespace(namespace), plannertest.Unschedulable()))
		}
	}
	log, _ := opened(t, "../../../store/audit/testdata/v20/TestDeletingByHand.rec")
	v := view.New(view.Config{Log: log, Now: time.Now, Versions: func() (*world.World, *ledger.Ledger, error) { return c.World.Version(), ledger.New(""), nil }})
	var names []string
	for after, more := "", true; more; {
		list, further, total, err := v.Pending(t.Context(), after, 1)
		if err != nil || len(list) != 1 || total != 6 {
			t.Fatalf("after %q: %v of %d, %v", after, list, total, err)
		}
		after, more = list[0].Namespace+"/"+list[0].Name, further
		names = append(names, after)
	}
	if want := []string{"a/x-of-a", "a/y-of-a", "a-b/x-of-a-b", "a-b/y-of-a-b", "b/x-of-b", "b/y-of-b"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// A NodePool says which pods wait that it cannot have nodes for, and why.
func TestWhatANodePoolRefuses(t *testing.T) {
	r := consoletest.New(t, "test")
	r.Outcome(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Refused: []ledger.Refused{{Pods: []ledger.PodRef{{UID: plannertest.Pod("waits").UID, Namespace: "default", Name: "waits"}},
		Reasons: []ledger.Refusal{{NodePool: "p", Constraint: "taints", Message: "did not tolerate taint a=b"}, {NodePool: "q", Message: "another"}}}}})
	r.Read()
	story, err := r.View.Why(t.Context(), "pool/p")
	if err != nil || !slices.Contains(story.Now, "  no node of it for pod default/waits: did not tolerate taint a=b") || slices.ContainsFunc(story.Now, func(l string) bool { return strings.Contains(l, "another") }) {
		t.Errorf("%v, %+v", err, story)
	}
}
