package solve

import (
	"millwright/planner/provision/internal/place"
)

// keepVirtual leaves virtual pods where they were placed before, if that is still possible now that all real
// pods have their places, and returns the others. Nobody runs there, so nothing is kept that the topology
// does not allow.
func (s *Solver) keepVirtual() (waiting []*Item) {
	for _, it := range s.Items {
		switch {
		case !it.Virtual:
		case len(it.Class.Invalid) > 0:
			it.Reasons = it.Class.Invalid
		default:
			if b := s.PlacedBefore(it); b == nil || !s.keepOne(b, it) {
				waiting = append(waiting, it)
			}
		}
	}
	return waiting
}

func (s *Solver) keepOne(b *place.Bin, it *Item) bool {
	for i, lv := range it.Class.Tries {
		if s.Accept(b, lv, &Mode{}) == place.Accepted {
			s.Put(b, it, &Mode{})
			it.Level = i
			return true
		}
	}
	return false
}
