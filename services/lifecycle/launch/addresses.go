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

type addressCount struct {
	free  int64
	asked time.Time
}

// promise to a launch: it may take that many addresses in one of the subnets. Once it is known where its
// instance is, settled is set, and only that subnet is left.
type promise struct {
	at, settled time.Time
	wanted      map[string]int64
}

func newAddresses() *addresses {
	return &addresses{counts: map[string]addressCount{}, promises: map[string]promise{}}
}

// seen takes in a count, and forgets promises that all counts hold.
func (a *addresses) seen(subnets []ec2.Subnet, asked time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range subnets {
		a.counts[s.ID] = addressCount{free: int64(s.FreeAddresses), asked: asked}
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
// the launch as many as it may take there.
func (a *addresses) promise(token string, subnets []awsv1.Subnet, wanted map[string]int64, now time.Time) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := map[string]int64{}
	for _, s := range subnets {
		left[s.ID] = a.counts[s.ID].free
	}
	delete(a.promises, token) // of an earlier try to build the same request
	for _, p := range a.promises {
		for id, n := range p.wanted {
			if _, ours := left[id]; ours && !p.countedBy(a.counts[id]) {
				left[id] -= n
			}
		}
	}
	ordered := slices.Clone(subnets)
	slices.SortStableFunc(ordered, func(x, y awsv1.Subnet) int { return cmp.Compare(left[y.ID], left[x.ID]) })
	chosen, p := map[string]string{}, promise{at: now, wanted: map[string]int64{}}
	for _, s := range ordered {
		if n, asked := wanted[s.Zone]; asked && chosen[s.Zone] == "" {
			chosen[s.Zone], p.wanted[s.ID] = s.ID, n
		}
	}
	a.promises[token] = p
	return chosen
}

// settlePromise gives back what the launch did not take.
func (a *addresses) settlePromise(token, subnet string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, open := a.promises[token]
	if !open {
		return
	}
	n, took := p.wanted[subnet]
	if !took {
		delete(a.promises, token)
		return
	}
	a.promises[token] = promise{at: p.at, settled: now, wanted: map[string]int64{subnet: n}}
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
