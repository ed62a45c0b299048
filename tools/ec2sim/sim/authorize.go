package sim

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"millwright/tools/ec2sim/sim/policy"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Enforce has the account refuse what the policies of callers, IAM documents by access key, do not allow.
// Call it before serving.
func (s *Server) Enforce(documents map[string]json.RawMessage) error {
	read, err := policy.ReadAll(documents)
	s.policies = read
	return err
}

// Callers returns what each access key needed, and how often that was allowed and refused.
func (s *Server) Callers() simclient.Callers {
	s.account.Lock()
	defer s.account.Unlock()
	out := simclient.Callers{}
	for key, actions := range s.callers {
		out[key] = maps.Clone(actions)
	}
	return out
}

// authorize asks the caller's policy for everything that a call needs, before anything else about it is
// looked at, as AWS does. Calls of callers without a policy are noted and allowed.
func (s *Server) authorize(c *wire.Call) error {
	s.account.Lock()
	defer s.account.Unlock()
	var refused *policy.Question
	d := s.policies[c.AccessKey]
	for _, q := range s.needs(c) {
		q.Context["aws:RequestedRegion"] = []string{s.account.Region.Name}
		allowed := d == nil || d.Allows(q)
		s.note(c.AccessKey, q, allowed)
		if !allowed && refused == nil {
			refused = &q
		}
	}
	if refused == nil {
		return nil
	}
	e := wire.Refuse("AccessDeniedException", "User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
		c.AccessKey, refused.Action, refused.Resource, refused.Action)
	switch c.Service {
	case "ec2":
		e.Code, e.Status, e.Message = "UnauthorizedOperation", http.StatusForbidden, "You are not authorized to perform this operation. "+e.Message
	case "iam":
		e.Code, e.Status = "AccessDenied", http.StatusForbidden
	}
	return e
}

// refusalsMax bounds the texts kept per action.
const refusalsMax = 10

func (s *Server) note(key string, q policy.Question, allowed bool) {
	if s.callers[key] == nil {
		s.callers[key] = map[string]simclient.Verdicts{}
	}
	v := s.callers[key][q.Action]
	switch {
	case allowed:
		v.Allowed++
	default:
		v.Refused++
		if text := q.String(); len(v.Refusals) < refusalsMax && !slices.Contains(v.Refusals, text) {
			v.Refusals = append(slices.Clip(v.Refusals), text)
		}
	}
	s.callers[key][q.Action] = v
}
