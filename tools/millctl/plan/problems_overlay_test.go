package plan

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func overlayYAML(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

const (
	ofBig   = "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [a.big]}]"
	ofSmall = "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [a.small]}]"
)

var overlaysOn = []string{"--feature-gates", "NodeOverlay=true"}

var overlayProblems = []problem{
	{
		name:    "a price, of one capacity type",
		objects: defaultPool + overlayYAML("x", "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [a.big]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}], price: \"0.001\"") + podYAML("p", "1"),
		args:    overlaysOn, want: "default a.big zone-a on-demand 0.001: p",
	},
	{
		name:    "adjustments by an amount and by a share, never below 0",
		objects: defaultPool + overlayYAML("xx", ofBig+", priceAdjustment: \"-0.5\"") + overlayYAML("yy", ofSmall+", priceAdjustment: \"+50%\"") + podYAML("p", "1", "nodeSelector: {node.kubernetes.io/instance-type: a.small}") + podYAML("q", "5"),
		args:    overlaysOn, want: "default a.small zone-a spot 0.06: p\ndefault a.big zone-a on-demand 0: q",
	},
	{
		name:    "the heavier counts, of equals the later in order is not applied at all",
		objects: defaultPool + overlayYAML("heavy", "weight: 9, "+ofBig+", price: \"0.5\"") + overlayYAML("b", "weight: 2, "+ofBig+", price: \"0.01\"") + overlayYAML("a", "weight: 9, requirements: [], price: \"0.01\"") + podYAML("p", "1"),
		args:    overlaysOn, want: "default a.small zone-a spot 0.04: p",
	},
	{
		name:    "more capacity, of the types of one NodePool",
		objects: poolYAML("plain", "weight: 9, "+templateOf("requirements: []")) + poolYAML("rich", templateOf("requirements: []")) + overlayYAML("x", "requirements: [{key: karpenter.sh/nodepool, operator: In, values: [rich]}], capacity: {example.com/thing: \"2\"}") + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {requests: {example.com/thing: 2}}}]}\n",
		args:    overlaysOn, want: "rich a.small zone-a spot 0.04: p",
	},
}

func TestOverlaysThatAreNotApplied(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"both prices":         {`price: "1", priceAdjustment: "+1"`, "cannot set both 'price' and 'priceAdjustment'"},
		"no price":            {`price: "-1"`, `invalid price "-1"`},
		"no adjustment":       {`priceAdjustment: "1"`, `invalid priceAdjustment "1"`},
		"a restricted amount": {`capacity: {cpu: "1"}`, "invalid resource restricted: cpu"},
		"a restricted label":  {`requirements: [{key: karpenter.sh/x, operator: Exists}]`, "using label karpenter.sh/x is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := problem{objects: defaultPool + overlayYAML("x", c.spec) + podYAML("p", "1"), args: overlaysOn}
			r := p.run(t)
			var out bytes.Buffer
			if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "NodeOverlay x is not applied: "+c.want) {
				t.Errorf("%s, %v", out.String(), err)
			}
			if len(r.NewNodeClaims) != 1 || r.NewNodeClaims[0].CheapestOffering.Price != "0.04" {
				t.Errorf("it was applied: %+v", r.NewNodeClaims)
			}
		})
	}
}
