package ec2

import (
	"context"
	"net/http"
	"slices"
	"testing"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/tools/ec2sim/simclient"
)

// TestAnOutpostOffersWhatItHas: where all subnets of a class in a zone are on an Outpost, only its types are
// offered there, on demand. The rules: ec2 §2.1.
func TestAnOutpostOffersWhatItHas(t *testing.T) {
	const rack = "arn:aws:outposts:us-west-2:111122223333:outpost/op-1"
	r := newRig(t, nil)
	subnets := r.sim.Defaults().Subnets
	r.control("PUT", "subnets/"+subnets["us-west-2a"], map[string]any{"availableAddresses": -1, "outpost": simclient.Outpost{ARN: rack, InstanceTypes: []string{"m5.large", "c5.xlarge"}}})
	class := func(name string, zones ...string) *karpawsv1.EC2NodeClass {
		return nodeClass(name, func(nc *karpawsv1.EC2NodeClass) {
			nc.Status.Subnets = nil
			for _, z := range zones {
				nc.Status.Subnets = append(nc.Status.Subnets, karpawsv1.Subnet{ID: subnets[z], Zone: z})
			}
		})
	}
	both := class("both", "us-west-2a")
	both.Status.Subnets = append(both.Status.Subnets, karpawsv1.Subnet{ID: "subnet-public", Zone: "us-west-2a"})
	r.classes = []*karpawsv1.EC2NodeClass{class("rack", "us-west-2a", "us-west-2b"), class("plain", "us-west-2b"), both}
	r.poll("instance_types", "nodeclasses")
	r.out.take(events.KindCatalog)
	r.poll("outposts", "nodeclasses")
	offered := map[string][]string{}
	for _, e := range r.out.take(events.KindCatalog) {
		c := r.resolved(e.Object.(*events.CatalogRef))
		for _, name := range []string{"m5.large", "m5.xlarge", "c5.xlarge"} {
			for _, o := range typeOf(t, c, name).Offerings {
				if o.Available {
					offered[e.Name] = append(offered[e.Name], name+" "+o.Zone+" "+o.CapacityType)
				}
			}
		}
	}
	want := []string{"m5.large us-west-2a on-demand", "m5.large us-west-2b on-demand", "m5.large us-west-2b spot", "m5.xlarge us-west-2b on-demand",
		"m5.xlarge us-west-2b spot", "c5.xlarge us-west-2a on-demand", "c5.xlarge us-west-2b on-demand", "c5.xlarge us-west-2b spot"}
	if !slices.Equal(offered["rack"], want) {
		t.Errorf("offered %q, want %q", offered["rack"], want)
	}
	if len(offered) != 1 {
		t.Errorf("the catalogues of classes with other subnets have changed: %v", offered)
	}
	r.control("POST", "faults", simclient.Fault{Action: "DescribeSubnets", Code: "UnauthorizedOperation", Status: http.StatusForbidden})
	if err := r.task("outposts").poll(context.Background()); err == nil {
		t.Fatal("it is allowed")
	}
	r.poll("nodeclasses")
	if got := r.out.take(events.KindCatalog); len(got) > 0 {
		t.Errorf("an error changed the catalogues: %v", got)
	}
}
