// Package intern holds texts once that many objects carry: names, labels, instance types. A World of a
// hundred thousand pods keeps each namespace once.
package intern

import (
	"strings"
	"unique"
)

// String returns the shared copy of a text, which does not keep what the text was cut from.
func String(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(strings.Clone(s)).Value()
}

// Map returns a copy of a map whose keys and values are shared; nil for nil.
func Map(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	c := make(map[string]string, len(m))
	for k, v := range m {
		c[String(k)] = String(v)
	}
	return c
}
