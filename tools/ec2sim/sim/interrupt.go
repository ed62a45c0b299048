package sim

import (
	"net/http"
	"strings"
	"time"

	"millwright/tools/ec2sim/simclient"
)

// controlInstance does something to an instance: "i-…/interrupt", "/fail", "/recover", "/terminate".
func (s *Server) controlInstance(r *http.Request, rest string) (any, error) {
	id, verb, _ := strings.Cut(rest, "/")
	var body simclient.Interruption
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.instances.get(id)
	if in == nil {
		return nil, unknownInstances([]string{id})
	}
	if err := s.actOn(in, verb, body); err != nil {
		return nil, err
	}
	s.keepInstance(in)
	s.notify()
	return in.view(s.now()), nil
}

func (s *Server) actOn(in *Instance, verb string, body simclient.Interruption) error {
	switch verb {
	case "interrupt":
		return s.interrupt(in, body)
	case "fail":
		in.FailedAt = s.now()
	case "recover":
		in.FailedAt = time.Time{}
	case "terminate":
		s.terminate(in, "Server.InternalError")
	default:
		return &Error{http.StatusNotFound, "UnknownControl", "an instance can be interrupted, failed, recovered or terminated"}
	}
	return nil
}

// interrupt announces an event on the queue. A spot interruption also ends the instance after the notice.
func (s *Server) interrupt(in *Instance, body simclient.Interruption) error {
	now, arn := s.now(), []string{s.instanceARN(in)}
	detail := map[string]any{"instance-id": in.ID}
	switch orElse(body.Kind, "spot") {
	case "spot":
		if in.CapacityType != "spot" {
			return refuse("InvalidKind", "%s is not a spot instance", in.ID)
		}
		notice := s.settings.SpotNotice
		if body.In != nil {
			notice = *body.In
		}
		in.terminate(now.Add(time.Duration(notice)), "Server.SpotInstanceTermination", time.Duration(s.settings.ShuttingDown))
		detail["instance-action"] = "terminate"
		s.enqueue(s.event("aws.ec2", "EC2 Spot Instance Interruption Warning", arn, detail))
		s.record(&call{id: newRequestID(), action: "SpotInterruption"}, entry{outcome: "terminated", instances: []string{in.ID}})
	case "rebalance":
		s.enqueue(s.event("aws.ec2", "EC2 Instance Rebalance Recommendation", arn, detail))
	case "state-change":
		detail["state"] = in.State(now)
		s.enqueue(s.event("aws.ec2", "EC2 Instance State-change Notification", arn, detail))
	case "health":
		s.enqueue(s.event("aws.health", "AWS Health Event", []string{in.ID}, map[string]any{
			"service": "EC2", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "eventTypeCategory": "scheduledChange",
			"startTime":        now.Add(24 * time.Hour).UTC().Format(time.RFC1123),
			"affectedEntities": []map[string]string{{"entityValue": in.ID}}}))
	default:
		return refuse("InvalidKind", "kind must be spot, rebalance, health or state-change")
	}
	return nil
}
