package world

import (
	"maps"
	"time"

	"millwright/events"
	"millwright/planner/intern"
	"millwright/planner/version"
)

// aws is what was seen of EC2.
type aws struct {
	// catalogs by NodeClass; the map and its rows are never changed, only replaced.
	catalogs  map[string]*catalogRow
	prices    priceTable
	instances table[*Instance]
	// interruptions by instance id and message kind; interrupted counts their changes in this process.
	interruptions table[*events.Interruption]
	interrupted   uint64
}

func newAWSState() aws {
	return aws{
		catalogs: map[string]*catalogRow{}, prices: newPriceTable(),
		instances: newTable(jsonCodec[Instance]()), interruptions: newTable(jsonCodec[events.Interruption]()),
	}
}

func (a *aws) fold(owner *version.Owner, o events.Observation, generation uint32) {
	switch o.Kind {
	case events.KindCatalog:
		a.foldCatalog(o, generation)
	case events.KindPrices:
		a.foldPrices(owner, o, generation)
	case events.KindInstanceState:
		a.foldInstance(owner, o, generation)
	case events.KindInterruption:
		a.foldInterruption(owner, o, generation)
	}
}

func (a *aws) foldCatalog(o events.Observation, generation uint32) {
	name := o.Name
	if name == "" {
		name = string(o.UID)
	}
	switch obj := o.Object.(type) {
	case *events.CatalogRef:
		if o.Op == events.OpUpsert && obj != nil {
			a.setCatalog(name, a.rowOfRef(name, obj, generation))
			return
		}
	case *events.Catalog:
		if o.Op == events.OpUpsert && obj != nil {
			a.setCatalog(name, a.rowOf(name, obj, generation))
			return
		}
	}
	a.setCatalog(name, nil)
}

// setCatalog gives a NodeClass another row; nil: none.
func (a *aws) setCatalog(name string, r *catalogRow) {
	a.catalogs = maps.Clone(a.catalogs)
	if r == nil {
		delete(a.catalogs, name)
		return
	}
	a.catalogs[name] = r
}

// rowOfRef: a reference that was not resolved leads to what is held, if its hash is that of it, else nowhere.
func (a *aws) rowOfRef(name string, ref *events.CatalogRef, generation uint32) *catalogRow {
	before := a.catalogs[name]
	var r *catalogRow
	switch {
	case ref.Catalog != nil:
		r = a.rowOf(name, ref.Catalog, generation)
	case before != nil && before.hash == ref.Hash && before.offer != nil:
		r = &catalogRow{nodeClass: before.nodeClass, classVersion: before.classVersion, offer: before.offer, generation: generation}
	default:
		r = &catalogRow{generation: generation}
	}
	r.hash = ref.Hash
	if !ref.ReservationsAt.IsZero() {
		r.reservationsAt = ref.ReservationsAt.UTC()
	}
	if len(ref.ZonalShifts) > 0 {
		r.zonalShifts = shiftsOf(ref.ZonalShifts)
	}
	return r
}

func (a *aws) rowOf(name string, c *events.Catalog, generation uint32) *catalogRow {
	return &catalogRow{
		nodeClass: c.NodeClass, classVersion: c.Generation, reservationsAt: c.ReservationsAt.UTC(), zonalShifts: shiftsOf(c.ZonalShifts), offer: a.offerOf(name, c.InstanceTypes), generation: generation,
	}
}

func shiftsOf(list []events.ZonalShift) []events.ZonalShift {
	var own []events.ZonalShift
	for _, s := range list {
		s.Until = s.Until.UTC()
		own = append(own, s)
	}
	return own
}

// foldPrices applies differences. Every catalogue is joined anew when next asked for.
func (a *aws) foldPrices(owner *version.Owner, o events.Observation, generation uint32) {
	p, ok := o.Object.(*events.Prices)
	if o.Op != events.OpUpsert || !ok || p == nil {
		return
	}
	changed := false
	a.prices = a.prices.ownedBy(owner)
	for _, e := range p.Entries {
		changed = a.prices.setPrice(e, o.ObservedAt, generation) || changed
	}
	if changed {
		a.stalePrices()
	}
}

func (a *aws) foldInstance(owner *version.Owner, o events.Observation, generation uint32) {
	id := o.Name
	if id == "" {
		id = string(o.UID)
	}
	s, ok := o.Object.(*events.InstanceState)
	if o.Op == events.OpUpsert && ok && s != nil {
		a.instances.put(owner, id, instanceOf(s), o, generation)
		if s.State == "terminated" {
			a.dropInterruptions(owner, id)
		}
		return
	}
	a.instances.remove(owner, id, "")
	a.dropInterruptions(owner, id)
}

func instanceOf(s *events.InstanceState) *Instance {
	return &Instance{
		ID: s.ID, State: intern.String(s.State), InstanceType: intern.String(s.InstanceType), Zone: intern.String(s.Zone),
		CapacityType: intern.String(s.CapacityType), LaunchTime: s.LaunchTime, Tags: s.Tags,
	}
}

// foldInterruption keeps the last message of each kind about an instance until the instance is gone.
func (a *aws) foldInterruption(owner *version.Owner, o events.Observation, generation uint32) {
	i, ok := o.Object.(*events.Interruption)
	if o.Op != events.OpUpsert || !ok || i == nil {
		a.interruptions.remove(owner, o.Name, "")
		a.interrupted++
		return
	}
	kept := *i
	kept.Body = ""
	a.interruptions.put(owner, interruptionKey(i.InstanceID, i.MessageKind), &kept, o, generation)
	a.interrupted++
}

func interruptionKey(instance, kind string) string { return events.InterruptionName(instance, kind) }

// InterruptionsOf are the messages about an instance, in the order of events.InterruptionKinds.
func (a *aws) InterruptionsOf(instance string) []*events.Interruption {
	var list []*events.Interruption
	for _, kind := range events.InterruptionKinds {
		if i := a.interruptions.get(interruptionKey(instance, kind)); i != nil {
			list = append(list, i)
		}
	}
	return list
}

// Interruptions are all messages, by instance id and kind.
func (a *aws) Interruptions() []*events.Interruption { return a.interruptions.list() }

// InterruptionRevision counts the messages that came in this process; no checkpoint has it.
func (a *aws) InterruptionRevision() uint64 { return a.interrupted }

func (a *aws) dropInterruptions(owner *version.Owner, instance string) {
	for _, kind := range events.InterruptionKinds {
		a.interruptions.remove(owner, interruptionKey(instance, kind), "")
	}
}

// strangerMemory is how long messages about instances are kept that are not among ours: the queue sees a
// whole account, and a poll may not have found a new instance yet.
const strangerMemory = 10 * time.Minute

// dropStrangers forgets, once a minute, the messages about instances that are not ours.
func (a *aws) dropStrangers(owner *version.Owner, before, now time.Time) {
	if a.interruptions.rows.Len() == 0 || before.Truncate(time.Minute).Equal(now.Truncate(time.Minute)) {
		return
	}
	for _, i := range a.interruptions.list() {
		if _, ours := a.instances.rows.Get(i.InstanceID); !ours && now.Sub(i.ReceivedAt) > strangerMemory {
			a.interruptions.remove(owner, interruptionKey(i.InstanceID, i.MessageKind), "")
		}
	}
}

// dropBelow forgets what the last resync did not mention. Interruptions that are messages leave with their
// instance.
func (a *aws) dropBelow(owner *version.Owner, generation uint32) {
	a.catalogs = maps.Clone(a.catalogs)
	maps.DeleteFunc(a.catalogs, func(_ string, c *catalogRow) bool { return c.generation < generation })
	a.prices = a.prices.ownedBy(owner)
	a.prices.dropBelow(generation)
	a.stalePrices()
	for _, key := range a.interruptions.rows.Keys() {
		if r, _ := a.interruptions.rows.Get(key); r.generation < generation && r.value.Standing() {
			a.interruptions.remove(owner, key, "")
			a.interrupted++
		}
	}
	for _, id := range a.instances.rows.Keys() {
		if r, _ := a.instances.rows.Get(id); r.generation < generation {
			a.instances.remove(owner, id, "")
			a.dropInterruptions(owner, id)
		}
	}
}
