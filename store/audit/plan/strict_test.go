package plan

import (
	"strings"
	"testing"
)

const podOf = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n"

// What the API server and kubectl refuse is refused, not read in another way than it was meant.
func TestWhatKubectlRefusesIsRefused(t *testing.T) {
	workload := func(version, kind, spec string) string {
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: w}\n" + spec
	}
	pod := func(spec string) string { return "{containers: [{name: c}, {name: d, resources: {" + spec + "}}]}" }
	for about, c := range map[string]struct{ text, want string }{
		"a negative request":          {workload("v1", "Pod", "spec: "+pod("requests: {memory: 1Gi, cpu: -1}")), "(Pod w): spec.containers[1].resources.requests.cpu: is -1 and must not be negative"},
		"a negative limit":            {workload("v1", "Pod", "spec: "+pod("limits: {cpu: -100m}")), "spec.containers[1].resources.limits.cpu: is -100m and must not be negative"},
		"of an init container":        {workload("v1", "Pod", "spec: {initContainers: [{name: i, resources: {requests: {pods: -1}}}]}"), "spec.initContainers[0].resources.requests.pods: is -1"},
		"of the pod":                  {workload("v1", "Pod", "spec: {resources: {requests: {cpu: -1}}}"), "spec.resources.requests.cpu: is -1"},
		"overhead":                    {workload("v1", "Pod", "spec: {overhead: {cpu: -1}}"), "spec.overhead.cpu: is -1"},
		"of a template":               {workload("apps/v1", "Deployment", "spec: {template: {spec: "+pod("requests: {cpu: -1}")+"}}"), "spec.template.spec.containers[1].resources.requests.cpu: is -1"},
		"of a Job":                    {workload("batch/v1", "Job", "spec: {template: {spec: "+pod("requests: {cpu: -1}")+"}}"), "spec.template.spec.containers[1].resources.requests.cpu: is -1"},
		"of a DaemonSet":              {workload("apps/v1", "DaemonSet", "spec: {template: {spec: "+pod("requests: {cpu: -1}")+"}}"), "spec.template.spec.containers[1].resources.requests.cpu: is -1"},
		"of a PodTemplate":            {workload("v1", "PodTemplate", "template: {spec: "+pod("requests: {cpu: -1}")+"}"), "template.spec.containers[1].resources.requests.cpu: is -1"},
		"a key twice":                 {workload("v1", "Pod", "spec: {}\nmetadata: {name: x}\n"), `document 2: line 5: key "metadata" is there twice`},
		"a key twice, deep in it":     {workload("v1", "Pod", "spec: "+pod("requests: {cpu: 1, cpu: 5}")), `document 2: line 4: key "cpu" is there twice`},
		"a key twice, and no YAML":    {"a: {b: 1, b: 2}\nc: [", "document 2: yaml: line 2"},
		"a second document, after CR": {strings.ReplaceAll(podOf+"---\n"+podOf, "\n", "\r"), "document 3 (Pod default/a): metadata.name: default/a is that of an object"},
	} {
		t.Run(about, func(t *testing.T) {
			cfg := configOf(Text("in.yaml", defaultPool+"---\n"+c.text))
			cfg.Workloads, cfg.FeatureGates = true, "CapacityBuffer=true"
			if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

// A key that a merge brings may be set anew, and line ends may be those of any system.
func TestWhatIsMeantInOneWayOnlyIsRead(t *testing.T) {
	merged := strings.Replace(podOf, "{cpu: 1}", "{<<: {cpu: 3}, cpu: 1}", 1)
	for about, text := range map[string]string{
		"a merge":                 merged,
		"carriage returns":        strings.ReplaceAll(podOf, "\n", "\r"),
		"both":                    strings.ReplaceAll(podOf, "\n", "\r\n"),
		"JSON":                    `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},` + "\r" + `"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}]}}`,
		"a carriage return first": "\r\r" + strings.ReplaceAll(podOf, "\n", "\r"),
	} {
		t.Run(about, func(t *testing.T) {
			r, err := Run(configOf(Text("in.yaml", defaultPool), Text("pod.yaml", text)))
			if err != nil || r.Stats.Pods != 1 || len(r.NewNodeClaims) != 1 || r.NewNodeClaims[0].Requests.Cpu().Value() != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
