package plan

import (
	"bytes"
	"strings"
	"testing"

	pt "millwright/planner/plannertest"
)

// running is a cluster with one full node, one pending pod and a catalogue.
func running(t *testing.T) *pt.Cluster {
	t.Helper()
	return pt.New(append(pt.WithCatalogue(), pt.Pool("default"), pt.Pod("old", pt.Requests("cpu", "1500m"), pt.Unschedulable()))...)
}

func runOn(t *testing.T, c Config) (*Report, error) {
	t.Helper()
	cluster := running(t)
	c.Now = cluster.Clock
	return RunOn(c, Server{World: cluster.World, Ledger: cluster.Ledger})
}

func TestWhatIf(t *testing.T) {
	small := "\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec: {template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}\n"
	for name, c := range map[string]struct {
		config Config
		types  []string
		pods   int
	}{
		"as it is":            {Config{}, []string{"t3.small"}, 1},
		"with another pod":    {Config{Sources: []Source{write(t, "in.yaml", podYAML("big", "7"))}}, []string{"m5.2xlarge", "t3.small"}, 2},
		"with another pool":   {Config{Sources: []Source{write(t, "in.yaml", small)}}, []string{"m5.2xlarge"}, 1},
		"with other prices":   {Config{Prices: write(t, "prices.json", `{"prices": [{"instanceType": "r5.large", "capacityType": "spot", "zone": "us-west-2a", "price": "0.001"}]}`)}, []string{"r5.large"}, 1},
		"with other types":    {Config{Catalog: write(t, "catalog.json", catalogOf(smallCatalog))}, []string{"a.small"}, 1},
		"with the pod itself": {Config{Sources: []Source{write(t, "in.yaml", podYAML("old", "3"))}}, []string{"m6g.xlarge"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runOn(t, c.config)
			if err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, claim := range r.NewNodeClaims {
				types = append(types, claim.CheapestOffering.InstanceType)
			}
			if strings.Join(types, " ") != strings.Join(c.types, " ") || r.Stats.Pods != c.pods {
				t.Errorf("got %v for %d pods, want %v for %d: %+v", types, r.Stats.Pods, c.types, c.pods, r)
			}
			var out bytes.Buffer
			if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "of the cluster as seen at ") {
				t.Errorf("the table does not say of when the cluster is: %s, %v", out.String(), err)
			}
		})
	}
}

func TestWhatIfFaults(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"an unknown NodeClass": {Config{Sources: []Source{write(t, "in.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: x}\nspec: {template: {spec: {nodeClassRef: {name: other}, requirements: []}}}\n")}}, "no instance types for EC2NodeClass other"},
		"a bad object":         {Config{Sources: []Source{write(t, "in.yaml", "kind: Pod\n")}}, "document 1 (Pod): apiVersion: is missing"},
		"a price list":         {Config{Prices: write(t, "prices.json", `{"prices": [{"instanceType": "a", "capacityType": "spot", "price": "x"}]}`)}, "prices.json: document 1 (price list): prices[0].price: is not a price"},
		"a price that is none": {Config{Prices: write(t, "prices.json", `{"prices": [{"instanceType": "a", "capacityType": "spot"}]}`)}, "prices[0].price: is missing"},
		"no price list":        {Config{Prices: file("nowhere.json")}, "nowhere.json"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := runOn(t, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}
