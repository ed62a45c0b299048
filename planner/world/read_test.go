package world_test

import (
	"sync"
	"testing"

	pt "millwright/planner/plannertest"
)

// Several services read one World under the same read lock: filling its caches must not race.
func TestReadersDoNotRace(t *testing.T) {
	c := pt.New(append(pt.WithCatalogue(), pt.Node("a", pt.InPool("p")), pt.Pod("x", pt.On("a")), pt.Pod("y", pt.Unschedulable()), pt.Claim("c", "a", "p"), pt.Pool("p"))...)
	for range 20 {
		c.See(pt.Node("a", pt.InPool("p")), pt.Claim("c", "a", "p"), pt.Pod("z", pt.Unschedulable()))
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				c.World.Nodes()
				c.World.NodeByProviderID(pt.ProviderID("a"))
				c.World.PendingPods()
				c.World.Catalog("default")
				c.World.NamedRecords("x").Highest()
				c.Snapshot().StateNodes()
			})
		}
		readers.Wait()
	}
}
