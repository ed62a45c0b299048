package rights

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed exceptions.txt
var exceptions string

// Exceptions are the rights that are granted although no test need use them.
func Exceptions() ([]Exception, error) { return ParseExceptions(exceptions) }

// Exception is a right that is granted although no test uses it, or not every run of the tests does.
type Exception struct {
	Right     Right
	Sometimes bool
	Reason    string
}

// ParseExceptions reads lines "never ACCOUNT VERB RESOURCE REASON…" or "sometimes …"; those that begin with
// "#" are comments.
func ParseExceptions(text string) ([]Exception, error) {
	var all []Exception
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if words[0] != "never" && words[0] != "sometimes" {
			return nil, fmt.Errorf("%q: begins neither with never nor with sometimes", strings.TrimSpace(line))
		}
		if len(words) < 5 {
			return nil, fmt.Errorf("%q: gives no reason", strings.TrimSpace(line))
		}
		x := Exception{Right: Parse(words[1], words[2], words[3]), Sometimes: words[0] == "sometimes", Reason: strings.Join(words[4:], " ")}
		if slices.ContainsFunc(all, func(y Exception) bool { return y.Right == x.Right }) {
			return nil, fmt.Errorf("%q: is there twice", x.Right)
		}
		all = append(all, x)
	}
	return all, nil
}

// Check says what is wrong: rights that are granted, not used and no exception; exceptions that are used by
// now, or about what no role grants. An exception for watch is one for list too.
func Check(granted []Right, used Used, exceptions []Exception) (wrong []string) {
	excepted := map[Right]bool{}
	for _, x := range exceptions {
		excepted[x.Right] = true
		switch {
		case !slices.Contains(granted, x.Right):
			wrong = append(wrong, fmt.Sprintf("exception for what no role grants: %s", x.Right))
		case used.has(x.Right) && !x.Sometimes:
			wrong = append(wrong, fmt.Sprintf("exception for what a test uses: %s", x.Right))
		}
	}
	for _, r := range granted {
		watch := r
		watch.Verb = "watch"
		if !used.has(r) && !excepted[r] && (r.Verb != "list" || !excepted[watch]) {
			wrong = append(wrong, fmt.Sprintf("granted, but no test uses it: %s", r))
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}
