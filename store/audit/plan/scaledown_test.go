package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Five Deployments are scaled down to 30 % of their pods, and the cluster comes to rest by few commands,
// with hardly more evictions than anybody needs who wants that bill and buys nothing. Aims: disruption §4
// (the bill first; among bills within a hundredth of the best the least disruption).
func TestScaledDownDeploymentsComeToRest(t *testing.T) {
	for _, c := range []struct {
		name                          string
		pods, keep, cpuMax            int
		priceMax                      float64
		evictionsMax, replacementsMax int
	}{
		{"1,000 pods, types up to 8 CPU", 200, 60, 8, 6.05, 0, 1},
		{"500 pods, all types", 100, 30, 256, 2.90, 150, 4},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s, draw %d", c.name, seed), func(t *testing.T) {
				s := scaledDown(t, c.pods, c.keep, c.cpuMax, rand.New(rand.NewPCG(seed, 1)))
				d := s.disruption
				price, err := strconv.ParseFloat(d.Settled.Price, 64)
				if err != nil {
					t.Fatal(err)
				}
				bought := 0
				for _, command := range d.Commands {
					bought += len(command.Replacements)
				}
				fewest := s.fewestEvictions(price)
				t.Logf("from %.3f to %.3f $/h on %d nodes, %d commands, %d evictions (without buying at least %d), %d nodes bought",
					s.price(), price, len(d.Settled.Nodes), len(d.Commands), d.Settled.Evictions, fewest, bought)
				most := cmp.Or(c.evictionsMax, fewest*5/4)
				if price > c.priceMax || d.Settled.Evictions > most || bought > c.replacementsMax {
					t.Errorf("at most %.2f $/h, %d evictions and %d nodes bought are wanted", c.priceMax, most, c.replacementsMax)
				}
			})
		}
	}
}

var deployments = []struct{ name, cpu, memory string }{
	{"tiny", "100m", "256Mi"}, {"small", "250m", "512Mi"}, {"medium", "500m", "1Gi"}, {"large", "1", "2Gi"}, {"huge", "1500m", "4Gi"},
}

// scaled is a cluster after its Deployments were scaled down.
type scaled struct {
	// pods are how many each node has, by its type, the fullest first.
	pods map[string][]int
	// cpu in thousandths and memory in MiB that all pods request.
	cpu, memory int
	// disruption until it is at rest.
	disruption *Disruption
}

// scaledPrice of a type in $/h.
func scaledPrice(kind string) float64 {
	cpu, memory := scaledSize(kind)
	return 0.025*float64(cpu) + 0.001*float64(memory)
}

// price of all nodes in $/h.
func (s *scaled) price() (sum float64) {
	for kind, nodes := range s.pods {
		sum += float64(len(nodes)) * scaledPrice(kind)
	}
	return sum
}

// fewestEvictions is a bound from below for who comes to a bill by removing nodes only: pods may be cut to
// fill what is free, so that only the sums of CPU and memory count. Of a type those nodes stay that have the
// most pods.
func (s *scaled) fewestEvictions(bill float64) int {
	kinds := slices.Sorted(maps.Keys(s.pods))
	most := -1 // pods that stay where they are
	var choose func(i, kept, cpu, memory int, left float64)
	choose = func(i, kept, cpu, memory int, left float64) {
		if i == len(kinds) {
			if cpu >= s.cpu && memory >= s.memory {
				most = max(most, kept)
			}
			return
		}
		c, m := scaledSize(kinds[i])
		price := scaledPrice(kinds[i])
		for n, pods := range append([]int{0}, s.pods[kinds[i]]...) {
			if kept += pods; float64(n)*price > left+1e-9 {
				return
			}
			choose(i+1, kept, cpu+n*(c*1000-100), memory+n*(m*1024-10), left-float64(n)*price)
		}
	}
	choose(0, 0, 0, 0, bill)
	all := 0
	for _, nodes := range s.pods {
		for _, n := range nodes {
			all += n
		}
	}
	return all - most
}

// scaledDown plans nodes for all pods, keeps some of each Deployment, drawn at random, and works out what
// disruption makes of it.
func scaledDown(t *testing.T, pods, keep, cpuMax int, random *rand.Rand) *scaled {
	t.Helper()
	config := configOf(write(t, "before.yaml", scaledPool+scaledPods(pods, nil)))
	config.Catalog = Text("catalog.json", scaledCatalog(cpuMax))
	r, err := Run(config)
	if err != nil {
		t.Fatal(err)
	}
	s := &scaled{pods: map[string][]int{}}
	var b strings.Builder
	b.WriteString(scaledPool)
	on := map[string]string{}
	for i, c := range r.NewNodeClaims {
		name := fmt.Sprintf("n%03d", i)
		b.WriteString(scaledNode(name, c.CheapestOffering.InstanceType, c.CheapestOffering.Zone))
		for _, p := range c.Pods {
			on[p] = name
		}
	}
	for _, e := range deployments {
		for _, i := range random.Perm(pods)[keep:] {
			delete(on, fmt.Sprintf("default/%s-%d", e.name, i))
		}
		cpu, memory := resource.MustParse(e.cpu), resource.MustParse(e.memory)
		s.cpu += keep * int(cpu.MilliValue())
		s.memory += keep * int(memory.Value()>>20)
	}
	running := map[string]int{}
	for _, node := range on {
		running[node]++
	}
	for i, c := range r.NewNodeClaims {
		kind := c.CheapestOffering.InstanceType
		s.pods[kind] = append(s.pods[kind], running[fmt.Sprintf("n%03d", i)])
	}
	for _, nodes := range s.pods {
		slices.SortFunc(nodes, func(a, b int) int { return b - a })
	}
	b.WriteString(scaledPods(pods, on))
	config.Sources = []Source{write(t, "after.yaml", b.String())}
	if s.disruption, err = RunDisruption(config, true); err != nil {
		t.Fatal(err)
	}
	return s
}

const scaledPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}
  disruption: {consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: "100%"}]}
`

// scaledPods of all Deployments: those on nodes, or all of them pending if on is nil.
func scaledPods(n int, on map[string]string) string {
	var b strings.Builder
	for _, e := range deployments {
		for i := range n {
			name := fmt.Sprintf("%s-%d", e.name, i)
			node, status := "", ""
			if on != nil {
				if on["default/"+name] == "" {
					continue
				}
				node, status = "nodeName: "+on["default/"+name]+", ", "status: {phase: Running}\n"
			}
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %s}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[2]s, uid: %[2]s, controller: true}]}\n"+
				"spec: {%scontainers: [{name: a, resources: {requests: {cpu: %s, memory: %s}}}]}\n%s", name, e.name, node, e.cpu, e.memory, status)
		}
	}
	return b.String()
}

// scaledSize of a type c-8x, m-8x or s-8x: its CPUs and GiB.
func scaledSize(kind string) (cpu, memory int) {
	cpu, _ = strconv.Atoi(strings.TrimSuffix(kind[2:], "x"))
	return cpu, cpu * map[byte]int{'c': 2, 'm': 4, 's': 8}[kind[0]]
}

func scaledCatalog(cpuMax int) string {
	var types []string
	for _, family := range "cms" {
		for _, cpu := range []int{1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256} {
			name := fmt.Sprintf("%c-%dx", family, cpu)
			_, memory := scaledSize(name)
			if cpu > cpuMax {
				break
			}
			var offers []string
			for _, zone := range "abc" {
				offers = append(offers, fmt.Sprintf(`{"zone":"zone-%c","capacityType":"on-demand","price":"%.3f","available":true}`, zone, scaledPrice(name)))
			}
			types = append(types, fmt.Sprintf(`{"name":%q,"requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"kubernetes.io/os","operator":"In","values":["linux"]}],`+
				`"capacity":{"cpu":"%d","memory":"%dGi","pods":"%d"},"overhead":{"cpu":"100m","memory":"10Mi"},"offerings":[%s]}`, name, cpu, memory, max(110, 16*cpu), strings.Join(offers, ",")))
		}
	}
	return `{"instanceTypes":[` + strings.Join(types, ",") + `]}`
}

func scaledNode(name, kind, zone string) string {
	cpu, memory := scaledSize(kind)
	labels := fmt.Sprintf(`{karpenter.sh/nodepool: general, node.kubernetes.io/instance-type: %s, topology.kubernetes.io/zone: %s, karpenter.sh/capacity-type: on-demand, kubernetes.io/arch: amd64, kubernetes.io/os: linux, kubernetes.io/hostname: %s, karpenter.sh/registered: "true", karpenter.sh/initialized: "true"}`, kind, zone, name)
	conditions := `[{type: Initialized, status: "True", lastTransitionTime: "2026-03-02T08:00:00Z"}, {type: Consolidatable, status: "True", lastTransitionTime: "2026-03-02T08:00:00Z"}]`
	return fmt.Sprintf(`---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c-%[1]s, labels: %[2]s}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status: {nodeName: %[1]s, providerID: "aws:///%[3]s/i-%[1]s", conditions: %[4]s}
---
apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: %[2]s}
spec: {providerID: "aws:///%[3]s/i-%[1]s"}
status: {capacity: {cpu: "%[5]d", memory: %[6]dGi, pods: "%[7]d"}, allocatable: {cpu: "%[8]dm", memory: %[9]dMi, pods: "%[7]d"}, conditions: [{type: Ready, status: "True"}]}
`, name, labels, zone, conditions, cpu, memory, max(110, 16*cpu), cpu*1000-100, memory*1024-10)
}
