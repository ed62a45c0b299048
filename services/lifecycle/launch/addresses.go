package launch

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

const (
	// promiseMax is how long before EC2 counted a subnet's free addresses a launch may have been asked for
	// that the count may not hold.
	promiseMax = 10 * time.Minute
	// addressMemory is how long what is known of a subnet that nobody asks about any more is kept.
	addressMemory = time.Hour
)

// addresses are the free addresses of subnets as EC2 counted them last, less what was promised to launches
// since (ec2 §4.3). It is safe for concurrent use. What it does not know, after a restart say, makes a worse
// choice, never a wrong one: EC2 refuses, and the Ledger marks the subnet.
type addresses struct {
	mu sync.Mutex
	// counts by subnet.
	counts map[string]addressCount
	// promises by client token of the launch.
	promises map[string]promise
}

// addressCount of a subnet, which may be on an Outpost.
type addressCount struct {
	free    int64
	asked   time.Time
	outpost bool
}

// promise to a launch: it may take that many addresses in each of the subnets, its instances all being in
// one. Once it is known where they are, settled is set, and only what they take there is left. each is what
// one instance may take.
type promise struct {
	at, settled  time.Time
	each, wanted map[string]int64
}

func newAddresses() *addresses {
	return &addresses{counts: map[string]addressCount{}, promises: map[string]promise{}}
}

// seen takes in a count, and forgets promises that all counts hold.
func (a *addresses) seen(subnets []ec2.Subnet, asked time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range subnets {
		a.counts[s.ID] = addressCount{free: int64(s.FreeAddresses), asked: asked, outpost: s.OutpostARN != ""}
	}
	maps.DeleteFunc(a.counts, func(_ string, c addressCount) bool { return asked.Sub(c.asked) > addressMemory })
	maps.DeleteFunc(a.promises, func(_ string, p promise) bool {
		for id := range p.wanted {
			if asked.Sub(p.at) <= addressMemory && !p.countedBy(a.counts[id]) {
				return false
			}
		}
		return true
	})
}

// countedBy reports that a count holds what the launch took.
func (p promise) countedBy(c addressCount) bool {
	return c.asked.Sub(p.at) > promiseMax || !p.settled.IsZero() && c.asked.After(p.settled)
}

// promise picks of each zone the subnet with most addresses left, the first one if several have, and promises
// the launch as many as its instances may take there. One on an Outpost, which has few types, is picked only
// where there is no other, since then the catalogue offers what the Outpost has.
func (a *addresses) promise(token string, subnets []awsv1.Subnet, wanted map[string]int64, instances int64, now time.Time) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.promises, token) // of an earlier try to build the same request
	left := a.left(subnets)
	ordered := slices.Clone(subnets)
	rank := func(s awsv1.Subnet) int {
		if a.counts[s.ID].outpost {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ordered, func(x, y awsv1.Subnet) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(left[y.ID], left[x.ID]))
	})
	chosen, p := map[string]string{}, promise{at: now, each: map[string]int64{}, wanted: map[string]int64{}}
	for _, s := range ordered {
		if n, asked := wanted[s.Zone]; asked && chosen[s.Zone] == "" {
			chosen[s.Zone], p.each[s.ID], p.wanted[s.ID] = s.ID, n, n*instances
		}
	}
	a.promises[token] = p
	return chosen
}

// left is what the subnets have left by the last counts.
func (a *addresses) left(subnets []awsv1.Subnet) map[string]int64 {
	left := map[string]int64{}
	for _, s := range subnets {
		left[s.ID] = a.counts[s.ID].free
	}
	for _, p := range a.promises {
		for id, n := range p.wanted {
			if _, ours := left[id]; ours && !p.countedBy(a.counts[id]) {
				left[id] -= n
			}
		}
	}
	return left
}

// room is how many instances at most, one at least, each zone that is wanted has a subnet for. Where a
// zone has several subnets, those that the pods of the instances have addresses in: what comes next may
// take another. Where it has one, or they have too few for even one more instance, asking for fewer at a
// time would spare nothing: there it is what EC2 refuses that counts, an instance without an address of
// its own. A subnet that was not counted yet has room for all, and a zone that has none for any instance
// bounds no other.
func (a *addresses) room(subnets []awsv1.Subnet, wanted map[string]int64, most int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	left, best, many := a.left(subnets), map[string]string{}, map[string]bool{}
	for _, s := range subnets {
		if wanted[s.Zone] > 0 {
			many[s.Zone] = best[s.Zone] != ""
			if best[s.Zone] == "" || left[s.ID] > left[best[s.Zone]] {
				best[s.Zone] = s.ID
			}
		}
	}
	var rooms []int64
	for zone, id := range best {
		room := left[id] / wanted[zone]
		if !many[zone] || room <= 0 {
			room = a.untaken(id)
		}
		if _, counted := a.counts[id]; !counted {
			room = int64(most)
		}
		if room > 0 {
			rooms = append(rooms, room)
		}
	}
	if len(rooms) == 0 {
		return 1
	}
	return int(min(int64(most), slices.Min(rooms)))
}

// untaken is how many addresses a subnet has left if each instance takes no more than its own.
func (a *addresses) untaken(subnet string) int64 {
	c := a.counts[subnet]
	left := c.free
	for _, p := range a.promises {
		if n := p.each[subnet]; n > 0 && !p.countedBy(c) {
			left -= p.wanted[subnet] / n
		}
	}
	return left
}

// settlePromise gives back what the launch did not take: its instances are in these subnets.
func (a *addresses) settlePromise(token string, subnets []string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, open := a.promises[token]
	if !open {
		return
	}
	taken := map[string]int64{}
	for _, id := range subnets {
		if n, asked := p.each[id]; asked {
			taken[id] += n
		}
	}
	if len(taken) == 0 {
		delete(a.promises, token)
		return
	}
	a.promises[token] = promise{at: p.at, settled: now, each: p.each, wanted: taken}
}

// addressesByZone is how many addresses a launch may come to take in each zone it may end in: one for each
// pod of the smallest candidate.
func (s Selection) addressesByZone() map[string]int64 {
	least := map[string]int64{}
	for _, c := range s.Candidates {
		for _, o := range c.Offerings {
			if n, known := least[o.Zone]; !known || c.Type.Capacity.Pods < n {
				least[o.Zone] = max(1, c.Type.Capacity.Pods)
			}
		}
	}
	return least
}
