package pages

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"millwright/services/console/view"
	"millwright/store/audit"
	"millwright/store/audit/shadow"
)

// functions of the templates.
func functions(now func() time.Time, version string) template.FuncMap {
	return template.FuncMap{
		"static": func(file string) string { return "/static/" + file + "?v=" + version },
		"price":  price, "saving": saving, "cpu": cpu, "memory": memory, "percent": percent, "width": width,
		"age":  func(t time.Time) string { return age(now(), t) },
		"ago":  func(t time.Time) string { return ago(now(), t) },
		"full": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"iso":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"link": linkOf, "object": objectPath, "moment": moment, "tone": tone, "pretty": pretty, "short": func(s string) string { return clip(s, 48) }, "brief": func(s string) string { return clip(s, 90) },
		"count": count, "rate": rate, "dollars": dollars, "person": person, "few": few, "json": asJSON, "evictions": evictionsOf, "newNodes": newNodes,
		"seconds": shadow.Seconds, "usd": usd, "more": func(all, shown int) int { return all - shown },
		"kinds": func() []string { return view.Kinds },
		"class": func(state string) string { return "s-" + strings.ReplaceAll(strings.ToLower(state), " ", "-") },
	}
}

// count of things, in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// asJSON is a value as JSON, for people.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return pretty(raw)
}

// few joins the first of a list and counts the rest.
func few(list []string) string {
	const shown = 4
	if len(list) <= shown {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:shown], ", "), len(list)-shown)
}

func price(micro int64) string {
	if micro == 0 {
		return "price not known"
	}
	return strings.TrimSuffix(audit.Price(micro), "/h") + "/h"
}

// rate is a sum of prices, which may be less than nothing.
func rate(micro int64) string {
	if micro < 0 {
		return "−" + rate(-micro)
	}
	return dollars(micro) + "/h"
}

// usd is a sum in USD, whichever way it goes.
func usd(sum float64) string { return dollars(int64(math.Round(math.Abs(sum) * 1e6))) }

// dollars of micro USD, which may be less than nothing.
func dollars(micro int64) string {
	if micro < 0 {
		return "−" + dollars(-micro)
	}
	return fmt.Sprintf("$%d.%04d", micro/1e6, micro%1e6/100)
}

func saving(micro int64) string {
	switch {
	case micro > 0:
		return "saves " + price(micro)
	case micro < 0:
		return "costs " + price(-micro) + " more"
	}
	return "saves nothing"
}

func cpu(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprintf("%d", milli/1000)
	}
	return fmt.Sprintf("%.1f", float64(milli)/1000)
}

func memory(bytes int64) string {
	switch {
	case bytes >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(bytes)/(1<<40))
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// percent of a whole, 0 if there is none; width is percent, at most 100.
func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return part * 100 / whole
}

func width(part, whole int64) int64 { return min(max(percent(part, whole), 0), 100) }

// age is how long ago a time was, in the unit people would use.
func age(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	}
	return span(d)
}

// ago is age in a sentence.
func ago(now, t time.Time) string {
	s := age(now, t)
	if s == "" || s == "now" || strings.HasPrefix(s, "in ") {
		return s
	}
	return s + " ago"
}

// person is a user name as short as it can be told apart from others: that of a ServiceAccount without what
// all of them begin with.
func person(name string) string {
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		name = strings.Replace(account, ":", "/", 1)
	}
	return clip(name, 48)
}

func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}

// linkOf leads to the page of a subject.
func linkOf(subject string) string {
	kind, name, ok := strings.Cut(subject, "/")
	words := map[string]string{"claim": "nodeclaim", "pool": "nodepool"}
	if w := words[kind]; w != "" {
		kind = w
	}
	if !ok || view.Subject(kind, name) == "" {
		return "/decisions"
	}
	return objectPath(kind, name)
}

// tone of a line of a story, by how it begins.
func tone(line string) string {
	line = strings.TrimSpace(line)
	for prefix, tone := range map[string]string{"chosen": "good", "cheapest": "good", "rejected": "muted", "seen": "faint", "stays": "hold", "node ": "plain", "now: to let it run": "good"} {
		if strings.HasPrefix(line, prefix) {
			return "t-" + tone
		}
	}
	return "t-plain"
}

// pretty indents JSON.
func pretty(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(raw)
	}
	return string(b)
}

func clip(s string, n int) string {
	if letters := []rune(s); len(letters) > n {
		return string(letters[:n]) + "…"
	}
	return s
}
