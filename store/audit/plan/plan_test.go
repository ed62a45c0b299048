package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/plannertest"
	"millwright/planner/provision"
	"millwright/planner/world"
)

var update = flag.Bool("update", false, "rewrite the golden outputs")

const catalogPath = "testdata/catalog.json"

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func configOf(sources ...Source) Config {
	return Config{Sources: sources, Catalog: file(catalogPath), Now: now}
}

// file is a file of this package.
func file(path string) Source {
	return Source{path, func() (io.ReadCloser, error) { return os.Open(path) }}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestPlansOfExamples(t *testing.T) {
	for _, dir := range []string{"basic", "reasons", "cluster"} {
		t.Run(dir, func(t *testing.T) {
			r, err := Run(configOf(file(filepath.Join("testdata", dir, "input.yaml"))))
			if err != nil {
				t.Fatal(err)
			}
			if r.Complete() != (dir != "reasons") {
				t.Errorf("complete: %v", r.Complete())
			}
			r.Stats.PlanMillis = 0
			var asJSON, asTable bytes.Buffer
			if err := r.WriteJSON(&asJSON); err != nil {
				t.Fatal(err)
			}
			if err := r.WriteTable(&asTable); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "golden", dir+".json"), asJSON.Bytes())
			golden(t, filepath.Join("testdata", "golden", dir+".txt"), asTable.Bytes())
		})
	}
}

// The World made from files is the one that a watcher would give, so the provisioner would record exactly
// this plan.
func TestPlanIsTheProvisioners(t *testing.T) {
	for _, dir := range []string{"basic", "reasons", "cluster"} {
		t.Run(dir, func(t *testing.T) {
			c := configOf(file(filepath.Join("testdata", dir, "input.yaml")))
			w, err := Load(c)
			if err != nil {
				t.Fatal(err)
			}
			if !w.Synced() || w.Torn() || !w.AsOf().Equal(now) {
				t.Fatalf("synced %v, torn %v, as of %v", w.Synced(), w.Torn(), w.AsOf())
			}
			b, err := w.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			again, err := world.Restore(b)
			if err != nil {
				t.Fatal(err)
			}
			snap, err := c.snapshot(again, ledger.New(""))
			if err != nil {
				t.Fatal(err)
			}
			decision, round := provision.Plan(snap)
			r, err := Run(c)
			if err != nil {
				t.Fatal(err)
			}
			payload := decision.Payload.(*ledger.ProvisioningPlanned)
			if len(payload.Claims) != len(r.NewNodeClaims) || round.Refused+round.Ignored != len(r.Unschedulable) {
				t.Errorf("%d claims and %d refusals; the provisioner has %d and %d", len(r.NewNodeClaims), len(r.Unschedulable),
					len(payload.Claims), round.Refused+round.Ignored)
			}
			want := newReport(round, options.DefaultStaticWave, exactPrices(t), 0)
			r.Stats, want.Stats.PlanMillis = want.Stats, 0
			if diff := cmp.Diff(want, r, cmp.AllowUnexported(Report{})); diff != "" {
				t.Errorf("(-provisioner +offline):\n%s", diff)
			}
		})
	}
}

// write gives documents as a source.
func write(_ testing.TB, name string, documents ...string) Source {
	return Text(name, strings.Join(documents, "\n---\n"))
}

func exactPrices(t *testing.T) map[offeringKey]price {
	types, err := readCatalog(file(catalogPath))
	if err != nil {
		t.Fatal(err)
	}
	return types.exact
}

const poolDocument = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {nodeClassRef: {name: default}, requirements: []}}}}`

func TestOrderAndFormDoNotMatter(t *testing.T) {
	raw, err := os.ReadFile("testdata/basic/input.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Run(configOf(file("testdata/basic/input.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(raw), "\n---\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		rng.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		var asJSON []string
		for _, d := range documents {
			b, err := toJSON([]byte(d))
			if err != nil {
				t.Fatal(err)
			}
			asJSON = append(asJSON, string(b))
		}
		got, err := Run(configOf(
			Text("a.yaml", strings.Join(documents[:3], "\n---\n")), Text("b.json", strings.Join(asJSON[3:5], "")), Text("c.yml", strings.Join(asJSON[5:], "\n---\n"))))
		if err != nil {
			t.Fatal(err)
		}
		got.Stats, got.price = want.Stats, want.price
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Report{})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// Documents that begin on the line of their mark, and marks with comments, are documents as any others.
func TestNoDocumentIsLost(t *testing.T) {
	pod := func(name string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c}]}}\n", name)
	}
	for name, text := range map[string]string{
		"on the line of the mark":     "--- " + pod("a") + "--- " + pod("b") + "--- " + pod("c"),
		"mark behind such a line":     "--- " + pod("a") + "---\n" + pod("b") + pod("c"),
		"end with a comment":          "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n... # end\n---\n" + pod("b") + "---\n" + pod("c"),
		"end with a comment and mark": "--- " + pod("a") + "...\t# end\n--- # next\n" + pod("b") + "--- " + pod("c"),
	} {
		list, err := Objects(Text("in.yaml", text))
		if err != nil || len(list) != 3 {
			t.Errorf("%s: %d documents, %v", name, len(list), err)
		}
	}
	if _, err := toJSON([]byte(pod("a") + pod("b"))); err == nil {
		t.Error("of two documents the first was taken")
	}
}

// A NodePool with a fault is left out of the plan, which says so in each form.
func TestProblemsAreInTheReport(t *testing.T) {
	bad := "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: bad}\nspec:\n  weight: 100\n  template:\n    spec:\n" +
		"      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      requirements: [{key: foo, operator: in, values: [a]}]\n"
	r, err := Run(configOf(file("testdata/basic/input.yaml"), Text("bad.yaml", bad)))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || r.Problems[0].Object != "NodePool bad" || !strings.Contains(r.Problems[0].Reason, "unsupported operator in") {
		t.Errorf("problems %v", r.Problems)
	}
}

func TestObjectsAsTheyAreWritten(t *testing.T) {
	list, err := Objects(Text("a", poolDocument), Text("b", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n---\n"+podYAML("p", "1")))
	if err != nil || len(list) != 2 || list[0].GetName() != "p" || list[1].GetNamespace() != "default" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := Objects(Text("a", "kind: Pod")); err == nil || err.Error() != "a: document 1 (Pod): apiVersion: is missing" {
		t.Error(err)
	}
}

func TestStaticNodePoolsAreToldApart(t *testing.T) {
	p := problem{objects: poolYAML("fixed", "replicas: 3, "+templateOf("requirements: []")) + nodeYAML("n1", "zone-a", "") + podYAML("p", "1")}
	r := p.run(t)
	if len(r.NewNodeClaims) != 0 || len(r.StaticNodeClaims) != 1 || r.StaticNodeClaims[0].Count != 3 || !r.Complete() {
		t.Fatalf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "NodePool fixed lacks 3 of its replicas") {
		t.Errorf("%s, %v", out.String(), err)
	}
}

func TestFaultsNameFileDocumentAndField(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: c}\n"
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"a quantity":              {pod + "  - name: d\n    resources:\n      requests:\n        cpu: 1x\n", "in.yaml: document 2 (Pod a): spec.containers[1].resources.requests.cpu: quantities must match"},
		"two faults":              {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: y}\nspec: {containers: [{resources: {requests: {cpu: 1x}}}]}\n", "in.yaml: document 2 (Pod a): metadata.namespace: is a bool and must be a string"},
		"hours of a quantity":     {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{resources: {requests: {cpu: \"1e2000000000\"}}}]}\n", "in.yaml: document 2 (Pod a): spec.containers[0].resources.requests.cpu: is a number that takes too long"},
		"a type":                  {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: {name: c}}\n", "in.yaml: document 2 (Pod a): spec.containers: is a mapping and must be a list"},
		"a time":                  {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, creationTimestamp: today}\n", "in.yaml: document 2 (Pod a): metadata.creationTimestamp: parsing time"},
		"a duration":              {"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: q}\nspec: {disruption: {consolidateAfter: soon}}\n", "in.yaml: document 2 (NodePool q): spec.disruption.consolidateAfter: "},
		"no kind":                 {"apiVersion: v1\nmetadata: {name: a}\n", "in.yaml: document 2 (a): kind: is missing"},
		"no version":              {"kind: Pod\nmetadata: {name: a}\n", "in.yaml: document 2 (Pod a): apiVersion: is missing"},
		"another version":         {"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n", "in.yaml: document 2 (NodePool a): apiVersion: NodePool of karpenter.sh/v1beta1 is not understood; give it as karpenter.sh/v1"},
		"no name":                 {"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "in.yaml: document 2 (Pod): metadata.name: is missing"},
		"the same name":           {pod + "---\n" + pod, "in.yaml: document 3 (Pod default/a): metadata.name: default/a is that of an object in "},
		"the same uid":            {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b, uid: u}\n", "in.yaml: document 3 (Pod default/b): metadata.uid: u is that of an object in "},
		"no YAML":                 {"a: b: c\n", "in.yaml: document 2: "},
		"no mapping":              {"- a\n", "in.yaml: document 2: is not a mapping"},
		"JSON cut short":          {`{"apiVersion": "v1"`, "in.yaml: document 2: the file ends within a JSON object"},
		"an item of a list":       {"apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: x}\n- metadata: {name: z, labels: [z]}\n", "in.yaml: document 2 (Pod z): items[1].metadata.labels: is a list and must be a mapping"},
		"nothing in a list":       {"apiVersion: v1\nkind: List\nitems: [null]\n", "in.yaml: document 2: items[0]: is not a mapping"},
		"comments are no element": {"# nothing\n---\n\n---\nkind: Pod\n", "in.yaml: document 2 (Pod): apiVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(configOf(write(t, "in.yaml", poolDocument, c.text)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

// What only looks like such a quantity is no fault.
func TestTextLikeAQuantityIsLeftAlone(t *testing.T) {
	r, err := Run(configOf(write(t, "in.yaml", poolDocument, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"commit": "12e4567"}},
		"spec": {"containers": [{"name": "c", "image": "i@sha256:`+strings.Repeat("1", 300)+`", "env": [{"name": "E", "value": "1e2000000000"}]}]}}`)))
	if err != nil || r.Stats.Pods != 1 || !r.Complete() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFaultsOfTheCatalogue(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":           {`{"instanceTypes": [`, "cat.json: document 1"},
		"nothing":           {`{}`, "instanceTypes: is missing"},
		"no name":           {`{"instanceTypes": [{}]}`, "instanceTypes[0].name: is missing"},
		"twice":             {`{"instanceTypes": [{"name": "a"}, {"name": "a"}]}`, "instanceTypes[1].name: a is there twice"},
		"a price":           {`{"instanceTypes": [{"name": "a", "offerings": [{"price": "0.1"}, {"price": "cheap"}]}]}`, "instanceTypes[0].offerings[1].price: is not a price"},
		"a quantity":        {`{"instanceTypes": [{"name": "a", "capacity": {"cpu": "two"}}]}`, "instanceTypes[0].capacity.cpu: quantities"},
		"hours of one":      {`{"instanceTypes": [{"name": "a", "capacity": {"cpu": "1e-2000000000"}}]}`, "instanceTypes[0].capacity.cpu: is a number that takes too long"},
		"a long price":      {`{"instanceTypes": [{"name": "a", "offerings": [{"price": "1e-999999"}]}]}`, "instanceTypes[0].offerings[0].price: is a number that takes too long"},
		"an operator":       {`{"instanceTypes": [{"name": "a", "requirements": [{"key": "k", "operator": "Is", "values": ["v"]}]}]}`, "instanceTypes[0].requirements[0]: key k has an unsupported operator Is"},
		"no capacity type":  {`{"instanceTypes": [{"name": "a", "offerings": [{"zone": "z", "price": "1"}]}]}`, "instanceTypes[0].offerings[0].capacityType: is missing"},
		"a negative price":  {`{"instanceTypes": [{"name": "a", "offerings": [{"price": "-1"}]}]}`, "price: is not a price"},
		"fewer than none":   {`{"instanceTypes": [{"name": "a", "offerings": [{"capacityType": "reserved", "reservationCapacity": -1}]}]}`, "instanceTypes[0].offerings[0].reservationCapacity: is less than 0"},
		"types are no list": {`{"instanceTypes": {}}`, "instanceTypes: is a mapping and must be a list"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(write(t, "in.yaml", poolDocument))
			cfg.Catalog = write(t, "cat.json", c.text)
			_, err := Run(cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

func TestSourcesThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"input":        {configOf(file("nowhere.yaml")), "nowhere.yaml: no such file"},
		"catalogue":    {Config{Catalog: file("nowhere.json")}, "nowhere.json: no such file"},
		"no catalogue": {Config{}, "--catalog is required"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Run(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

func TestPricesInWordsOfMoney(t *testing.T) {
	for micro, want := range map[int64]string{96000: "0.096", 1_000_000: "1", 12_345_678: "12.345678", 1: "0.000001", 0: "0", 20_500_000: "20.5"} {
		if got := dollars(micro); got != want {
			t.Errorf("dollars(%d) = %s, want %s", micro, got, want)
		}
	}
	for text, want := range map[string]struct {
		micro, pico int64
		text        string
	}{
		`"0.0960"`: {96000, 96_000_000_000, "0.096"}, `0.5`: {500000, 500_000_000_000, "0.5"}, `"0"`: {1, 1, "0"}, `"1e-3"`: {1000, 1_000_000_000, "0.001"},
		`"0.0000004"`: {1, 400_000, "0.0000004"}, `"0.0000016"`: {2, 1_600_000, "0.0000016"}, `"0.0000000096"`: {1, 9_600, "0.0000000096"},
	} {
		var p price
		if err := json.Unmarshal([]byte(text), &p); err != nil || p.micro() != want.micro || p.pico != want.pico || p.text != want.text {
			t.Errorf("%s is %+v (%v), want %+v", text, p, err, want)
		}
	}
}

func TestOperatorsOfInstanceTypes(t *testing.T) {
	const key = "karpenter.k8s.aws/instance-gpu-name"
	for requirement, want := range map[string]string{
		`"operator": "In", "values": ["t4", "l4"]`: "t4 l4 exists", `"operator": "NotIn", "values": ["t4"]`: "l4 exists none", `"operator": "Exists"`: "t4 l4 exists",
		`"operator": "DoesNotExist"`: "none", `"operator": "Gt", "values": ["4"]`: "exists",
	} {
		t.Run(requirement, func(t *testing.T) {
			var documents []string
			for name, r := range map[string]string{"t4": "In, values: [t4]", "l4": "In, values: [l4]", "exists": "Exists", "none": "DoesNotExist"} {
				documents = append(documents, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c}],
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: %s}]}]}}}}}`, name, key, r))
			}
			c := configOf(write(t, "in.yaml", append(documents, poolDocument)...))
			c.Catalog = write(t, "catalog.json", fmt.Sprintf(`{"instanceTypes": [{"name": "a", "requirements": [{"key": %q, %s}],
"capacity": {"cpu": "4", "pods": "9"}, "offerings": [{"zone": "z", "capacityType": "on-demand", "price": 1}]}]}`, key, requirement))
			r, err := Run(c)
			if err != nil {
				t.Fatal(err)
			}
			refused := map[string]bool{}
			for _, u := range r.Unschedulable {
				refused[u.Pod] = true
			}
			for _, name := range []string{"t4", "l4", "exists", "none"} {
				if placed := !refused["default/"+name]; placed != slices.Contains(strings.Fields(want), name) {
					t.Errorf("%s placed: %v", name, placed)
				}
			}
		})
	}
}

// Everything that the builders of scheduling tests can make survives being written to files and read back.
func TestObjectsSurviveFiles(t *testing.T) {
	pod := plannertest.Pod("a", plannertest.Unschedulable(), plannertest.Requests("cpu", "100m"))
	b, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), `{"metadata"`, `{"apiVersion":"v1","kind":"Pod","metadata"`, 1)
	w, err := Load(configOf(write(t, "in.json", text)))
	if err != nil {
		t.Fatal(err)
	}
	got := w.Pod(pod.UID)
	if got == nil || !got.Unschedulable || got.UID != pod.UID || got.Class.Requests.MilliCPU != 100 || got.Created != pod.CreationTimestamp.UnixNano() {
		t.Errorf("%+v", got)
	}
}

// stream writes pods of a few kinds one by one, as they would come through a pipe.
type stream20k struct {
	n, of   int
	pending []byte
}

func (s *stream20k) Read(p []byte) (int, error) {
	if len(s.pending) == 0 {
		if s.n == s.of {
			return 0, io.EOF
		}
		s.pending = fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod-%d\n  labels:\n    app: a%d\nspec:\n  containers:\n  - name: c\n"+
			"    resources:\n      requests:\n        cpu: %dm\n        memory: %dMi\n---\n", s.n, s.n%7, 100+s.n%5*200, 128<<(s.n%4))
		s.n++
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

func TestTwentyThousandPodsFromAPipe(t *testing.T) {
	const pods = 20_000
	c := configOf(write(t, "pool.yaml", poolDocument), Source{"pipe", func() (io.ReadCloser, error) { return io.NopCloser(&stream20k{of: pods}), nil }})
	w, err := Load(c)
	if err != nil {
		t.Fatal(err)
	}
	if w.PodCount() != pods || w.ClassCount() != 140 {
		t.Errorf("%d pods of %d classes; equal pods share a class", w.PodCount(), w.ClassCount())
	}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	placed := []string{}
	for _, n := range r.NewNodeClaims {
		placed = append(placed, n.Pods...)
	}
	slices.Sort(placed)
	if !r.Complete() || len(slices.Compact(placed)) != pods {
		t.Errorf("%d pods placed, %d refused", len(placed), len(r.Unschedulable))
	}
}

// Allocations per document stay the same however many there are: nothing but the World grows.
func TestReadingKeepsNoDocuments(t *testing.T) {
	peak := func(n int) int {
		largest := 0
		s := Source{"pipe", func() (io.ReadCloser, error) { return io.NopCloser(&stream20k{of: n}), nil }}
		count := 0
		if err := s.each(func(d *document) error {
			count, largest = count+1, max(largest, cap(d.raw))
			return nil
		}); err != nil || count != n {
			t.Fatalf("%d documents, %v", count, err)
		}
		return largest
	}
	if few, many := peak(100), peak(20_000); many > 2*few {
		t.Errorf("the buffer grew from %d to %d bytes", few, many)
	}
}
