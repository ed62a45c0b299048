package plan

import (
	"strings"
	"testing"
	"time"

	pt "millwright/planner/plannertest"
)

// Workloads stand for as many pods as they ask for, and all together for no more than they may.
func TestWorkloadsStandForPods(t *testing.T) {
	workload := func(kind, version, name, spec string) string {
		return "---\napiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: {" + spec +
			"template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}}\n"
	}
	documents := defaultPool + workload("Deployment", "apps/v1", "web", "replicas: 3, ") + workload("StatefulSet", "apps/v1", "db", "") +
		workload("Job", "batch/v1", "job", "parallelism: 5, completions: 2, ") + workload("ReplicaSet", "apps/v1", "rs", "replicas: 0, ")
	for about, tc := range map[string]struct {
		config Config
		pods   int
		fault  string
	}{
		"as pods":           {config: Config{Workloads: true}, pods: 6},
		"passed over":       {config: Config{}},
		"more than may be":  {config: Config{Workloads: true, PodsMost: 4}, fault: "in.yaml: document 4 (Job default/job): spec.parallelism: asks for 2 pods; 4 are planned for at most"},
		"with their buffer": {config: Config{Workloads: true, FeatureGates: "CapacityBuffer=true"}, pods: 6},
	} {
		t.Run(about, func(t *testing.T) {
			c := tc.config
			c.Sources, c.Now, c.Catalog = []Source{Text("in.yaml", documents)}, now, Text("catalog.json", catalogOf(smallCatalog))
			r, err := Run(c)
			switch {
			case tc.fault != "":
				if err == nil || err.Error() != tc.fault {
					t.Errorf("%v, want %s", err, tc.fault)
				}
			case err != nil:
				t.Fatal(err)
			case r.Stats.Pods != tc.pods || !r.Complete():
				t.Errorf("%d pods, want %d: %+v", r.Stats.Pods, tc.pods, r)
			}
		})
	}
	c := Config{Sources: []Source{Text("in.yaml", documents+podYAML("web-1", "1"))}, Workloads: true, Now: now, Catalog: Text("catalog.json", catalogOf(smallCatalog))}
	if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "default/web-1 is that of an object in in.yaml, document 2") {
		t.Errorf("a pod of the same name: %v", err)
	}
}

func TestAPlanOfDisruptionCanBeStopped(t *testing.T) {
	s := rolling(t)
	asked := 0
	c := Config{Now: pt.Start.Add(time.Hour), Sources: []Source{Text("in.yaml", fill(classFile, "b", "", ""))}, Stop: func() bool { asked++; return asked > 1 }}
	r, err := RunDisruptionOn(c, s, true)
	if err != nil || r.Settled != nil || len(r.Notes) == 0 || !strings.Contains(strings.Join(r.Notes, " "), "was stopped after") {
		t.Errorf("%+v, %v", r, err)
	}
}
