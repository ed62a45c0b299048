package wire

import (
	"slices"
	"strings"
)

// Filter is one Filter of a Describe* call: any of the values must match; "*" and "?" are wildcards.
type Filter struct {
	name   string
	values []string
}

// ReadFilters returns the filters of a request.
func ReadFilters(p *Params) []Filter {
	var out []Filter
	for _, n := range p.List("Filter") {
		out = append(out, Filter{n.Str("Name"), n.Strs("Value")})
	}
	return out
}

// Attributes gives the values of a filter's name for one resource; known is false for a name that the call
// does not have.
type Attributes func(name string) (values []string, known bool)

// Matches reports whether a resource passes all filters. Tag filters are the same everywhere.
func Matches(filters []Filter, tags map[string]string, attrs Attributes) (bool, *Error) {
	for _, f := range filters {
		if f.name == "" {
			return false, MissingParameter("Filter.Name")
		}
		values, known := tagValues(f.name, tags)
		if !known {
			values, known = attrs(f.name)
		}
		if !known {
			return false, InvalidValue("The filter '%s' is invalid", f.name)
		}
		if !anyGlob(f.values, values) {
			return false, nil
		}
	}
	return true, nil
}

func tagValues(name string, tags map[string]string) ([]string, bool) {
	if key, ok := strings.CutPrefix(name, "tag:"); ok {
		if value, has := tags[key]; has {
			return []string{value}, true
		}
		return nil, true
	}
	if name == "tag-key" {
		keys := make([]string, 0, len(tags))
		for key := range tags {
			keys = append(keys, key)
		}
		return keys, true
	}
	return nil, false
}

func anyGlob(patterns, values []string) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return Glob(pattern, value) })
	})
}

// Glob matches EC2's wildcards: "*" is any text, "?" one character, a backslash makes the next literal.
func Glob(pattern, text string) bool {
	for len(pattern) > 0 {
		switch pattern[0] {
		case '*':
			pattern = strings.TrimLeft(pattern, "*")
			if pattern == "" {
				return true
			}
			for i := 0; i <= len(text); i++ {
				if Glob(pattern, text[i:]) {
					return true
				}
			}
			return false
		case '?':
			if text == "" {
				return false
			}
		case '\\':
			if len(pattern) > 1 {
				pattern = pattern[1:]
			}
			fallthrough
		default:
			if text == "" || text[0] != pattern[0] {
				return false
			}
		}
		pattern, text = pattern[1:], text[1:]
	}
	return text == ""
}

// CheckFilters finds an invalid filter even when there is no resource to match.
func CheckFilters(filters []Filter, attrs Attributes) *Error {
	for _, f := range filters {
		if _, err := Matches([]Filter{f}, nil, attrs); err != nil {
			return err
		}
	}
	return nil
}
