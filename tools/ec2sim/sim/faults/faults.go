// Package faults decides which calls fail, are slow, lose their answer or are throttled, and counts calls by
// outcome.
package faults

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Faults are the deliberate failures: faults of calls and throttled actions. It also counts the calls.
type Faults struct {
	*account.Account
	list    []*simclient.Fault
	limits  []simclient.Limit
	buckets map[string]*bucket // by action, or kind of actions
	calls   simclient.Calls
	rng     *rand.Rand
}

// New returns no faults.
func New(a *account.Account) *Faults {
	return &Faults{Account: a, buckets: map[string]*bucket{}, calls: simclient.Calls{},
		rng: rand.New(rand.NewPCG(uint64(a.Cfg.Seed), 1))}
}

// Judge picks the faults of a call: one that strikes before it is worked on and one that strikes after. A
// throttled call fails before.
func (s *Faults) Judge(c *wire.Call) (before, after *simclient.Fault) {
	s.Lock()
	defer s.Unlock()
	if s.throttled(c) {
		return &simclient.Fault{Code: "RequestLimitExceeded"}, nil
	}
	for _, f := range slices.Clone(s.list) {
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

func (s *Faults) strikes(f *simclient.Fault, c *wire.Call) bool {
	if f.Action != "*" && f.Action != c.Action || f.Service != "" && f.Service != c.Service {
		return false
	}
	return f.Rate <= 0 || f.Rate >= 1 || s.rng.Float64() < f.Rate
}

// use takes one from a counted fault, and removes it when it is used up.
func (s *Faults) use(f *simclient.Fault) *simclient.Fault {
	used := *f
	if f.Count == 0 {
		return &used
	}
	f.Count--
	if f.Count == 0 {
		s.list = slices.DeleteFunc(s.list, func(other *simclient.Fault) bool { return other == f })
		s.Drop("fault", f.ID)
	} else {
		s.Keep("fault", f.ID, f)
	}
	return &used
}

// FaultError is the error that the caller gets when a fault strikes its call.
func FaultError(f *simclient.Fault) *wire.Error {
	e := wire.Refuse(f.Code, "%s", cmp.Or(f.Message, "Injected by the simulator's controls."))
	switch f.Code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException":
		e = wire.RequestLimit()
		e.Code = f.Code
	case "InternalError", "ServiceUnavailable", "Unavailable":
		e.Status = 500
	case "UnauthorizedOperation", "AccessDenied":
		e.Status = 403
		e.Message = cmp.Or(f.Message, "You are not authorized to perform this operation.")
	}
	if f.Status != 0 {
		e.Status = f.Status
	}
	return e
}

// Count notes the outcome of a call.
func (s *Faults) Count(c *wire.Call, outcome string) {
	s.Lock()
	defer s.Unlock()
	if s.calls[c.Action] == nil {
		s.calls[c.Action] = map[string]int{}
	}
	s.calls[c.Action][outcome]++
}

// Calls returns how often each action was called, by outcome.
func (s *Faults) Calls() simclient.Calls {
	s.Lock()
	defer s.Unlock()
	out := simclient.Calls{}
	for action, outcomes := range s.calls {
		out[action] = maps.Clone(outcomes)
	}
	return out
}
