// Package policy judges calls by IAM policy documents, as far as simulated accounts need it: statements that
// allow; wildcards in actions and resources; conditions on strings. What it does not know it refuses to read,
// so that no policy is taken for wider than it is. It knows no service and no resource.
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document is what one caller may do; everything else is refused.
type Document struct {
	statements []statement
}

type statement struct {
	actions, resources []string
	conditions         []condition
}

type condition struct {
	operator, key string
	values        []string
}

// Question is one thing that a call needs: an action on a resource, and what is known of both. Keys of
// Context are compared in lower case, as IAM does, but for the part after the first slash, which is the key
// of a tag.
type Question struct {
	Action, Resource string
	Context          map[string][]string
}

// texts is a string or a list of them.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	var many []string
	err := json.Unmarshal(b, &many)
	*t = many
	return err
}

// Read reads a policy document.
func Read(data []byte) (*Document, error) {
	in := struct {
		Version   string
		Statement []struct {
			Sid, Effect      string
			Action, Resource texts
			Condition        map[string]map[string]texts
		}
	}{}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	if in.Version != "2012-10-17" {
		return nil, fmt.Errorf("read policy: version %q", in.Version)
	}
	out := &Document{}
	for _, s := range in.Statement {
		if s.Effect != "Allow" || len(s.Action) == 0 || len(s.Resource) == 0 {
			return nil, fmt.Errorf("read policy: statement %q does not allow an action on a resource", s.Sid)
		}
		read := statement{actions: s.Action, resources: s.Resource}
		for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
			if operators[operator] == nil {
				return nil, fmt.Errorf("read policy: statement %q: the condition operator %q is not known", s.Sid, operator)
			}
			for _, key := range slices.Sorted(maps.Keys(s.Condition[operator])) {
				read.conditions = append(read.conditions, condition{operator, lowered(key), s.Condition[operator][key]})
			}
		}
		out.statements = append(out.statements, read)
	}
	return out, nil
}

// operators judge the values that a call has for a key (nil for none) by those of a condition.
var operators = map[string]func(have, want []string) bool{
	"StringEquals":              func(have, want []string) bool { return len(have) > 0 && anyOf(have, want, equal) },
	"StringLike":                func(have, want []string) bool { return len(have) > 0 && anyOf(have, want, matches) },
	"StringEqualsIfExists":      func(have, want []string) bool { return len(have) == 0 || anyOf(have, want, equal) },
	"ForAllValues:StringEquals": func(have, want []string) bool { return allOf(have, want) },
}

func equal(pattern, text string) bool { return pattern == text }

func anyOf(have, want []string, match func(pattern, text string) bool) bool {
	return slices.ContainsFunc(have, func(h string) bool {
		return slices.ContainsFunc(want, func(w string) bool { return match(w, h) })
	})
}

func allOf(have, want []string) bool {
	return !slices.ContainsFunc(have, func(h string) bool { return !slices.Contains(want, h) })
}

// Allows reports whether a statement allows what is asked.
func (d *Document) Allows(q Question) bool {
	known := map[string][]string{}
	for key, values := range q.Context {
		known[lowered(key)] = values
	}
	return slices.ContainsFunc(d.statements, func(s statement) bool { return s.allows(q, known) })
}

func (s statement) allows(q Question, known map[string][]string) bool {
	if !slices.ContainsFunc(s.actions, func(a string) bool { return matches(strings.ToLower(a), strings.ToLower(q.Action)) }) ||
		!slices.ContainsFunc(s.resources, func(r string) bool { return matches(r, q.Resource) }) {
		return false
	}
	return !slices.ContainsFunc(s.conditions, func(c condition) bool { return !operators[c.operator](known[c.key], c.values) })
}

// lowered is a condition key in lower case; keys of tags stay as they are.
func lowered(key string) string {
	prefix, tag, found := strings.Cut(key, "/")
	if !found {
		return strings.ToLower(key)
	}
	return strings.ToLower(prefix) + "/" + tag
}

// matches is IAM's pattern: * is any text, ? is any letter.
func matches(pattern, text string) bool {
	for i := range len(pattern) {
		switch {
		case pattern[i] == '*':
			rest := pattern[i+1:]
			for j := range len(text) - i + 1 {
				if matches(rest, text[i+j:]) {
					return true
				}
			}
			return false
		case i >= len(text) || pattern[i] != '?' && pattern[i] != text[i]:
			return false
		}
	}
	return len(pattern) == len(text)
}

// ReadAll reads policies by the access key of their callers.
func ReadAll(documents map[string]json.RawMessage) (map[string]*Document, error) {
	out := map[string]*Document{}
	var errs []error
	for key, data := range documents {
		d, err := Read(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("access key %q: %w", key, err))
		}
		out[key] = d
	}
	return out, errors.Join(errs...)
}

// String names the resource and what is known, in order of the keys.
func (q Question) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s", q.Action, q.Resource)
	for _, key := range slices.Sorted(maps.Keys(q.Context)) {
		fmt.Fprintf(&b, ", %s=%s", key, strings.Join(q.Context[key], "|"))
	}
	return b.String()
}
