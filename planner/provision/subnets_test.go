package provision_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

// TestNothingIsPlannedWhereNoSubnetHasAddresses: a zone is closed to a NodeClass while all of the class's
// subnets there are marked, not while one of them is, and not to other classes.
func TestNothingIsPlannedWhereNoSubnetHasAddresses(t *testing.T) {
	subnets := func(ids ...string) (list []awsv1.Subnet) { // id, zone, ...
		for i := 0; i < len(ids); i += 2 {
			list = append(list, awsv1.Subnet{ID: ids[i], Zone: ids[i+1]})
		}
		return list
	}
	cases := map[string]struct {
		subnets []awsv1.Subnet
		full    []string
		closed  []string
	}{
		"nothing is full":        {subnets("s1", "us-west-2a", "s2", "us-west-2b"), nil, nil},
		"one of two in a zone":   {subnets("s1", "us-west-2a", "s2", "us-west-2a", "s3", "us-west-2b"), []string{"s1"}, nil},
		"both in a zone":         {subnets("s1", "us-west-2a", "s2", "us-west-2a", "s3", "us-west-2b"), []string{"s1", "s2"}, []string{"us-west-2a"}},
		"one of somebody else's": {subnets("s1", "us-west-2a", "s3", "us-west-2b"), []string{"s9"}, nil},
		"subnets are not known":  {nil, []string{"s1"}, nil},
		"all":                    {subnets("s1", "us-west-2a", "s2", "us-west-2b", "s3", "us-west-2c"), []string{"s1", "s2", "s3"}, []string{"us-west-2a", "us-west-2b", "us-west-2c"}},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			nc := pt.NodeClass("default")
			nc.Status.Subnets = tc.subnets
			ref, prices := pt.Catalogue("default", "m5.large 2 8 96000 amd64")
			c := pt.New(nc, ref, prices, pt.Pool("general"), pt.Pod("p", pt.Unschedulable(), pt.Requests("cpu", "1")))
			var failed []ledger.FailedOffering
			for _, id := range tc.full {
				failed = append(failed, ledger.FailedOffering{Zone: "us-west-2a", Code: "InsufficientFreeAddressesInSubnet", SubnetID: id})
			}
			c.Record(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "other", Class: "no-capacity", Unavailable: failed})
			s := c.Snapshot()
			if got := s.ClosedZones("default"); !slices.Equal(got, tc.closed) {
				t.Fatalf("closed zones %v, want %v", got, tc.closed)
			}
			d, _ := provision.Plan(s)
			claims := d.Payload.(*ledger.ProvisioningPlanned).Claims
			if len(tc.closed) == 3 {
				if len(claims) != 0 {
					t.Errorf("planned: %+v", claims)
				}
				return
			}
			if len(claims) != 1 || slices.Contains(tc.closed, claims[0].Cheapest.Zone) {
				t.Fatalf("planned: %+v", claims)
			}
			for _, r := range claims[0].Requirements {
				for _, zone := range tc.closed {
					if r.Key == corev1.LabelTopologyZone && slices.Contains(r.Values, zone) {
						t.Errorf("the claim may go to %s", zone)
					}
				}
			}
		})
	}
}
