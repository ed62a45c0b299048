package plan

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// problem is a small planning problem with an obvious answer. Those here check what is read and printed; the
// rules by which pods are planned are tested in planner/provision/testdata/rules.
type problem struct {
	name string
	// catalog: lines of type, cpu, GiB, offerings "zone/capacity type/price[/reservation[/free]]", with /gone
	// at the end if it is not available, further capacity "resource:amount" and labels "key=value"; default:
	// smallCatalog.
	catalog string
	// args are flags of millctl plan, --preference-policy and --min-values-policy.
	args []string
	// objects are YAML documents. The NodePool default comes with them, unless they contain NodePools.
	objects string
	// want, a line each: "POOL CHEAPEST-TYPE ZONE CAPACITYTYPE PRICE: PODS", "on NODE: PODS", "no POD: part
	// of the reason".
	want string
}

const smallCatalog = `
a.small 2 4 zone-a/on-demand/0.1 zone-b/on-demand/0.1 zone-a/spot/0.04
a.big 8 16 zone-a/on-demand/0.4 zone-b/on-demand/0.4 zone-a/spot/0.16`

func catalogOf(text string) string {
	var types []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Fields(line)
		family, _, _ := strings.Cut(f[0], ".")
		labels := map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "karpenter.k8s.aws/instance-cpu": f[1], "karpenter.k8s.aws/instance-family": family}
		capacity := map[string]string{"cpu": f[1], "memory": f[2] + "Gi", "pods": "20", "ephemeral-storage": "20Gi"}
		var offerings []string
		for _, o := range f[3:] {
			if k, v, is := strings.Cut(o, "="); is {
				labels[k] = v
				continue
			}
			if i := strings.LastIndex(o, ":"); i > 0 {
				capacity[o[:i]] = o[i+1:]
				continue
			}
			o, gone := strings.CutSuffix(o, "/gone")
			p := strings.Split(o, "/")
			extra := ""
			if len(p) > 3 {
				extra = fmt.Sprintf(`, "reservationID": %q`, p[3])
			}
			if len(p) > 4 {
				extra += `, "reservationCapacity": ` + p[4]
			}
			offerings = append(offerings, fmt.Sprintf(`{"zone": %q, "capacityType": %q, "price": %q, "available": %t%s}`, p[0], p[1], p[2], !gone, extra))
		}
		var requirements, amounts []string
		for _, k := range slices.Sorted(maps.Keys(labels)) {
			requirements = append(requirements, fmt.Sprintf(`{"key": %q, "operator": "In", "values": [%q]}`, k, labels[k]))
		}
		for _, k := range slices.Sorted(maps.Keys(capacity)) {
			amounts = append(amounts, fmt.Sprintf("%q: %q", k, capacity[k]))
		}
		types = append(types, fmt.Sprintf(`{"name": %q, "requirements": [%s], "capacity": {%s}, "overhead": {"cpu": "100m"}, "offerings": [%s]}`,
			f[0], strings.Join(requirements, ","), strings.Join(amounts, ","), strings.Join(offerings, ",")))
	}
	return `{"instanceTypes": [` + strings.Join(types, ",\n") + "]}"
}

const defaultPool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec: {template: {spec: {requirements: []}}}\n"

// podYAML is a pod with the given CPU and further fields of its spec.
func podYAML(name, cpu string, spec ...string) string {
	fields := append([]string{fmt.Sprintf("containers: [{name: c, resources: {requests: {cpu: %q}}}]", cpu)}, spec...)
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %s}}\nspec: {%s}\n", name, strings.TrimRight(name, "0123456789"), strings.Join(fields, ", "))
}

func (p *problem) run(t *testing.T) *Report {
	t.Helper()
	objects := p.objects
	if !strings.Contains(objects, "kind: NodePool") && !strings.Contains(objects, `"kind":"NodePool"`) {
		objects = defaultPool + objects
	}
	catalog := p.catalog
	if catalog == "" {
		catalog = smallCatalog
	}
	c := configOf(write(t, "in.yaml", objects))
	c.Catalog = write(t, "catalog.json", catalogOf(catalog))
	for i := 0; i+1 < len(p.args); i += 2 {
		switch p.args[i] {
		case "--preference-policy":
			c.PreferencePolicy = p.args[i+1]
		case "--feature-gates":
			c.FeatureGates = p.args[i+1]
		case "--min-values-policy":
			c.MinValuesPolicy = p.args[i+1]
		default:
			t.Fatalf("unknown flag %s", p.args[i])
		}
	}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (p *problem) check(t *testing.T) {
	r := p.run(t)
	var got []string
	for _, c := range r.NewNodeClaims {
		o := c.CheapestOffering
		got = append(got, fmt.Sprintf("%s %s %s %s %s: %s", c.NodePool, o.InstanceType, o.Zone, o.CapacityType, o.Price, short(c.Pods)))
	}
	for _, n := range r.ExistingNodes {
		got = append(got, fmt.Sprintf("on %s: %s", n.Name, short(n.Pods)))
	}
	var want []string
	for line := range strings.Lines(p.want) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	for _, u := range r.Unschedulable {
		line := "no " + short([]string{u.Pod}) + ": "
		if i := slices.IndexFunc(want, func(w string) bool { return strings.HasPrefix(w, line) }); i >= 0 {
			if part := strings.TrimPrefix(want[i], line); strings.Contains(u.Reason, part) {
				got = append(got, line+part)
				continue
			}
		}
		got = append(got, line+u.Reason)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func short(pods []string) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = strings.TrimPrefix(p, "default/")
	}
	return strings.Join(names, " ")
}

func poolYAML(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

func templateOf(spec string) string { return "template: {spec: {" + spec + "}}" }

// nodeYAML is an initialized node of 2 CPUs.
func nodeYAML(name, zone, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: {kubernetes.io/hostname: %[1]s, topology.kubernetes.io/zone: %[2]s, karpenter.sh/nodepool: default,
  karpenter.sh/registered: "true", karpenter.sh/initialized: "true", node.kubernetes.io/instance-type: a.small}}
spec: {providerID: "aws:///%[2]s/i-%[1]s"%[3]s}
status: {capacity: {cpu: "2", memory: 4Gi, pods: "20"}, allocatable: {cpu: "2", memory: 4Gi, pods: "20"}}
`, name, zone, more)
}

// TestWhatManifestsLeaveOut reads manifests that have not been defaulted by an API server.
func TestWhatManifestsLeaveOut(t *testing.T) {
	for _, p := range []problem{
		{
			name:    "a pod without status waits for a node",
			objects: podYAML("p", "1"),
			want:    "default a.small zone-a spot 0.04: p",
		},
		{
			name: "one that is gated, nominated or has a status of its own does not",
			objects: podYAML("gated", "1", "schedulingGates: [{name: x}]") + podYAML("nom", "1") + "status: {nominatedNodeName: x, conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable}]}\n" +
				podYAML("oth", "1") + "status: {phase: Pending}\n" + podYAML("p", "1"),
			want: "default a.small zone-a spot 0.04: p",
		},
		{
			name:    "a cordoned node has the taint that says so",
			objects: defaultPool + nodeYAML("n1", "zone-a", "") + nodeYAML("cordoned", "zone-a", ", unschedulable: true") + podYAML("p", "1500m") + podYAML("q", "1500m"),
			want:    "on n1: p\ndefault a.small zone-a spot 0.04: q",
		},
		{
			name:    "a node without allocatable amounts has its capacity",
			objects: defaultPool + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: \"2\", memory: 4Gi, pods: \"20\"}}\n" + podYAML("p", "1"),
			want:    "on n1: p",
		},
		{
			name: "mismatchLabelKeys are not in the selector yet",
			objects: podYAML("w1", "100m", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}, mismatchLabelKeys: [app]}]}}") +
				podYAML("w2", "90m") + podYAML("v", "80m"),
			want: "default a.small zone-a spot 0.04: w1 w2\ndefault a.small zone-a spot 0.04: v",
		},
		{
			name:    "prices below a micro-dollar are printed as they are written",
			catalog: "a.small 2 4 zone-a/on-demand/0.1 zone-a/reserved/0.00000001/cr-1/1 zone-a/reserved/0.001/cr-2/1",
			objects: podYAML("w1", "1500m", "nodeSelector: {karpenter.k8s.aws/capacity-reservation-id: cr-1}") + podYAML("w2", "1500m") + podYAML("w3", "1500m"),
			want: `default a.small zone-a reserved 0.00000001: w1
				default a.small zone-a reserved 0.001: w2
				default a.small zone-a on-demand 0.1: w3`,
		},
	} {
		t.Run(p.name, p.check)
	}
}

func TestOverlaysThatAreNotApplied(t *testing.T) {
	overlay := "---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: x}\nspec: {priceAdjustment: \"1\"}\n"
	p := problem{objects: defaultPool + overlay + podYAML("p", "1"), args: []string{"--feature-gates", "NodeOverlay=true"}}
	r := p.run(t)
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), `NodeOverlay x is not applied: invalid priceAdjustment "1"`) {
		t.Errorf("%s, %v", out.String(), err)
	}
	if len(r.NewNodeClaims) != 1 || r.NewNodeClaims[0].CheapestOffering.Price != "0.04" {
		t.Errorf("it was applied: %+v", r.NewNodeClaims)
	}
}
