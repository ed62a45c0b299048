package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/events"
	"millwright/services/internal/ec2"
)

// failingFor is how long a check of an instance must fail to count (reference: disruption §8).
const failingFor = 120 * time.Second

// eventCodes are the scheduled events that end or interrupt an instance.
var eventCodes = []string{"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"}

// statuses are those emitted, by name.
type statuses struct {
	sync.Mutex
	emitted map[string]*events.Interruption
}

// emitAllAgain has every status emitted by the next poll. What holds no longer then is deleted by it.
func (s *statuses) emitAllAgain() {
	s.Lock()
	defer s.Unlock()
	for name := range s.emitted {
		s.emitted[name] = nil
	}
}

// pollStatus emits which of our instances fail the checks of their status, and for which an event is
// scheduled; and that they do no more. The status of EBS volumes is not looked at: nothing of a node's is
// repaired by replacing it for its volumes' sake.
func (p *Poller) pollStatus(ctx context.Context) error {
	found := map[string]*events.Interruption{}
	for _, ask := range []struct {
		filter string
		values []string
		read   func(*ec2types.InstanceStatus, time.Time) *events.Interruption
	}{
		{"instance-status.status", []string{"impaired"}, instanceFails},
		{"system-status.status", []string{"impaired"}, systemFails},
		{"event.code", eventCodes, nextEvent},
	} {
		in := &awsec2.DescribeInstanceStatusInput{MaxResults: aws.Int32(instancesPage), IncludeAllInstances: aws.Bool(true),
			Filters: []ec2types.Filter{{Name: aws.String(ask.filter), Values: ask.values}}}
		var answer ec2.Pages
		for pages := awsec2.NewDescribeInstanceStatusPaginator(p.cfg.EC2, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err == nil {
				err = answer.Next("ec2:DescribeInstanceStatus", page.NextToken)
			}
			if err != nil {
				return fmt.Errorf("describe instance status by %s: %w", ask.filter, err)
			}
			for i := range page.InstanceStatuses {
				if s := ask.read(&page.InstanceStatuses[i], p.cfg.Clock()); s != nil && p.instances.has(s.InstanceID) {
					found[events.InterruptionName(s.InstanceID, s.MessageKind)] = s
				}
			}
		}
	}
	return p.emitStatuses(found)
}

// has reports that an instance is one of ours.
func (i *instances) has(id string) bool {
	i.Lock()
	defer i.Unlock()
	_, ok := i.emitted[id]
	return ok
}

func (p *Poller) emitStatuses(found map[string]*events.Interruption) error {
	p.statuses.Lock()
	defer p.statuses.Unlock()
	if p.statuses.emitted == nil {
		p.statuses.emitted = map[string]*events.Interruption{}
	}
	emitted := p.statuses.emitted
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(found)) {
		was, known := emitted[name]
		if !known {
			p.metrics.unhealthy.WithLabelValues(categories[found[name].MessageKind]).Inc()
		}
		if was != nil && was.NotBefore.Equal(found[name].NotBefore) {
			continue
		}
		if err := p.emitter.Emit(events.KindInterruption, events.OpUpsert, name, name, found[name]); err != nil {
			errs = append(errs, fmt.Errorf("emit status %s: %w", name, err))
			continue
		}
		emitted[name] = found[name]
	}
	for _, name := range slices.Sorted(maps.Keys(emitted)) {
		if found[name] != nil {
			continue
		}
		if err := p.emitter.Emit(events.KindInterruption, events.OpDelete, name, name, nil); err != nil {
			errs = append(errs, fmt.Errorf("emit end of status %s: %w", name, err))
			continue
		}
		delete(emitted, name)
	}
	return errors.Join(errs...)
}

// categories are the label values of karpenter_interruption_instance_status_unhealthy_total.
var categories = map[string]string{
	events.InstanceStatus: "InstanceStatus", events.SystemStatus: "SystemStatus", events.EventStatus: "EventStatus",
}

func instanceFails(s *ec2types.InstanceStatus, now time.Time) *events.Interruption {
	return fails(s, s.InstanceStatus, events.InstanceStatus, now)
}

func systemFails(s *ec2types.InstanceStatus, now time.Time) *events.Interruption {
	return fails(s, s.SystemStatus, events.SystemStatus, now)
}

// fails: a check has failed for long enough. Such an instance serves nobody, so its deadline is now.
func fails(s *ec2types.InstanceStatus, summary *ec2types.InstanceStatusSummary, kind string, now time.Time) *events.Interruption {
	if summary == nil {
		return nil
	}
	for _, d := range summary.Details {
		since := aws.ToTime(d.ImpairedSince)
		if d.Status == ec2types.StatusTypeFailed && !since.IsZero() && now.Sub(since) >= failingFor {
			return &events.Interruption{MessageKind: kind, InstanceID: aws.ToString(s.InstanceId), At: since.UTC(), ReceivedAt: now.UTC(), Deadline: now.UTC(),
				Detail: string(d.Name)}
		}
	}
	return nil
}

// nextEvent is the first event that is scheduled and neither completed nor cancelled.
func nextEvent(s *ec2types.InstanceStatus, now time.Time) *events.Interruption {
	var next *events.Interruption
	for _, e := range s.Events {
		text := strings.ToLower(aws.ToString(e.Description))
		if !slices.Contains(eventCodes, string(e.Code)) || strings.HasPrefix(text, "[completed]") || strings.HasPrefix(text, "[canceled]") {
			continue
		}
		i := &events.Interruption{MessageKind: events.EventStatus, InstanceID: aws.ToString(s.InstanceId), At: now.UTC(), ReceivedAt: now.UTC(),
			NotBefore: aws.ToTime(e.NotBefore).UTC(), MessageID: aws.ToString(e.InstanceEventId), Detail: string(e.Code)}
		if i.NotBefore.After(now) {
			i.Deadline = i.NotBefore
		}
		if next == nil || i.NotBefore.Before(next.NotBefore) {
			next = i
		}
	}
	return next
}
