package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpv1 "millwright/api/karpenter/v1"
	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/internal/ec2"
)

const instancesPage = 1000

// instances are those emitted, by id.
type instances struct {
	sync.Mutex
	emitted map[string]*events.InstanceState
}

// emitAllAgain makes the next poll emit every instance, as for a new epoch.
func (i *instances) emitAllAgain() {
	i.Lock()
	defer i.Unlock()
	for id := range i.emitted {
		i.emitted[id] = nil // known, but to be emitted
	}
}

// pollInstances emits what changed about our instances. One that is terminated, or no longer visible, is
// deleted.
func (p *Poller) pollInstances(ctx context.Context) error {
	found, err := p.describeInstances(ctx)
	if err != nil {
		return err
	}
	p.instances.Lock()
	defer p.instances.Unlock()
	if p.instances.emitted == nil {
		p.instances.emitted = map[string]*events.InstanceState{}
	}
	emitted := p.instances.emitted
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if reflect.DeepEqual(emitted[id], found[id]) {
			continue
		}
		if err := p.emitter.Emit(events.KindInstanceState, events.OpUpsert, id, id, found[id]); err != nil {
			errs = append(errs, fmt.Errorf("emit instance %s: %w", id, err))
			continue
		}
		emitted[id] = found[id]
	}
	for _, id := range slices.Sorted(maps.Keys(emitted)) {
		if found[id] != nil {
			continue
		}
		if err := p.emitter.Emit(events.KindInstanceState, events.OpDelete, id, id, nil); err != nil {
			errs = append(errs, fmt.Errorf("emit deletion of instance %s: %w", id, err))
			continue
		}
		delete(emitted, id)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.emitter.Polled(events.KindInstanceState, p.cfg.Clock())
	return nil
}

// describeInstances returns those that carry the tags of this cluster and are not terminated (ec2 §5).
func (p *Poller) describeInstances(ctx context.Context) (map[string]*events.InstanceState, error) {
	in := &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(instancesPage), Filters: []ec2types.Filter{
		{Name: aws.String("tag-key"), Values: []string{karpawsv1.TagNodePool}},
		{Name: aws.String("tag-key"), Values: []string{karpawsv1.TagNodeClass}},
		{Name: aws.String("tag:" + karpawsv1.TagEKSClusterName), Values: []string{p.cfg.Cluster}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped", "shutting-down"}},
	}}
	found := map[string]*events.InstanceState{}
	var answer ec2.Pages
	for pages := awsec2.NewDescribeInstancesPaginator(p.cfg.EC2, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = answer.Next("ec2:DescribeInstances", page.NextToken)
		}
		if err != nil {
			return nil, fmt.Errorf("describe instances: %w", err)
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				if s := stateOf(&r.Instances[i]); p.isOurs(&r.Instances[i]) && s.State != string(ec2types.InstanceStateNameTerminated) {
					found[s.ID] = s
				}
			}
		}
	}
	return found, nil
}

// isOurs reports that an instance carries the tags that were asked for: not every EC2 narrows its answer
// down.
func (p *Poller) isOurs(i *ec2types.Instance) bool {
	tags := map[string]string{}
	for _, t := range i.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return ec2.HasTags(tags, map[string]string{karpawsv1.TagNodePool: "*", karpawsv1.TagNodeClass: "*", karpawsv1.TagEKSClusterName: p.cfg.Cluster})
}

func stateOf(i *ec2types.Instance) *events.InstanceState {
	s := &events.InstanceState{
		ID: aws.ToString(i.InstanceId), InstanceType: string(i.InstanceType), CapacityType: onDemand,
		LaunchTime: aws.ToTime(i.LaunchTime).UTC(), Tags: map[string]string{},
	}
	if aws.ToString(i.SpotInstanceRequestId) != "" || i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
		s.CapacityType = spot
	}
	if c := i.CapacityReservationSpecification; c != nil && aws.ToString(i.CapacityReservationId) != "" &&
		c.CapacityReservationPreference == ec2types.CapacityReservationPreferenceCapacityReservationsOnly {
		s.CapacityType = karpv1.CapacityTypeReserved
	}
	if i.State != nil {
		s.State = string(i.State.Name)
	}
	if i.Placement != nil {
		s.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	for _, tag := range i.Tags {
		switch key := aws.ToString(tag.Key); key {
		case karpawsv1.TagNodeClaim, karpawsv1.TagNodePool, karpawsv1.TagLaunch:
			s.Tags[key] = aws.ToString(tag.Value)
		}
	}
	return s
}
