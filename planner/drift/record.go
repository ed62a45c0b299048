package drift

import (
	"encoding/json"
	"fmt"
	"slices"

	"millwright/planner/ledger"
)

// Explanation of a DriftJudged record: what differs, by claim.
type Explanation struct {
	Drifted []Difference `json:"drifted,omitempty"`
}

// Difference between a claim and what would be made now.
type Difference struct {
	Claim  string `json:"claim"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// Record judges the claims of an input and returns what states the verdicts that are known.
func Record(in Input) (*ledger.DriftJudged, Explanation, error) {
	facts, err := json.Marshal(in)
	if err != nil {
		return nil, Explanation{}, fmt.Errorf("encode facts of drift: %w", err)
	}
	judged, why := &ledger.DriftJudged{Facts: facts}, Explanation{}
	for i, v := range Judge(in) {
		if !v.Known {
			continue
		}
		judged.Claims = append(judged.Claims, ledger.JudgedClaim{Claim: v.Claim, UID: in.Claims[i].UID, Reason: v.Reason})
		if v.Reason != "" {
			why.Drifted = append(why.Drifted, Difference{v.Claim, v.Reason, v.Detail})
		}
	}
	return judged, why, nil
}

// Replay judges again from a record's own facts, and returns the explanation of that or reports a difference.
func Replay(p *ledger.DriftJudged) (Explanation, error) {
	var in Input
	if err := json.Unmarshal(p.Facts, &in); err != nil {
		return Explanation{}, fmt.Errorf("decode facts of drift: %w", err)
	}
	again, why, err := Record(in)
	switch {
	case err != nil:
		return Explanation{}, err
	case !slices.Equal(again.Claims, p.Claims):
		return Explanation{}, fmt.Errorf("recorded %v, judged %v now", p.Claims, again.Claims)
	}
	return why, nil
}
