package provision

// A round tries many packings, and throws most of them away: what a claim is built of is used again.

// discard gives back what a new claim was built of; nothing may refer to it.
func (s *solver) discard(b *bin) {
	s.spareOpens = append(s.spareOpens, b.open)
	*b = bin{added: b.added[:0], records: b.records[:0]}
	s.spareBins = append(s.spareBins, b)
}

func (s *solver) newBin() *bin {
	n := len(s.spareBins)
	if n == 0 {
		return &bin{}
	}
	b := s.spareBins[n-1]
	s.spareBins = s.spareBins[:n-1]
	return b
}

// newOpen returns a claim whose fields are all to be set; of the present ones only the memory of types counts.
func (s *solver) newOpen() *openClaim {
	n := len(s.spareOpens)
	if n == 0 {
		return &openClaim{}
	}
	o := s.spareOpens[n-1]
	s.spareOpens = s.spareOpens[:n-1]
	return o
}
