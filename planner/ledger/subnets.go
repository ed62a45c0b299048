package ledger

import (
	"cmp"
	"slices"
	"time"

	"millwright/planner/version"
)

// subnetsMax bounds the marked subnets; a VPC has 200 unless its owner asked for more.
const subnetsMax = 1000

// markSubnet marks a subnet without free addresses in the same way as an offering, so that launches use the
// zone's other subnets. Marks that no longer matter are forgotten first.
func (l *Ledger) markSubnet(e Entry, f FailedOffering) {
	for _, id := range version.Keys(&l.subnets) {
		if u, _ := l.subnets.Get(id); id != f.SubnetID && e.Time.After(u.Until.Add(l.backoff.Max)) {
			l.subnets.Delete(l.owner, id)
		}
	}
	u, known := l.subnets.Get(f.SubnetID)
	if !known && l.subnets.Len() >= subnetsMax {
		l.subnets.Delete(l.owner, l.firstSubnetToEnd())
	}
	l.subnets.Set(l.owner, f.SubnetID, u.failed(f.Code, e, l.backoff))
}

// firstSubnetToEnd is the subnet whose mark ends first.
func (l *Ledger) firstSubnetToEnd() string {
	return slices.MinFunc(version.Keys(&l.subnets), func(a, b string) int {
		x, _ := l.subnets.Get(a)
		y, _ := l.subnets.Get(b)
		return cmp.Or(x.Until.Compare(y.Until), cmp.Compare(a, b))
	})
}

// UnavailableSubnets returns the ids of the subnets marked at a time, sorted; nil if there is none.
func (l *state) UnavailableSubnets(now time.Time) []string {
	var ids []string
	for id, u := range l.subnets.All() {
		if now.Before(u.Until) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
