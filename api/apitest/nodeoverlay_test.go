package apitest_test

import "slices"

// nodeOverlays are cases of NodeOverlay (reference: api §1.5).
func nodeOverlays() []verdict {
	requirement := func(r string) string { return "requirements: [{" + r + "}]" }
	return slices.Concat([]verdict{
		accepts("the base", ""),
		refuses("no requirements", "requirements: null", "Required value"),
		accepts("a price", "price: '1.25'"),
		refuses("a negative price", "price: '-1'", `should match '^\d+(\.\d+)?$'`),
		refuses("a price and an adjustment", "{price: '1', priceAdjustment: '+1%'}", "cannot set both 'price' and 'priceAdjustment'"),
		accepts("capacity", "capacity: {example.com/dongle: 2}"),
		accepts("weight 10000", "weight: 10000"),
		refuses("weight 0", "weight: 0", "should be greater than or equal to 1"),
		refuses("weight 10001", "weight: 10001", "should be less than or equal to 10000"),
		accepts("a NodePool", requirement("key: karpenter.sh/nodepool, operator: In, values: [default]")),
		refuses("In without a value", requirement("key: a, operator: In, values: []"), "requirements with operator 'In' must have a value defined"),
		refuses("NotIn without a value", requirement("key: a, operator: NotIn, values: []"), "requirements with operator 'NotIn' must have a value defined"),
		refuses("Gt of two values", requirement("key: a, operator: Gt, values: ['1', '2']"), "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value"),
		refuses("minValues", requirement("key: a, operator: Exists, minValues: 2"), `unknown field "spec.requirements[0].minValues"`),
		refuses("the hostname", requirement("key: kubernetes.io/hostname, operator: Exists"), `label "kubernetes.io/hostname" is restricted`),
	},
		each("adjustment", "priceAdjustment: '%s'", "", "+1.2", "-0.5", "+10%", "+250%", "-15%", "-99.5%", "-100%"),
		each("adjustment", "priceAdjustment: '%s'", `should match '^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$'`, "1.2", "10%", "-101%", "much"),
		each("capacity", "capacity: {%s: 1}", "invalid resource restricted", "cpu", "memory", "ephemeral-storage", "pods"),
		each("key", requirement("key: %s, operator: Exists"), "", "karpenter.k8s.aws/instance-family", "topology.kubernetes.io/zone", "team"),
		each("key", requirement("key: %s, operator: Exists"), `label domain "karpenter.k8s.aws" is restricted`,
			"karpenter.k8s.aws/instance-tenancy", "karpenter.k8s.aws/capacity-reservation-id", "karpenter.k8s.aws/placement-group-id", "karpenter.k8s.aws/other"),
	)
}
