package disruptor

import (
	"testing"
	"time"

	"millwright/planner/plannertest"
)

// A plan that found nothing is paced by what it cost, and is not made again for what does not matter.
func TestPlansArePacedByTheirPrice(t *testing.T) {
	for name, x := range map[string]struct {
		took, most time.Duration
		change     func(c *plannertest.Cluster)
		want       time.Duration
	}{
		"a small cluster":                  {time.Millisecond, searchMax, changePod, planEvery},
		"a large cluster":                  {time.Second, searchMax, changePod, restShare * time.Second},
		"a search that takes minutes":      {time.Minute, searchMax, changePod, searchMax},
		"a prompt plan in a large cluster": {time.Second, promptMax, changePod, promptMax},
		"nothing has changed":              {time.Millisecond, searchMax, func(*plannertest.Cluster) {}, idleMax},
		"another resourceVersion": {time.Millisecond, searchMax, func(c *plannertest.Cluster) {
			p := plannertest.Pod("a", plannertest.On("n"))
			p.ResourceVersion = "2"
			c.See(p)
		}, idleMax},
		"time has come":            {time.Millisecond, searchMax, nil, planEvery},
		"it came to half of nodes": {time.Millisecond, searchMax, changePod, planEvery},
		"the first in vain":        {10 * time.Second, searchMax, changePod, 20 * time.Second},
		"the third in vain":        {10 * time.Second, searchMax, changePod, 80 * time.Second},
		"many pods came":           {10 * time.Second, searchMax, func(c *plannertest.Cluster) { c.See(plannertest.Pod("b", plannertest.On("n"))) }, 10 * time.Second},
	} {
		c := plannertest.New(plannertest.Node("n"), plannertest.Pod("a", plannertest.On("n")))
		s := c.Snapshot()
		i := idle{at: s.Now, took: x.took, seq: s.Ledger.Seq(), revision: s.World.Revision(), vain: 100, pods: bound(s.World)}
		switch {
		case name == "the first in vain":
			i.vain = 1
			x.change(c)
		case name == "the third in vain":
			i.vain = 3
			x.change(c)
		case x.change == nil:
			i.wake = s.Now
		case name == "it came to half of nodes":
			i.unfinished = true
		default:
			x.change(c)
		}
		c.Advance(x.want - time.Millisecond)
		if i.due(c.Snapshot(), x.most) {
			t.Errorf("%s: due before %s", name, x.want)
		}
		c.Advance(time.Millisecond)
		if !i.due(c.Snapshot(), x.most) {
			t.Errorf("%s: not due after %s", name, x.want)
		}
	}
}

func changePod(c *plannertest.Cluster) {
	c.See(plannertest.Pod("a", plannertest.On("n"), plannertest.Requests("cpu", "2")))
}
