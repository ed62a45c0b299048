package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// Server is what a running system knows: its World and Ledger. RunOn changes the World.
type Server struct {
	World  *world.World
	Ledger *ledger.Ledger
}

// RunOn plans what a running system would, had its cluster the objects of the files too, in place of those of
// the same name, and if they are given the catalogue for every NodeClass and the prices of the list. An
// *InputError says what is wrong with the input.
func RunOn(c Config, s Server) (*Report, error) {
	exact, err := s.change(c)
	if err != nil {
		return nil, err
	}
	snap, err := c.snapshot(s.World, s.Ledger)
	if err != nil {
		return nil, err
	}
	took := c.stopwatch()
	_, round := provision.Plan(snap)
	r := newReport(round, snap.Options.StaticWave, exact, took())
	r.asOf = s.World.AsOf()
	return r, nil
}

// change shows what is given to the World, in place of or beside what it has seen.
func (s Server) change(c Config) (map[offeringKey]price, error) {
	f := feederOn(s.World, c.Now)
	f.workloads = newWorkloads(c)
	for _, src := range c.Sources {
		if err := src.each(f.document); err != nil {
			return nil, err
		}
	}
	f.addNamespaces()
	exact, err := f.addOffers(c)
	if err == nil {
		f.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
	}
	return exact, err
}

// feederOn shows objects to a World that has seen others: as further messages of its epoch.
func feederOn(w *world.World, now time.Time) *feeder {
	f := &feeder{
		world: w, now: now.UTC(), epoch: w.Epoch(), counter: w.Counter(), sequence: w.Position().Sequence,
		seen: map[seenKey]place{}, namespaces: map[string]bool{}, nodeClasses: map[string]bool{},
	}
	for _, n := range w.Namespaces() {
		f.namespaces[n.Name] = true
	}
	return f
}

// addOffers shows the catalogue and the price list, if there are any, and refuses NodePools of the files
// whose NodeClass has no catalogue.
func (f *feeder) addOffers(c Config) (map[offeringKey]price, error) {
	var exact map[offeringKey]price
	if c.Catalog.given() {
		types, err := readCatalog(c.Catalog)
		if err != nil {
			return nil, err
		}
		for _, name := range f.world.CatalogNames() {
			f.nodeClasses[name] = true
		}
		f.addCatalog(types)
		exact = types.exact
	}
	if c.Prices.given() {
		prices, err := ReadPrices(c.Prices)
		if err != nil {
			return nil, err
		}
		f.send(events.Observation{Op: events.OpUpsert, Kind: events.KindPrices, Object: prices})
	}
	for _, name := range slices.Sorted(maps.Keys(f.nodeClasses)) {
		if !f.world.HasCatalog(name) {
			return nil, fmt.Errorf("plan: the system knows no instance types for EC2NodeClass %s, which a NodePool of the input refers to: give --catalog", name)
		}
	}
	return exact, nil
}

// addCatalog shows a catalogue, with its prices, to every NodeClass.
func (f *feeder) addCatalog(c *catalogFile) {
	for _, name := range slices.Sorted(maps.Keys(f.nodeClasses)) {
		f.send(events.Observation{
			Op: events.OpUpsert, Kind: events.KindCatalog, UID: types.UID(name), Name: name,
			Object: &events.CatalogRef{NodeClass: name, Hash: "offline", Catalog: c.forNodeClass(name)},
		})
	}
	f.send(events.Observation{Op: events.OpUpsert, Kind: events.KindPrices, Object: c.prices})
}
