package provision

// retry tries the refused pods again once packing is done, for it may have freed what limits allow; planned claims that may be
// widened are asked too, and all claims as if they might grow without bound. Else the next round would say something new although
// nothing is new.
func (s *solver) retry() {
	var refused []*item
	for _, it := range s.items {
		if it.bin != nil || len(it.class.invalid) > 0 || len(it.excluded) >= excludedMax {
			continue // placed, or refused before it was in the queue
		}
		refused = append(refused, it)
		it.class.forgetRefusals()
	}
	if len(refused) == 0 {
		return
	}
	if !s.plain {
		s.reopen()
	}
	for _, b := range s.bins {
		if o := b.open; o != nil && o.growth != nil {
			o.growth = nil
			o.largest = o.largestGrowth()
			o.room = o.largest.Sub(o.used)
		}
	}
	s.place(refused)
}
