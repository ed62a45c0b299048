package main

import "strings"

// page is one dashboard.
type page struct {
	name, title, text string
	// variables are names of filters.
	variables []string
	rows      []row
}

// row answers one question.
type row struct {
	title  string
	panels []panel
}

// panel shows queries over time, or as numbers.
type panel struct {
	title, text string
	// unit of Grafana: s, short, percent, currencyUSD, bytes.
	unit string
	// runbook is the alert to whose page the panel links.
	runbook string
	// stat shows the last value as a number.
	stat    bool
	queries []query
}

// query with the legend of its series.
type query struct{ expr, legend string }

// filters are the variables that a page may have: each the values of a label of a metric.
var filters = map[string]struct{ label, query string }{
	"nodepool":      {"NodePool", "label_values(karpenter_nodepools_usage, nodepool)"},
	"zone":          {"Zone", "label_values(karpenter_nodes_allocatable, zone)"},
	"capacity_type": {"Capacity type", "label_values(karpenter_nodes_allocatable, capacity_type)"},
	"instance_type": {"Instance type", "label_values(karpenter_nodes_allocatable, instance_type)"},
}

const (
	columns     = 24
	statWidth   = 6
	graphWidth  = 12
	statHeight  = 4
	graphHeight = 8
	// schema of dashboards that Grafana 10 reads without migration.
	schema = 39
	tag    = "millwright"
)

var source = &datasource{Type: "prometheus", UID: "$datasource"}

// model is the dashboard of a page.
func (p page) model() dashboard {
	d := dashboard{
		UID: "millwright-" + p.name, Title: "Millwright / " + p.title, Description: p.text, Tags: []string{tag},
		SchemaVersion: schema, Editable: true, GraphTooltip: 1, Refresh: "1m", Time: timeRange{From: "now-6h", To: "now"},
		Links:      []pageLink{{Title: "Millwright", Type: "dashboards", Tags: []string{tag}, AsDropdown: true, KeepTime: true}},
		Templating: templating{List: []variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1}, clusterVariable}},
	}
	for _, name := range p.variables {
		f := filters[name]
		d.Templating.List = append(d.Templating.List, variable{Name: name, Label: f.label, Type: "query", Query: f.query, Datasource: source,
			Refresh: 2, Multi: true, IncludeAll: true, AllValue: ".*"})
	}
	y := 0
	for _, r := range p.rows {
		d.Panels = append(d.Panels, grafanaPanel{ID: len(d.Panels) + 1, Title: r.title, Type: "row", GridPos: gridPos{H: 1, W: columns, Y: y}})
		y = r.addTo(&d, y+1)
	}
	return d
}

// clusterVariable filters by job: no metric names the cluster, whose name Prometheus adds if it scrapes
// several.
var clusterVariable = variable{Name: "job", Label: "Cluster (job)", Type: "query", Query: "label_values(karpenter_build_info, job)", Datasource: source,
	Refresh: 2, Multi: true, IncludeAll: true, AllValue: ".*"}

// addTo appends the panels from the line y on, and returns the first free line.
func (r row) addTo(d *dashboard, y int) int {
	x, height := 0, 0
	for _, p := range r.panels {
		w, h := graphWidth, graphHeight
		if p.stat {
			w, h = statWidth, statHeight
		}
		if x+w > columns {
			x, y, height = 0, y+height, 0
		}
		d.Panels = append(d.Panels, p.model(len(d.Panels)+1, gridPos{H: h, W: w, X: x, Y: y}))
		x, height = x+w, max(height, h)
	}
	return y + height
}

func (p panel) model(id int, at gridPos) grafanaPanel {
	g := grafanaPanel{ID: id, Title: p.title, Type: "timeseries", Description: p.text, Datasource: source, GridPos: at,
		Links:       []pageLink{{Title: "Runbook", Type: "link", URL: "docs/runbooks/" + p.runbook + ".md", TargetBlank: true}},
		FieldConfig: &fieldConfig{Defaults: fieldDefaults{Unit: p.unit}, Overrides: []struct{}{}}}
	if p.stat {
		g.Type = "stat"
	}
	for i, q := range p.queries {
		// Every selector is filtered by the job; JOB stands for that.
		g.Targets = append(g.Targets, target{RefID: string(rune('A' + i)), Expr: strings.ReplaceAll(q.expr, "JOB", `job=~"$job"`),
			LegendFormat: q.legend, Instant: p.stat, Datasource: source})
	}
	return g
}
