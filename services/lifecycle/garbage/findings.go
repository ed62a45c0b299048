package garbage

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

const (
	// askedFor is how long a request to terminate is trusted before it is repeated.
	askedFor = 20 * time.Second
	// nodeGrace is how long the Node of a registered claim may be gone: a kubelet that starts again registers
	// again.
	nodeGrace = 5 * time.Minute
)

// Findings are what scans, polls and answers said of instances and of objects that are not there. All of it
// may be lost. It is safe for concurrent use.
type Findings struct {
	mu sync.Mutex
	// instances by id: what EC2 last said of those that are not simply running.
	instances map[string]instance
	// launches of a moment ago by instance id: when EC2 said that it had launched them.
	launches map[string]time.Time
	// placements by instance id, of the last scan.
	placements map[string]ec2.Placement
	// onDemand are the instances that the last scan listed as plain on-demand ones.
	onDemand map[string]bool
	// reservations by id, of those that instances are in and their class does not list.
	reservations map[string]reservation
	scan         scanResult
	// nodeless is since when scans have not found the Nodes of registered claims.
	nodeless map[types.UID]time.Time
	// recorded are the orphans that the log names, by instance id.
	recorded map[string]bool
}

type instance struct {
	facts claim.InstanceFacts
	// asked is when it was last asked to terminate.
	asked time.Time
}

// scanResult is what the last scan read directly.
type scanResult struct {
	at, started time.Time
	// ledgerSeq is where the Ledger stood before the lists were read.
	ledgerSeq uint64
	claims    map[types.UID]bool
	pools     map[types.UID]bool
	held      bool
}

// NewFindings returns Findings of nothing.
func NewFindings() *Findings {
	return &Findings{instances: map[string]instance{}, launches: map[string]time.Time{}, recorded: map[string]bool{}}
}

// Instance is what is known of an id, the zero value while nothing special is, and whether garbage collection
// is held: both of the same scan.
func (f *Findings) Instance(id string, now time.Time) (facts claim.InstanceFacts, held bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.instances[id]
	i.facts.Ending = i.facts.Ending || !i.asked.IsZero() && now.Sub(i.asked).Abs() < askedFor
	return i.facts, f.scan.held
}

func (f *Findings) facts(id string, now time.Time) claim.InstanceFacts {
	facts, _ := f.Instance(id, now)
	return facts
}

// Launched takes in that EC2 launched an instance. It forgets launches that VisibleAfter has passed since:
// their records are older still.
func (f *Findings) Launched(id string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.launches, func(_ string, at time.Time) bool { return now.Sub(at).Abs() > VisibleAfter })
	f.launches[id] = now
}

// launchedAt is zero if the instance was not launched a moment ago by this leader.
func (f *Findings) launchedAt(id string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.launches[id]
}

// rememberInstances takes in what EC2 says, and returns the instances of which it said something else before.
func (f *Findings) rememberInstances(facts map[string]claim.InstanceFacts) (changed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.learnLocked(facts)
}

// learnLocked is learn. The caller holds the lock.
func (f *Findings) learnLocked(facts map[string]claim.InstanceFacts) (changed []string) {
	for id, told := range facts {
		i := f.instances[id]
		if i.facts != told {
			changed = append(changed, id)
		}
		i.facts = told
		f.instances[id] = i
	}
	return changed
}

// Asked takes in that an instance was asked to terminate.
func (f *Findings) Asked(id string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.instances[id]
	i.asked = now
	f.instances[id] = i
}

// Forget drops what is known of an instance.
func (f *Findings) Forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.instances, id)
}

// endings are the instances that were asked to terminate and are not known to be gone, with the time.
func (f *Findings) endings() map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := map[string]time.Time{}
	for id, i := range f.instances {
		if !i.asked.IsZero() && !i.facts.Gone() {
			ids[id] = i.asked
		}
	}
	return ids
}

// Scanned is when the last scan ended; zero before the first.
func (f *Findings) Scanned() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scan.at
}

func (f *Findings) scanDue(now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.scan.at.IsZero() || f.scan.at.Sub(now) > ScanEvery { // the clock was set back since
		return time.Time{}
	}
	return f.scan.at.Add(ScanEvery)
}

// scanned takes in a scan. What it says of instances and whether the breaker holds go in together: a step in
// between would doom as many claims as the breaker is there to hold.
func (f *Findings) scanned(now time.Time, l *listing, held bool, facts map[string]claim.InstanceFacts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.learnLocked(facts)
	sc := scanResult{at: now, started: l.started, ledgerSeq: l.ledgerSeq, held: held, claims: map[types.UID]bool{}, pools: map[types.UID]bool{}}
	for _, c := range l.claims {
		sc.claims[c.UID] = true
	}
	for _, p := range l.pools {
		sc.pools[p.UID] = true
	}
	f.placements, f.onDemand = map[string]ec2.Placement{}, map[string]bool{}
	for _, i := range l.instances {
		f.placements[i.ID] = i.Placement()
		if i.CapacityType == karpv1.CapacityTypeOnDemand {
			f.onDemand[i.ID] = true
		}
	}
	f.scan = sc
	maps.DeleteFunc(f.launches, func(_ string, at time.Time) bool { return now.Sub(at).Abs() > VisibleAfter })
	f.dropUnnamed(l)
}

// dropUnnamed forgets instances nothing names any more. The caller holds the lock.
func (f *Findings) dropUnnamed(l *listing) {
	named := map[string]bool{}
	for _, id := range l.instanceIDs() {
		named[id] = true
	}
	for _, i := range l.instances {
		named[i.ID] = true
	}
	maps.DeleteFunc(f.instances, func(id string, _ instance) bool { return !named[id] })
	maps.DeleteFunc(f.recorded, func(id string, _ bool) bool { return !named[id] })
}

// isRecorded reports that the log names an orphan since this process began.
func (f *Findings) isRecorded(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recorded[id]
}

func (f *Findings) setRecorded(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded[id] = true
}

// setNodeless remembers whose Nodes were not found, and keeps since when.
func (f *Findings) setNodeless(missing map[types.UID]bool, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodeless := map[types.UID]time.Time{}
	for uid := range missing {
		if nodeless[uid] = now; !f.nodeless[uid].IsZero() {
			nodeless[uid] = f.nodeless[uid]
		}
	}
	f.nodeless = nodeless
}

// ClaimGone reports that a list made after the claim's last record did not have its object.
func (f *Findings) ClaimGone(uid types.UID, at uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scan.claims != nil && !f.scan.claims[uid] && f.scan.ledgerSeq >= at
}

// ClaimAbsent reports that a direct list made after the object was created did not have it. That it was is
// told by two clocks, the API server's and ours, and the former in whole seconds.
func (f *Findings) ClaimAbsent(o *karpv1.NodeClaim) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scan.claims != nil && !f.scan.claims[o.UID] && o.CreationTimestamp.Time.Before(f.scan.started.Add(-time.Second-ledger.ClockTolerance))
}

// PoolGone reports that a list made after the record that planned upon the NodePool did not have it.
func (f *Findings) PoolGone(uid types.UID, planned uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scan.pools != nil && !f.scan.pools[uid] && f.scan.ledgerSeq >= planned
}

// NodeGone reports that scans have not found the Node of the claim for so long that it won't come back.
func (f *Findings) NodeGone(uid types.UID, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := f.nodeless[uid]
	return !since.IsZero() && now.Sub(since) >= nodeGrace
}

// Placement of an instance; false if the last scan did not list it.
func (f *Findings) Placement(id string) (ec2.Placement, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.placements[id]
	return p, ok
}

// OnDemand reports that the last scan listed the instance as a plain on-demand one.
func (f *Findings) OnDemand(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.onDemand[id]
}

// Len counts what is remembered of instances.
func (f *Findings) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.instances) + len(f.launches) + len(f.placements) + len(f.onDemand) + len(f.reservations)
}
