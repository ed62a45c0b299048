package plan

import (
	"bytes"
	"strings"
	"testing"
)

const buffersInput = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  limits: {cpu: 64}
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 8
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, resources: {requests: {cpu: "1", memory: 1Gi}}}]}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: share}
spec: {scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 25}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: lost}
spec: {podTemplateRef: {name: nowhere}, replicas: 1}
`

func TestPlansWithCapacityBuffers(t *testing.T) {
	for gate, want := range map[string]struct {
		claims  int
		buffers string
	}{
		"CapacityBuffer=true": {2, "default/lost 0 0 0 0 PodTemplate \"nowhere\" not found\ndefault/share 2 0 2 0 \n"},
		"":                    {0, ""},
	} {
		c := configOf(Text("input.yaml", buffersInput))
		c.FeatureGates = gate
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.NewNodeClaims) != want.claims || !r.Complete() || r.Stats.Pods != 0 {
			t.Errorf("gate %q: %d claims, complete %v, %d pods", gate, len(r.NewNodeClaims), r.Complete(), r.Stats.Pods)
		}
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(want.buffers, "\n") {
			if !strings.Contains(strings.Join(strings.Fields(table.String()), " "), strings.TrimSpace(line)) {
				t.Errorf("gate %q: no line %q in\n%s", gate, line, table.String())
			}
		}
		var out bytes.Buffer
		if err := r.WriteJSON(&out); err != nil || strings.Contains(out.String(), "capacity-buffer-share-1") != (gate != "") {
			t.Errorf("gate %q: %v\n%s", gate, err, out.String())
		}
	}
}
