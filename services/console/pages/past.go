package pages

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millwright/services/console/api"
	"millwright/services/console/history"
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
	Choices        []choice
	Since, Pool    string
	Pools          []string
	Width          int
	Begin          time.Time
	Nodes, Cost    string
	NodesMax       int
	CostMax        int64
	Lanes          []lane
	Recent         []history.Point
	Span           string
	CurveHeight    int
	NothingHappens bool
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
}

func (p *Pages) timeline(_ context.Context, r *request) (string, any, error) {
	q := r.URL.Query()
	x := timelinePage{Since: q.Get("since"), Pool: q.Get("nodepool"), Width: pictureWidth, CurveHeight: curveHeight}
	if x.Since == "" {
		x.Since = timelineDefault
	}
	x.Choices = choices(x.Since)
	now := p.cfg.Now()
	from, err := api.Since(x.Since, now)
	if err != nil {
		return "", nil, err
	}
	var pool *string
	if x.Pool != "" {
		pool = &x.Pool
	}
	if x.Timeline, err = p.cfg.View.Timeline(from, pool); err != nil {
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

// draw makes the picture: curves of nodes and cost, and below them a lane for each kind of event.
func (x *timelinePage) draw(from, now time.Time) {
	if x.From.After(from) && !x.From.IsZero() {
		from = x.From
	}
	x.Begin, x.Span = from.UTC(), span(time.Duration(x.Seconds)*time.Second)
	whole := max(now.Sub(from), time.Second)
	at := func(t time.Time) int {
		return min(max(int(int64(t.Sub(from))*pictureWidth/int64(whole)), 0), pictureWidth)
	}
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
		out := lane{Name: l.name, Class: l.class}
		for i := range x.Points {
			if n := l.of(&x.Points[i]); n > 0 {
				out.Total += n
				out.Marks = append(out.Marks, mark{at(x.Points[i].At), wide, fmt.Sprintf("%s: %d %s", x.Points[i].At.Format("2006-01-02 15:04"), n, l.name)})
			}
		}
		x.Lanes = append(x.Lanes, out)
	}
	for i := len(x.Points) - 1; i >= 0 && len(x.Recent) < spansShown; i-- {
		x.Recent = append(x.Recent, x.Points[i])
	}
}

// lanes of the picture.
var lanes = []struct {
	name, class string
	of          func(*history.Point) int
}{
	{"planned", "cpu", func(p *history.Point) int { return p.Planned }},
	{"launched", "good", func(p *history.Point) int { return p.Launched }},
	{"failed to launch", "bad", func(p *history.Point) int { return p.Failed }},
	{"commands", "cpu", func(p *history.Point) int { return p.Commands }},
	{"drains", "warn", func(p *history.Point) int { return p.Drains }},
	{"taken by force", "bad", func(p *history.Point) int { return p.Doomed }},
	{"ended", "mem", func(p *history.Point) int { return p.Ended }},
	{"alarms", "bad", func(p *history.Point) int { return p.Alarms }},
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
