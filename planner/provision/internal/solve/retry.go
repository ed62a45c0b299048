package solve

// Retry tries the refused pods again once packing is done, because it may have freed what limits allow;
// planned claims that may be widened are tried too, and all claims as if they might grow without bound.
// Otherwise the next round would have a new result although nothing is new.
func (s *Solver) Retry() {
	var refused []*Item
	for _, it := range s.Items {
		if it.Bin != nil || len(it.Class.Invalid) > 0 || len(it.Excluded) >= excludedMax || s.displaced(it) != nil {
			continue // placed, or refused before it was in the queue
		}
		refused = append(refused, it)
		it.Class.forgetRefusals()
	}
	if len(refused) == 0 {
		return
	}
	if !s.Plain {
		s.Reopen()
	}
	for _, o := range s.Claims() {
		o.GrowFreely()
	}
	s.Place(refused, &Mode{})
}
