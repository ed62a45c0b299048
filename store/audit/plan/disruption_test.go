package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"millwright/events"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
)

// cluster is a NodePool with nodes of m5.large, all of which may be consolidated, and pods on them, written
// as "pod node cpu".
func cluster(nodes string, pods ...string) string {
	var b strings.Builder
	b.WriteString(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}
  disruption: {consolidateAfter: 30s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: "100%"}]}
`)
	for _, n := range strings.Fields(nodes) {
		labels := `{karpenter.sh/nodepool: general, node.kubernetes.io/instance-type: m5.large, topology.kubernetes.io/zone: us-west-2a, karpenter.sh/capacity-type: on-demand, kubernetes.io/arch: amd64, kubernetes.io/os: linux, karpenter.sh/registered: "true", karpenter.sh/initialized: "true"}`
		fmt.Fprintf(&b, `---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c-%[1]s, labels: %[2]s}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status: {nodeName: %[1]s, providerID: "aws:///us-west-2a/i-%[1]s", conditions: [{type: Initialized, status: "True", lastTransitionTime: "2026-03-02T08:00:00Z"}, {type: Consolidatable, status: "True", lastTransitionTime: "2026-03-02T09:59:59Z"}]}
---
apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: %[2]s}
spec: {providerID: "aws:///us-west-2a/i-%[1]s"}
status: {capacity: {cpu: "2", memory: 8Gi, pods: "58"}, conditions: [{type: Ready, status: "True"}]}
`, n, labels)
	}
	for _, p := range pods {
		f := strings.Fields(p)
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec: {nodeName: %s, containers: [{name: a, resources: {requests: {cpu: "%s", memory: 1Gi}}}]}
status: {phase: Running, startTime: "2026-03-02T08:00:00Z"}
`, f[0], f[1], f[2])
	}
	return b.String()
}

func runDisruption(t *testing.T, settled bool, document string) *Disruption {
	t.Helper()
	r, err := RunDisruption(configOf(write(t, "in.yaml", document)), settled)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDisruptionNow(t *testing.T) {
	r := runDisruption(t, false, cluster("a b e", "p a 500m", "q b 500m", "r b 500m"))
	if len(r.Commands) != 2 || r.Commands[0].Reason != "Empty" || r.Commands[0].Nodes[0] != "e" || r.Settled != nil {
		t.Fatalf("commands %+v", r.Commands)
	}
	c := r.Commands[1]
	if c.Method != "single" || c.Nodes[0] != "a" || c.Evictions != 1 || c.Pods[0] != (Move{"default/p", "a", "b"}) || len(c.Replacements) != 0 {
		t.Errorf("the second command is %+v", c)
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if _, ok := fields["settled"]; ok || fields["commands"] == nil || fields["blocked"] == nil {
		t.Errorf("printed %s", out.String())
	}
}

func TestDisruptionUntilSettled(t *testing.T) {
	r := runDisruption(t, true, cluster("a b e", "p a 500m", "q b 500m", "r b 500m"))
	s := r.Settled
	last := r.Commands[len(r.Commands)-1]
	if s == nil || len(s.Nodes) == 0 || s.Evictions < 1 {
		t.Fatalf("settled %+v", s)
	}
	if len(last.Replacements) > 0 && s.Nodes[0] != fmt.Sprintf("replacement/%d/0", len(r.Commands)-1) {
		t.Errorf("nodes in the end %v, after %+v", s.Nodes, last)
	}
	if again := runDisruption(t, true, cluster("a b e", "p a 500m", "q b 500m", "r b 500m")); fmt.Sprint(again) == "" || len(again.Commands) != len(r.Commands) {
		t.Error("planned again, it is another plan")
	}
}

// A cluster that has settled stays as it is: no command follows for an hour, although every price moves by up
// to one percent each minute. The rules: disruption §11.
func TestASettledClusterStaysAtRest(t *testing.T) {
	var nodes, pods []string
	for i := range 16 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
		for j := range 1 + i%3 {
			pods = append(pods, fmt.Sprintf("p%d-%d n%d %dm", i, j, i, 100+150*((i+j)%4)))
		}
	}
	c := configOf(write(t, "in.yaml", cluster(strings.Join(nodes, " "), pods...)))
	types, err := readCatalog(c.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	w, err := load(c, types)
	if err != nil {
		t.Fatal(err)
	}
	d := newDisruption(c, w, ledger.New(""), types.exact)
	if d.runCommands(); len(d.out.Commands) == 0 {
		t.Fatal("nothing had to settle")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for minute := range 60 {
		d.config.Now = d.config.Now.Add(time.Minute)
		f, moved := feederOn(d.world, d.config.Now), &events.Prices{}
		for _, e := range types.prices.Entries {
			e.MicroUSDPerHour += e.MicroUSDPerHour * (random.Int64N(201) - 100) / 10_000
			moved.Entries = append(moved.Entries, e)
		}
		f.send(events.Observation{Op: events.OpUpsert, Kind: events.KindPrices, Object: moved})
		f.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
		if decision, _ := disrupt.Plan(d.snapshot()); decision != nil {
			d.start(decision, d.config.Now)
			t.Fatalf("minute %d: %+v", minute+1, *d.last())
		}
	}
}

// The output names what keeps a node.
func TestDisruptionSaysWhatBlocks(t *testing.T) {
	for name, tc := range map[string]struct{ extra, want string }{
		"a PodDisruptionBudget": {`---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: 0}
`, "PodDisruptionBudget default/web"},
		"a pod": {`---
apiVersion: v1
kind: Pod
metadata: {name: held, annotations: {karpenter.sh/do-not-disrupt: "true"}}
spec: {nodeName: a, containers: [{name: a}]}
status: {phase: Running}
`, "pod default/held"},
	} {
		t.Run(name, func(t *testing.T) {
			r := runDisruption(t, false, cluster("a", "p a 1")+tc.extra)
			if len(r.Commands) > 0 || len(r.Blocked) != 1 || !strings.Contains(r.Blocked[0].Reasons[0], tc.want) {
				t.Errorf("commands %+v, blocked %+v, want %s", r.Commands, r.Blocked, tc.want)
			}
		})
	}
}

const policyHead = "---\napiVersion: millwright.sh/v1alpha1\nkind: DisruptionPolicy\nmetadata: {name: d}\n"

// What only waits for a time within 30 days is planned; of what comes later it is said that it may.
func TestUntilSettledLooksAMonthAhead(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, note string
		commands   bool
	}{
		"three days":             {spec: `{pause: {until: "2026-03-05T10:00:00Z"}}`, commands: true},
		"a window each week":     {spec: `{windows: [{action: Allow, schedule: "0 2 * * 6", duration: 3h}]}`, commands: true},
		"a year":                 {spec: `{pause: {until: "2027-03-02T10:00:00Z"}}`, note: "no command follows before 2027-03-02T10:00:00Z: more may then"},
		"what no time ever ends": {spec: `{maxEvictionsPerHour: 0}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := runDisruption(t, true, cluster("a b", "p a 500m", "q b 500m")+policyHead+"spec: "+tc.spec+"\n")
			if got := strings.Join(r.Notes, "; "); len(r.Commands) > 0 != tc.commands || got != tc.note || r.Settled == nil {
				t.Errorf("commands %+v, notes %q, want %q", r.Commands, got, tc.note)
			}
			var table bytes.Buffer
			if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), tc.note) {
				t.Errorf("%v, printed %s", err, table.String())
			}
		})
	}
}

func TestTheTableMarksWhatIsToBeApprovedAndWhatRuns(t *testing.T) {
	r := runDisruption(t, false, cluster("a b", "p a 500m", "q b 500m")+policyHead+"spec: {approval: {}}\n")
	if len(r.Commands) == 0 || !r.Commands[0].Approval {
		t.Fatalf("commands %+v", r.Commands)
	}
	r.Commands = append(r.Commands, Command{Method: "drift", Reason: "Drifted", Running: true}, Command{Method: "drift", Reason: "Empty"})
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Underutilized (to be approved)  a", "Drifted (runs already)", "Empty  "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
}

// What the API server would refuse is not passed over.
func TestPoliciesOfFilesAreReadStrictly(t *testing.T) {
	refused := func(spec, want string) {
		t.Helper()
		_, err := RunDisruption(configOf(write(t, "in.yaml", cluster("a b", "p a 500m", "q b 500m")+policyHead+spec)), false)
		if err == nil || !strings.HasSuffix(err.Error(), want) || !strings.Contains(err.Error(), "in.yaml: document ") {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
	refused("spec: {minNodeAges: 1000h}\n", "(DisruptionPolicy d): spec.minNodeAges: is not a field of a DisruptionPolicy")
	refused("spec: {windows: [{action: Deny, schedule: \"0 0 * * *\", duration: 24h}, {action: Deny, schedul: {}}]}\n",
		"(DisruptionPolicy d): spec.windows[1].schedul: is not a field of a DisruptionPolicy")
	refused("specs: {}\n", "(DisruptionPolicy d): specs: is not a field of a DisruptionPolicy")
	for spec, want := range map[string]string{
		`{windows: [{action: deny, schedule: "0 0 * * *", duration: 24h}]}`: `spec.windows[0].action: "deny" must be one of Allow, Deny`,
		`{savings: {payBack: {}}}`: "spec.savings.payBack.costPerEviction: is missing",
	} {
		r := runDisruption(t, false, cluster("a b", "p a 500m", "q b 500m")+policyHead+"spec: "+spec+"\nstatus: {nodePoolCount: 1}\n")
		if len(r.Commands) > 0 || len(r.Blocked) != 2 || !strings.Contains(r.Blocked[0].Reasons[0], want) {
			t.Errorf("commands %+v, blocked %+v, want %s", r.Commands, r.Blocked, want)
		}
	}
}

func TestABudgetThatCannotBeReadIsNamed(t *testing.T) {
	r := runDisruption(t, false, strings.Replace(cluster("a b", "p a 500m", "q b 500m"), `{nodes: "100%"}`, `{nodes: "10%", schedule: "61 * * * *", duration: 1h}`, 1))
	const want = `the disruption budgets of NodePool general can't be read: budget 0: parse schedule "61 * * * *": `
	if len(r.Blocked) != 2 || !strings.HasPrefix(r.Blocked[0].Reasons[0], want) {
		t.Errorf("blocked %+v, want %s", r.Blocked, want)
	}
}
