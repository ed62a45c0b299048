package plan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const drainOutPolicy = `---
apiVersion: millwright.sh/v1alpha1
kind: DisruptionPolicy
metadata: {name: out}
spec: {drainOut: {nodes: "1"}}
`

// protected makes a pod one that nobody may disturb.
func protected(document, pod string) string {
	return strings.Replace(document, "metadata: {name: "+pod+", ", `metadata: {name: `+pod+`, annotations: {karpenter.sh/do-not-disrupt: "true"}, `, 1)
}

// A node that only a protected pod keeps is to run empty, if the pod fits elsewhere and a policy wants it.
func TestDisruptionNamesNodesThatDrainOut(t *testing.T) {
	document := protected(protected(cluster("a b", "p a 500m", "q b 1"), "p"), "q")
	for name, settled := range map[string]bool{"now": false, "until settled": true} {
		t.Run(name, func(t *testing.T) {
			r := runDisruption(t, settled, document+drainOutPolicy)
			if len(r.DrainOut) != 1 {
				t.Fatalf("drain out: %+v, commands %+v", r.DrainOut, r.Commands)
			}
			n := r.DrainOut[0]
			if n.Node != "a" || n.NodePool != "general" || n.Policy != "out" || n.Since != nil || len(n.Pods) != 1 || n.Pods[0] != (HoldingPod{"default/p", "do-not-disrupt"}) {
				t.Errorf("drains out: %+v", n)
			}
			var out bytes.Buffer
			if err := r.WriteJSON(&out); err != nil {
				t.Fatal(err)
			}
			var printed struct {
				DrainOut []DrainingNode `json:"drainOut"`
			}
			if err := json.Unmarshal(out.Bytes(), &printed); err != nil || len(printed.DrainOut) != 1 || printed.DrainOut[0].Savings != n.Savings {
				t.Errorf("%v in %s", err, out.String())
			}
			out.Reset()
			if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "a runs empty:") {
				t.Errorf("%v in %s", err, out.String())
			}
		})
	}
	t.Run("not without a policy", func(t *testing.T) {
		if r := runDisruption(t, false, document); len(r.DrainOut) > 0 {
			t.Errorf("drain out: %+v", r.DrainOut)
		}
	})
	t.Run("not if its pod fits nowhere else", func(t *testing.T) {
		if r := runDisruption(t, false, protected(protected(cluster("a b", "p a 1500m", "q b 1500m"), "p"), "q")+drainOutPolicy); len(r.DrainOut) > 0 {
			t.Errorf("drain out: %+v", r.DrainOut)
		}
	})
}
