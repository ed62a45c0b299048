package nodeclass

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/services/internal/ec2"
)

// TestPlacementGroupsInTheStatus: the condition says what became of the selector, and an error of AWS changes
// nothing that was known (ec2 §2.6).
func TestPlacementGroupsInTheStatus(t *testing.T) {
	rows := &ec2.PlacementGroup{ID: "pg-1", Name: "rows", Strategy: "partition", Partitions: 3}
	known := &awsv1.PlacementGroup{ID: "pg-1", Name: "rows", Strategy: "partition", PartitionCount: 3}
	selector := &awsv1.PlacementGroupSelector{Name: "rows"}
	for sentence, c := range map[string]struct {
		selector *awsv1.PlacementGroupSelector
		before   *awsv1.PlacementGroup
		found    *ec2.PlacementGroup
		fails    bool
		want     *awsv1.PlacementGroup
		// text is the condition's status, reason and message.
		text string
	}{
		"no selector":                        {nil, known, rows, false, nil, "True PlacementGroupReady "},
		"one that is there":                  {selector, nil, rows, false, known, "True PlacementGroupReady "},
		"none":                               {selector, known, nil, false, nil, `False PlacementGroupNotFound Placement group "rows" not found`},
		"none of an id":                      {&awsv1.PlacementGroupSelector{ID: "pg-9"}, nil, nil, false, nil, `False PlacementGroupNotFound Placement group "pg-9" not found`},
		"an error":                           {selector, nil, nil, true, nil, "False PlacementGroupResolutionFailed Failed to resolve placement group"},
		"an error after it was known":        {selector, known, nil, true, known, "Unknown AwaitingReconciliation object is awaiting reconciliation"},
		"an error after another was known":   {&awsv1.PlacementGroupSelector{Name: "x"}, known, nil, true, nil, "False PlacementGroupResolutionFailed Failed to resolve placement group"},
		"a strategy that nobody knows":       {selector, nil, &ec2.PlacementGroup{ID: "pg-1", Name: "rows", Strategy: "new"}, false, nil, `False PlacementGroupResolutionFailed Placement group pg-1 has the strategy "new", which is not known`},
		"a cluster with instances in a zone": {selector, nil, &ec2.PlacementGroup{ID: "pg-2", Name: "rows", Strategy: "cluster", Zone: "a"}, false, &awsv1.PlacementGroup{ID: "pg-2", Name: "rows", Strategy: "cluster", Zone: "a"}, "True PlacementGroupReady "},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.group = c.found
			if c.fails {
				w.fail["placement group"] = errors.New("no answer")
			}
			nc := class()
			nc.Spec.PlacementGroupSelector, nc.Status.PlacementGroup = c.selector, c.before
			change, again, err := w.Reconcile(t.Context(), nc, nil)
			if (err != nil) != c.fails || again > time.Minute && c.selector != nil {
				t.Errorf("again in %v, error %v", again, err)
			}
			got := condition.Get(change.Object.Status.Conditions, awsv1.ConditionTypePlacementGroupReady)
			if text := string(got.Status) + " " + got.Reason + " " + got.Message; text != c.text {
				t.Errorf("condition %s, want %s", text, c.text)
			}
			if d := cmp.Diff(c.want, change.Object.Status.PlacementGroup); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestAPlacementGroupThatTheAPIServerDrops: with a definition that lacks the field, such as Karpenter's, a
// class is not Ready until the field is kept.
func TestAPlacementGroupThatTheAPIServerDrops(t *testing.T) {
	w := newWorld(t)
	w.group = &ec2.PlacementGroup{ID: "pg-1", Name: "rows", Strategy: "partition", Partitions: 3}
	nc := class()
	nc.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "rows"}
	for i, c := range []struct {
		kept bool
		want string
	}{{false, ""}, {false, prunedMessage}, {false, prunedMessage}, {true, prunedMessage}, {true, ""}, {true, ""}} {
		change, _, err := w.Reconcile(t.Context(), nc, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := condition.Get(change.Object.Status.Conditions, awsv1.ConditionTypePlacementGroupReady).Message; got != c.want {
			t.Errorf("look %d: condition says %q, want %q", i+1, got, c.want)
		}
		if nc = change.Object.DeepCopy(); !c.kept {
			nc.Status.PlacementGroup = nil
		}
	}
}
