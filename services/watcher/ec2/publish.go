package ec2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// catalogs remembers what was emitted, by NodeClass.
type catalogs struct {
	sync.Mutex
	emitted map[string]*emittedCatalog
	// faulty holds the inputs that no catalogue can be computed from, so that each is logged once.
	faulty map[string]string
}

type emittedCatalog struct {
	// inputs are the fingerprint it was computed from; "" to compute it again.
	inputs string
	// hash of its content; "" to emit it again.
	hash string
	// reservations that were to be offered, by id; reservationsAt is when the reserved capacity in it was
	// counted; zero if there is none.
	reservations   []string
	reservationsAt time.Time
	shifts         []events.ZonalShift
}

// emitAllAgain makes every catalogue be computed and emitted again, as for a new epoch.
func (c *catalogs) emitAllAgain() {
	c.recompute()
	c.Lock()
	defer c.Unlock()
	for _, e := range c.emitted {
		e.hash = ""
	}
}

// recompute makes every catalogue be computed again; those with the same result are not emitted again.
func (c *catalogs) recompute() {
	c.Lock()
	defer c.Unlock()
	for _, e := range c.emitted {
		e.inputs = ""
	}
	c.faulty = nil
}

// pollClasses emits the catalogue of each NodeClass whose inputs changed, and deletes those of NodeClasses
// that are gone or have no subnet.
func (p *Poller) pollClasses(ctx context.Context) error {
	o := p.offered.Load()
	if o == nil || p.cfg.Shifts != nil && p.shifted.Load() == nil {
		return errNotYet
	}
	c := &p.catalogs
	c.Lock()
	defer c.Unlock()
	if c.emitted == nil {
		c.emitted = map[string]*emittedCatalog{}
	}
	var errs []error
	present := map[string]bool{}
	count := sync.OnceValue(func() *reserved { return p.countReserved(ctx) }) // one wait for all, should EC2 hang
	for _, nc := range p.cfg.Classes() {
		if len(nc.Status.Subnets) == 0 {
			continue
		}
		present[nc.Name] = true
		errs = append(errs, p.emitCatalog(ctx, nc, o, count))
	}
	maps.DeleteFunc(c.faulty, func(name, _ string) bool { return !present[name] })
	for name := range c.emitted {
		if present[name] {
			continue
		}
		if err := p.emitter.Emit(events.KindCatalog, events.OpDelete, name, name, nil); err != nil {
			errs = append(errs, fmt.Errorf("emit deletion of catalogue %s: %w", name, err))
			continue
		}
		delete(c.emitted, name)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.emitter.Polled(events.KindCatalog, p.cfg.Clock())
	return nil
}

// emitCatalog computes and emits the catalogue of a NodeClass if necessary. A NodeClass for which no
// catalogue can be computed keeps its previous one: only its owner can fix it, and the others go on. count
// asks EC2 what is free of reservations.
func (p *Poller) emitCatalog(ctx context.Context, nc *karpawsv1.EC2NodeClass, o *offered, count func() *reserved) error {
	c := &p.catalogs
	reserved := p.reserved.Load()
	shifts, known := p.shiftsOf(nc), p.outposts.Load()
	inputs, err := fingerprint(nc, reserved, shifts)
	if err != nil {
		return err
	}
	last := c.emitted[nc.Name]
	if c.faulty[nc.Name] == inputs || (last != nil && last.inputs == inputs) {
		return nil
	}
	var reservations []string
	for _, r := range reservationsOf(nc) {
		reservations = append(reservations, r.ID)
	}
	if !reserved.counts(reservations) && (last == nil || !slices.Equal(last.reservations, reservations)) {
		reserved = count()
		if inputs, err = fingerprint(nc, reserved, shifts); err != nil {
			return err
		}
	}
	if known.misses(nc) {
		p.task("outposts").soon()
	}
	catalog, err := newCatalog(nc, o, known, reserved, shifts, p.cfg.Region, p.cfg.Options)
	if err != nil {
		p.cfg.Logger.Warn().Err(err).Str("nodeclass", nc.Name).Msg("catalogue cannot be computed")
		c.setFaulty(nc.Name, inputs)
		return nil
	}
	ref, err := events.StoreCatalog(ctx, p.emitter.Blobs(), catalog)
	if err != nil {
		return err
	}
	ref.ReservationsAt, ref.ZonalShifts = reservationsAt(nc, reserved), shifts
	if last == nil || last.hash != ref.Hash || !last.reservationsAt.Equal(ref.ReservationsAt) || !slices.Equal(last.shifts, shifts) {
		if err := p.emitter.Emit(events.KindCatalog, events.OpUpsert, nc.Name, nc.Name, ref); err != nil {
			return fmt.Errorf("emit catalogue of %s: %w", nc.Name, err)
		}
	}
	if last == nil || last.hash != ref.Hash {
		p.cfg.Logger.Info().Str("nodeclass", nc.Name).Int("instance_types", len(catalog.InstanceTypes)).Str("hash", ref.Hash).Msg("catalogue published")
	}
	c.emitted[nc.Name] = &emittedCatalog{inputs: inputs, hash: ref.Hash, reservations: reservations, reservationsAt: ref.ReservationsAt, shifts: shifts}
	return nil
}

// reservationsAt is when the reserved capacity of a NodeClass was counted; zero if it has none, or that is
// not known yet.
func reservationsAt(nc *karpawsv1.EC2NodeClass, now *reserved) time.Time {
	if now == nil || len(reservationsOf(nc)) == 0 {
		return time.Time{}
	}
	return now.at
}

func (c *catalogs) setFaulty(name, inputs string) {
	if c.faulty == nil {
		c.faulty = map[string]string{}
	}
	c.faulty[name] = inputs
}

// fingerprint is everything of a NodeClass that its catalogue depends on.
func fingerprint(nc *karpawsv1.EC2NodeClass, now *reserved, shifts []events.ZonalShift) (string, error) {
	var zones, subnets []string
	for _, z := range subnetZones(nc) {
		zones = append(zones, z.name+"="+z.id)
	}
	for _, s := range nc.Status.Subnets {
		subnets = append(subnets, s.ID) // some may be on an Outpost
	}
	slices.Sort(subnets)
	data, err := json.Marshal([]any{
		nc.UID, nc.Generation, zones, subnets, familyOf(nc).name, nc.Spec.Kubelet, nc.Spec.BlockDeviceMappings, nc.Spec.InstanceStorePolicy,
		reservationsOf(nc), reservationsAt(nc, now), nc.Status.PlacementGroup, shifts,
	})
	if err != nil {
		return "", fmt.Errorf("read NodeClass %s: %w", nc.Name, err)
	}
	return string(data), nil
}
