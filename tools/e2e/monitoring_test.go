package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"millwright/tools/clustertest"
)

// TestChartBringsAlertsAndDashboards: with the values set, the chart renders the alerts as a PrometheusRule
// and each dashboard as a ConfigMap with the sidecar's label, and all of them link to the place where the
// runbooks are served. Without the values it renders neither.
func TestChartBringsAlertsAndDashboards(t *testing.T) {
	t.Parallel()
	rendered, err := chart(t, "millwright", `
prometheusRule: {enabled: true, additionalLabels: {release: prometheus}}
dashboards: {enabled: true, annotations: {grafana_folder: Millwright}}
runbookURL: https://example.com/runbooks/
`, "--set", "settings.clusterName=demo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(rendered), "docs/runbooks/") || !strings.Contains(string(rendered), "https://example.com/runbooks/MillwrightAbsent.md") {
		t.Error("links do not lead to runbookURL")
	}
	objects, err := clustertest.Decode(rendered)
	if err != nil {
		t.Fatal(err)
	}
	alerts, dashboards := 0, 0
	for _, o := range objects {
		if o.GetKind() == "PrometheusRule" {
			if o.GetLabels()["release"] != "prometheus" {
				t.Errorf("labels of the PrometheusRule: %v", o.GetLabels())
			}
			spec, err := json.Marshal(o.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			alerts += strings.Count(string(spec), `"alert":`)
		}
		data, ok := o.Object["data"].(map[string]any)
		if !ok || o.GetLabels()["grafana_dashboard"] != "1" {
			continue
		}
		for name, text := range data {
			if s, ok := text.(string); !ok || !json.Valid([]byte(s)) {
				t.Errorf("%s is no dashboard", name)
			}
			dashboards++
		}
	}
	if alerts < 30 || dashboards != 6 {
		t.Errorf("%d alerts and %d dashboards", alerts, dashboards)
	}
	plain, err := chart(t, "millwright", "", "--set", "settings.clusterName=demo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(plain), "PrometheusRule") || strings.Contains(string(plain), "grafana_dashboard") {
		t.Error("alerts or dashboards without having been asked for")
	}
}
