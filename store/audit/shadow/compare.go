package shadow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store"
	"millwright/store/audit"
)

// ErrNothing: nothing was decided in mode shadow in the span.
var ErrNothing = errors.New("nothing was decided in mode shadow: run Millwright with --mode shadow beside the other controller")

// Log is what is read of the event log.
type Log interface {
	audit.CheckpointLog
	ID() string
	Head(ctx context.Context) (store.Head, error)
}

// Compare makes the report of what happened since a time. Its memory is that of a World and of what differs
// at a time, however long the span is. It returns ErrNothing, or audit.ErrUnsynced if nothing of what
// happened then is retained.
func Compare(ctx context.Context, log Log, stream audit.Stream, since time.Time) (*Report, error) {
	decisions, err := upcomingSince(ctx, log, since)
	if err != nil {
		return nil, fmt.Errorf("read the shadow's decisions: %w", err)
	}
	c := newComparison(log.ID(), since.UTC())
	err = audit.FoldSince(ctx, stream, since, func(w *world.World, o events.Observation) error {
		c.seen(w, o)
		return c.decided(ctx, w, decisions)
	})
	switch {
	case err == nil && c.now.IsZero():
		err = audit.ErrUnsynced
		fallthrough
	case errors.Is(err, audit.ErrUnsynced):
		return nil, fmt.Errorf("read what happened: %w, or nothing of that span is retained", err)
	case err != nil:
		return nil, fmt.Errorf("read what happened: %w", err)
	}
	return c.report(), nil
}

// upcoming are the decisions in mode shadow that were not looked at yet, in the order of the log, of which a
// page is read at a time.
type upcoming struct {
	log        Log
	next, last uint64
	page       []ledger.Entry
}

func upcomingSince(ctx context.Context, log Log, since time.Time) (*upcoming, error) {
	head, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	from, err := audit.FirstSince(ctx, log, head.Seq, since)
	if err != nil {
		return nil, err
	}
	u := &upcoming{log: log, next: from, last: head.Seq}
	e, err := u.peek(ctx)
	if err == nil && e == nil {
		err = ErrNothing
	}
	return u, err
}

// peek is the next decision; nil: there is none any more.
func (u *upcoming) peek(ctx context.Context) (*ledger.Entry, error) {
	for len(u.page) == 0 && u.next <= u.last {
		records, err := u.log.Read(ctx, u.next, 0)
		if err != nil {
			return nil, fmt.Errorf("read log from %d: %w", u.next, err)
		}
		if len(records) == 0 {
			u.next = u.last + 1
		}
		for _, rec := range records {
			if e, err := audit.Decode(rec); err == nil && e.Mode == ledger.ModeShadow && audit.IsDecision(e) {
				u.page = append(u.page, e)
			}
			u.next = rec.Seq + 1
		}
	}
	if len(u.page) == 0 {
		return nil, nil
	}
	return &u.page[0], nil
}

// machine is a node that really was, by provider ID.
type machine struct {
	name, pool, about string
	price             int64
	launched, ready   time.Time
	gone              time.Time
	// by is the decision that it does not exist for Millwright by; nil: it does.
	by *deed
	// since is from when on.
	since time.Time
}

// left counts a machine that is gone, or that is there at the end. What Millwright would have left alone went
// as it really did.
func (c *comparison) left(m *machine) {
	if m.by != nil {
		return
	}
	if !m.gone.IsZero() {
		c.out.Millwright.Removed++
	}
	if m.launched.After(c.from) {
		c.out.Millwright.Launched++
	}
}

// imagined is a node that never was.
type imagined struct {
	price int64
	// from when on it costs, and until when; zero: it still does.
	from, until time.Time
	// pods that wait for it and have no place yet.
	waiting map[types.UID]bool
	// real are the machines that stand for it.
	real []*machine
}

// deed is a shadow decision that counts.
type deed struct {
	record uint64
	at     time.Time
	// order among the deeds; provides: it made nodes for pods.
	order    int
	provides bool
	nodes    []*imagined
	machines []*machine
	text     string
	why      []string
	ended    time.Time
}

// waiter is a pod for which kube-scheduler found no node.
type waiter struct {
	since time.Time
	// planned is when Millwright first placed it on a node to come, at is that node.
	planned time.Time
	at      *imagined
	deed    *deed
}

// comparison in the making.
type comparison struct {
	since, from, now time.Time
	logID            string
	machines         map[string]*machine
	waiters          map[types.UID]*waiter
	evicted          map[types.UID]bool
	// imagined nodes that still cost, and deeds that have not ended, in the order in which they were decided.
	imagined []*imagined
	deeds    []*deed
	ordered  int
	largest  differences
	boots    []time.Duration
	// dirty: nodes or prices may have changed since machines were last counted. stale: sums may have.
	dirty, stale   bool
	actual, shadow sum
	out            Report
	// waited are the waits that have ended; would are those under Millwright, and booted those of pods that
	// it had planned nodes for, which need the boot time too.
	waited, would, booted waits
	points                []Point
}

func newComparison(logID string, since time.Time) *comparison {
	return &comparison{logID: logID, since: since, machines: map[string]*machine{}, waiters: map[types.UID]*waiter{}, evicted: map[types.UID]bool{}, dirty: true, stale: true}
}

// seen takes a message that was folded.
func (c *comparison) seen(w *world.World, o events.Observation) {
	if !w.Synced() || o.ObservedAt.Before(c.since) {
		c.dirty = true
		return
	}
	if c.from.IsZero() {
		c.from, c.now = o.ObservedAt.UTC(), o.ObservedAt.UTC()
		c.begin(w)
	}
	if o.ObservedAt.After(c.now) {
		c.pass(o.ObservedAt.UTC())
	}
	switch o.Kind {
	case events.KindNode, events.KindNodeClaim, events.KindPrices, events.KindCatalog:
		c.dirty = true
	case events.KindPod:
		c.pod(w, o)
	}
	if o.Op == events.OpHeartbeat || o.Op == events.OpResyncEnd {
		c.count(w)
	}
}

// decided counts the decisions that were taken on what was seen so far, once the span has begun.
func (c *comparison) decided(ctx context.Context, w *world.World, decisions *upcoming) error {
	if c.from.IsZero() {
		return nil
	}
	at := w.Position()
	for {
		e, err := decisions.peek(ctx)
		if err != nil || e == nil || e.Position.Incarnation == at.Incarnation && e.Position.Sequence > at.Sequence {
			return err
		}
		if e.Position.Incarnation == at.Incarnation {
			c.count(w)
			c.decide(w, *e)
		}
		decisions.page = decisions.page[1:]
	}
}

// begin takes what is there when the span begins.
func (c *comparison) begin(w *world.World) {
	c.count(w)
	c.boots = nil
	c.out.Actual.Launched = 0
	for _, p := range w.PendingPods() {
		if p.Unschedulable && p.Active() {
			c.waiters[p.UID] = &waiter{since: c.now}
		}
	}
}

// pass lets time go by, and charges for it.
func (c *comparison) pass(to time.Time) {
	hours := to.Sub(c.now).Hours()
	actual, shadow := c.sums()
	c.out.Actual.charge(actual, hours)
	c.out.Millwright.charge(shadow, hours)
	c.points = append(c.points, Point{c.now, actual.nodes, actual.price, shadow.nodes, shadow.price})
	if len(c.points) > 64*curvePoints { // every second one: the curve is coarser than that
		for i := range c.points[:len(c.points)/2] {
			c.points[i] = c.points[2*i]
		}
		c.points = c.points[:len(c.points)/2]
	}
	c.now = to
}

// sum of nodes at a moment.
type sum struct {
	nodes int
	price int64
}

func (c *comparison) sums() (actual, shadow sum) {
	if !c.stale {
		return c.actual, c.shadow
	}
	for _, m := range c.machines {
		actual.nodes, actual.price = actual.nodes+1, actual.price+m.price
		if m.by == nil {
			shadow.nodes, shadow.price = shadow.nodes+1, shadow.price+m.price
		}
	}
	for _, n := range c.imagined {
		if n.until.IsZero() {
			shadow.nodes, shadow.price = shadow.nodes+1, shadow.price+n.price
		}
	}
	c.actual, c.shadow, c.stale = actual, shadow, false
	return actual, shadow
}

func (s *Side) charge(x sum, hours float64) {
	s.NodesMost = max(s.NodesMost, x.nodes)
	s.NodeHours += float64(x.nodes) * hours
	s.USD += float64(x.price) / 1e6 * hours
}

// count looks which machines have come and gone, if any may have.
func (c *comparison) count(w *world.World) {
	if !c.dirty {
		return
	}
	c.dirty, c.stale = false, true
	s := planner.SnapshotAt(w.Version(), ledger.New(""), c.now)
	there := map[string]bool{}
	for _, n := range s.StateNodes() {
		if n.NodePool == "" || n.ProviderID == "" {
			continue
		}
		there[n.ProviderID] = true
		m := c.machines[n.ProviderID]
		if m == nil {
			m = &machine{pool: n.NodePool, launched: c.now}
			c.machines[n.ProviderID] = m
			c.out.Actual.Launched++
			c.standIn(m)
		}
		m.name, m.price = n.Name, disrupt.Price(s, n)
		m.about = fmt.Sprintf("%s %s in %s", n.Labels[corev1.LabelInstanceTypeStable], n.Labels[karpv1.CapacityTypeLabelKey], n.Labels[corev1.LabelTopologyZone])
		if m.ready.IsZero() && n.Initialized {
			m.ready = c.now
			c.boots = append(c.boots, m.ready.Sub(m.launched))
		}
	}
	for id, m := range c.machines {
		if !there[id] {
			m.gone = c.now
			delete(c.machines, id)
			c.left(m)
			c.out.Actual.Removed++
		}
	}
	c.settle()
}

// standIn takes a machine that was just launched for the one that the first decision imagined whose pods
// still wait and that nothing stands for.
func (c *comparison) standIn(m *machine) {
	for _, d := range c.deeds {
		for _, n := range d.nodes {
			if d.provides && n.until.IsZero() && len(n.real) == 0 && len(n.waiting) > 0 {
				n.real = append(n.real, m)
				c.give(m, d)
				return
			}
		}
	}
}

// give says that a machine does not exist for Millwright, by a decision.
func (c *comparison) give(m *machine, d *deed) {
	m.by, m.since, c.stale = d, c.now, true
	d.machines = append(d.machines, m)
}

// settle ends what never was once the real nodes are gone that it stands for, and the decisions of which
// nothing is left: what they come to is certain then.
func (c *comparison) settle() {
	there := func(m *machine) bool { return m.gone.IsZero() }
	for _, d := range c.deeds {
		for _, n := range d.nodes {
			if n.until.IsZero() && len(n.waiting) == 0 && !slices.ContainsFunc(n.real, there) {
				n.until, c.stale = c.now, true
			}
		}
		if !slices.ContainsFunc(d.machines, there) && !slices.ContainsFunc(d.nodes, func(n *imagined) bool { return n.until.IsZero() }) {
			d.ended = c.now
			c.largest.add(d.order, c.difference(d))
		}
	}
	c.deeds = slices.DeleteFunc(c.deeds, func(d *deed) bool { return !d.ended.IsZero() })
	c.imagined = slices.DeleteFunc(c.imagined, func(n *imagined) bool { return !n.until.IsZero() })
}

// pod follows one pod: when it waits, where it goes, and whether it is evicted.
func (c *comparison) pod(w *world.World, o events.Observation) {
	p := w.Pod(o.UID)
	x := c.waiters[o.UID]
	switch {
	case p == nil || p.Terminal() || p.Deleting != 0 && p.NodeName == "":
		if x != nil {
			c.ends(o.UID, x, nil)
		}
		delete(c.evicted, o.UID)
		return
	case p.NodeName == "" && p.Unschedulable && x == nil:
		c.waiters[o.UID] = &waiter{since: c.now}
	case p.NodeName != "" && x != nil:
		c.count(w)
		c.ends(o.UID, x, c.machineOf(w, p.NodeName))
	case p.Deleting != 0 && !c.evicted[o.UID] && p.Class != nil && !p.Class.DaemonSetOwned() && goes(w, p.NodeName):
		c.evicted[o.UID] = true
		c.out.Actual.Evictions++
	}
}

// goes reports that a node is being taken away.
func goes(w *world.World, name string) bool {
	n := w.Node(name)
	if n == nil || n.Object == nil {
		return false
	}
	if n.Object.DeletionTimestamp != nil || slices.ContainsFunc(n.Object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey }) {
		return true
	}
	for _, claim := range w.NodeClaims() {
		if claim.Status.ProviderID == n.Object.Spec.ProviderID && claim.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

func (c *comparison) machineOf(w *world.World, node string) *machine {
	if n := w.Node(node); n != nil && n.Object != nil {
		return c.machines[n.Object.Spec.ProviderID]
	}
	return nil
}

// ends the wait of a pod: m is where it went, nil if it is gone or its node is nobody's.
func (c *comparison) ends(uid types.UID, x *waiter, m *machine) {
	delete(c.waiters, uid)
	actual := c.now.Sub(x.since)
	planned, into := actual, &c.would
	if x.at != nil {
		delete(x.at.waiting, uid)
		if m != nil && m.by == nil && !m.launched.Before(x.planned) {
			c.give(m, x.deed)
		}
		if m != nil && m.by != nil && m.by.provides {
			if !slices.Contains(x.at.real, m) {
				x.at.real = append(x.at.real, m)
			}
			planned, into = x.planned.Sub(x.since), &c.booted
		}
		c.settle()
	}
	c.waited.add(actual)
	into.add(planned)
}
