package sim

import (
	"slices"
	"time"

	"millwright/tools/ec2sim/simclient"
)

// bucket is the token bucket of a throttled action.
type bucket struct {
	limit  simclient.Limit
	tokens float64
	at     time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.tokens = min(float64(b.limit.Burst), b.tokens+now.Sub(b.at).Seconds()*b.limit.PerSecond)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// judge picks the faults of a call: one that strikes before it is worked on and one that strikes after. A
// throttled call fails before.
func (s *Server) judge(c *call) (before, after *simclient.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.throttled(c.action) {
		return &simclient.Fault{Code: "RequestLimitExceeded"}, nil
	}
	for _, f := range slices.Clone(s.faults) {
		if !s.strikes(f, c) {
			continue
		}
		if f.After && after == nil {
			after = s.use(f)
		} else if !f.After && before == nil {
			before = s.use(f)
		}
	}
	return before, after
}

func (s *Server) throttled(action string) bool {
	for _, name := range []string{action, "*"} {
		if b := s.buckets[name]; b != nil && !b.take(s.now()) {
			return true
		}
	}
	return false
}

func (s *Server) strikes(f *simclient.Fault, c *call) bool {
	if f.Action != "*" && f.Action != c.action || f.Service != "" && f.Service != c.service {
		return false
	}
	return f.Rate <= 0 || f.Rate >= 1 || s.rng.Float64() < f.Rate
}

// use takes one from a counted fault, and removes it when it is used up.
func (s *Server) use(f *simclient.Fault) *simclient.Fault {
	used := *f
	if f.Count == 0 {
		return &used
	}
	f.Count--
	if f.Count == 0 {
		s.faults = slices.DeleteFunc(s.faults, func(other *simclient.Fault) bool { return other == f })
		s.drop("fault", f.ID)
	} else {
		s.keep("fault", f.ID, f)
	}
	return &used
}

func faultError(f *simclient.Fault) *Error {
	e := refuse(f.Code, "%s", orElse(f.Message, "Injected by the simulator's controls."))
	switch f.Code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException":
		e = requestLimit()
		e.Code = f.Code
	case "InternalError", "ServiceUnavailable", "Unavailable":
		e.Status = 500
	case "UnauthorizedOperation", "AccessDenied":
		e.Status = 403
		e.Message = orElse(f.Message, "You are not authorized to perform this operation.")
	}
	if f.Status != 0 {
		e.Status = f.Status
	}
	return e
}

// count notes the outcome of a call.
func (s *Server) count(c *call, outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.action] == nil {
		s.calls[c.action] = map[string]int{}
	}
	s.calls[c.action][outcome]++
}
