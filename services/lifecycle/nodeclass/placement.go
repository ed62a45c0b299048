package nodeclass

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/services/internal/ec2"
)

const placementGroupInterval = time.Minute

var placementStrategies = []string{awsv1.PlacementStrategyCluster, awsv1.PlacementStrategyPartition, awsv1.PlacementStrategySpread}

// placementGroup fills status.placementGroup (ec2 §2.6). An error leaves what the selector resolved to
// before.
func (p *pass) placementGroup(ctx context.Context, _ []Fault) (time.Duration, error) {
	selector := p.nc.Spec.PlacementGroupSelector
	if selector == nil {
		p.nc.Status.PlacementGroup = nil
		p.conditions.True(awsv1.ConditionTypePlacementGroupReady)
		return 0, nil
	}
	found, err := p.caches.placementGroups.get(key(selector), func() (*ec2.PlacementGroup, error) {
		return p.cfg.Cloud.DescribePlacementGroup(ctx, *selector)
	})
	if err != nil {
		if g := p.nc.Status.PlacementGroup; g == nil || g.ID != selector.ID && g.Name != selector.Name {
			p.nc.Status.PlacementGroup = nil
			p.conditions.False(awsv1.ConditionTypePlacementGroupReady, "PlacementGroupResolutionFailed", "Failed to resolve placement group")
		}
		return retrySoon, fmt.Errorf("resolve placement group: %w", err)
	}
	pruned := isPruned(p.nc)
	p.nc.Status.PlacementGroup = nil
	if found == nil {
		p.conditions.False(awsv1.ConditionTypePlacementGroupReady, "PlacementGroupNotFound",
			fmt.Sprintf("Placement group %q not found", cmp.Or(selector.Name, selector.ID)))
		return retrySoon, nil
	}
	if !slices.Contains(placementStrategies, found.Strategy) {
		p.conditions.False(awsv1.ConditionTypePlacementGroupReady, "PlacementGroupResolutionFailed",
			fmt.Sprintf("Placement group %s has the strategy %q, which is not known", found.ID, found.Strategy))
		return retrySoon, nil
	}
	p.nc.Status.PlacementGroup = &awsv1.PlacementGroup{
		ID: found.ID, Name: found.Name, Strategy: found.Strategy, PartitionCount: found.Partitions, Zone: found.Zone,
	}
	if pruned {
		p.conditions.False(awsv1.ConditionTypePlacementGroupReady, "PlacementGroupResolutionFailed", prunedMessage)
		return retrySoon, nil
	}
	p.conditions.True(awsv1.ConditionTypePlacementGroupReady)
	return placementGroupInterval, nil
}

// prunedMessage is of a class whose CustomResourceDefinition, such as Karpenter's, has no
// status.placementGroup: launches could not see the group.
const prunedMessage = "The API server does not keep status.placementGroup: install the CustomResourceDefinitions of Millwright"

// isPruned reports that the group was written for this generation of the class, and that the API server has
// dropped it.
func isPruned(nc *awsv1.EC2NodeClass) bool {
	c := condition.Get(nc.Status.Conditions, awsv1.ConditionTypePlacementGroupReady)
	written := c != nil && c.ObservedGeneration == nc.Generation && (c.Status == metav1.ConditionTrue || c.Message == prunedMessage)
	return written && nc.Spec.PlacementGroupSelector != nil && nc.Status.PlacementGroup == nil
}
