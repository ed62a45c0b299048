package wire

import (
	"testing"
)

func TestGlob(t *testing.T) {
	cases := []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"a*c", "abc", true}, {"a*c", "ab", false}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {"", "", true}, {"", "a", false}, {"**b", "aab", true}, {"abc", "abcd", false},
	}
	for _, c := range cases {
		if got := Glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}
