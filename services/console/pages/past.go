package pages

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"millwright/services/console/api"
	"millwright/services/console/history"
	"millwright/services/console/view"
)

const (
	// timelineDefault and savingsDefault are how far back the pages go unless asked otherwise.
	timelineDefault, savingsDefault = "24h", "720h"
	// The picture of a timeline, in the units of its view box.
	pictureWidth, curveHeight = 1000, 120
	// spansShown bounds the rows of the table below it.
	spansShown = 60
)

// choice of how far back to go.
type choice struct {
	Since, Label string
	Chosen       bool
}

func choices(chosen string) []choice {
	list := []choice{{"1h", "an hour", false}, {"6h", "6 hours", false}, {"24h", "a day", false}, {"168h", "a week", false}, {"720h", "30 days", false}, {"8760h", "a year", false}}
	for i := range list {
		list[i].Chosen = list[i].Since == chosen
	}
	return list
}

// timelinePage is what happened, as a picture and a table.
type timelinePage struct {
	*history.Timeline
	Choices     []choice
	Since, Pool string
	// Kind, Reason and Object as they were asked for; Kinds to choose from.
	Kind, Reason, Object string
	Kinds                []string
	Pools                []string
	Width                int
	Begin                time.Time
	Nodes, Cost          string
	NodesMax             int
	CostMax              int64
	Lanes                []lane
	Recent               []history.Point
	Span                 string
	CurveHeight          int
	NothingHappens       bool
}

// lane is one kind of what happens, over time.
type lane struct {
	Name, Class string
	Total       int
	Marks       []mark
}

type mark struct {
	X, Width int
	Text     string
	// Link to the records of the span.
	Link string
}

// moment links to the records of a span.
func moment(at time.Time, seconds int64, object string) string {
	q := url.Values{"since": {at.UTC().Format(time.RFC3339)}, "until": {at.UTC().Add(time.Duration(seconds) * time.Second).Format(time.RFC3339)}}
	if object != "" {
		q.Set("object", object)
	}
	return "/decisions?" + q.Encode()
}

func (p *Pages) timeline(ctx context.Context, r *request) (string, any, error) {
	q := r.URL.Query()
	x := timelinePage{Since: q.Get("since"), Pool: q.Get("nodepool"), Kind: q.Get("kind"), Reason: strings.TrimSpace(q.Get("reason")), Object: strings.TrimSpace(q.Get("object")), Kinds: history.Kinds, Width: pictureWidth, CurveHeight: curveHeight}
	if x.Since == "" {
		x.Since = timelineDefault
	}
	x.Choices = choices(x.Since)
	now := p.cfg.Now()
	from, err := api.Since(x.Since, now)
	if err != nil {
		return "", nil, err
	}
	if x.Timeline, err = p.timelineOf(ctx, from, &x); err != nil {
		return "", nil, err
	}
	if cluster, err := p.cfg.View.Now(); err == nil {
		for _, pool := range cluster.Pools {
			if pool.Name != "" {
				x.Pools = append(x.Pools, pool.Name)
			}
		}
	}
	x.draw(from, now)
	return "Timeline", x, nil
}

func (p *Pages) timelineOf(ctx context.Context, from time.Time, x *timelinePage) (*history.Timeline, error) {
	subject, err := api.TimelineSubject(x.Object)
	if err != nil {
		return nil, err
	}
	f := history.Filter{Kind: x.Kind, Reason: x.Reason}
	if x.Pool != "" {
		f.NodePool = &x.Pool
	}
	t, err := p.cfg.View.Timeline(ctx, from, f, subject)
	if errors.Is(err, view.ErrNotFound) { // the form stays, and says so
		return &history.Timeline{Seconds: 60}, nil
	}
	return t, err
}

// draw makes the picture: curves of nodes and cost, and below them a lane for each kind of event.
func (x *timelinePage) draw(from, now time.Time) {
	if x.From.After(from) && !x.From.IsZero() {
		from = x.From
	}
	x.Begin, x.Span = from.UTC(), span(time.Duration(x.Seconds)*time.Second)
	whole := max(now.Sub(from), time.Second)
	at := func(t time.Time) int { return across(t.Sub(from), whole) }
	for i := range x.Points {
		x.NodesMax, x.CostMax = max(x.NodesMax, x.Points[i].Nodes), max(x.CostMax, x.Points[i].MicroUSDPerHour)
	}
	var nodes, cost strings.Builder
	for i := range x.Points {
		n := &x.Points[i]
		step(&nodes, at(n.At), height(int64(n.Nodes), int64(x.NodesMax)))
		step(&cost, at(n.At), height(n.MicroUSDPerHour, x.CostMax))
	}
	if len(x.Points) > 0 {
		fmt.Fprintf(&nodes, "H%d", pictureWidth)
		fmt.Fprintf(&cost, "H%d", pictureWidth)
	}
	x.Nodes, x.Cost, x.NothingHappens = nodes.String(), cost.String(), len(x.Points) == 0
	wide := max(at(from.Add(time.Duration(x.Seconds)*time.Second)), 2)
	for _, l := range lanes {
		if x.Kind != "" && x.Kind != l.kind {
			continue
		}
		out := lane{Name: l.name, Class: l.class}
		for i := range x.Points {
			if n := l.of(&x.Points[i]); n > 0 {
				out.Total += n
				out.Marks = append(out.Marks, mark{at(x.Points[i].At), wide, fmt.Sprintf("%s: %d %s", x.Points[i].At.Format("2006-01-02 15:04"), n, l.name), moment(x.Points[i].At, x.Seconds, x.Object)})
			}
		}
		x.Lanes = append(x.Lanes, out)
	}
	for i := len(x.Points) - 1; i >= 0 && len(x.Recent) < spansShown; i-- {
		if x.Points[i].Happened() {
			x.Recent = append(x.Recent, x.Points[i])
		}
	}
}

// lanes of the picture.
var lanes = []struct {
	kind, name, class string
	of                func(*history.Point) int
}{
	{"decisions", "decisions", "mem", func(p *history.Point) int { return p.Decisions }},
	{"planned", "planned", "cpu", func(p *history.Point) int { return p.Planned }},
	{"launched", "launched", "good", func(p *history.Point) int { return p.Launched }},
	{"failed", "failed to launch", "bad", func(p *history.Point) int { return p.Failed }},
	{"commands", "commands", "cpu", func(p *history.Point) int { return p.Commands }},
	{"drains", "drains", "warn", func(p *history.Point) int { return p.Drains }},
	{"doomed", "taken by force", "bad", func(p *history.Point) int { return p.Doomed }},
	{"ended", "ended", "mem", func(p *history.Point) int { return p.Ended }},
	{"alarms", "alarms", "bad", func(p *history.Point) int { return p.Alarms }},
}

// across is how far right of a picture something is that happened so long after its beginning. It divides
// first: nanoseconds of a year, times the width, are more than an int64 holds.
func across(after, whole time.Duration) int {
	return min(max(int(after/(whole/pictureWidth)), 0), pictureWidth)
}

func height(value, most int64) int {
	if most <= 0 {
		return curveHeight
	}
	return curveHeight - int(max(value, 0)*(curveHeight-6)/most)
}

// step adds a point to a path that keeps each value until the next.
func step(path *strings.Builder, x, y int) {
	if path.Len() == 0 {
		path.WriteString("M" + strconv.Itoa(x) + " " + strconv.Itoa(y))
		return
	}
	path.WriteString("H" + strconv.Itoa(x) + "V" + strconv.Itoa(y))
}

// savingsPage is what commands saved.
type savingsPage struct {
	*history.Savings
	Choices []choice
	Chosen  string
}

// spotTable is whose what spot saved is.
type spotTable struct {
	Title, By string
	Rows      []history.SpotShare
}

// SpotTables are by namespace and, where there is a label of teams, by team.
func (s savingsPage) SpotTables() []spotTable {
	var list []spotTable
	if len(s.Spot.Namespaces) > 0 {
		list = append(list, spotTable{"Namespace", "namespace", s.Spot.Namespaces})
	}
	if len(s.Spot.Teams) > 0 {
		list = append(list, spotTable{"Label " + s.TeamLabel, "team", s.Spot.Teams})
	}
	return list
}

func (p *Pages) savings(_ context.Context, r *request) (string, any, error) {
	x := savingsPage{Chosen: r.URL.Query().Get("since")}
	if x.Chosen == "" {
		x.Chosen = savingsDefault
	}
	x.Choices = choices(x.Chosen)
	since, err := api.Since(x.Chosen, p.cfg.Now())
	if err != nil {
		return "", nil, err
	}
	x.Savings, err = p.cfg.View.Savings(since)
	return "Savings", x, err
}
