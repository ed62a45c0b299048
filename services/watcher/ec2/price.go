package ec2

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/events"
)

// priceKey names a price; zone is "" where it holds in all.
type priceKey struct{ instanceType, capacityType, zone string }

const (
	onDemand = string(ec2types.UsageClassTypeOnDemand)
	spot     = string(ec2types.UsageClassTypeSpot)
)

// prices are those known, in micro USD per hour, and those emitted.
type prices struct {
	sync.Mutex
	known   map[priceKey]int64
	emitted map[priceKey]int64
	// spotSeen: the history has answered once. Until then, spot is assumed to cost what on-demand costs.
	spotSeen bool
	// builtIn: the price API has not answered yet, the built-in prices stand in.
	builtIn bool
	// zonesOf is what the prices of local zones were added for; hasZones: there are some.
	zonesOf  *offered
	hasZones bool
}

// emitAllAgain makes the next poll emit every known price, as for a new epoch.
func (p *prices) emitAllAgain() {
	p.Lock()
	defer p.Unlock()
	for key := range p.emitted {
		p.emitted[key] = -1 // not a price: it differs from all
	}
}

// addFound overlays what is known. 0 removes.
func (p *prices) addFound(found map[priceKey]int64) {
	if p.known == nil {
		p.known = map[priceKey]int64{}
	}
	for key, price := range found {
		if price == 0 {
			delete(p.known, key)
			continue
		}
		p.known[key] = price
	}
}

// removeOnDemand removes what is known on demand in the region, and what spot is assumed to cost.
func (p *prices) removeOnDemand() {
	maps.DeleteFunc(p.known, func(key priceKey, _ int64) bool { return key.zone == "" })
}

// assumeSpot sets spot prices to those of on-demand in the region, or removes such prices.
func (p *prices) assumeSpot() {
	for key, price := range p.known {
		if key.capacityType != onDemand || key.zone != "" {
			continue
		}
		assumed := priceKey{key.instanceType, spot, ""}
		if p.spotSeen {
			delete(p.known, assumed)
			continue
		}
		p.known[assumed] = price
	}
}

// entriesMax bounds one message well below events.MaxObjectBytes.
const entriesMax = 4000

// emitPrices emits what differs from what was emitted, as what a poll found. The caller holds the lock.
func (p *Poller) emitPrices() error {
	p.prices.addZonePrices(p.offered.Load())
	if err := p.emitPriceChanges(); err != nil {
		return err
	}
	p.emitter.Polled(events.KindPrices, p.cfg.Clock())
	return nil
}

// emitZonePrices emits those of local zones that are new, if others are known already.
func (p *Poller) emitZonePrices() error {
	p.prices.Lock()
	defer p.prices.Unlock()
	if !p.prices.addZonePrices(p.offered.Load()) || len(p.prices.emitted) == 0 {
		return nil
	}
	return p.emitPriceChanges()
}

// emitPriceChanges: the caller holds the lock.
func (p *Poller) emitPriceChanges() error {
	for part := range slices.Chunk(p.prices.changes(), entriesMax) {
		if err := p.emitter.Emit(events.KindPrices, events.OpUpsert, "", "", &events.Prices{Entries: part}); err != nil {
			return fmt.Errorf("emit %d prices: %w", len(part), err)
		}
		p.prices.rememberPrices(part)
	}
	return nil
}

// changes by type, capacity type, zone.
func (p *prices) changes() []events.Price {
	var out []events.Price
	for key, price := range p.known {
		if p.emitted[key] != price {
			out = append(out, events.Price{InstanceType: key.instanceType, CapacityType: key.capacityType, Zone: key.zone, MicroUSDPerHour: price})
		}
	}
	for key := range p.emitted {
		if _, ok := p.known[key]; !ok {
			out = append(out, events.Price{InstanceType: key.instanceType, CapacityType: key.capacityType, Zone: key.zone})
		}
	}
	slices.SortFunc(out, func(a, b events.Price) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone))
	})
	return out
}

func (p *prices) rememberPrices(entries []events.Price) {
	if p.emitted == nil {
		p.emitted = map[priceKey]int64{}
	}
	for _, e := range entries {
		key := priceKey{e.InstanceType, e.CapacityType, e.Zone}
		if e.MicroUSDPerHour == 0 {
			delete(p.emitted, key)
			continue
		}
		p.emitted[key] = e.MicroUSDPerHour
	}
}

var million = big.NewRat(1_000_000, 1)

// microUSD reads a decimal amount, rounded half up; a price that is not zero is at least 1.
func microUSD(text string) (int64, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok || r.Sign() < 0 || len(text) > 40 {
		return 0, fmt.Errorf("price %q is not an amount", text)
	}
	if r.Sign() == 0 {
		return 0, nil
	}
	r.Mul(r, million).Add(r, big.NewRat(1, 2))
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() {
		return 0, fmt.Errorf("price %q is out of range", text)
	}
	return max(1, n.Int64()), nil
}
