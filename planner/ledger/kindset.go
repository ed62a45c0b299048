package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// withheld is a KindSet that this program pretends not to know. Only the linker sets it, to build an older
// variant for tests of mixed versions: -ldflags "-X millwright/planner/ledger.withheld=11,40-43".
var withheld string

// KindSet is a set of kinds as text: numbers and ranges, ascending, such as "1-6,10,20-29". Services publish
// theirs in the election, so that nobody writes a kind that another does not know (DESIGN §4 'Evolution').
type KindSet string

// KindsFirst are the kinds of the first version, which did not publish its set.
const KindsFirst KindSet = "1-6,10-11,20-34,40-43,50"

// KnownKinds are those this version folds.
func KnownKinds() KindSet { return NewKindSet(Kinds()) }

// NewKindSet returns the set of some kinds.
func NewKindSet(kinds []Kind) KindSet {
	kinds = slices.Compact(slices.Sorted(slices.Values(kinds)))
	var parts []string
	for i := 0; i < len(kinds); {
		j := i
		for j+1 < len(kinds) && kinds[j+1] == kinds[j]+1 {
			j++
		}
		part := strconv.Itoa(int(kinds[i]))
		if j > i {
			part += "-" + strconv.Itoa(int(kinds[j]))
		}
		parts = append(parts, part)
		i = j + 1
	}
	return KindSet(strings.Join(parts, ","))
}

// Has reports that a kind is in the set. A malformed part contains nothing.
func (s KindSet) Has(k Kind) bool {
	for part := range strings.SplitSeq(string(s), ",") {
		low, high, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseUint(low, 10, 16)
		to := from
		if err == nil && isRange {
			to, err = strconv.ParseUint(high, 10, 16)
		}
		if err == nil && from <= uint64(k) && uint64(k) <= to {
			return true
		}
	}
	return false
}

// Valid returns an error that names the first part that is neither a number nor a range.
func (s KindSet) Valid() error {
	for part := range strings.SplitSeq(string(s), ",") {
		low, _, _ := strings.Cut(part, "-")
		if n, err := strconv.ParseUint(low, 10, 16); err != nil || !KindSet(part).Has(Kind(n)) {
			return fmt.Errorf("set of kinds %q: %q is no number or range", string(s), part)
		}
	}
	return nil
}
