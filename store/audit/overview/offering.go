package overview

import (
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

// OfferingNow reports until when an offering is marked as unavailable, and by which record; nothing if the
// name is none of an offering.
func OfferingNow(l *ledger.Ledger, name string, now time.Time) []string {
	key, ok := audit.Offering(name)
	if !ok {
		return nil
	}
	var lines []string
	for _, k := range key.Wider() {
		u := l.UnavailableOffering(k)
		if u == nil {
			continue
		}
		of := ""
		if k != key {
			of = fmt.Sprintf(" (as part of %s)", k)
		}
		state := "marked as unavailable until " + stamp(u.Until)
		if !now.Before(u.Until) {
			state = "not marked: it was unavailable until " + stamp(u.Until)
		}
		lines = append(lines, fmt.Sprintf("now: %s%s, by record %d (%s), after %d failure(s) in a row", state, of, u.Seq, u.Code, u.Failures))
	}
	if len(lines) == 0 {
		return []string{"now: not marked as unavailable"}
	}
	return lines
}
