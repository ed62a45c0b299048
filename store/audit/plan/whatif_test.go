package plan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	pt "millwright/planner/plannertest"
)

// three is a NodePool at rest with three nodes, each filled by one pod, under a budget of one.
func rolling(t *testing.T) Server {
	t.Helper()
	pool := pt.Pool("default", pt.Budgets(karpv1.Budget{Nodes: "1"}), func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"m5.xlarge"}},
			{Key: karpv1.CapacityTypeLabelKey, Operator: "In", Values: []string{"on-demand"}}}
	})
	class := pt.NodeClass("default")
	class.Spec.Tags = map[string]string{"team": "a"}
	class.Status.AMIs = []awsv1.AMI{{ID: "ami-1"}}
	c := pt.New(append(pt.WithCatalogue(), pool, class)...)
	for _, n := range []string{"a", "b", "c"} {
		c.AddNode(n, "default")
		labels := map[string]string{corev1.LabelInstanceTypeStable: "m5.xlarge", karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelTopologyZone: "us-west-2a"}
		node := pt.Node(n, pt.InPool("default"))
		k := pt.Claim(n+"-claim", n, "default", func(k *karpv1.NodeClaim) {
			k.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: nodepool.Hash(pool), karpv1.NodePoolHashVersionAnnotationKey: nodepool.HashVersion}
			k.Status.ImageID = "ami-1"
			k.Status.Conditions = []metav1.Condition{pt.True(karpv1.ConditionTypeLaunched, pt.Start), pt.True(karpv1.ConditionTypeInitialized, pt.Start)}
		})
		for key, value := range labels {
			node.Labels[key], k.Labels[key] = value, value
		}
		c.See(node, k, pt.Pod("on-"+n, pt.On(n), pt.Requests("cpu", "3500m")))
	}
	c.Advance(time.Hour)
	return Server{World: c.World, Ledger: c.Ledger}
}

const (
	poolFile = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {%s}}
    spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [%s]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}
  disruption: {consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: "%s"}]}
`
	classFile = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec: {tags: {team: %s}%s}\n%s"
)

func fill(format string, values ...string) string {
	for _, v := range values {
		format = strings.Replace(format, "%s", v, 1)
	}
	return format
}

// Which nodes a change would drift and for which reason, and in how many waves it rolls out under the budget.
// The rules: disruption §7.
func TestWhatWouldDrift(t *testing.T) {
	for name, tc := range map[string]struct {
		file   string
		reason string
		waves  int
		nodes  int
	}{
		"the NodePool's template": {fill(poolFile, "team: blue", "m5.xlarge", "1"), "NodePoolDrifted", 3, 3},
		"the template, in waves": {fill(poolFile, "team: blue", "m5.xlarge", "100%") + "---\napiVersion: millwright.sh/v1alpha1\nkind: DisruptionPolicy\n" +
			"metadata: {name: waves}\nspec: {waves: {initial: 1}}\n", "NodePoolDrifted", 2, 3},
		"the NodePool's requirements": {fill(poolFile, "", "m5.2xlarge", "100%"), "RequirementsDrifted", 2, 2}, // two pods to a larger node, of which the second waits until it is there
		"a wider requirement":         {fill(poolFile, "", "m5.xlarge, m5.2xlarge", "1"), "", 0, 3},
		"the EC2NodeClass":            {fill(classFile, "b", "", ""), "NodeClassDrift", 3, 3},
		"its image":                   {fill(classFile, "a", "", "status: {amis: [{id: ami-2, requirements: []}]}\n"), "AMIDrift", 3, 3},
		"nothing":                     {fill(classFile, "a", "", ""), "", 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := rolling(t)
			r, err := RunDisruptionOn(Config{Sources: []Source{write(t, "in.yaml", tc.file)}, Now: pt.Start.Add(time.Hour)}, s, true)
			if err != nil {
				t.Fatal(err)
			}
			if r.Before == nil || len(r.Before.Commands) > 0 || r.Before.Settled == nil || len(r.Before.Settled.Nodes) != 3 {
				t.Fatalf("before: %+v", r.Before)
			}
			if tc.reason == "" {
				if len(r.Drift) > 0 || r.Rollout != nil || len(r.Commands) > 0 {
					t.Errorf("drift %v, commands %+v", r.Drift, r.Commands)
				}
				return
			}
			if len(r.Drift) != 3 || r.Drift[0] != (DriftedNode{"a", "default", tc.reason}) {
				t.Fatalf("drift %+v", r.Drift)
			}
			want := Rollout{Nodes: 3, Waves: tc.waves, NodeTime: "3m0s", Duration: (time.Duration(tc.waves) * 3 * time.Minute).String()}
			if r.Rollout == nil || *r.Rollout != want {
				t.Errorf("roll-out %+v, want %+v", r.Rollout, want)
			}
			if len(r.Commands) != 3 || r.Commands[0].Reason != "Drifted" || r.Settled == nil || len(r.Settled.Nodes) != tc.nodes {
				t.Errorf("commands %+v, settled %+v", r.Commands, r.Settled)
			}
		})
	}
}

// With other prices: what consolidation would do then, next to what it does now.
func TestDisruptionWithOtherPrices(t *testing.T) {
	s := rolling(t)
	prices := write(t, "prices.json", `{"prices": [{"instanceType": "m5.xlarge", "capacityType": "on-demand", "price": "9"}]}`)
	pool := write(t, "in.yaml", fill(poolFile, "", "m5.xlarge, c5.xlarge", "100%"))
	r, err := RunDisruptionOn(Config{Sources: []Source{pool}, Prices: prices, Now: pt.Start.Add(time.Hour)}, s, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Before.Commands) > 0 || len(r.Commands) == 0 || r.Before.Settled.Price != "0.576" || r.Settled.Price != "0.51" {
		t.Errorf("before %+v, after %+v", r.Before.Settled, r.Settled)
	}
	var table, out bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "BEFORE") || !strings.Contains(table.String(), "$/h at rest") {
		t.Errorf("%v in\n%s", err, table.String())
	}
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var fields struct{ Before, Settled map[string]any }
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil || fields.Before["settled"] == nil {
		t.Errorf("%v in %s", err, out.String())
	}
}

// What a running system has started is carried out first; and if nothing is changed, nothing is compared.
func TestDisruptionGoesOnFromWhatRuns(t *testing.T) {
	s := rolling(t)
	n := s.World.NodeClaim("a-claim")
	err := s.Ledger.Apply(ledger.Entry{Seq: s.Ledger.Seq() + 1, Time: pt.Start, Now: pt.Start, Mode: ledger.ModeActive, Kind: ledger.KindCommandStarted,
		Payload: &ledger.CommandStarted{Reason: "Drifted", Method: "static-drift", Candidates: []ledger.Candidate{{Node: "a", Claim: n.Name, ClaimUID: n.UID, NodePool: "default"}},
			Replacements: []ledger.PlannedClaim{{NodePool: "default", Cheapest: ledger.OfferingPrice{InstanceType: "m5.xlarge", Zone: "us-west-2a", CapacityType: "on-demand", MicroUSDPerHour: 192000},
				NodeClassRef: *pt.ClassRef("default")}}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := RunDisruptionOn(Config{Now: pt.Start.Add(time.Hour)}, s, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Commands) != 1 || !r.Commands[0].Running || r.Before != nil || len(r.Settled.Nodes) != 3 {
		t.Errorf("commands %+v, settled %+v", r.Commands, r.Settled)
	}
}
