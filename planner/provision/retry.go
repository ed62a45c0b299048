package provision

// retry tries the refused pods again once packing is done, for it may have freed what limits allow; the reasons of
// those that still have no place are of the plan as it stands. Else the next round would say something new although
// nothing is new.
func (s *solver) retry() {
	var refused []*item
	for _, it := range s.items {
		if it.bin != nil || len(it.class.invalid) > 0 || len(it.excluded) >= excludedMax {
			continue // placed, or refused before it was in the queue
		}
		refused = append(refused, it)
		it.class.refused = nil
		for _, lv := range it.class.levels {
			lv.refusedAt, lv.deferredAt = -1, -1
		}
	}
	s.place(refused)
}
