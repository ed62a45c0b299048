package world

import (
	"maps"

	"millwright/events"
	"millwright/planner/version"
)

// aws is what was seen of EC2.
type aws struct {
	// catalogs by NodeClass; the map and its rows are never changed, only replaced.
	catalogs  map[string]*catalogRow
	prices    priceTable
	instances table[*Instance]
	// interruptions by instance id and message kind.
	interruptions table[*events.Interruption]
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
	return r
}

func (a *aws) rowOf(name string, c *events.Catalog, generation uint32) *catalogRow {
	return &catalogRow{
		nodeClass: c.NodeClass, classVersion: c.Generation, reservationsAt: c.ReservationsAt.UTC(), offer: a.offerOf(name, c.InstanceTypes), generation: generation,
	}
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
		changed = a.prices.set(e, generation) || changed
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
		ID: s.ID, State: intern(s.State), InstanceType: intern(s.InstanceType), Zone: intern(s.Zone),
		CapacityType: intern(s.CapacityType), LaunchTime: s.LaunchTime, Tags: s.Tags,
	}
}

// foldInterruption keeps the last message of each kind about an instance until the instance is gone.
func (a *aws) foldInterruption(owner *version.Owner, o events.Observation, generation uint32) {
	i, ok := o.Object.(*events.Interruption)
	if o.Op != events.OpUpsert || !ok || i == nil {
		return
	}
	a.interruptions.put(owner, i.InstanceID+"/"+i.MessageKind, i, o, generation)
}

func (a *aws) dropInterruptions(owner *version.Owner, instance string) {
	for _, i := range a.interruptions.list() {
		if i.InstanceID == instance {
			a.interruptions.remove(owner, i.InstanceID+"/"+i.MessageKind, "")
		}
	}
}

// dropBelow forgets what the last resync did not mention. Interruptions are messages, not objects: they
// leave with their instance.
func (a *aws) dropBelow(owner *version.Owner, generation uint32) {
	a.catalogs = maps.Clone(a.catalogs)
	maps.DeleteFunc(a.catalogs, func(_ string, c *catalogRow) bool { return c.generation < generation })
	a.prices = a.prices.ownedBy(owner)
	a.prices.dropBelow(generation)
	a.stalePrices()
	for _, id := range a.instances.rows.Keys() {
		if r, _ := a.instances.rows.Get(id); r.generation < generation {
			a.instances.remove(owner, id, "")
			a.dropInterruptions(owner, id)
		}
	}
}
