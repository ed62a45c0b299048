package apitest_test

import "slices"

// nodeClaims are cases of NodeClaim's own fields (reference: api §1.3).
func nodeClaims() []verdict {
	return slices.Concat([]verdict{
		accepts("the base", ""),
		accepts("resources", "resources: {requests: {cpu: 500m, memory: 1Gi, example.com/gpu: 1}}"),
		refuses("resources that are no quantity", "resources: {requests: {cpu: many}}", quantityMessage),
		refuses("no requirements", "requirements: null", "Required value"),
		refuses("no nodeClassRef", "nodeClassRef: null", "Required value"),
		refuses("an empty group", "nodeClassRef: {group: ''}", "group may not be empty"),
		refuses("an empty kind", "nodeClassRef: {kind: ''}", "kind may not be empty"),
		refuses("an empty name", "nodeClassRef: {name: ''}", "name may not be empty"),
		refuses("a group with a version", "nodeClassRef: {group: karpenter.k8s.aws/v1}", `should match '^[^/]*$'`),
		refuses("kubelet, which moved to the NodeClass", "kubelet: {maxPods: 1}", `unknown field "spec.kubelet"`),
	},
		each("expireAfter", "expireAfter: %s", "", "0s", "720h", "1h30m", "Never"),
		each("expireAfter", "expireAfter: %s", `should match '^(([0-9]+(s|m|h))+|Never)$'`, "10sfoo", "1d", "never", "''"),
		each("terminationGracePeriod", "terminationGracePeriod: %s", "", "0s", "48h", "1h30m"),
		each("terminationGracePeriod", "terminationGracePeriod: %s", `should match '^([0-9]+(s|m|h))+$'`, "Never", "1d", "''"),
		taints("spec"))
}
