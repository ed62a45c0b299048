package judge

import (
	"fmt"
	"time"

	"millwright/events"
	"millwright/services/sim/cloud"
)

// CheckLeft is of every instance that is taken back, whatever fails besides.
const CheckLeft = "pods have left what EC2 takes back, where the services had time to act on its notice"

// actingTime is how long services that nothing keeps from acting may take, from the moment that they know of
// a notice: calls that are lost or slow included.
const actingTime = 75 * time.Second

// Departures judge whether pods have left the nodes that EC2 takes back. A notice that never came, or came
// late, asks for nothing before it has come; and nothing is asked of services that cannot act.
type Departures struct {
	*Judge
	// heard is since when services know of the notice about an instance, and nothing has kept them from
	// acting, by its id.
	heard map[string]time.Time
	// ableSince is since when nothing has kept services from acting; zero while something does.
	ableSince time.Time
}

func newDepartures(j *Judge) *Departures { return &Departures{Judge: j, heard: map[string]time.Time{}} }

// Look takes in, once a second, what the lifecycle knows. Nil: it, or who evicts, cannot act at present, or
// began a moment ago.
func (d *Departures) Look(lifecycle Process) {
	if lifecycle == nil {
		clear(d.heard)
		d.ableSince = time.Time{}
		return
	}
	if d.ableSince.IsZero() {
		d.ableSince = d.Clock.Now()
	}
	if len(d.Deeds.Noticed) == 0 {
		return
	}
	seen := d.seenBy(lifecycle)
	for id := range d.Deeds.Noticed {
		if _, known := seen.objects[events.KindInterruption][id]; d.heard[id].IsZero() && (known || d.isDoomedByNotice(id)) {
			d.heard[id] = d.Clock.Now()
		}
	}
}

// isDoomedByNotice reports that a record says so: then the notice itself is not needed any more.
func (d *Departures) isDoomedByNotice(id string) bool {
	c := d.book.claims[d.history.owner[id]]
	return c != nil && c.noticed
}

// CheckTaken demands, of an instance that is taken back, that no pod is left on it that could have been
// evicted or, as its deadline came, deleted.
func (d *Departures) CheckTaken(i *cloud.Instance) {
	d.Judge.CheckTaken(i)
	heard := d.heard[i.ID]
	if heard.IsZero() || d.Clock.Now().Sub(heard) < actingTime {
		return
	}
	if left := d.left(i, actingTime); left != "" {
		d.Violate(CheckLeft, "%s as %s is taken back, %s after its notice was heard", left, i.ID, d.Clock.Now().Sub(heard))
	}
}

// left names a pod that has been on the node of an instance for so long and that nobody has asked to leave;
// "" if there is none.
func (d *Departures) left(i *cloud.Instance, long time.Duration) string {
	for _, n := range d.Cluster.Nodes() {
		if InstanceOf(n.Spec.ProviderID) != i.ID || d.strippedOf(n.Spec.ProviderID) || d.Deeds.Stripped[string(n.UID)] {
			continue
		}
		for _, p := range d.Cluster.PodsOn(n.Name) {
			late := d.Clock.Now().Sub(d.history.bound[string(p.UID)]) < long
			if d.waitedFor(p) && p.DeletionTimestamp == nil && !late {
				return fmt.Sprintf("%s is on node %s", p.Name, n.Name)
			}
		}
	}
	return ""
}
