package drainout_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/drainout"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/resource"
)

// Nodes that drain out hold nothing but protected pods and pods of Jobs, which together have room on the
// nodes that stay, and are no more than is allowed. The order in which the cluster is shown is irrelevant.
// Once it is recorded and they are tainted, nothing more is decided as long as nothing changes: neither their
// own taint nor the time that passes ends it.
func TestWhatDrainsOutFitsElsewhereAndStaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		objects := append(pt.WithCatalogue(), pt.Pool("p"), pt.PDB("default", "b", 0, "app", "budgeted"), pt.Policy("d", fmt.Sprintf(`{drainOut: {nodes: "%d"}}`, most)))
		var nodes []string
		for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
			nodes = append(nodes, fmt.Sprintf("n%d", i))
		}
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			p := pt.Pod(fmt.Sprintf("x%02d", i), pt.On(rapid.SampledFrom(nodes).Draw(t, "on")),
				pt.Requests("cpu", rapid.SampledFrom([]string{"200m", "1", "2"}).Draw(t, "cpu"), "memory", "1Gi"))
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
			case 1, 2:
				pt.OwnedBy("batch/v1", "Job", "job")(p)
			case 3:
				p.Labels = pt.Map("app", "budgeted")
			default:
				pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")(p)
			}
			objects = append(objects, p)
		}
		c := cluster(objects, nodes)
		s := c.Snapshot()
		d, _ := drainout.Plan(s, "")
		turned := slices.Clone(objects)
		slices.Reverse(turned)
		backwards, _ := drainout.Plan(cluster(turned, nodes).Snapshot(), "")
		if a, b := encoded(t, d), encoded(t, backwards); a != b {
			t.Fatalf("shown the other way round it decides\n%s\ninstead of\n%s", b, a)
		}
		if d == nil {
			return
		}
		started := d.Payload.(*ledger.DrainOutStarted)
		if len(started.Nodes) > most {
			t.Fatalf("%d nodes drain out, at most %d may", len(started.Nodes), most)
		}
		check(t, s, started)
		c.Decide(s, d)
		for _, n := range started.Nodes {
			o := s.StateNode(n.Node).Node.Object.DeepCopy()
			pt.Tainted(planner.DrainOutTaint())(o)
			c.See(o)
		}
		for range 3 {
			c.Advance(20 * time.Minute)
			if again, _ := drainout.Plan(c.Snapshot(), ""); again != nil && (again.Kind != ledger.KindDrainOutStarted || len(started.Nodes) == most) {
				t.Fatalf("later it decides %s", encoded(t, again))
			}
		}
	})
}

// check looks at pods and amounts alone.
func check(t *rapid.T, s *planner.Snapshot, started *ledger.DrainOutStarted) {
	going := map[string]bool{}
	var need, free resource.Vector
	for _, n := range started.Nodes {
		going[n.Node] = true
		for _, p := range s.StateNode(n.Node).Pods {
			if p.Class.Annotations[karpv1.DoNotDisruptAnnotationKey] == "" && p.Class.OwnerKind != "Job" && p.Class.Labels["app"] != "budgeted" {
				t.Fatalf("%s has pod %s, which does not hold it", n.Node, p.Key())
			}
			need = need.Add(p.Class.Requests)
		}
	}
	for _, n := range s.StateNodes() {
		if !going[n.Name] {
			free = free.Add(n.Available.FloorZero())
		}
	}
	if !need.Fits(free) {
		t.Fatalf("the pods of %v need %v, free are %v", started.Nodes, need, free)
	}
}

func cluster(objects []any, nodes []string) *pt.Cluster {
	c := pt.New(objects...)
	for _, n := range nodes {
		c.AddNode(n, "p")
	}
	c.Advance(time.Hour)
	return c
}

func encoded(t *rapid.T, d *planner.Decision) string {
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
