package audit

import (
	"millwright/planner/ledger"
	"millwright/planner/ledger/names"
)

// Renamed is a Log whose names are pseudonyms (package pseudonyms).
type Renamed interface {
	// Replaced are the names that it has in the place of computed ones; nil if its names are its own.
	Replaced() names.Replaced
	// Withheld says why the decision of a record is not replayed; "" if it is.
	Withheld(seq uint64) string
}

// renamed is a Renamed, or nothing.
type renamed struct{ log Renamed }

func (r renamed) replaced() names.Replaced {
	if r.log == nil {
		return nil
	}
	return r.log.Replaced()
}

// skipWithheld reports that the decision of an entry is not replayed because of its pseudonyms.
func (p *replayer) skipWithheld(e ledger.Entry) bool {
	if p.renamed.log == nil {
		return false
	}
	why := p.renamed.log.Withheld(e.Seq)
	if why != "" {
		p.decision(e)
		p.skip(e, why)
	}
	return why != ""
}
