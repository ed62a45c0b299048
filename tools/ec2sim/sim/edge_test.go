package sim_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/tools/ec2sim/sim"
)

// Local and Wavelength zones are there for who has opted in to their groups, have few types, and Wavelength
// zones no spot instances.
func TestLocalAndWavelengthZones(t *testing.T) {
	w := newWorld(t, func(c *sim.Config) { c.ZoneGroups = []string{"us-west-2-lax-1", "us-west-2-wl1"} })
	states := map[string]string{}
	for _, all := range []bool{false, true} {
		zones, err := w.ec2.DescribeAvailabilityZones(ctxb(), &ec2.DescribeAvailabilityZonesInput{AllAvailabilityZones: aws.Bool(all)})
		w.must(err)
		if want := 4 + 2 + 2 + map[bool]int{true: 1}[all]; len(zones.AvailabilityZones) != want {
			t.Errorf("%d zones, want %d", len(zones.AvailabilityZones), want)
		}
		for _, z := range zones.AvailabilityZones {
			states[aws.ToString(z.ZoneName)] = aws.ToString(z.ZoneType) + " " + string(z.OptInStatus) + " " + aws.ToString(z.GroupName)
		}
	}
	for name, want := range map[string]string{
		"us-west-2a": "availability-zone opt-in-not-required us-west-2-zg-1", "us-west-2-lax-1b": "local-zone opted-in us-west-2-lax-1",
		"us-west-2-wl1-las-wlz-1": "wavelength-zone opted-in us-west-2-wl1", "us-west-2-den-1a": "local-zone not-opted-in us-west-2-den-1",
	} {
		if states[name] != want {
			t.Errorf("%s is %q, want %q", name, states[name], want)
		}
	}
	offered := map[string][]string{}
	for pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(w.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: ec2types.LocationTypeAvailabilityZone}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctxb())
		w.must(err)
		for _, o := range page.InstanceTypeOfferings {
			offered[aws.ToString(o.Location)] = append(offered[aws.ToString(o.Location)], string(o.InstanceType))
		}
	}
	slices.Sort(offered["us-west-2-wl1-sea-wlz-1"])
	if want := []string{"g4dn.2xlarge", "r5.2xlarge", "t3.medium", "t3.xlarge"}; !slices.Equal(offered["us-west-2-wl1-sea-wlz-1"], want) {
		t.Errorf("a Wavelength zone offers %v, want %v", offered["us-west-2-wl1-sea-wlz-1"], want)
	}
	if n := len(offered["us-west-2-lax-1a"]); n < 5 || n > 20 || len(offered["us-west-2-den-1a"]) > 0 {
		t.Errorf("a local zone offers %d types, one that is not opted in to %v", n, offered["us-west-2-den-1a"])
	}
	for zone, want := range map[string]bool{"us-west-2-lax-1a": true, "us-west-2-wl1-sea-wlz-1": false} {
		history, err := w.ec2.DescribeSpotPriceHistory(ctxb(), &ec2.DescribeSpotPriceHistoryInput{AvailabilityZone: aws.String(zone), InstanceTypes: []ec2types.InstanceType{"t3.xlarge"}})
		w.must(err)
		if (len(history.SpotPriceHistory) > 0) != want {
			t.Errorf("%s has %d spot prices", zone, len(history.SpotPriceHistory))
		}
	}
	subnets, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{filterBy("tag:karpenter.sh/discovery", "millwright")}})
	w.must(err)
	if len(subnets.Subnets) != 4 {
		t.Errorf("%d subnets have the discovery tag, want those of the Availability Zones", len(subnets.Subnets))
	}
}
