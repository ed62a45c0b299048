package sim

import (
	"errors"
	"net/http"
	"time"

	"millwright/tools/ec2sim/sim/faults"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

func (s *Server) serveAWS(w http.ResponseWriter, r *http.Request) {
	c, err := wire.ParseCall(r)
	if err != nil {
		s.answer(w, c, nil, err)
		return
	}
	before, after := s.faults.Judge(c)
	if !s.inflict(w, r, c, before) {
		return
	}
	result, err := s.perform(c)
	if after != nil {
		s.account.MarkUnanswered(c.ID, after)
		if !s.inflict(w, r, c, after) {
			return
		}
	}
	s.answer(w, c, result, err)
}

// inflict carries a fault out; false means that the request has been dealt with.
func (s *Server) inflict(w http.ResponseWriter, r *http.Request, c *wire.Call, f *simclient.Fault) bool {
	if f == nil {
		return true
	}
	if f.Delay > 0 {
		if err := s.account.Cfg.Sleep(r.Context(), time.Duration(f.Delay)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop {
		s.faults.Count(c, "dropped")
		panic(http.ErrAbortHandler)
	}
	if f.Code != "" {
		s.answer(w, c, nil, faults.FaultError(f))
		return false
	}
	return true
}

// perform finds the operation and runs it.
func (s *Server) perform(c *wire.Call) (any, error) {
	if err := s.authorize(c); err != nil {
		return nil, err
	}
	if c.Service == "sqs" && c.Action == "ReceiveMessage" {
		return s.queue.ReceiveMessage(c) // waits, so it takes the lock itself
	}
	op, ok := s.operations[c.Service][c.Action]
	if !ok {
		return nil, wire.Refuse("InvalidAction", "The action %s is not valid for this web service.", c.Action)
	}
	s.account.Lock()
	defer s.account.Unlock()
	return op(c)
}

// answer writes a result or an error in the protocol of the service, and counts the call.
func (s *Server) answer(w http.ResponseWriter, c *wire.Call, result any, err error) {
	w.Header().Set("X-Amzn-Requestid", c.ID)
	var refusal *wire.Error
	if err != nil && !errors.As(err, &refusal) {
		refusal = &wire.Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: err.Error()}
	}
	if refusal != nil {
		s.faults.Count(c, refusal.Code)
		s.account.Cfg.Log.Debug().Str("service", c.Service).Str("action", c.Action).Str("code", refusal.Code).
			Str("message", refusal.Message).Msg("refused call")
		wire.WriteError(w, c, refusal)
		return
	}
	s.faults.Count(c, "ok")
	s.account.Cfg.Log.Debug().Str("service", c.Service).Str("action", c.Action).Msg("answered call")
	if err := wire.WriteResult(w, c, result); err != nil {
		s.account.Cfg.Log.Error().Err(err).Str("action", c.Action).Msg("could not write answer")
	}
}
