package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// offerings are those that failed, marked until a time.
type offerings map[OfferingKey]*UnavailableOffering

// backoff is the part of planner.Options the fold needs.
type backoff struct {
	First time.Duration `json:"offeringBackoff"`
	Max   time.Duration `json:"offeringBackoffMax"`
}

var defaultBackoff = backoff{First: 3 * time.Minute, Max: 30 * time.Minute}

func backoffOf(options []byte) backoff {
	b := defaultBackoff
	if json.Unmarshal(options, &b) != nil || b.First <= 0 {
		return defaultBackoff
	}
	b.Max = max(b.Max, b.First)
	return b
}

// after is the length of a mark after a number of failures in a row: doubled with each up to Max.
func (b backoff) after(failures int) time.Duration {
	d := b.First
	for range failures - 1 {
		if d >= b.Max {
			break
		}
		d *= 2
	}
	return min(d, b.Max)
}

func (l *Ledger) markFailed(e Entry, failed []FailedOffering) {
	for _, f := range failed {
		if f.ReservationID != "" {
			l.reservation(f.ReservationID).full(e.Time)
			continue
		}
		l.s.Offerings.failed(OfferingKey{f.InstanceType, f.Zone, f.CapacityType}, f.Code, e, l.s.Backoff)
	}
}

// failed marks an offering from the record's time on. Failures while it is marked are of requests that were
// under way and count once; a failure later than Max after the mark ended starts a new row.
func (o offerings) failed(key OfferingKey, code string, e Entry, b backoff) {
	u := o[key]
	switch {
	case u == nil || e.Time.After(u.Until.Add(b.Max)):
		u = &UnavailableOffering{Failures: 1}
		o[key] = u
	case !e.Time.Before(u.Until):
		u.Failures++
	}
	u.Code, u.Seq = code, e.Seq
	if until := e.Time.UTC().Add(b.after(u.Failures)); until.After(u.Until) {
		u.Until = until
	}
}

func (o offerings) succeeded(key OfferingKey) { delete(o, key) }

// Unavailable reports that an offering is marked at a time.
func (l *Ledger) Unavailable(key OfferingKey, now time.Time) bool {
	u := l.s.Offerings[key]
	return u != nil && now.Before(u.Until)
}

// UnavailableOfferings returns the offerings marked at a time, by type, zone and capacity type.
func (l *Ledger) UnavailableOfferings(now time.Time) []OfferingKey {
	var keys []OfferingKey
	for _, k := range l.s.Offerings.keys() {
		if l.Unavailable(k, now) {
			keys = append(keys, k)
		}
	}
	return keys
}

// UnavailableOffering returns the mark of an offering, also an old one; nil if there is none.
func (l *Ledger) UnavailableOffering(key OfferingKey) *UnavailableOffering { return l.s.Offerings[key] }

func (o offerings) keys() []OfferingKey {
	return slices.SortedFunc(maps.Keys(o), func(a, b OfferingKey) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
}

// MarshalJSON writes an object keyed "type/zone/capacity-type", sorted by encoding/json.
func (o offerings) MarshalJSON() ([]byte, error) {
	flat := make(map[string]*UnavailableOffering, len(o))
	for k, u := range o {
		flat[k.String()] = u
	}
	return json.Marshal(flat)
}

// UnmarshalJSON reverses MarshalJSON.
func (o *offerings) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	flat := map[string]*UnavailableOffering{}
	if err := json.Unmarshal(b, &flat); err != nil {
		return err
	}
	*o = offerings{}
	for k, u := range flat {
		parts := strings.SplitN(k, "/", 3)
		for len(parts) < 3 {
			parts = append(parts, "")
		}
		(*o)[OfferingKey{parts[0], parts[1], parts[2]}] = u
	}
	return nil
}

// String is "type/zone/capacity-type".
func (k OfferingKey) String() string { return k.InstanceType + "/" + k.Zone + "/" + k.CapacityType }
