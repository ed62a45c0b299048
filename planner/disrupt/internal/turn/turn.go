// Package turn divides what a search may ask about among its passes.
package turn

import "slices"

// Of are so many of the names, which are sorted, from the first one after that at which the last pass
// stopped; nil for all of them. next is the last of them, "" if there was no need to stop.
//
// Of a to e, two each time: a b, next is b; c d, next is d; e a, next is a.
func Of(names []string, after string, most int) (in map[string]bool, next string) {
	if len(names) <= most {
		return nil, ""
	}
	at, found := slices.BinarySearch(names, after)
	if found {
		at++
	}
	in = map[string]bool{}
	for i := range most {
		next = names[(at+i)%len(names)]
		in[next] = true
	}
	return in, next
}
