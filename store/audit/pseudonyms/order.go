package pseudonyms

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A name is made of words: what stands between slashes, and of these again what follows a word that is a name
// by itself. Each word gets a pseudonym. Words, and all names that are made of them, compare with each other
// and with fixed words as their pseudonyms do, because
//
//   - the pseudonyms of the words between two fixed ones have one length, and rise as the words do;
//   - no word begins with another one and a byte below '0' after it, for such a word is two: of web and
//     web-7d9f the second is web, "-" and 7d9f. So where two names differ first in a word, either these words
//     differ before one of them ends, or one ends where the other goes on with a letter or digit, and what
//     follows a word that ends is lower.
//
// Example. Of the words api, api-6c5d and db, where karpenter.sh/nodepool is fixed:
//
//	6c5d → a0    api → a1    api-6c5d → a1-a0    db → a2
type words struct {
	// pseudonym by word, fixed ones included.
	pseudonym map[string]string
}

// isBoundary reports that a word may end before byte c of a longer one.
func isBoundary(c byte) bool { return c < '0' }

// prefix returns the length of the word of the set that s begins with and that ends before the end of s; 0 if
// there is none.
func prefix[V any](set map[string]V, s string) int {
	for i := 1; i < len(s); i++ {
		if isBoundary(s[i]) {
			if _, ok := set[s[:i]]; ok {
				return i
			}
		}
	}
	return 0
}

// split divides words until none begins with another one. Fixed words stay.
func split(set map[string]bool, fixed map[string]bool) map[string]bool {
	all := maps.Clone(set)
	for w := range fixed {
		if !strings.Contains(w, "/") {
			all[w] = true
		}
	}
	for again := true; again; {
		again = false
		for _, w := range slices.Sorted(maps.Keys(all)) {
			n := prefix(all, w)
			if n == 0 || fixed[w] {
				continue
			}
			delete(all, w)
			if rest := w[n+1:]; rest != "" {
				all[rest] = true
			}
			again = true
		}
	}
	return all
}

// assign makes the pseudonyms of words. Fixed ones keep their place in the order and have none.
func assign(set, fixed map[string]bool) (*words, error) {
	delete(set, "")
	all := split(set, fixed)
	for w := range fixed {
		all[w] = true
	}
	sorted := slices.Sorted(maps.Keys(all))
	x := &words{pseudonym: make(map[string]string, len(sorted))}
	low := ""
	for i := 0; i < len(sorted); {
		if fixed[sorted[i]] {
			low = sorted[i]
			x.pseudonym[low] = low
			i++
			continue
		}
		end := i
		for end < len(sorted) && !fixed[sorted[end]] {
			end++
		}
		high := ""
		if end < len(sorted) {
			high = sorted[end]
		}
		if err := x.fill(sorted[i:end], low, high); err != nil {
			return nil, err
		}
		i = end
	}
	return x, x.check(sorted)
}

// fill gives pseudonyms to the words between two fixed ones; high is "" for the last.
func (x *words) fill(list []string, low, high string) error {
	base, ok := between(low, high)
	if !ok {
		return fmt.Errorf("there is no room for pseudonyms between %q and %q", low, high)
	}
	width := len(rank(len(list)-1, 0))
	for i, w := range list {
		p := base + rank(i, width)
		if !valid.MatchString(w) || len(w) > nameMax {
			p += "=" // what is no name must not become one
		}
		x.pseudonym[w] = p
	}
	return nil
}

// nameMax is the length of names and of values of labels.
const nameMax = 63

var valid = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// between returns the shortest text of letters, or else of letters and digits, that is above low and stays
// below high whatever follows it. One that begins with a letter is never taken for a number.
func between(low, high string) (string, bool) {
	for n := 0; n <= len(low); n++ {
		for _, c := range letters + digits[:10] {
			base := low[:n] + string(c)
			if base > low && (high == "" || base < high && !strings.HasPrefix(high, base)) {
				return base, true
			}
		}
	}
	return "", false
}

// digits, in the order of bytes, letters last.
const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789" + letters
)

// rank writes n with at least some digits.
func rank(n, width int) string {
	var b []byte
	for ; n > 0 || len(b) < max(width, 1); n /= len(digits) {
		b = append(b, digits[n%len(digits)])
	}
	slices.Reverse(b)
	return string(b)
}

// check that pseudonyms rise as words do.
func (x *words) check(sorted []string) error {
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; x.pseudonym[a] >= x.pseudonym[b] {
			return fmt.Errorf("pseudonyms %q and %q are not in the order of their words", x.pseudonym[a], x.pseudonym[b])
		}
	}
	return nil
}

// of returns the pseudonym of a name without slashes. It is false if one of its words has none.
func (x *words) of(name string) (string, bool) {
	if p, ok := x.pseudonym[name]; ok || name == "" {
		return p, true
	}
	n := prefix(x.pseudonym, name)
	if n == 0 {
		return "", false
	}
	rest, ok := x.of(name[n+1:])
	return x.pseudonym[name[:n]] + name[n:n+1] + rest, ok
}
