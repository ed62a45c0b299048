package lifecycle

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/services/internal/backoff"
	"millwright/services/lifecycle/recent"
)

// Backoff after an effect that failed.
const (
	retryFirst = time.Second
	retryMax   = time.Minute
)

// writtenFor is how long a write of unknown outcome may not show in the cache.
const writtenFor = 30 * time.Second

// askedFor is how long a request to terminate is trusted before it is repeated.
const askedFor = 20 * time.Second

// memory is what the service knows and may forget: a new leader finds it out again.
type memory struct {
	// retries of effects by key: claim/<name>, nodepool/<name>, scan, …
	retries *backoff.Keys
	// claims and nodes in the newest form known, and which versions of any object are known not to be the newest.
	claims   *recent.Objects[*karpv1.NodeClaim]
	nodes    *recent.Objects[*corev1.Node]
	outdated *recent.Outdated

	mu sync.Mutex
	// instances by id: what EC2 last said of those that are not simply running.
	instances map[string]instance
	// registering are the Nodes whose registration was written, or may have been, by UID.
	registering map[types.UID]registering
	// launches of a moment ago by instance id: when EC2 said that it had launched them.
	launches map[string]time.Time
	failures map[types.UID]claim.Failure
	lookups  map[string]time.Time
	settled  map[string]string
	classAt  map[string]classRun
	// marks by claim name: what the last look at its drift and quiet time said.
	marks map[string]claim.Marks
	// placements by instance id, of the last scan.
	placements map[string]placement
	// catalogues last seen, by NodeClass.
	catalogues map[string]*catalog.Catalog
	// registrations by UID of the NodePool.
	registrations map[types.UID]registrations
	scan          scanned
	alarms        alarms
	// nodeless is since when scans have not found the Nodes of registered claims.
	nodeless map[types.UID]time.Time
	// sought: the instances of these inherited claims were looked for and not found.
	sought map[types.UID]bool
	// presumed outcomes by claim name, while the log can't be reached.
	presumed map[string]presumption
	// tidyAt is when templates were last tidied up, profilesAt when profiles were.
	tidyAt, profilesAt time.Time
	// templatesAreScarce: tidying is urgent.
	templatesAreScarce bool

	options    planner.Options
	optionsSeq uint64
}

// registering is which version of a Node was written upon, and when.
type registering struct {
	version string
	at      time.Time
}

type instance struct {
	facts claim.InstanceFacts
	// asked is when it was last asked to terminate.
	asked time.Time
}

// classRun is when a NodeClass is to be looked at again, and what was looked at last.
type classRun struct {
	at      time.Time
	version string
}

// scanned is what the last scan read directly.
type scanned struct {
	at, started time.Time
	// ledgerSeq is where the Ledger stood before the lists were read.
	ledgerSeq uint64
	claims    map[types.UID]bool
	pools     map[types.UID]bool
	held      bool
}

func newMemory() *memory {
	return &memory{
		retries: backoff.New(retryFirst, retryMax), claims: recent.NewObjects[*karpv1.NodeClaim](), nodes: recent.NewObjects[*corev1.Node](),
		outdated: recent.NewOutdated(), instances: map[string]instance{}, launches: map[string]time.Time{},
		registering: map[types.UID]registering{},
		failures:    map[types.UID]claim.Failure{}, lookups: map[string]time.Time{}, settled: map[string]string{},
		marks: map[string]claim.Marks{}, classAt: map[string]classRun{}, catalogues: map[string]*catalog.Catalog{},
		registrations: map[types.UID]registrations{}, sought: map[types.UID]bool{},
	}
}

// instanceFacts of an id; the zero value while nothing special is known.
func (m *memory) instanceFacts(id string, now time.Time) claim.InstanceFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.instances[id]
	i.facts.Ending = i.facts.Ending || !i.asked.IsZero() && now.Sub(i.asked) < askedFor
	return i.facts
}

// registers remembers that a Node's registration is about to be written.
func (m *memory) registers(n *corev1.Node, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.registering, func(_ types.UID, r registering) bool { return now.Sub(r.at) > writtenFor })
	m.registering[n.UID] = registering{n.ResourceVersion, now}
}

// mayBeRegistered reports that the cache does not show yet what came of the write of a Node's registration.
func (m *memory) mayBeRegistered(n *corev1.Node, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.registering[n.UID]
	return ok && r.version == n.ResourceVersion && now.Sub(r.at) <= writtenFor
}

// launched forgets launches that visibleAfter has passed since: their records are older still.
func (m *memory) launched(id string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.launches, func(_ string, at time.Time) bool { return now.Sub(at) > visibleAfter })
	m.launches[id] = now
}

// launchedAt is zero if the instance was not launched a moment ago by this leader.
func (m *memory) launchedAt(id string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launches[id]
}

// setInstances takes in what EC2 says, and returns the instances of which it said something else before.
func (m *memory) setInstances(facts map[string]claim.InstanceFacts) (changed []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.learnInstances(facts)
}

// learnInstances is setInstances. The caller holds the lock.
func (m *memory) learnInstances(facts map[string]claim.InstanceFacts) (changed []string) {
	for id, f := range facts {
		i := m.instances[id]
		if i.facts != f {
			changed = append(changed, id)
		}
		i.facts = f
		m.instances[id] = i
	}
	return changed
}

func (m *memory) asked(id string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.instances[id]
	i.asked = now
	m.instances[id] = i
}

// endings are the instances that were asked to terminate and are not known to be gone, with the time.
func (m *memory) endings() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := map[string]time.Time{}
	for id, i := range m.instances {
		if !i.asked.IsZero() && !i.facts.Gone() {
			ids[id] = i.asked
		}
	}
	return ids
}

func (m *memory) failure(uid types.UID) *claim.Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.failures[uid]; ok {
		return &f
	}
	return nil
}

// learn remembers a NodeClass's catalogue; catalogue is the last one, nil if there was none.
func (m *memory) learn(ref *karpv1.NodeClassReference, c *catalog.Catalog) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catalogues[ref.Name] = c
}

func (m *memory) catalogue(ref *karpv1.NodeClassReference) *catalog.Catalog {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ref == nil {
		return nil
	}
	return m.catalogues[ref.Name]
}

// keepCatalogues forgets all but those of the NodeClasses named.
func (m *memory) keepCatalogues(names map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.catalogues, func(name string, _ *catalog.Catalog) bool { return !names[name] })
}

// setFailure remembers why no request could be built; nil forgets.
func (m *memory) setFailure(uid types.UID, f *claim.Failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f == nil {
		delete(m.failures, uid)
		return
	}
	m.failures[uid] = *f
}

// lookingSince starts or continues a search by tag and returns its start.
func (m *memory) lookingSince(tag string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lookups[tag].IsZero() {
		m.lookups[tag] = now
	}
	return m.lookups[tag]
}

// isSettled reports that a claim with these versions needed no status write.
func (m *memory) isSettled(name, versions string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled[name] == versions
}

func (m *memory) settle(name, versions string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled[name] = versions
}

// forget drops everything about a claim that is closed.
func (m *memory) forget(name string, uid types.UID, instanceID string) {
	m.retries.Succeeded(claimKey(name))
	m.retries.Succeeded(tagKey(name))
	m.claims.Forget(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.settled, name)
	delete(m.settled, "shadow/"+name)
	delete(m.marks, name)
	delete(m.failures, uid)
	delete(m.sought, uid)
	delete(m.lookups, seekKey(uid))
	delete(m.instances, instanceID)
}
