package subjects

// filter is a Bloom filter of the hashes in a file: most files have nothing about an object, and need not be
// opened to learn that. With ten bits and four probes for each hash it is wrong once in about a hundred
// times, and then says that a hash may be there. 5 million records have some 600 files.
type filter struct{ words []uint64 }

const (
	filterBits   = 10
	filterProbes = 4
)

func newFilter(n int) filter { return filter{make([]uint64, n*filterBits/64+1)} }

func (f filter) add(hash uint64) {
	for bit := range f.bits(hash) {
		f.words[bit/64] |= 1 << (bit % 64)
	}
}

// mayHave is false only of a hash that was not added.
func (f filter) mayHave(hash uint64) bool {
	for bit := range f.bits(hash) {
		if f.words[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// bits of a hash: a step from one to the next is made of its upper half.
func (f filter) bits(hash uint64) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		mixed := hash * 0x9e3779b97f4a7c15 // names that differ in their end differ little in the upper half of an FNV hash
		at, step, n := mixed, mixed>>32|1, uint64(len(f.words))*64
		for range filterProbes {
			if !yield(at % n) {
				return
			}
			at += step
		}
	}
}
