package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The problems in testdata/problems are text:
//
//	macro NAME TEXT          from here on $NAME stands for TEXT
//	== TITLE                 a problem; its objects follow, a line each
//	args --FLAG VALUE        preference-policy, min-values-policy, feature-gates
//	catalog                  the next lines are instance types, as of problem.catalog, up to the first object
//	pool NAME {…}            a NodePool; without any there is one named default
//	pod NAME CPU {…}         labelled app: NAME without its number
//	node NAME ZONE {…}       initialized, of the NodePool default, with 2 CPUs, 4Gi and room for 20 pods
//	daemonset NAME CPU {…}   and claim, overlay, pvc, pv, storageclass, csinode, pdb and namespace NAME {…}
//	times N OBJECT           the object N times, # in it replaced by 1, 2, …
//	want                     lines as of problem.want, and "has POOL KEY OPERATOR [VALUES] min N": a requirement of one of its
//	                         claims, with minValues if it has any
//
// In {…} stand fields of the object in YAML: of its spec and, of a NodePool, of its template too; meta, labels and
// status are the object's own. mem, requests and ports are of the pod's container.
func TestProblemFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, p := range readProblems(t, file) {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+p.name, p.check)
		}
	}
}

func readProblems(t *testing.T, file string) (list []*problem) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var macros []string
	var p *problem
	var wants, types bool
	for n, line := range strings.Split(string(raw), "\n") {
		word, rest, _ := strings.Cut(strings.NewReplacer(macros...).Replace(line), " ")
		switch {
		case line == "" || word == "#":
		case word == "macro":
			name, text, _ := strings.Cut(rest, " ")
			macros = append([]string{"$" + name, text}, macros...)
		case word == "==":
			p, wants, types = &problem{name: rest}, false, false
			list = append(list, p)
		case word == "want":
			wants = true
		case wants:
			p.want += word + " " + rest + "\n"
		case word == "args":
			p.args = append(p.args, strings.Fields(rest)...)
		case word == "catalog":
			types = true
		case objectKinds[word] == nil && word != "times" && types:
			p.catalog += word + " " + rest + "\n"
		default:
			types = false
			objects, err := objectsOf(word, rest)
			if err != nil {
				t.Fatalf("%s:%d: %v", file, n+1, err)
			}
			p.objects += objects
		}
	}
	return list
}

// objectsOf writes the objects of a line as YAML documents.
func objectsOf(word, rest string) (string, error) {
	if word != "times" {
		return objectOf(word, rest)
	}
	var n int
	count, object, _ := strings.Cut(rest, " ")
	if _, err := fmt.Sscan(count, &n); err != nil {
		return "", err
	}
	word, rest, _ = strings.Cut(object, " ")
	var b strings.Builder
	for i := range n {
		doc, err := objectOf(word, strings.ReplaceAll(rest, "#", fmt.Sprint(i+1)))
		if err != nil {
			return "", err
		}
		b.WriteString(doc)
	}
	return b.String(), nil
}

type fields = map[string]any

// objectKinds complete an object of which metadata.name is set; word is what stands before the fields.
var objectKinds = map[string]func(o fields, word string, more fields){
	"pool": func(o fields, _ string, more fields) {
		template := fields{"requirements": []any{}}
		for _, k := range []string{"requirements", "taints", "startupTaints", "nodeClassRef"} {
			move(template, more, k)
		}
		o["apiVersion"], o["kind"] = "karpenter.sh/v1", "NodePool"
		move(o, more, "status")
		metadata := fields{}
		move(metadata, more, "labels")
		move(metadata, more, "annotations")
		o["spec"] = with(fields{"template": fields{"metadata": metadata, "spec": template}}, more)
	},
	"pod": func(o fields, cpu string, more fields) {
		o["apiVersion"], o["kind"] = "v1", "Pod"
		metadata := o["metadata"].(fields)
		with(metadata, fields{"labels": fields{"app": strings.TrimRight(metadata["name"].(string), "0123456789")}})
		move(metadata, more, "labels")
		if ns, ok := more["ns"]; ok {
			metadata["namespace"] = ns
			delete(more, "ns")
		}
		if more["nodeName"] != nil {
			o["status"] = fields{"phase": "Running"}
		}
		move(o, more, "status")
		o["spec"] = podSpec(cpu, more)
	},
	"daemonset": func(o fields, cpu string, more fields) {
		o["apiVersion"], o["kind"] = "apps/v1", "DaemonSet"
		o["spec"] = fields{"template": fields{"spec": podSpec(cpu, more)}}
	},
	"node": func(o fields, zone string, more fields) {
		o["apiVersion"], o["kind"] = "v1", "Node"
		name := o["metadata"].(fields)["name"].(string)
		labels := fields{
			"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
			"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
			"node.kubernetes.io/instance-type": "a.small", "karpenter.sh/capacity-type": "on-demand",
		}
		own, _ := more["labels"].(fields)
		maps.DeleteFunc(with(labels, own), func(_ string, v any) bool { return v == nil })
		delete(more, "labels")
		o["metadata"].(fields)["labels"] = labels
		amounts := fields{"cpu": "2", "memory": "4Gi", "pods": "20"}
		for _, k := range []string{"cpu", "memory", "pods"} {
			move(amounts, more, k)
		}
		o["status"] = fields{"capacity": amounts, "allocatable": amounts}
		o["spec"] = with(fields{"providerID": "aws:///" + zone + "/i-" + name}, more)
	},
	"claim": func(o fields, _ string, more fields) {
		o["apiVersion"], o["kind"] = "karpenter.sh/v1", "NodeClaim"
		labels := fields{"karpenter.sh/nodepool": "default"}
		own, _ := more["labels"].(fields)
		delete(more, "labels")
		o["metadata"].(fields)["labels"] = with(labels, own)
		move(o, more, "status")
		o["spec"] = with(fields{"nodeClassRef": fields{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []any{}}, more)
	},
	"storageclass": func(o fields, _ string, more fields) {
		with(o, with(fields{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}, more))
	},
	"namespace": func(o fields, _ string, more fields) {
		o["apiVersion"], o["kind"] = "v1", "Namespace"
		with(o["metadata"].(fields), more)
	},
	"overlay": plainObject("karpenter.sh/v1alpha1", "NodeOverlay"),
	"pvc":     plainObject("v1", "PersistentVolumeClaim"),
	"pv":      plainObject("v1", "PersistentVolume"),
	"csinode": plainObject("storage.k8s.io/v1", "CSINode"),
	"pdb":     plainObject("policy/v1", "PodDisruptionBudget"),
}

func plainObject(apiVersion, kind string) func(fields, string, fields) {
	return func(o fields, _ string, more fields) {
		o["apiVersion"], o["kind"] = apiVersion, kind
		move(o, more, "status")
		o["spec"] = more
	}
}

func podSpec(cpu string, more fields) fields {
	requests := fields{"cpu": cpu}
	if mem, ok := more["mem"]; ok {
		requests["memory"] = mem
		delete(more, "mem")
	}
	if list, ok := more["requests"].(fields); ok {
		with(requests, list)
		delete(more, "requests")
	}
	container := fields{"name": "c", "resources": fields{"requests": requests}}
	move(container, more, "ports")
	return with(fields{"containers": []any{container}}, more)
}

// move takes a field over if it is there.
func move(to, from fields, key string) {
	if v, ok := from[key]; ok {
		to[key] = v
		delete(from, key)
	}
}

func with(to, from fields) fields {
	maps.Copy(to, from)
	return to
}

func objectOf(kind, rest string) (string, error) {
	build := objectKinds[kind]
	if build == nil {
		return "", fmt.Errorf("unknown object %q", kind)
	}
	name, rest, _ := strings.Cut(rest, " ")
	at := strings.Index(rest, "{")
	if at < 0 {
		at = len(rest)
	}
	more := fields{}
	if err := yaml.Unmarshal([]byte(rest[at:]), &more); err != nil {
		return "", fmt.Errorf("%s %s: %w", kind, name, err)
	}
	metadata := fields{"name": name}
	if own, ok := more["meta"].(fields); ok {
		with(metadata, own)
		delete(more, "meta")
	}
	o := fields{"metadata": metadata}
	build(o, strings.TrimSpace(rest[:at]), more)
	doc, err := json.Marshal(o)
	return "---\n" + string(doc) + "\n", err
}

// checkHas takes the lines "has POOL REQUIREMENT" out of those wanted, and checks them.
func checkHas(t *testing.T, r *Report, want []string) []string {
	t.Helper()
	return slices.DeleteFunc(want, func(line string) bool {
		text, is := strings.CutPrefix(line, "has ")
		if !is {
			return false
		}
		pool, requirement, _ := strings.Cut(text, " ")
		var have []string
		for _, c := range r.NewNodeClaims {
			for _, q := range c.Requirements {
				if c.NodePool != pool {
					continue
				}
				line := fmt.Sprintf("%s %s %s", q.Key, q.Operator, q.Values)
				if q.MinValues != nil {
					line += fmt.Sprintf(" min %d", *q.MinValues)
				}
				have = append(have, line)
			}
		}
		if !slices.Contains(have, requirement) {
			t.Errorf("no claim of %s has %s, they have %s", pool, requirement, strings.Join(have, ", "))
		}
		return true
	})
}
