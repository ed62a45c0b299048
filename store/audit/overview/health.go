package overview

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"millwright/planner/ledger"
)

// HealthRow counts how many instances with one property failed.
type HealthRow struct {
	// Of is image, type or zone.
	Of       string `json:"of"`
	Name     string `json:"name"`
	Failed   int    `json:"failed"`
	Launched int    `json:"launched"`
	// Causes are reasons of ClaimDoomed, with the Node's condition if that is why, by how often they were.
	Causes map[string]int `json:"causes"`
}

// healthMax bounds the launches, and the failures, that a Health remembers.
const healthMax = 100_000

// Health remembers what instances ran on, and which failed: the newest 100,000 of both.
type Health struct {
	Launches, Failures []HealthEvent
	// Since is the time of the newest one that was forgotten; zero: none was.
	Since time.Time
}

// HealthEvent is a launch or, with a cause, a failure.
type HealthEvent struct {
	At                       time.Time
	Image, Type, Zone, Cause string
}

// Add takes in a record.
func (h *Health) Add(e ledger.Entry) {
	if e.Mode == ledger.ModeShadow {
		return
	}
	switch p := e.Payload.(type) {
	case *ledger.Launched:
		h.launched(e.Time, p)
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			h.launched(e.Time, &p.Launched[i])
		}
	case *ledger.ClaimDoomed:
		if f := p.Failed; f != nil {
			cause := p.Reason
			if f.Cause != "" {
				cause += " (" + f.Cause + ")"
			}
			h.Failures = h.keep(append(h.Failures, HealthEvent{e.Time, f.ImageID, f.InstanceType, f.Zone, cause}))
		}
	}
}

func (h *Health) launched(at time.Time, p *ledger.Launched) {
	h.Launches = h.keep(append(h.Launches, HealthEvent{At: at, Image: p.ImageID, Type: p.InstanceType, Zone: p.Zone}))
}

func (h *Health) keep(list []HealthEvent) []HealthEvent {
	if len(list) <= healthMax {
		return list
	}
	if h.Since.Before(list[0].At) {
		h.Since = list[0].At
	}
	return list[1:]
}

// Rows are those with failures since a time: by what they are of, those with most failures first, then those
// with the largest share.
func (h *Health) Rows(since time.Time) []HealthRow {
	rows := map[[2]string]*HealthRow{}
	each := func(events []HealthEvent, fn func(*HealthRow, *HealthEvent)) {
		for i := range events {
			x := &events[i]
			if x.At.Before(since) {
				continue
			}
			for _, key := range [][2]string{{"image", x.Image}, {"type", x.Type}, {"zone", x.Zone}} {
				if key[1] == "" {
					continue
				}
				if rows[key] == nil {
					rows[key] = &HealthRow{Of: key[0], Name: key[1], Causes: map[string]int{}}
				}
				fn(rows[key], x)
			}
		}
	}
	each(h.Launches, func(r *HealthRow, _ *HealthEvent) { r.Launched++ })
	each(h.Failures, func(r *HealthRow, x *HealthEvent) { r.Failed++; r.Causes[x.Cause]++ })
	list := []HealthRow{}
	for _, r := range slices.Collect(maps.Values(rows)) {
		if r.Failed > 0 {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b HealthRow) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Launched, b.Launched), cmp.Compare(a.Name, b.Name))
	})
	return list
}
