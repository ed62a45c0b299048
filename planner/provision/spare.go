package provision

// A round tries many packings, and throws most of them away: what a claim is built of is used again.

// discard gives back what a new claim was built of; nothing may refer to it.
func (s *solver) discard(b *bin) {
	s.spareOpens = append(s.spareOpens, b.open)
	*b = bin{added: b.added[:0], records: b.records[:0]}
	s.spareBins = append(s.spareBins, b)
}

func (s *solver) newBin() *bin { return reuse(&s.spareBins) }

// newOpen returns a claim whose fields are all to be set; of the present ones only the memory of types counts.
func (s *solver) newOpen() *openClaim { return reuse(&s.spareOpens) }

// reuse takes the last of what is spare, or makes one.
func reuse[T any](spare *[]*T) *T {
	n := len(*spare)
	if n == 0 {
		return new(T)
	}
	x := (*spare)[n-1]
	*spare = (*spare)[:n-1]
	return x
}
