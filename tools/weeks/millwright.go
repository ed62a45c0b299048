package weeks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/patience"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
	"millwright/tools/workload"
)

const logID = "6d696c6c7772696768747765656b7300"

// millwright is the plane of the real planners, over a World and a Ledger. What its services do around them
// is done here in as many words: launch, mark, confirm, delete, hint.
type millwright struct {
	*Cluster
	world    *world.World
	ledger   *ledger.Ledger
	counter  uint64
	settings Settings
	claims   map[string]*node
	records  map[*node]uint64 // of the command that marks the node
	searched searched
	from     ledger.SearchFrom
	patience patience.Patience
	// tape keeps what is seen and recorded; nil: nothing does.
	tape *Tape
}

// searched is what the last pass that decided nothing saw.
type searched struct {
	at, wake      time.Time
	seq, revision uint64
}

func newMillwright(c *Cluster, s Settings) *millwright { return newTaped(c, s, nil) }

func newTaped(c *Cluster, s Settings, tape *Tape) *millwright {
	m := &millwright{Cluster: c, settings: s, world: world.New(), ledger: ledger.New(logID), claims: map[string]*node{}, records: map[*node]uint64{}, tape: tape,
		patience: patience.Patience{Cost: s.Patience}}
	if tape == nil {
		m.record(ledger.KindGenesis, &ledger.Genesis{LogID: logID, Cluster: "weeks"})
	} else {
		tape.begin(m)
	}
	options := planner.PresentOptions()
	options.EvictionCost = s.EvictionCost
	m.record(ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(options)})
	if tape == nil {
		m.world.SetIncarnation("weeks")
	}
	m.send(events.Observation{Op: events.OpResyncBegin})
	m.see(events.KindNamespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "namespace-default"}})
	for _, capacity := range []string{onDemand, spot} {
		m.see(events.KindNodePool, m.pool(capacity))
	}
	if cost := s.CostPerEviction; cost != "" {
		m.see(events.KindDisruptionPolicy, payBack(cost))
	}
	if s.Ban {
		m.see(events.KindDisruptionPolicy, ban())
	}
	ref := &events.CatalogRef{NodeClass: workload.NodeClass, Hash: "weeks", Catalog: catalogue()}
	if tape != nil {
		ref = tape.catalogue(ref)
	}
	m.send(events.Observation{Op: events.OpUpsert, Kind: events.KindCatalog, UID: types.UID(ref.NodeClass), Name: ref.NodeClass, Object: ref})
	m.pricesChanged()
	m.send(events.Observation{Op: events.OpResyncEnd})
	m.beat()
	return m
}

// pool of a capacity type, as the other planes have it.
func (m *millwright) pool(capacity string) *karpv1.NodePool {
	p := workload.Pool(capacity)
	workload.Require(p, karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, capacity)
	p.Spec.Template.Spec.ExpireAfter = karpv1.NewDuration(expireAfter)
	p.Spec.Disruption = karpv1.Disruption{ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter: karpv1.NewDuration(m.settings.ConsolidateAfter), Budgets: []karpv1.Budget{{Nodes: "10%"}}}
	if m.settings.Balanced {
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyBalanced
	}
	return p
}

// payBack is a DisruptionPolicy for all NodePools.
func payBack(cost string) *mwv1alpha1.DisruptionPolicy {
	p := &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "pay-back", UID: "policy-pay-back"}}
	p.Spec.Savings = &mwv1alpha1.Savings{PayBack: &mwv1alpha1.PayBack{CostPerEviction: cost, Horizon: &metav1.Duration{Duration: time.Hour}}}
	return p
}

// ban is a DisruptionPolicy for all NodePools.
func ban() *mwv1alpha1.DisruptionPolicy {
	p := &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "ban", UID: "policy-ban"}}
	p.Spec.Destination = mwv1alpha1.DestinationBan
	return p
}

func catalogue() *events.Catalog {
	cat := &events.Catalog{NodeClass: workload.NodeClass, Generation: 1}
	for _, t := range machineTypes {
		out := events.CatalogInstanceType{Name: t.name, Capacity: amounts(t.capacity), Overhead: amounts(t.capacity.minus(t.allocatable)),
			Requirements: map[string][]string{corev1.LabelInstanceTypeStable: {t.name}, corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"},
				corev1.LabelTopologyZone: zones, karpv1.CapacityTypeLabelKey: {onDemand, spot}}}
		for _, zone := range zones {
			for _, capacity := range []string{onDemand, spot} {
				out.Offerings = append(out.Offerings, events.CatalogOffering{Zone: zone, CapacityType: capacity, Available: true})
			}
		}
		cat.InstanceTypes = append(cat.InstanceTypes, out)
	}
	return cat
}

func amounts(a amount) map[string]int64 {
	return map[string]int64{"cpu": a.cpu, "memory": a.memory << 20, "pods": a.pods}
}

func resources(a amount) corev1.ResourceList {
	return corev1.ResourceList{"cpu": *resource.NewMilliQuantity(a.cpu, resource.DecimalSI), "memory": *resource.NewQuantity(a.memory<<20, resource.BinarySI),
		"pods": *resource.NewQuantity(a.pods, resource.DecimalSI)}
}

func (m *millwright) send(o events.Observation) {
	m.counter++
	o.Epoch, o.Counter, o.ObservedAt = 1, m.counter, m.time()
	if m.tape != nil {
		o = m.tape.observe(o)
	}
	m.world.Apply(m.counter, o)
}

func (m *millwright) beat() {
	m.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

func (m *millwright) see(kind events.Kind, o metav1.Object) {
	m.send(events.Observation{Op: events.OpUpsert, Kind: kind, UID: o.GetUID(), Name: keyOf(o), Object: o})
}

func (m *millwright) vanish(kind events.Kind, o metav1.Object) {
	m.send(events.Observation{Op: events.OpDelete, Kind: kind, UID: o.GetUID(), Name: keyOf(o)})
}

func keyOf(o metav1.Object) string {
	if ns := o.GetNamespace(); ns != "" {
		return ns + "/" + o.GetName()
	}
	return o.GetName()
}

// record appends to the log and folds; it returns the sequence.
func (m *millwright) record(kind ledger.Kind, payload any, advances ...string) uint64 {
	return m.fold(ledger.Entry{Seq: m.ledger.Seq() + 1, Time: m.time(), Now: m.time(), Mode: ledger.ModeActive, Kind: kind, Payload: payload, Advances: advances}, nil)
}

// decide records a decision that was taken on a Snapshot with this basis.
func (m *millwright) decide(basis planner.Basis, d *planner.Decision) uint64 {
	return m.fold(ledger.Entry{Seq: m.ledger.Seq() + 1, Time: m.time(), Now: m.time(), Mode: ledger.ModeActive, Kind: d.Kind, Payload: d.Payload, Advances: d.Advances},
		&decision{basis, d})
}

// decision with what it was taken on.
type decision struct {
	basis    planner.Basis
	decision *planner.Decision
}

func (m *millwright) fold(e ledger.Entry, d *decision) uint64 {
	if m.tape != nil {
		e = m.tape.record(e, d)
	}
	if err := m.ledger.Apply(e); err != nil {
		panic(fmt.Sprintf("weeks: fold %s: %v", e.Kind, err))
	}
	return e.Seq
}

func (m *millwright) snapshot() *planner.Snapshot {
	m.beat()
	return planner.NewSnapshot(m.world, m.ledger, m.time())
}

// step is a round of provisioner, disruptor and lifecycle.
func (m *millwright) step() time.Duration {
	m.provision()
	m.drive()
	return m.disrupt()
}

const roundsMax = 10

func (m *millwright) provision() {
	for range roundsMax {
		s := m.snapshot()
		basis := s.Basis()
		d, _ := provision.Plan(s)
		if d == nil {
			break
		}
		seq := m.decide(basis, d)
		if p, ok := d.Payload.(*ledger.ProvisioningPlanned); ok {
			m.launchAll(seq, p.Claims)
		}
	}
	m.hint()
}

// launchAll launches the claims of a record, each of its cheapest offering.
func (m *millwright) launchAll(seq uint64, planned []ledger.PlannedClaim) {
	for i := range planned {
		p := &planned[i]
		o := offering{zone: p.Cheapest.Zone, capacity: p.Cheapest.CapacityType, price: p.Cheapest.MicroUSDPerHour}
		o.kind = machineTypes[slices.IndexFunc(machineTypes, func(t *machineType) bool { return t.name == p.Cheapest.InstanceType })]
		o.price = m.market.price(o.kind, o.zone, o.capacity, m.now)
		name := ledger.ClaimName(logID, p.NodePool, seq, i)
		uid := types.UID("claim-" + name)
		m.record(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: uid})
		m.record(ledger.KindLaunched, &ledger.Launched{Claim: name, UID: uid, Attempt: 1, InstanceID: "i-" + name, ProviderID: providerID(name, o.zone),
			InstanceType: o.kind.name, Zone: o.zone, CapacityType: o.capacity, Price: o.price})
		m.launch(name, o)
	}
}

func providerID(name, zone string) string { return "aws:///" + zone + "/i-" + name }

// hint tells kube-scheduler where the pods go that wait for a node that is ready.
func (m *millwright) hint() {
	for _, p := range m.waiting {
		v := m.ledger.Verdict(types.UID(p.name))
		p.hintTo(nil)
		if v == nil || !p.refused {
			continue
		}
		n := m.claims[v.Claim]
		if v.Claim == "" {
			n = m.claims[v.Node]
		}
		if n != nil && n.ready && !n.tainted {
			p.hintTo(n)
		}
	}
}

// drive takes each running command as far as it goes.
func (m *millwright) drive() {
	for _, cmd := range m.ledger.Commands() {
		s := m.snapshot()
		v := disrupt.Confirm(s, cmd)
		if cmd.State == ledger.CommandConfirmedState && v.Outcome == disrupt.Confirmed {
			m.finish(s, cmd)
			continue
		}
		basis := s.Basis()
		d := disrupt.ConfirmDecision(s, cmd)
		if d == nil {
			continue
		}
		m.decide(basis, d)
		switch p := d.Payload.(type) {
		case *ledger.CommandReduced:
			for _, x := range p.Dropped {
				m.unmark(m.claims[x.Claim])
			}
		case *ledger.CommandRolledBack:
			m.giveUp(cmd, p)
		}
		m.changed()
	}
}

func (m *millwright) giveUp(cmd *ledger.Command, p *ledger.CommandRolledBack) {
	m.result.GivenUp++
	m.trace("give up: "+p.Reason, cmd.ID)
	for _, c := range cmd.Started.Candidates {
		m.unmark(m.claims[c.Claim])
	}
	for _, u := range p.Unused {
		if n := m.claims[u.Claim]; n != nil {
			m.delete(n, true)
		}
	}
}

// finish deletes the nodes of a command.
func (m *millwright) finish(s *planner.Snapshot, cmd *ledger.Command) {
	rest := disrupt.Remaining(s, cmd)
	m.record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: cmd.ID})
	for _, n := range rest {
		m.delete(m.claims[n.Claim.Name], true)
	}
}

// disrupt starts what may be started, and returns when time alone may change that.
func (m *millwright) disrupt() time.Duration {
	s := m.snapshot()
	last := &m.searched
	same := s.Ledger.Seq() == last.seq && s.World.Revision() == last.revision && (last.wake.IsZero() || s.Now.Before(last.wake))
	if same {
		return m.wake(s, true)
	}
	whole := last.at.IsZero() || s.Now.Sub(last.at) >= m.searchesEvery()
	basis := s.Basis()
	list, report := m.pass(s, whole)
	if whole {
		if wait := m.patience.Wait(s.Now, list, s.Options.NodeCost); wait > 0 {
			list, report.WakeAt = nil, s.Now.Add(wait)
		}
	}
	for _, d := range list {
		p, ok := d.Payload.(*ledger.CommandStarted)
		if !ok {
			continue
		}
		seq := m.decide(basis, d)
		m.result.Commands++
		m.trace("command "+p.Method, fmt.Sprint(p.PriceBefore, p.PriceAfter, p.Evictions))
		for _, c := range p.Candidates {
			m.mark(m.claims[c.Claim], seq)
		}
		m.launchAll(seq, p.Replacements)
	}
	if len(list) > 0 {
		last.at = time.Time{}
		return stepsAfter * 2
	}
	if !whole {
		return m.wake(s, false)
	}
	*last = searched{s.Now, report.WakeAt, s.Ledger.Seq(), s.World.Revision()}
	return m.wake(s, true)
}

// searchesEvery is how long a search of consolidation that found nothing is left alone, so that a week takes
// minutes; in the product it is 50 times as long as the search took. Empty nodes are looked for all the same.
const searchesEvery = 30 * time.Second

func (m *millwright) searchesEvery() time.Duration {
	return cmp.Or(m.settings.SearchesEvery, searchesEvery)
}

func (m *millwright) pass(s *planner.Snapshot, whole bool) ([]*planner.Decision, disrupt.Report) {
	m.result.Passes++
	if whole {
		list, report := disrupt.PlansFrom(s, m.from)
		m.from = report.Next
		return list, report
	}
	d, report := disrupt.PlanPrompt(s)
	if d == nil {
		return nil, report
	}
	return []*planner.Decision{d}, report
}

// wake is when the pass is to be repeated, and running commands are looked at again. A pass that found
// nothing is left alone for a while.
func (m *millwright) wake(s *planner.Snapshot, same bool) time.Duration {
	if !same {
		return max(2*stepsAfter, m.searchesEvery()-s.Now.Sub(m.searched.at))
	}
	next := time.Duration(0)
	if w := m.searched.wake; !w.IsZero() {
		next = max(2*stepsAfter, w.Sub(s.Now)+stepsAfter)
	}
	if len(m.ledger.Commands()) > 0 && (next == 0 || next > 10*time.Second) {
		next = 10 * time.Second
	}
	return next
}

func (m *millwright) mark(n *node, seq uint64) {
	m.records[n] = seq
	n.tainted = true
	m.nodeChanged(n)
	m.poke()
}

func (m *millwright) unmark(n *node) {
	if n == nil || n.going {
		return
	}
	delete(m.records, n)
	n.tainted = false
	m.nodeChanged(n)
	m.changed()
}

func (m *millwright) pricesChanged() {
	prices := &events.Prices{}
	for _, t := range machineTypes {
		for _, zone := range zones {
			for _, capacity := range []string{onDemand, spot} {
				prices.Entries = append(prices.Entries, events.Price{InstanceType: t.name, CapacityType: capacity, Zone: zone,
					MicroUSDPerHour: m.market.price(t, zone, capacity, m.now)})
			}
		}
	}
	m.send(events.Observation{Op: events.OpUpsert, Kind: events.KindPrices, Object: prices})
}
