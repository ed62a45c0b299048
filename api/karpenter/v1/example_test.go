package v1_test

import (
	"fmt"

	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
)

// A NodePool as users write it.
func ExampleNodePool() {
	var pool karpv1.NodePool
	if err := yaml.UnmarshalStrict([]byte(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
      expireAfter: 720h
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 1m30s
    budgets: [{nodes: 10%}]
`), &pool); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pool.Name, pool.Spec.Template.Spec.Requirements[0].Values, pool.Spec.Disruption.ConsolidateAfter.Duration,
		pool.Spec.Disruption.Budgets[0].Nodes)
	// Output: default [spot on-demand] 1m30s 10%
}
