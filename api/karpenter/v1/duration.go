package v1

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"time"
)

// Never is the text that switches a NillableDuration off.
const Never = "Never"

// NillableDuration is a duration or "Never". It serialises back exactly as it was written (720h stays
// 720h). The zero value means "not set"; IsNever distinguishes the two.
type NillableDuration struct {
	// Duration is nil for Never and for an unset value.
	*time.Duration
	// Raw is the text as written; empty if not set.
	Raw string
}

// NewDuration returns d as a NillableDuration.
func NewDuration(d time.Duration) NillableDuration {
	return NillableDuration{Duration: &d, Raw: d.String()}
}

// IsNever reports that the text was "Never".
func (d NillableDuration) IsNever() bool { return d.Raw == Never }

// tooLong matches what the CRD lets in; the only ones of those that Go cannot read are longer than it can
// count.
var tooLong = regexp.MustCompile(`^([0-9]+(s|m|h))+$`)

// UnmarshalJSON accepts "Never" or a Go duration. One of more than 292 years counts as 292 years: an error
// would make the whole list unreadable that the object is in.
func (d *NillableDuration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("parse duration: %w", err)
	}
	if s == Never {
		*d = NillableDuration{Raw: s}
		return nil
	}
	p, err := time.ParseDuration(s)
	if err != nil && tooLong.MatchString(s) {
		p, err = math.MaxInt64, nil
	}
	if err != nil {
		return fmt.Errorf("parse duration %q: %w", s, err)
	}
	*d = NillableDuration{Duration: &p, Raw: s}
	return nil
}

// MarshalJSON writes the text as it was read.
func (d NillableDuration) MarshalJSON() ([]byte, error) {
	if d.Raw != "" {
		return json.Marshal(d.Raw)
	}
	if d.Duration == nil {
		return []byte(`"` + Never + `"`), nil
	}
	return json.Marshal(d.Duration.String())
}

// ToUnstructured serves the unstructured converter.
func (d NillableDuration) ToUnstructured() any {
	b, _ := d.MarshalJSON()
	var s string
	_ = json.Unmarshal(b, &s)
	return s
}

// IsZero reports that nothing was set, for omitzero.
func (d NillableDuration) IsZero() bool { return d.Raw == "" && d.Duration == nil }

// DeepCopyInto copies d into out.
func (d *NillableDuration) DeepCopyInto(out *NillableDuration) {
	*out = *d
	if d.Duration != nil {
		v := *d.Duration
		out.Duration = &v
	}
}
