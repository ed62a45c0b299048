package ec2

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// TestOfferingsInPlacementGroups: each partition is an offering of its own, a cluster is in one zone, and
// types that cannot be in the group are not available (ec2 §2.6).
func TestOfferingsInPlacementGroups(t *testing.T) {
	catalogue := func(g *karpawsv1.PlacementGroup, instanceType string) events.CatalogInstanceType {
		return computed(t, func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.PlacementGroupSelector = &karpawsv1.PlacementGroupSelector{Name: "g"}
			nc.Status.PlacementGroup = g
		}, instanceType).InstanceTypes[0]
	}
	zones := func(it events.CatalogInstanceType) (out []string) {
		for _, o := range it.Offerings {
			if o.Available && o.CapacityType == "on-demand" {
				out = append(out, o.Zone)
			}
		}
		return out
	}
	parts := catalogue(&karpawsv1.PlacementGroup{ID: "pg-1", Strategy: "partition", PartitionCount: 3}, "m5.large")
	if d := cmp.Diff([]string{"1", "2", "3"}, parts.Requirements[karpawsv1.LabelPlacementGroupPartition]); d != "" {
		t.Error(d)
	}
	if !slices.Equal(parts.Requirements[karpawsv1.LabelPlacementGroupID], []string{"pg-1"}) || len(parts.Offerings) != 12 || parts.Offerings[2].Partition != 3 {
		t.Errorf("%d offerings, two zones and two capacity types in three partitions: %+v", len(parts.Offerings), parts.Offerings)
	}
	near := catalogue(&karpawsv1.PlacementGroup{ID: "pg-2", Strategy: "cluster"}, "m5.large")
	if partition, there := near.Requirements[karpawsv1.LabelPlacementGroupPartition]; !there || len(partition) > 0 || !slices.Equal(zones(near), []string{"us-west-2a", "us-west-2b"}) {
		t.Errorf("an empty cluster: partition %v, zones %v", partition, zones(near))
	}
	for sentence, c := range map[string]struct {
		group *karpawsv1.PlacementGroup
		name  string
		want  []string
	}{
		"a cluster with instances":         {&karpawsv1.PlacementGroup{ID: "pg-2", Strategy: "cluster", Zone: "us-west-2b"}, "m5.large", []string{"us-west-2b"}},
		"a burstable type in a cluster":    {&karpawsv1.PlacementGroup{ID: "pg-2", Strategy: "cluster"}, "t3.medium", nil},
		"a burstable type in a spread":     {&karpawsv1.PlacementGroup{ID: "pg-3", Strategy: "spread"}, "t3.medium", []string{"us-west-2a", "us-west-2b"}},
		"a group that is not known so far": {nil, "m5.large", nil},
	} {
		if got := zones(catalogue(c.group, c.name)); !slices.Equal(got, c.want) {
			t.Errorf("%s: available in %v, want %v", sentence, got, c.want)
		}
	}
	if plain := computed(t, nil, "m5.large").InstanceTypes[0]; plain.Offerings[0].PlacementGroup != "" || plain.Requirements[karpawsv1.LabelPlacementGroupID] != nil {
		t.Errorf("a class without a group: %+v", plain)
	}
}
