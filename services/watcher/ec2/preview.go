package ec2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/rs/zerolog"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/internal/ec2"
)

// Offer is what EC2 offers to a NodeClass now, as the planners would see it.
type Offer struct {
	Types []OfferedType
}

// OfferedType is one instance type, with the parts of its overhead.
type OfferedType struct {
	events.CatalogInstanceType
	KubeReserved, SystemReserved, EvictionThreshold map[string]int64
	// Unusable says why the class cannot have it at all; "" if it can.
	Unusable string
	// Prices in micro-dollars per hour by offering, in their order; 0: not known.
	Prices []int64
}

// LookUp asks EC2 what it offers to a NodeClass: once, and without a cluster. A class whose status names no
// subnets, or not the placement group, gets what its spec selects. Prices that do not arrive in time are
// replaced by the built-in ones; notes say so.
func LookUp(ctx context.Context, version string, nc *karpawsv1.EC2NodeClass, opts Options, pricesWithin time.Duration) (offer *Offer, notes []string, err error) {
	sdk, err := ec2.LoadConfig(ctx, version)
	if err != nil {
		return nil, nil, err
	}
	client, pricing := Clients(sdk)
	p := &Poller{cfg: Config{EC2: client, Pricing: pricing, Region: sdk.Region, Options: opts, Clock: time.Now, Logger: zerolog.Nop()}}
	if nc, err = resolved(ctx, version, nc); err != nil {
		return nil, nil, err
	}
	o := &offered{zones: map[string]map[string]bool{}}
	if o.types, err = p.describeTypes(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.describeOfferings(ctx, ec2types.LocationTypeAvailabilityZone, "", o.zones); err != nil {
		return nil, nil, err
	}
	onOutposts, err := p.describeOutposts(ctx)
	if err != nil {
		notes = append(notes, "no subnet is taken to be on an Outpost: "+ec2.Text(err))
	}
	known, more := p.pricesNow(ctx, pricesWithin, o)
	offer, err = offerOf(nc, o, onOutposts, known, sdk.Region, opts)
	return offer, append(notes, more...), err
}

// resolved fills in the subnets and the placement group of a class whose status has none.
func resolved(ctx context.Context, version string, nc *karpawsv1.EC2NodeClass) (*karpawsv1.EC2NodeClass, error) {
	grouped := nc.Spec.PlacementGroupSelector != nil && nc.Status.PlacementGroup == nil
	if len(nc.Status.Subnets) > 0 && !grouped {
		return nc, nil
	}
	client, err := ec2.New(ctx, ec2.Config{Cluster: "none", Version: version})
	if err != nil {
		return nil, err
	}
	nc = nc.DeepCopy()
	if len(nc.Status.Subnets) == 0 {
		if err := addSubnets(ctx, client, nc); err != nil {
			return nil, err
		}
	}
	if !grouped {
		return nc, nil
	}
	g, err := client.DescribePlacementGroup(ctx, *nc.Spec.PlacementGroupSelector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("resolve placement group: %w", err)
	case g == nil:
		return nil, errors.New("placementGroupSelector did not match any placement group")
	}
	nc.Status.PlacementGroup = &karpawsv1.PlacementGroup{ID: g.ID, Name: g.Name, Strategy: g.Strategy, PartitionCount: g.Partitions, Zone: g.Zone}
	return nc, nil
}

func addSubnets(ctx context.Context, client *ec2.Client, nc *karpawsv1.EC2NodeClass) error {
	found, err := client.DescribeSubnets(ctx, nc.Spec.SubnetSelectorTerms)
	if err != nil {
		return fmt.Errorf("resolve subnets: %w", err)
	}
	if len(found) == 0 {
		return errors.New("subnetSelectorTerms did not match any subnets")
	}
	for _, s := range found {
		nc.Status.Subnets = append(nc.Status.Subnets, karpawsv1.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID})
	}
	return nil
}

// pricesNow are those of the price API and the spot history, over the built-in ones. Each is waited for up to
// within.
func (p *Poller) pricesNow(ctx context.Context, within time.Duration, o *offered) (known map[priceKey]int64, notes []string) {
	table := &prices{}
	builtIn := pricesFor(p.cfg.Region)
	table.addFound(builtIn.onDemand())
	if p.cfg.Options.IsolatedVPC {
		notes = append(notes, "the price API is not asked in an isolated VPC: on-demand prices are the built-in ones "+builtIn.source())
	} else if found, err := bounded(ctx, within, p.onDemandPrices); err != nil {
		notes = append(notes, fmt.Sprintf("on-demand prices are the built-in ones %s: %s", builtIn.source(), ec2.Text(err)))
	} else {
		if pricedInYuan(p.cfg.Region) {
			table.removeOnDemand()
		}
		table.addFound(found)
	}
	if found, err := bounded(ctx, within, p.spotPrices); err != nil {
		notes = append(notes, "spot is taken to cost what on-demand costs: "+ec2.Text(err))
	} else {
		table.addFound(found)
		table.spotSeen = true
	}
	table.assumeSpot()
	if table.addZonePrices(o) {
		notes = append(notes, "on-demand prices in local and Wavelength zones are the built-in ones, where there are some")
	}
	return table.known, notes
}

func bounded[T any](ctx context.Context, within time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return ask(ctx)
}

// offerOf joins catalogue and prices.
func offerOf(nc *karpawsv1.EC2NodeClass, o *offered, onOutposts *outposts, known map[priceKey]int64, region string, opts Options) (*Offer, error) {
	c, err := newCatalog(nc, o, onOutposts, nil, nil, region, opts)
	if err != nil {
		return nil, err
	}
	s, err := newSizing(nc, opts)
	if err != nil {
		return nil, err
	}
	out := &Offer{}
	for i, t := range c.InstanceTypes {
		kube, system, evict, err := s.overheadParts(&o.types[i], t.Capacity)
		if err != nil {
			return nil, err
		}
		offered := OfferedType{CatalogInstanceType: t, KubeReserved: kube, SystemReserved: system, EvictionThreshold: evict, Unusable: s.unusable(&o.types[i])}
		offered.Offerings = slices.Clone(t.Offerings)
		for n, f := range offered.Offerings {
			price := priceOf(known, t.Name, f)
			offered.Offerings[n].Available = f.Available && price > 0
			offered.Prices = append(offered.Prices, price)
		}
		out.Types = append(out.Types, offered)
	}
	return out, nil
}

// priceOf an offering: that of its zone, else that of all zones.
func priceOf(known map[priceKey]int64, name string, o events.CatalogOffering) int64 {
	if price, ok := known[priceKey{name, o.CapacityType, o.Zone}]; ok {
		return price
	}
	return known[priceKey{name, o.CapacityType, ""}]
}
