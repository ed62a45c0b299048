package instance

import (
	"time"

	"millwright/tools/ec2sim/sim/wire"
)

type xmlStatus struct {
	ID       string           `xml:"instanceId"`
	Zone     string           `xml:"availabilityZone"`
	ZoneID   string           `xml:"availabilityZoneId"`
	State    xmlState         `xml:"instanceState"`
	Instance xmlStatusSummary `xml:"instanceStatus"`
	System   xmlStatusSummary `xml:"systemStatus"`
	Events   []xmlEvent       `xml:"eventsSet>item,omitempty"`
}

type xmlEvent struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore"`
}

type xmlStatusSummary struct {
	Status  string            `xml:"status"`
	Details []xmlStatusDetail `xml:"details>item"`
}

type xmlStatusDetail struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
	Since  string `xml:"impairedSince,omitempty"`
}

// status of the reachability checks: ok, or impaired after a simulated failure.
func (in *Instance) status(at time.Time) string {
	if !in.FailedAt.IsZero() && !at.Before(in.FailedAt) {
		return "impaired"
	}
	if in.State(at) == Pending {
		return "initializing"
	}
	return "ok"
}

func (s *Service) DescribeInstanceStatus(c *wire.Call) (any, error) {
	ids := c.Params.Strs("InstanceId")
	if len(ids) > 0 && c.Params.Has("MaxResults") {
		return nil, wire.Refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	visible, err := s.visibleInstances(ids)
	if err != nil {
		return nil, err
	}
	filters, seen, all := wire.ReadFilters(c.Params), s.Seen(), c.Params.Bool("IncludeAllInstances")
	if err := wire.CheckFilters(filters, (&Instance{}).statusAttributes(s, seen)); err != nil {
		return nil, err
	}
	var found []*Instance
	for _, in := range visible {
		ok, err := wire.Matches(filters, nil, in.statusAttributes(s, seen))
		if err != nil {
			return nil, err
		}
		if ok && (all || in.State(seen) == Running) {
			found = append(found, in)
		}
	}
	part, next, err := wire.Page(c, found, func(in *Instance) string { return in.ID }, wire.PageBounds{Least: 5, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Statuses []xmlStatus `xml:"instanceStatusSet>item"`
		Next     string      `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, in := range part {
		answer.Statuses = append(answer.Statuses, in.xmlStatus(seen))
	}
	return answer, nil
}

func (in *Instance) xmlStatus(at time.Time) xmlStatus {
	state, status := in.State(at), in.status(at)
	detail := xmlStatusDetail{Name: "reachability", Status: map[bool]string{true: "failed", false: "passed"}[status == "impaired"]}
	if status == "impaired" {
		detail.Since = wire.Stamp(in.FailedAt)
	}
	summary := xmlStatusSummary{status, []xmlStatusDetail{detail}}
	out := xmlStatus{ID: in.ID, Zone: in.Zone, ZoneID: in.ZoneID, State: xmlState{stateCodes[state], state}, Instance: summary, System: summary}
	if e := in.Event; e != nil {
		out.Events = []xmlEvent{{e.ID, e.Code, e.Description, wire.Stamp(e.NotBefore)}}
	}
	return out
}

func (in *Instance) statusAttributes(s *Service, at time.Time) wire.Attributes {
	return func(name string) ([]string, bool) {
		switch name {
		case "instance-status.status", "system-status.status":
			return []string{in.status(at)}, true
		case "instance-status.reachability", "system-status.reachability":
			return []string{map[bool]string{true: "failed", false: "passed"}[in.status(at) == "impaired"]}, true
		case "event.code":
			if in.Event != nil {
				return []string{in.Event.Code}, true
			}
			return nil, true
		case "event.description":
			if in.Event != nil {
				return []string{in.Event.Description}, true
			}
			return nil, true
		case "attached-ebs-status.status":
			return nil, true
		}
		return in.attributes(s, at)(name)
	}
}
