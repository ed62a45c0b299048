package instance

import (
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
)

type xmlStateChange struct {
	ID       string   `xml:"instanceId"`
	Current  xmlState `xml:"currentState"`
	Previous xmlState `xml:"previousState"`
}

// TerminateInstances ends instances at once. It knows them as soon as they exist, unlike Describe*.
func (s *Service) TerminateInstances(c *wire.Call) (any, error) {
	ids := c.Params.Strs("InstanceId")
	if len(ids) == 0 {
		return nil, wire.MissingParameter("InstanceId")
	}
	var missing []string
	for _, id := range ids {
		if !validInstanceID(id) {
			return nil, wire.Refuse("InvalidInstanceID.Malformed", `Invalid id: "%s"`, id)
		}
		if s.instances.get(id) == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		err := unknownInstances(missing)
		s.Record(c, account.Entry{Outcome: "refused", Instances: ids, Errors: []string{err.Code}})
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	answer := struct {
		Changes []xmlStateChange `xml:"instancesSet>item"`
	}{}
	for _, id := range ids {
		answer.Changes = append(answer.Changes, s.terminate(s.instances.get(id), "Client.UserInitiatedShutdown"))
	}
	s.Notify()
	s.Record(c, account.Entry{Outcome: "terminated", Instances: ids})
	s.Cfg.Log.Info().Strs("instances", ids).Msg("instances terminated")
	return answer, nil
}

func (s *Service) terminate(in *Instance, reason string) xmlStateChange {
	now := s.Now()
	previous := in.State(now)
	in.terminate(now, reason, time.Duration(s.Settings.ShuttingDown))
	s.keepInstance(in)
	current := in.State(now)
	return xmlStateChange{in.ID, xmlState{stateCodes[current], current}, xmlState{stateCodes[previous], previous}}
}
