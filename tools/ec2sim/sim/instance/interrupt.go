package instance

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Control does something to an instance: "i-…/interrupt", "/fail", "/recover", "/terminate".
func (s *Service) Control(r *http.Request, rest string) (any, error) {
	id, verb, _ := strings.Cut(rest, "/")
	var body simclient.Interruption
	if err := wire.DecodeControl(r, &body); err != nil {
		return nil, err
	}
	s.Lock()
	defer s.Unlock()
	in := s.instances.get(id)
	if in == nil {
		return nil, unknownInstances([]string{id})
	}
	if err := s.actOn(in, verb, body); err != nil {
		return nil, err
	}
	s.keepInstance(in)
	s.Notify()
	return in.view(s.Now()), nil
}

func (s *Service) actOn(in *Instance, verb string, body simclient.Interruption) error {
	switch verb {
	case "interrupt":
		return s.interrupt(in, body)
	case "fail":
		in.FailedAt = s.Now()
	case "recover":
		in.FailedAt = time.Time{}
	case "terminate":
		s.terminate(in, "Server.InternalError")
	default:
		return &wire.Error{Status: http.StatusNotFound, Code: "UnknownControl", Message: "an instance can be interrupted, failed, recovered or terminated"}
	}
	return nil
}

// interrupt announces an event on the queue. A spot interruption also ends the instance after the notice.
func (s *Service) interrupt(in *Instance, body simclient.Interruption) error {
	now, arn := s.Now(), []string{s.instanceARN(in)}
	detail := map[string]any{"instance-id": in.ID}
	switch cmp.Or(body.Kind, "spot") {
	case "spot":
		if in.CapacityType != "spot" {
			return wire.Refuse("InvalidKind", "%s is not a spot instance", in.ID)
		}
		notice := s.Settings.SpotNotice
		if body.In != nil {
			notice = *body.In
		}
		in.terminate(now.Add(time.Duration(notice)), "Server.SpotInstanceTermination", time.Duration(s.Settings.ShuttingDown))
		detail["instance-action"] = "terminate"
		s.deps.Queue.Enqueue(s.deps.Queue.Event("aws.ec2", "EC2 Spot Instance Interruption Warning", arn, detail))
		s.Record(&wire.Call{ID: wire.NewRequestID(), Action: "SpotInterruption"}, account.Entry{Outcome: "terminated", Instances: []string{in.ID}})
	case "rebalance":
		s.deps.Queue.Enqueue(s.deps.Queue.Event("aws.ec2", "EC2 Instance Rebalance Recommendation", arn, detail))
	case "state-change":
		detail["state"] = in.State(now)
		s.deps.Queue.Enqueue(s.deps.Queue.Event("aws.ec2", "EC2 Instance State-change Notification", arn, detail))
	case "health":
		s.deps.Queue.Enqueue(s.deps.Queue.Event("aws.health", "AWS Health Event", []string{in.ID}, map[string]any{
			"service": "EC2", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "eventTypeCategory": "scheduledChange",
			"startTime":        now.Add(24 * time.Hour).UTC().Format(time.RFC1123),
			"affectedEntities": []map[string]string{{"entityValue": in.ID}}}))
	case "scheduled":
		in.Event = &ScheduledEvent{ID: "instance-event-" + wire.RandomHex(8), Code: cmp.Or(body.Code, "instance-retirement"), Description: body.Description, NotBefore: now}
		if body.In != nil {
			in.Event.NotBefore = now.Add(time.Duration(*body.In))
		}
	default:
		return wire.Refuse("InvalidKind", "kind must be scheduled, spot, rebalance, health or state-change")
	}
	return nil
}

func (s *Service) instanceARN(in *Instance) string {
	return fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", in.Zone, s.Cfg.AccountID, in.ID)
}

// announceStates puts state-change notifications on the queue for instances whose state has changed since
// the last check.
func (s *Service) announceStates() {
	now := s.Now()
	for _, in := range s.instances.all() {
		state := in.State(now)
		if state == in.announced {
			continue
		}
		in.announced = state
		s.deps.Queue.Enqueue(s.deps.Queue.Event("aws.ec2", "EC2 Instance State-change Notification", []string{s.instanceARN(in)},
			map[string]any{"instance-id": in.ID, "state": state}))
	}
}
