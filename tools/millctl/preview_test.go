package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
	"millwright/tools/millctl/preview"
)

func runMillctl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, _, err := runNoting(t, args...)
	return out, err
}

// runNoting returns what the command printed, and the notes it printed to standard error.
func runNoting(t *testing.T, args ...string) (string, string, error) {
	t.Helper()
	cmd := command()
	var out, notes bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), notes.String(), err
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	bottlerocketClass = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, amiSelectorTerms: [{alias: bottlerocket@latest}],
 subnetSelectorTerms: [{tags: {karpenter.sh/discovery: blue}}], securityGroupSelectorTerms: [{id: sg-1}]}}`
	customClass = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, amiFamily: Custom, amiSelectorTerms: [{id: ami-1}],
 userData: "#!/bin/sh\necho hello"}}`
	al2023Class = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}]}}`
	al2Class    = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, amiSelectorTerms: [{alias: al2@latest}]}}`
	al2Pods     = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, kubelet: {maxPods: 11}, amiSelectorTerms: [{alias: al2@latest}]}}`
	al2DNS      = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, kubelet: {clusterDNS: ["10.0.0.53"]}, amiSelectorTerms: [{alias: al2@latest}]}}`
	spotCatalog = `{"instanceTypes":[{"name":"m5.large","capacity":{"pods":"29"},"offerings":[{"zone":"a","capacityType":"spot","price":0.03,"available":true}]}]}`
	drySpot     = `{"instanceTypes":[{"name":"m5.large","capacity":{"pods":"29"},"offerings":[{"zone":"a","capacityType":"spot","available":false},{"zone":"a","capacityType":"on-demand","available":true}]}]}`
	twoTypes    = `{"instanceTypes":[{"name":"m5.large","capacity":{"pods":"29"}},{"name":"c5.large","capacity":{"pods":"20"}}]}`
	otherZone   = `{"instanceTypes":[{"name":"m5.large","capacity":{"pods":"29"},"offerings":[{"zone":"b","capacityType":"spot","available":true}]}]}`
)

func nodeClaim(requirements string) string {
	return `{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: c, labels: {team: blue, kubernetes.io/os: linux}}, spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default},
 taints: [{key: a, effect: NoSchedule}], requirements: [` + requirements + `]}}`
}

func TestUserData(t *testing.T) {
	anyType := `{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}`
	for sentence, c := range map[string]struct {
		class, requirements, catalog string
		args                         []string
		has, lacks                   string
		refused                      string
	}{
		"custom text is printed as it is":    {class: customClass, has: "#!/bin/sh\necho hello"},
		"labels, and taints":                 {class: bottlerocketClass, has: `team = "blue"`, lacks: "kubernetes.io/os"},
		"a claim that leaves one":            {class: bottlerocketClass, requirements: `{key: karpenter.sh/capacity-type, operator: In, values: [spot]}`, has: `"karpenter.sh/capacity-type" = "spot"`},
		"both are left and nothing is known": {class: bottlerocketClass, requirements: anyType, has: `"karpenter.sh/capacity-type" = "on-demand"`},
		"both are left and spot is there":    {class: bottlerocketClass, requirements: anyType, catalog: spotCatalog, has: `"karpenter.sh/capacity-type" = "spot"`},
		"both are left and spot is dry":      {class: bottlerocketClass, requirements: anyType, catalog: drySpot, has: `"karpenter.sh/capacity-type" = "on-demand"`},
		"spot is in another zone": {class: bottlerocketClass, catalog: otherZone, has: `"karpenter.sh/capacity-type" = "on-demand"`,
			requirements: anyType + `, {key: topology.kubernetes.io/zone, operator: In, values: [a]}`},
		"no type, no number of pods":      {class: al2Class, has: "--apiserver-endpoint", lacks: "max-pods"},
		"the number of pods of the type":  {class: al2Class, catalog: twoTypes, args: []string{"--instance-type", "c5.large"}, has: "--max-pods=20"},
		"the class's own number wins":     {class: al2Pods, catalog: twoTypes, args: []string{"--instance-type", "c5.large"}, has: "--max-pods=11"},
		"no CA bundle is known":           {class: al2Class, lacks: "--b64-cluster-ca", has: "--apiserver-endpoint"},
		"a CA bundle":                     {class: al2Class, args: []string{"--cluster-ca", "Y2E="}, has: "--b64-cluster-ca 'Y2E='"},
		"the address of DNS":              {class: al2Class, args: []string{"--cluster-dns", "10.100.0.10"}, has: "--dns-cluster-ip '10.100.0.10'"},
		"the class's own DNS wins":        {class: al2DNS, args: []string{"--cluster-dns", "10.100.0.10"}, has: "--dns-cluster-ip '10.0.0.53'"},
		"DNS that is no address":          {class: al2Class, args: []string{"--cluster-dns", "kube-dns"}, refused: "--cluster-dns kube-dns: is no IP address"},
		"AL2023 with a CIDR":              {class: al2023Class, args: []string{"--cluster-cidr", "10.100.0.0/16"}, has: "cidr: 10.100.0.0/16"},
		"AL2023 without one":              {class: al2023Class, refused: "CIDR"},
		"AL2023 with a broken CA":         {class: al2023Class, args: []string{"--cluster-cidr", "10.100.0.0/16", "--cluster-ca", "%"}, refused: "base64"},
		"a claim that leaves none":        {class: al2Class, requirements: `{key: karpenter.sh/capacity-type, operator: DoesNotExist}`, refused: "leave no capacity type"},
		"a type that is not there":        {class: al2Class, catalog: twoTypes, args: []string{"--instance-type", "x1.large"}, refused: `no instance type "x1.large"`},
		"a type without a catalogue":      {class: al2Class, args: []string{"--instance-type", "c5.large"}, refused: "--catalog"},
		"no class":                        {class: "{}", refused: "one EC2NodeClass, and has 0"},
		"two classes":                     {class: al2Class + "\n---\n" + customClass, refused: "one EC2NodeClass, and has 2"},
		"a class of an earlier version":   {class: strings.Replace(al2Class, "aws/v1", "aws/v1beta1", 1), refused: "millctl convert"},
		"a class that cannot be read":     {class: strings.Replace(al2Class, "role: r", "role: 5", 1), refused: "EC2NodeClass default: spec.role"},
		"a claim whose expiry is a fancy": {class: al2Class, requirements: "], expireAfter: 30d, startupTaints: [", refused: "NodeClaim c: spec.expireAfter"},
	} {
		t.Run(sentence, func(t *testing.T) {
			args := append([]string{"userdata", "-f", written(t, "class.yaml", c.class), "-f", written(t, "claim.yaml", nodeClaim(c.requirements)),
				"--cluster-name", "blue", "--cluster-endpoint", "https://api"}, c.args...)
			if c.catalog != "" {
				args = append(args, "--catalog", written(t, "catalog.json", c.catalog))
			}
			out, err := runMillctl(t, args...)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || out != "" {
					t.Errorf("error %v, want …%s…; printed %q", err, c.refused, out)
				}
				return
			}
			if err != nil || !strings.Contains(out, c.has) || c.lacks != "" && strings.Contains(out, c.lacks) {
				t.Errorf("error %v, printed\n%s", err, out)
			}
		})
	}
}

// account is a simulated EC2 that the command finds by environment variables alone.
func account(t *testing.T) *simclient.Client {
	t.Helper()
	s := sim.New(sim.Config{ClusterName: "blue", Region: "us-west-2", Settings: sim.DefaultSettings()})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": srv.URL, "AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"} {
		t.Setenv(name, value)
	}
	return simclient.New(srv.URL)
}

// Whatever keeps the pricing API from answering, the built-in prices are used instead, and the command says
// so soon.
func TestCatalogWithoutAPriceAPI(t *testing.T) {
	over := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(over) })
	gone := httptest.NewServer(nil)
	gone.Close()
	class := written(t, "class.yaml", bottlerocketClass)
	fault := func(f simclient.Fault) func(*testing.T, *simclient.Client) {
		return func(t *testing.T, c *simclient.Client) {
			f.Service = "pricing"
			if _, err := c.AddFault(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	endpoint := func(url string) func(*testing.T, *simclient.Client) {
		return func(t *testing.T, _ *simclient.Client) { t.Setenv("AWS_ENDPOINT_URL_PRICING", url) }
	}
	for sentence, c := range map[string]struct {
		missing func(*testing.T, *simclient.Client)
		args    []string
		note    string
	}{
		"no permission":         {fault(simclient.Fault{Action: "GetProducts", Code: "AccessDeniedException", Status: 400}), nil, "on-demand prices are the built-in ones of us-west-2, 2025-05-28; "},
		"nobody listens":        {endpoint(gone.URL), nil, "connection refused"},
		"nobody answers":        {endpoint(hangs.URL), []string{"--price-timeout", "4s"}, "context deadline exceeded"},
		"no such service":       {endpoint("http://pricing.invalid"), []string{"--price-timeout", "5s"}, "on-demand prices are the built-in ones of us-west-2, 2025-05-28; "},
		"an isolated network":   {func(*testing.T, *simclient.Client) {}, []string{"--isolated-vpc"}, "not asked in an isolated VPC"},
		"a failure of one page": {fault(simclient.Fault{Action: "GetProducts", Code: "ValidationException", Status: 400, Count: 1}), nil, "on-demand prices are the built-in ones of us-west-2, 2025-05-28; "},
	} {
		t.Run(sentence, func(t *testing.T) {
			c.missing(t, account(t))
			out, notes, err := runNoting(t, append([]string{"catalog", "-f", class, "-o", "json"}, c.args...)...)
			if err != nil || strings.Count(notes, "\n") != 1 || !strings.Contains(notes, c.note) {
				t.Fatalf("%v, noted %q, want …%s…", err, notes, c.note)
			}
			var catalog preview.Catalog
			if err := json.Unmarshal([]byte(out), &catalog); err != nil {
				t.Fatal(err)
			}
			m5 := catalog.InstanceTypes[slices.IndexFunc(catalog.InstanceTypes, func(it preview.InstanceType) bool { return it.Name == "m5.large" })]
			for _, o := range m5.Offerings {
				if o.Price == nil || o.CapacityType == "on-demand" && *o.Price != 0.096 {
					t.Errorf("offering %+v", o)
				}
			}
		})
	}
}

func TestCatalogOfAnAccount(t *testing.T) {
	account(t)
	class := written(t, "class.yaml", bottlerocketClass)
	out, err := runMillctl(t, "catalog", "-f", class, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var c preview.Catalog
	if err := json.Unmarshal([]byte(out), &c); err != nil || len(c.InstanceTypes) < 500 {
		t.Fatal(err, len(c.InstanceTypes))
	}
	m5 := c.InstanceTypes[slices.IndexFunc(c.InstanceTypes, func(it preview.InstanceType) bool { return it.Name == "m5.large" })]
	text, err := json.Marshal(struct {
		Capacity, Overhead, Allocatable any
	}{m5.Capacity, m5.Overhead, m5.Allocatable})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Capacity":{"cpu":"2","ephemeral-storage":"20Gi","memory":"7577Mi","pods":"29","vpc.amazonaws.com/pod-eni":"9"},` +
		`"Overhead":{"kubeReserved":{"cpu":"70m","ephemeral-storage":"1Gi","memory":"574Mi"},"systemReserved":{},"evictionThreshold":{"ephemeral-storage":"2Gi","memory":"100Mi"}},` +
		`"Allocatable":{"cpu":"1930m","ephemeral-storage":"17Gi","memory":"6903Mi","pods":"29","vpc.amazonaws.com/pod-eni":"9"}}`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for _, r := range []preview.Requirement{
		{Key: "karpenter.k8s.aws/instance-family", Operator: "In", Values: []string{"m5"}}, {Key: "karpenter.k8s.aws/instance-gpu-name", Operator: "DoesNotExist"},
	} {
		if !slices.ContainsFunc(m5.Requirements, func(have preview.Requirement) bool {
			return have.Key == r.Key && have.Operator == r.Operator && slices.Equal(have.Values, r.Values)
		}) {
			t.Errorf("lacks %+v: %+v", r, m5.Requirements)
		}
	}
	kinds := map[string]int{}
	for _, o := range m5.Offerings {
		if o.Price == nil || *o.Price <= 0 || !o.Available {
			t.Errorf("offering %+v", o)
		}
		kinds[o.CapacityType]++
	}
	if kinds["on-demand"] < 3 || kinds["on-demand"] != kinds["spot"] {
		t.Errorf("offerings: %v", kinds)
	}
	reserved, err := runMillctl(t, "catalog", "-f", class, "--reserved-enis", "1", "--diff", written(t, "old.json", out))
	if err != nil || !strings.Contains(reserved, "~ m5.large capacity pods: 29 -> 20\n") || strings.Contains(reserved, "price") {
		t.Errorf("diff: %v\n%.500s", err, reserved)
	}
	if same, err := runMillctl(t, "catalog", "-f", class, "--diff", written(t, "old.json", out)); err != nil || same != "" {
		t.Errorf("nothing changed: %v\n%.500s", err, same)
	}
	if table, err := runMillctl(t, "catalog", "-f", class); err != nil || !strings.Contains(table, "m5.large ") {
		t.Errorf("table: %v\n%.300s", err, table)
	}
}

func TestCatalogSaysWhatIsMissing(t *testing.T) {
	account(t)
	for want, class := range map[string]string{
		"did not match any subnets":   strings.Replace(bottlerocketClass, "karpenter.sh/discovery: blue", "karpenter.sh/discovery: other", 1),
		"one EC2NodeClass, and has 0": nodeClaim(""),
		"EC2NodeClass default: spec.": strings.Replace(bottlerocketClass, "role: r", "role: 5", 1),
	} {
		if out, err := runMillctl(t, "catalog", "-f", written(t, "class.yaml", class)); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%v, want …%s…; printed %.200s", err, want, out)
		}
	}
}
