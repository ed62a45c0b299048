package disrupt_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

// TestAPassThatRemembersIsOneThatDoesNot: decision, explanation, target and report are the same, whatever has
// changed since what is remembered.
func TestAPassThatRemembersIsOneThatDoesNot(t *testing.T) {
	asked, recalled := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		objects, nodes := drawn(t)
		c := shown(objects, nodes)
		for i, n := range nodes { // little room is left
			c.See(sized(fmt.Sprintf("filler-%d", i), n, rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "filler"), "9Gi"))
		}
		c.Advance(time.Hour)
		m := &provision.Memory{}
		for i := range rapid.IntRange(2, 5).Draw(t, "passes") {
			if got, want := planText(c, m), planText(c, nil); got != want {
				t.Fatalf("pass %d: it remembers\n%s\nwhich is\n%s", i, got, want)
			}
			node := rapid.SampledFrom(nodes).Draw(t, "node")
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0, 1:
				c.See(sized(fmt.Sprintf("small-%d", i), node, "1m", "1Mi"))
			case 2:
				removePod(c, node)
			case 3:
				c.See(pt.PDB("default", "b", int32(i), "app", "budgeted"))
			case 4:
				n := c.World.Node(node).Object.DeepCopy()
				n.Spec.Taints = []corev1.Taint{{Key: "two", Effect: corev1.TaintEffectNoSchedule}}
				c.See(n)
			}
			c.Advance(time.Minute)
		}
		a, r := m.Counts()
		asked, recalled = asked+a, recalled+r
	})
	if t.Logf("%d of %d", recalled, asked); recalled*20 < asked || recalled == 0 {
		t.Errorf("only %d of %d simulations were given back", recalled, asked)
	}
}

// planText is all that a pass decides and says.
func planText(c *pt.Cluster, m *provision.Memory) string {
	d, report := plan(c, m)
	b, err := json.MarshalIndent([]any{d, report}, "", " ")
	if err != nil {
		panic(err)
	}
	return string(b)
}
