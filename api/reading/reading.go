// Package reading decodes objects of our kinds so that one object which Go cannot read does not make every
// list unreadable that it is in. The API server lets such objects pass: its patterns know neither how long a
// Go duration may be nor every form a quantity must not have (duration 99999999999h, quantity 1e5.5), nor
// how long one takes to parse (1e-2000000000).
//
// Such an object keeps its metadata and status; its spec is empty, and what is wrong is reported. What cannot
// be read of a status is left out of it, and that is all: whoever keeps the status writes it anew. Text that
// is not JSON at all stays an error.
package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Decode reads data into whole. If that fails, it reads into head, which should have metadata and status
// alone, and returns what is wrong, naming the field: "spec.limits.cpu: quantities must match …". The caller
// then takes head. fresh makes an empty value of whole's type. Quantities that take too long to parse are
// wrong too, and left out of head.
func Decode(data []byte, whole, head any, fresh func() any) (string, error) {
	data, large := withoutLarge(data)
	if large != "" {
		err := json.Unmarshal(data, head)
		if err != nil {
			if cleaned, ok := withoutUnreadableStatus(data, fresh); ok {
				err = json.Unmarshal(cleaned, head)
			}
		}
		return large, err
	}
	err := json.Unmarshal(data, whole)
	if err == nil {
		return "", nil
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return "", err
	}
	if cleaned, ok := withoutUnreadableStatus(data, fresh); ok {
		if data = cleaned; json.Unmarshal(data, whole) == nil {
			return "", nil
		}
	}
	if headErr := json.Unmarshal(data, head); headErr != nil {
		return "", err
	}
	return describe(data, err, fresh), nil
}

// withoutUnreadableStatus is an object without what cannot be read of its status; false if all of that can
// be.
func withoutUnreadableStatus(data []byte, fresh func() any) ([]byte, bool) {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // in a float64 integers would lose digits
	if d.Decode(&object) != nil || object["status"] == nil {
		return nil, false
	}
	readable := func(status any) bool {
		text, err := json.Marshal(map[string]any{"status": status})
		return err == nil && json.Unmarshal(text, fresh()) == nil
	}
	if readable(object["status"]) {
		return nil, false
	}
	if part, ok := readablePart(object["status"], func(v any) any { return v }, readable); ok {
		object["status"] = part
	} else {
		delete(object, "status")
	}
	cleaned, err := json.Marshal(object)
	return cleaned, err == nil
}

// readablePart is as much of v as can be read; false if none of it can be. wrap puts a value in the place of
// v. Each value is tried alone, so that an object of any size takes a time that grows with its size only.
func readablePart(v any, wrap func(any) any, readable func(any) bool) (any, bool) {
	if readable(wrap(v)) {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		part := map[string]any{}
		for key, inner := range v {
			if x, ok := readablePart(inner, func(x any) any { return wrap(map[string]any{key: x}) }, readable); ok {
				part[key] = x
			}
		}
		return part, readable(wrap(part))
	case []any:
		part := make([]any, len(v)) // what cannot be read is null, which reads as the zero value
		for i, inner := range v {
			if x, ok := readablePart(inner, func(x any) any { return wrap([]any{x}) }, readable); ok {
				part[i] = x
			}
		}
		return part, readable(wrap(part))
	}
	return nil, false
}

// describe says what err is about: the one value of the spec that cannot be read, or what has all that
// cannot.
func describe(data []byte, err error, fresh func() any) string {
	var object map[string]any
	if json.Unmarshal(data, &object) != nil {
		return err.Error()
	}
	path, _ := culprit(object["spec"], func(v any) any { return v }, func(spec any) bool {
		text, err := json.Marshal(map[string]any{"spec": spec})
		return err == nil && json.Unmarshal(text, fresh()) == nil
	})
	return fmt.Sprintf("spec%s: %v", path, err)
}

// culprit is the path, below v, of what has all that cannot be read; false if all can be. wrap puts a value
// in the place of v: each is tried alone, as by readablePart.
func culprit(v any, wrap func(any) any, readable func(any) bool) (string, bool) {
	if readable(wrap(v)) {
		return "", false
	}
	below, faults := "", 0
	look := func(step string, inner any, wrap func(any) any) {
		if path, faulty := culprit(inner, wrap, readable); faulty {
			below, faults = step+path, faults+1
		}
	}
	switch v := v.(type) {
	case map[string]any:
		if !readable(wrap(map[string]any{})) {
			return "", true // no object may stand here
		}
		for key, inner := range v {
			look("."+key, inner, func(x any) any { return wrap(map[string]any{key: x}) })
		}
	case []any:
		if !readable(wrap([]any{})) {
			return "", true
		}
		for i, inner := range v {
			look(fmt.Sprintf("[%d]", i), inner, func(x any) any { return wrap([]any{x}) })
		}
	}
	if faults != 1 {
		below = ""
	}
	return below, true
}
