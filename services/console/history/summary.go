package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary says in sentences what happened since a time. Its spans are those of Timeline, so that it may begin
// up to one of them earlier.
func (h *History) Summary(since, now time.Time) []string {
	t := h.Timeline(since, now, Filter{}, 0, 0)
	var all Sums
	for i := range t.Points {
		all.add(t.Points[i].Sums)
	}
	s := h.Savings(since, now)
	from := since
	if t.From.After(since) {
		from = t.From
	}
	head := "Since " + from.UTC().Format("2006-01-02 15:04 UTC")
	if all == (Sums{}) && s.Total.Commands+s.RolledBack+s.Running == 0 {
		return []string{head + " nothing was decided or done."}
	}
	var out []string
	say := func(n int, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	out = append(out, fmt.Sprintf("%s %s taken.", head, times(all.Decisions, "decision was", "decisions were")))
	say(all.Planned+all.Launched, "%s planned and %s launched.", times(all.Planned, "NodeClaim was", "NodeClaims were"), times(all.Launched, "instance", "instances"))
	say(all.Failed, "%s failed.", times(all.Failed, "launch", "launches"))
	if s.Total.Commands > 0 {
		var reasons []string
		for _, r := range s.Reasons {
			reasons = append(reasons, fmt.Sprintf("%s %d", r.Reason, r.Commands))
		}
		out = append(out, fmt.Sprintf("%s (%s), took %s and moved %s: promised %s, realized so far %s.", times(s.Total.Commands, "command succeeded", "commands succeeded"),
			strings.Join(reasons, ", "), times(s.Total.Nodes, "node", "nodes"), times(s.Total.Evictions, "pod", "pods"), hourly(s.Total.Promised), hourly(s.Total.Realized)))
	}
	if spot := s.Spot.Total; spot.OnDemand > 0 {
		out = append(out, fmt.Sprintf("Spot instances cost %s where on demand would have cost %s: saved %s.", dollars(spot.OnDemand-spot.Saved), dollars(spot.OnDemand), dollars(spot.Saved)))
	}
	out = append(out, forWhom(s)...)
	say(s.RolledBack, "%s given up.", times(s.RolledBack, "command was", "commands were"))
	say(s.Running, "%s.", times(s.Running, "command has not ended", "commands have not ended"))
	say(all.Doomed, "%s taken without regard to budgets%s.", times(all.Doomed, "NodeClaim was", "NodeClaims were"), h.reasons(from))
	say(all.Ended, "%s ended.", times(all.Ended, "instance", "instances"))
	say(all.Alarms, "%s raised.", times(all.Alarms, "alarm was", "alarms were"))
	if all.nodes != 0 || all.price != 0 {
		out = append(out, fmt.Sprintf("In sum: %s, %s.", change(all.nodes, "instance", "instances"), changeOf(all.price)))
	}
	return out
}

// namesMax bounds the names in a sentence.
const namesMax = 5

// forWhom says for whom it was saved, those with most first.
func forWhom(s *Savings) (out []string) {
	team := "label " + s.TeamLabel
	if len(s.Teams) > 0 {
		list := slices.SortedStableFunc(slices.Values(s.Teams), func(a, b TeamSaving) int { return cmp.Compare(b.Promised, a.Promised) })
		out = append(out, "By "+team+", commands promised to save: "+named(len(list), func(i int) string { return list[i].Team + " " + hourly(list[i].Promised) })+".")
	}
	for _, x := range []struct {
		by   string
		list []SpotShare
	}{{"namespace", s.Spot.Namespaces}, {team, s.Spot.Teams}} {
		if len(x.list) > 0 {
			list := slices.SortedStableFunc(slices.Values(x.list), func(a, b SpotShare) int { return cmp.Compare(b.Saved, a.Saved) })
			out = append(out, "By "+x.by+", spot saved: "+named(len(list), func(i int) string { return list[i].Name + " " + dollars(list[i].Saved) })+".")
		}
	}
	return out
}

func named(n int, name func(i int) string) string {
	var list []string
	for i := range min(n, namesMax) {
		list = append(list, name(i))
	}
	if n > namesMax {
		list = append(list, fmt.Sprintf("%d more", n-namesMax))
	}
	return strings.Join(list, ", ")
}

// reasons counts why claims were doomed since a time.
func (h *History) reasons(since time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[string]int{}
	for _, d := range h.doomed {
		if !d.at.Before(since) {
			counts[d.reason]++
		}
	}
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func times(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func change(n int, one, many string) string {
	if n < 0 {
		return times(-n, one+" fewer", many+" fewer")
	}
	return times(n, one+" more", many+" more")
}

func changeOf(micro int64) string {
	if micro < 0 {
		return hourly(-micro) + " less than before"
	}
	return hourly(micro) + " more than before"
}

func hourly(micro int64) string { return dollars(micro) + "/h" }

// dollars is an amount of micro USD in USD.
func dollars(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	return fmt.Sprintf("%s$%d.%04d", sign, micro/1e6, micro%1e6/100)
}
