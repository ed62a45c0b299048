package ec2

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/tools/ec2sim/sim"
)

// newEdgeRig is a rig in an account that has opted in to a group of local zones and one of Wavelength zones.
func newEdgeRig(t *testing.T) *rig {
	r := newRig(t, nil)
	r.sim = sim.New(sim.Config{ClusterName: "blue", Region: "us-west-2", Settings: sim.DefaultSettings(), ZoneGroups: []string{"us-west-2-lax-1", "us-west-2-wl1"}})
	r.sdk.HTTPClient = &http.Client{Transport: r.sim.Transport()}
	r.cfg.EC2, r.cfg.Pricing = Clients(r.sdk)
	return r
}

// A local or a Wavelength zone is one more zone, for who has a subnet there: it offers its few types, and no
// spot instances where EC2 has no price for them. Others see nothing of it (ec2 §2.1, §2.3).
func TestLocalAndWavelengthZonesOfferWhatTheyHaveToThoseWithASubnetThere(t *testing.T) {
	const local, wavelength = "us-west-2-lax-1a", "us-west-2-wl1-las-wlz-1"
	r := newEdgeRig(t)
	subnets := r.sim.Defaults().Subnets
	class := func(name string, zones ...string) *karpawsv1.EC2NodeClass {
		return nodeClass(name, func(nc *karpawsv1.EC2NodeClass) {
			nc.Status.Subnets = nil
			for _, z := range zones {
				nc.Status.Subnets = append(nc.Status.Subnets, karpawsv1.Subnet{ID: subnets[z], Zone: z, ZoneID: z + "-id"})
			}
		})
	}
	r.setClasses(class("region", "us-west-2a", "us-west-2b"), class("edge", "us-west-2a", local, wavelength), class("local", local))
	r.poll("instance_types", "on_demand_prices", "spot_prices", "outposts", "nodeclasses")
	prices := r.out.prices()
	offered := map[string]map[string][]string{} // types by class, zone and capacity type
	for _, e := range r.out.take(events.KindCatalog) {
		offered[e.Name] = map[string][]string{}
		for _, it := range r.resolved(e.Object.(*events.CatalogRef)).InstanceTypes {
			for _, o := range it.Offerings {
				if at := o.Zone + " " + o.CapacityType; o.Available && (prices[priceKey{it.Name, o.CapacityType, o.Zone}] > 0 || prices[priceKey{it.Name, o.CapacityType, ""}] > 0) {
					offered[e.Name][at] = append(offered[e.Name][at], it.Name)
				}
			}
		}
	}
	for name, want := range map[string][]string{
		"region": {"us-west-2a on-demand", "us-west-2a spot", "us-west-2b on-demand", "us-west-2b spot"},
		"edge":   {local + " on-demand", local + " spot", wavelength + " on-demand", "us-west-2a on-demand", "us-west-2a spot"},
		"local":  {local + " on-demand", local + " spot"},
	} {
		if got := slices.Sorted(maps.Keys(offered[name])); !slices.Equal(got, want) {
			t.Errorf("%s is offered something in %q, want %q", name, got, want)
		}
	}
	if got, want := offered["edge"][wavelength+" on-demand"], []string{"g4dn.2xlarge", "r5.2xlarge", "t3.medium", "t3.xlarge"}; !slices.Equal(got, want) {
		t.Errorf("the Wavelength zone offers %q, want %q", got, want)
	}
	if n, m := len(offered["local"][local+" on-demand"]), len(offered["edge"]["us-west-2a on-demand"]); n < 5 || n > 20 || m < 600 {
		t.Errorf("the local zone offers %d types, an Availability Zone %d", n, m)
	}
}
