package main

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	statpanel "github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

//lint:file-ignore SA1019 The second schema of dashboards is read by Grafana 12 and later only, and not by the sidecar.

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

// panel is a graph or a number, of the SDK.
type panel = cog.Builder[dashboard.Panel]

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
	statWidth   = 6
	graphWidth  = 12
	statHeight  = 4
	graphHeight = 8
	// schema of dashboards that Grafana 10 and later read without migration.
	schema = 39
	tag    = "millwright"
)

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("$datasource")}

// dashboard of a page; its panels have numbers in their order, which links to one of them hold.
func (p page) dashboard() (dashboard.Dashboard, error) {
	b := dashboard.NewDashboardBuilder("Millwright / "+p.title).Uid("millwright-"+p.name).Description(p.text).Tags([]string{tag}).
		Editable().Tooltip(dashboard.DashboardCursorSyncCrosshair).Refresh("1m").Time("now-6h", "now").
		Link(dashboard.NewDashboardLinkBuilder("Millwright").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).AsDropdown(true).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		// No metric names the cluster, whose name Prometheus adds if it scrapes several.
		WithVariable(variable("job", "Cluster (job)", "label_values(karpenter_build_info, job)"))
	for _, name := range p.variables {
		b.WithVariable(variable(name, filters[name].label, filters[name].query))
	}
	for _, r := range p.rows {
		b.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			b.WithPanel(p)
		}
	}
	d, err := b.Build()
	if err != nil {
		return d, fmt.Errorf("build %s: %w", p.name, err)
	}
	d.SchemaVersion = schema
	// Above the panels, where all versions of Grafana show it.
	d.Links[0].Placement = nil
	for i, shown := range d.Panels {
		if id := uint32(i + 1); shown.RowPanel != nil {
			shown.RowPanel.Id = id
		} else {
			shown.Panel.Id = &id
		}
	}
	return d, nil
}

// variable holds the values of a label that somebody chose; all of them to begin with.
func variable(name, label, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Query(dashboard.StringOrMap{String: &values}).Datasource(source).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*")
}

// stat shows the last value of an expression as a number. The unit is Grafana's: s, short, percent,
// currencyUSD, bytes. The runbook is the alert to whose page the panel links.
func stat(title, text, unit, runbook, expr string) panel {
	return fill(statpanel.NewPanelBuilder().Height(statHeight).Span(statWidth), title, text, unit, runbook).Orientation(common.VizOrientationAuto).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(target(0, query{expr, title}).Instant())
}

// graph shows queries over time.
func graph(title, text, unit, runbook string, queries ...query) panel {
	b := fill(timeseries.NewPanelBuilder().Height(graphHeight).Span(graphWidth), title, text, unit, runbook)
	for i, q := range queries {
		b.WithTarget(target(i, q).Range())
	}
	return b
}

// builder is what the builders of all kinds of panels have.
type builder[B any] interface {
	Title(string) B
	Description(string) B
	Unit(string) B
	Datasource(common.DataSourceRef) B
	Links([]cog.Builder[dashboard.DashboardLink]) B
}

func fill[B builder[B]](b B, title, text, unit, runbook string) B {
	link := dashboard.NewDashboardLinkBuilder("Runbook").Type(dashboard.DashboardLinkTypeLink).Url("docs/runbooks/" + runbook + ".md").TargetBlank(true)
	return b.Title(title).Description(text).Unit(unit).Datasource(source).Links([]cog.Builder[dashboard.DashboardLink]{link})
}

// target is the query of number i of a panel. Every selector is filtered by the job; JOB stands for that.
func target(i int, q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Expr(strings.ReplaceAll(q.expr, "JOB", `job=~"$job"`)).
		LegendFormat(q.legend).Datasource(source)
}
