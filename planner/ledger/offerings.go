package ledger

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"millwright/planner/options"
)

// backoff is the part of the planning options the fold needs.
type backoff struct {
	First time.Duration `json:"offeringBackoff"`
	Max   time.Duration `json:"offeringBackoffMax"`
}

var defaultBackoff = backoff{First: options.Default().OfferingBackoff, Max: options.Default().OfferingBackoffMax}

func backoffOf(recorded []byte) backoff {
	b := defaultBackoff
	if json.Unmarshal(recorded, &b) != nil || b.First <= 0 {
		return defaultBackoff
	}
	b.Max = max(b.Max, b.First)
	return b
}

// after is how long a mark lasts after a number of failures in a row: doubled with each, up to Max.
func (b backoff) after(failures int) time.Duration {
	d := b.First
	for i := 1; i < failures && d < b.Max; i++ {
		d *= 2
	}
	return min(d, b.Max)
}

// markFailed marks what failed. Marks that no longer matter are forgotten first: one more failure would count
// as the first.
func (l *Ledger) markFailed(e Entry, failed []FailedOffering) {
	if len(failed) > 0 {
		for _, key := range l.offeringKeys() {
			if u, _ := l.offerings.Get(key); e.Time.After(u.Until.Add(l.backoff.Max)) {
				l.offerings.Delete(l.owner, key)
			}
		}
	}
	for _, f := range failed {
		if f.ReservationID != "" {
			l.forgetReservations(e.Time)
			l.reservations.Set(l.owner, f.ReservationID, l.reservation(f.ReservationID).full(e.Time))
			continue
		}
		if f.SubnetID != "" {
			l.markSubnet(e, f)
			continue
		}
		key := OfferingKey{f.InstanceType, f.Zone, f.CapacityType, f.PlacementGroup}
		u, _ := l.offerings.Get(key)
		l.offerings.Set(l.owner, key, u.failed(f.Code, e, l.backoff))
	}
}

// failed marks an offering from the record's time on. Failures while it is marked are of requests that were
// already in flight and count once; a failure later than Max after the mark ended counts as the first again.
func (u UnavailableOffering) failed(code string, e Entry, b backoff) UnavailableOffering {
	switch {
	case u.Failures == 0 || e.Time.After(u.Until.Add(b.Max)):
		u = UnavailableOffering{Failures: 1}
	case !e.Time.Before(u.Until):
		u.Failures++
	}
	u.Code, u.Seq = code, e.Seq
	if until := e.Time.UTC().Add(b.after(u.Failures)); until.After(u.Until) {
		u.Until = until
	}
	return u
}

// Unavailable reports that an offering is marked at a time, or that of which it is a part.
func (l *state) Unavailable(key OfferingKey, now time.Time) bool {
	return slices.ContainsFunc(key.Wider(), func(k OfferingKey) bool {
		u, ok := l.offerings.Get(k)
		return ok && now.Before(u.Until)
	})
}

// UnavailableOfferings returns the marks at a time, by type, zone, capacity type and placement group. See
// OfferingKey.Wider.
func (l *state) UnavailableOfferings(now time.Time) []OfferingKey {
	return l.offeringsThat(func(u UnavailableOffering) bool { return now.Before(u.Until) })
}

// UnprovenOfferings returns those whose mark has ended and where nothing was launched since, in the same
// order, until a failure there would count as the first again.
func (l *state) UnprovenOfferings(now time.Time) []OfferingKey {
	return l.offeringsThat(func(u UnavailableOffering) bool {
		return !now.Before(u.Until) && !now.After(u.Until.Add(l.backoff.Max))
	})
}

func (l *state) offeringsThat(are func(UnavailableOffering) bool) (keys []OfferingKey) {
	for _, k := range l.offeringKeys() {
		if u, _ := l.offerings.Get(k); are(u) {
			keys = append(keys, k)
		}
	}
	return keys
}

// UnavailableOffering returns the mark of an offering, even an expired one; nil if there is none.
func (l *state) UnavailableOffering(key OfferingKey) *UnavailableOffering {
	if u, ok := l.offerings.Get(key); ok {
		return &u
	}
	return nil
}

func (l *state) offeringKeys() []OfferingKey {
	keys := make([]OfferingKey, 0, l.offerings.Len())
	for k := range l.offerings.All() {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b OfferingKey) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType),
			cmp.Compare(a.PlacementGroup, b.PlacementGroup))
	})
	return keys
}

// String is "type/zone/capacity-type", and the placement group if there is one.
func (k OfferingKey) String() string {
	return strings.TrimSuffix(k.InstanceType+"/"+k.Zone+"/"+k.CapacityType+"/"+k.PlacementGroup, "/")
}
