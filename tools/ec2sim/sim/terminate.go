package sim

import (
	"time"
)

type xmlStateChange struct {
	ID       string   `xml:"instanceId"`
	Current  xmlState `xml:"currentState"`
	Previous xmlState `xml:"previousState"`
}

// terminateInstances ends instances at once. It knows them as soon as they exist, unlike Describe*.
func terminateInstances(s *Server, c *call) (any, error) {
	ids := c.params.strs("InstanceId")
	if len(ids) == 0 {
		return nil, missingParameter("InstanceId")
	}
	var missing []string
	for _, id := range ids {
		if !validInstanceID(id) {
			return nil, refuse("InvalidInstanceID.Malformed", `Invalid id: "%s"`, id)
		}
		if s.instances.get(id) == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		err := unknownInstances(missing)
		s.record(c, entry{outcome: "refused", instances: ids, errors: []fleetError{{Code: err.Code, Message: err.Message}}})
		return nil, err
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	answer := struct {
		Changes []xmlStateChange `xml:"instancesSet>item"`
	}{}
	for _, id := range ids {
		answer.Changes = append(answer.Changes, s.terminate(s.instances.get(id), "Client.UserInitiatedShutdown"))
	}
	s.notify()
	s.record(c, entry{outcome: "terminated", instances: ids})
	s.cfg.Log.Info().Strs("instances", ids).Msg("instances terminated")
	return answer, nil
}

func (s *Server) terminate(in *Instance, reason string) xmlStateChange {
	now := s.now()
	previous := in.State(now)
	in.terminate(now, reason, time.Duration(s.settings.ShuttingDown))
	s.keepInstance(in)
	current := in.State(now)
	return xmlStateChange{in.ID, xmlState{stateCodes[current], current}, xmlState{stateCodes[previous], previous}}
}
