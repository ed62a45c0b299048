package ec2

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

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
	if known := r.outposts.Load(); !known.misses(both) || known.misses(class("rack", "us-west-2a", "us-west-2b")) {
		t.Errorf("seen are %v", known.seen)
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

// A class that has come to select a subnet which is new has it looked at soon, not when the next poll is due.
func TestANewSubnetIsSoonKnownToBeOnAnOutpost(t *testing.T) {
	r := newRig(t, nil)
	r.setClasses(nodeClass("known", func(nc *karpawsv1.EC2NodeClass) {
		nc.Status.Subnets = []karpawsv1.Subnet{{ID: r.sim.Defaults().Subnets["us-west-2a"], Zone: "us-west-2a"}}
	}))
	r.poll("outposts", "instance_types", "nodeclasses")
	poke := r.task("outposts").poke
	if len(poke) > 0 {
		t.Error("Outposts are looked for, though every subnet is known")
	}
	r.setClasses(nodeClass("new", nil))
	r.poll("nodeclasses")
	if len(poke) != 1 {
		t.Error("Outposts are not looked for, though a subnet is new")
	}
}

// What is printed of a class on an Outpost is what is offered to it there.
func TestLookUpOnAnOutpost(t *testing.T) {
	r := newRig(t, nil)
	server := httptest.NewServer(r.sim)
	defer server.Close()
	for key, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(key, value)
	}
	subnet := r.sim.Defaults().Subnets["us-west-2a"]
	r.control("PUT", "subnets/"+subnet, map[string]any{"availableAddresses": -1,
		"outpost": simclient.Outpost{ARN: "arn:aws:outposts:us-west-2:111122223333:outpost/op-1", InstanceTypes: []string{"m5.large"}}})
	nc := nodeClass("rack", func(nc *karpawsv1.EC2NodeClass) {
		nc.Status.Subnets = nil
		nc.Spec.SubnetSelectorTerms = []karpawsv1.SubnetSelectorTerm{{ID: subnet}}
	})
	look := func() (available, notes []string) {
		t.Helper()
		offer, notes, err := LookUp(t.Context(), "test", nc, Options{VMMemoryOverheadPercent: 0.075}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range offer.Types {
			for _, o := range it.Offerings {
				if o.Available {
					available = append(available, it.Name+" "+o.CapacityType)
				}
			}
		}
		return available, notes
	}
	if available, notes := look(); !slices.Equal(available, []string{"m5.large on-demand"}) {
		t.Errorf("%d offerings are available, %q …: %q", len(available), available[:min(3, len(available))], notes)
	}
}
