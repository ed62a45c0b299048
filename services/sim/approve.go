package sim

import (
	"context"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

// answerEvery is how often people look at what waits for their approval, rejectFor how long what they
// reject is not asked again.
const (
	answerEvery = 7 * time.Second
	rejectFor   = time.Minute
)

// answerProposals has people approve most of what waits for them, for as long as the run goes on.
func (s *Sim) answerProposals() bool {
	for _, x := range s.Reference.Proposals() {
		if x.State == ledger.ProposalOpen && !s.isAway(toLog) && s.Happens(700) {
			s.answer(x)
		}
	}
	return s.Failed == nil
}

func (s *Sim) answer(x *ledger.Proposal) {
	a := ledger.ProposalAnswered{ID: x.ID, Approved: s.Happens(750), By: "operator", Why: "simulated"}
	if !a.Approved {
		a.For, a.Until = rejectFor, s.Clock.Now().Add(rejectFor).UTC()
	}
	s.Trace("user: answers proposal %s: %t", a.ID, a.Approved)
	ctx := context.Background()
	seen, err := s.Log.Aggregate(ctx, ledger.CommandAggregate(a.ID))
	if err == nil {
		draft, draftErr := audit.AnswerDraft(&a, nil, seen)
		draft.Time = s.Clock.Now()
		if err = draftErr; err == nil {
			rec, appendErr := s.Log.Append(ctx, draft)
			if err = appendErr; err == nil {
				s.stored(nil, rec)
			}
		}
	}
	if err != nil {
		s.Violate("people can answer", "%v", err)
	}
}
