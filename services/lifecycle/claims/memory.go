package claims

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/services/internal/backoff"
	"millwright/services/lifecycle/recent"
)

// writtenFor is how long a write of unknown outcome may not show in the cache.
const writtenFor = 30 * time.Second

// memory is what the service knows and may forget: a new leader finds it out again.
type memory struct {
	// retries of effects by key: claim/<name>, nodepool/<name>, scan, …
	retries *backoff.Keys
	claims  *recent.Objects[*karpv1.NodeClaim]

	mu sync.Mutex
	// registering are the Nodes whose registration was written, or may have been, by UID.
	registering map[types.UID]registering
	failures    map[types.UID]claim.Failure
	lookups     map[string]time.Time
	settled     map[string]string
	// marks by claim name: what the last look at its drift and quiet time said.
	marks map[string]claim.Marks
	// catalogues last seen, by NodeClass.
	catalogues map[string]*catalog.Catalog
	// sought: the instances of these inherited claims were looked for and not found.
	sought map[types.UID]bool
	// boots by UID of the claim: what EC2 said of instances whose Nodes are overdue.
	boots map[types.UID]boot
	// told are the times of the messages of which people were told.
	told map[toldKey]time.Time
	// unnamed are instances of claims, by name, that do not bear the name of their claim yet.
	unnamed map[string]string
	// refusals of planned NodeClaims by the API server.
	refusals *refusals
	// written is what moves have written last.
	written map[writtenKey]string
	// presumed outcomes by claim name, while the log can't be reached.
	presumed map[string]presumption
}

// registering is which version of a Node was written upon, and when.
type registering struct {
	version string
	at      time.Time
}

func newMemory(retries *backoff.Keys, objects *recent.Objects[*karpv1.NodeClaim]) *memory {
	return &memory{
		retries: retries, claims: objects,
		registering: map[types.UID]registering{},
		failures:    map[types.UID]claim.Failure{}, lookups: map[string]time.Time{}, settled: map[string]string{},
		marks: map[string]claim.Marks{}, catalogues: map[string]*catalog.Catalog{},
		sought: map[types.UID]bool{}, boots: map[types.UID]boot{}, told: map[toldKey]time.Time{},
		unnamed: map[string]string{}, refusals: newRefusals(), written: map[writtenKey]string{},
	}
}

// registers remembers that a Node's registration is about to be written.
func (m *memory) registers(n *corev1.Node, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.registering, func(_ types.UID, r registering) bool { return now.Sub(r.at).Abs() > writtenFor })
	m.registering[n.UID] = registering{n.ResourceVersion, now}
}

// mayBeRegistered reports that the cache does not show yet what came of the write of a Node's registration.
func (m *memory) mayBeRegistered(n *corev1.Node, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.registering[n.UID]
	return ok && r.version == n.ResourceVersion && now.Sub(r.at).Abs() <= writtenFor
}

func (m *memory) failure(uid types.UID) *claim.Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.failures[uid]; ok {
		return &f
	}
	return nil
}

// rememberCatalogue remembers a NodeClass's catalogue; catalogue is the last one, nil if there was none.
func (m *memory) rememberCatalogue(ref *karpv1.NodeClassReference, c *catalog.Catalog) {
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

// setUnnamed remembers that an instance does not bear the name of its claim yet; "": it need not any more.
func (m *memory) setUnnamed(name, instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if instance == "" {
		delete(m.unnamed, name)
		return
	}
	m.unnamed[name] = instance
}

func (m *memory) unnamedOf(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unnamed[name]
}

// isSettled reports that a claim with these versions needed no status write.
func (m *memory) isSettled(name, versions string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled[name] == versions
}

func (m *memory) settleVersions(name, versions string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled[name] = versions
}

// forget drops everything about a claim that is closed.
func (m *memory) forget(name string, uid types.UID) {
	m.retries.Succeeded(claimKey(name))
	m.retries.Succeeded(statusKey(name))
	m.retries.Succeeded(tagKey(name))
	for _, move := range mereWrites {
		m.retries.Succeeded(writtenKey{name, move}.retry())
	}
	m.claims.Forget(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.settled, name)
	delete(m.settled, "shadow/"+name)
	delete(m.marks, name)
	delete(m.unnamed, name)
	for _, move := range mereWrites {
		delete(m.written, writtenKey{name, move})
	}
	delete(m.failures, uid)
	delete(m.sought, uid)
	delete(m.boots, uid)
	delete(m.lookups, seekKey(uid))
	for _, kind := range events.InterruptionKinds {
		delete(m.told, toldKey{name, kind})
	}
}

// setMarks reports that the marks are others than before.
func (m *memory) setMarks(name string, marks claim.Marks) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.marks[name] != marks
	m.marks[name] = marks
	return changed
}

func (m *memory) marksOf(name string) claim.Marks {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[name]
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.settled) + len(m.marks) + len(m.failures) + len(m.sought) + len(m.boots) + len(m.catalogues) + len(m.lookups) + len(m.registering) + len(m.told) + len(m.unnamed) + len(m.written) + m.refusals.len()
}

// bootDue reports that what became of a claim's instance was not asked for lately, and notes that it is now.
func (m *memory) bootDue(v *claimView, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boots[v.uid()]
	if now.Sub(b.asked).Abs() < bootEvery {
		return false
	}
	b.asked = now
	m.boots[v.uid()] = b
	return true
}

func (m *memory) setBoot(uid types.UID, report *claim.Boot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boots[uid]
	b.report = report
	m.boots[uid] = b
}

func (m *memory) bootOf(uid types.UID) *claim.Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots[uid].report
}
