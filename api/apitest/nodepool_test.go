package apitest_test

import (
	"fmt"
	"slices"
	"strings"
)

func template(spec string) string { return "template: {spec: {" + spec + "}}" }

// nodePools are cases of NodePool's own fields (reference: api §1.1).
func nodePools() []verdict {
	return slices.Concat([]verdict{
		accepts("the base", ""),
		refuses("no template", "template: null", "Required value"),
		refuses("no requirements", template("requirements: null"), "Required value"),
		refuses("no nodeClassRef", template("nodeClassRef: null"), "Required value"),
		refuses("an empty group", template("nodeClassRef: {group: ''}"), "group may not be empty"),
		refuses("an empty kind", template("nodeClassRef: {kind: ''}"), "kind may not be empty"),
		refuses("an empty name", template("nodeClassRef: {name: ''}"), "name may not be empty"),
		refuses("no group", template("nodeClassRef: {group: null}"), "Required value"),
		refuses("no kind", template("nodeClassRef: {kind: null}"), "Required value"),
		refuses("no name", template("nodeClassRef: {name: null}"), "Required value"),
		refuses("a group with a version", template("nodeClassRef: {group: karpenter.k8s.aws/v1}"), `should match '^[^/]*$'`),
		accepts("a foreign NodeClass", template("nodeClassRef: {group: example.com, kind: Other}")),

		accepts("weight 1", "weight: 1"),
		accepts("weight 100", "weight: 100"),
		refuses("weight 0", "weight: 0", "should be greater than or equal to 1"),
		refuses("weight 101", "weight: 101", "should be less than or equal to 100"),
		refuses("weight as text", "weight: '5'", `must be of type integer: "string"`),
		accepts("limits", "limits: {cpu: 1000, memory: 1000Gi, nodes: '10', example.com/gpu: 1k}"),
		refuses("limits that are no quantity", "limits: {cpu: many}", quantityMessage),
		accepts("a negative limit", "limits: {cpu: -1}"),

		accepts("replicas 0", "replicas: 0"),
		refuses("replicas -1", "replicas: -1", "should be greater than or equal to 0"),
		accepts("replicas with limits.nodes", "{replicas: 3, limits: {nodes: 5}}"),
		refuses("replicas with limits.cpu", "{replicas: 3, limits: {cpu: 5}}", "only 'limits.nodes' is supported on static NodePools"),
		refuses("replicas with limits.nodes and limits.cpu", "{replicas: 3, limits: {nodes: 5, cpu: 5}}", "only 'limits.nodes' is supported on static NodePools"),
		refuses("replicas with weight", "{replicas: 3, weight: 1}", "'weight' is not supported on static NodePools"),

		refuses("disruption without consolidateAfter", "disruption: {consolidationPolicy: WhenEmpty}", "Required value"),
		refuses("budgets without consolidateAfter", "disruption: {budgets: [{nodes: '1'}]}", "Required value"),
		refuses("an unknown field", "templates: {}", `unknown field "spec.templates"`),
		refuses("kubelet, which moved to the NodeClass", template("kubelet: {maxPods: 1}"), `unknown field "spec.template.spec.kubelet"`),
		refuses("resources of a template", template("resources: {requests: {cpu: 1}}"), `unknown field "spec.template.spec.resources"`),
	},
		each("policy", "disruption: {consolidateAfter: 1m, consolidationPolicy: %s}", "", "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"),
		each("policy", "disruption: {consolidateAfter: 1m, consolidationPolicy: %s}",
			`supported values: "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"`, "WhenUnderutilized", "whenEmpty", "Never"),
		budgets(), taints("template"))
}

const quantityMessage = `should match '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'`

func budgets() []verdict {
	budget := func(fields string) string { return "disruption: {consolidateAfter: 0s, budgets: [{" + fields + "}]}" }
	ten := budget("nodes: '1', schedule: '@daily', duration: %s")
	cron := budget("nodes: '1', schedule: '%s', duration: 1h")
	many := func(n int) string {
		return "disruption: {consolidateAfter: 0s, budgets: [" + repeated(n, func(int) string { return "{nodes: '1'}" }) + "]}"
	}
	const (
		nodes    = `should match '^((100|[0-9]{1,2})%|[0-9]+)$'`
		duration = `should match '^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$'`
		schedule = `should match '^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$'`
		pair     = "'schedule' must be set with 'duration'"
	)
	return slices.Concat([]verdict{
		accepts("no budgets", "disruption: {consolidateAfter: 0s, budgets: []}"),
		accepts("50 budgets", many(50)),
		refuses("51 budgets", many(51), "must have at most 50 items"),
		refuses("a schedule alone", budget("nodes: '1', schedule: '@daily'"), pair),
		refuses("a duration alone", budget("nodes: '1', duration: 1h"), pair),
		refuses("one of two budgets with a schedule alone", "disruption: {consolidateAfter: 0s, budgets: [{nodes: '1'}, {nodes: '1', schedule: '@daily'}]}", pair),
		refuses("nodes as a number", budget("nodes: 5"), `must be of type string: "integer"`),
		accepts("all reasons", budget("nodes: '1', reasons: [Underutilized, Empty, Drifted]")),
		accepts("no reasons", budget("nodes: '1', reasons: []")),
		refuses("an unknown reason", budget("nodes: '1', reasons: [Expired]"), `supported values: "Underutilized", "Empty", "Drifted"`),
		refuses("a reason twice", budget("nodes: '1', reasons: [Empty, Empty]"), `Duplicate value: "Empty"`),
		refuses("51 reasons", budget("nodes: '1', reasons: ["+repeated(51, func(int) string { return "Empty" })+"]"), "must have at most 50 items"),
	},
		each("nodes", budget("nodes: '%s'"), "", "0", "10", "1000000", "0%", "5%", "99%", "100%", "007"),
		each("nodes", budget("nodes: '%s'"), nodes, "101%", "1000%", "-1", "-1%", "5.5%", "10 %", "%", "", "many"),
		each("schedule", cron, "", "@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "0 9 * * 1-5", "*/5 * * * *", "a b c d e"),
		each("schedule", cron, schedule, "* * * *", "@every 5m", "daily", ""),
		each("budget duration", ten, "", "1h", "10m", "1h30m", "1h0s", "90m0s", "1h30m0s", "999h"),
		each("budget duration", ten, duration, "10s", "1h30m5s", "1.5h", "1d", "30m1h", "Never", "-1h", "''"),
	)
}

// taints are cases of taints and startupTaints; where is "template" for NodePools.
func taints(where string) []verdict {
	wrap := func(fields string) string { return fields }
	if where == "template" {
		wrap = template
	}
	var out []verdict
	for _, list := range []string{"taints", "startupTaints"} {
		taint := func(fields string) string { return wrap(list + ": [{" + fields + "}]") }
		of := func(v []verdict) []verdict {
			for i := range v {
				v[i].sentence = list + " " + v[i].sentence
			}
			return v
		}
		out = append(out, of(slices.Concat([]verdict{
			accepts("with key and effect", taint("key: a, effect: NoSchedule")),
			accepts("with value and time", taint("key: example.com/a, value: b, effect: NoExecute, timeAdded: '2024-01-01T00:00:00Z'")),
			accepts("twice the same", wrap(list+": [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}]")),
			refuses("without key", taint("effect: NoSchedule"), "Required value"),
			refuses("without effect", taint("key: a"), "Required value"),
			refuses("with an empty key", taint("key: '', effect: NoSchedule"), "should be at least 1 chars long"),
			refuses("with a bad key", taint("key: '?a', effect: NoSchedule"), keyMessage),
			refuses("with a bad value", taint("key: a, value: '?b', effect: NoSchedule"), keyMessage),
			refuses("with an unknown effect", taint("key: a, effect: Never"), `supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`),
			refuses("with an empty effect", taint("key: a, effect: ''"), `supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`),
		}, each("effect", taint("key: a, effect: %s"), "", "NoSchedule", "PreferNoSchedule", "NoExecute"),
		))...)
	}
	return out
}

const keyMessage = `should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'`

// durations are cases of the fields that take a duration or Never.
func durations() []verdict {
	const (
		nillable = `should match '^(([0-9]+(s|m|h))+|Never)$'`
		plain    = `should match '^([0-9]+(s|m|h))+$'`
	)
	after, expire, grace := "disruption: {consolidateAfter: '%s'}", template("expireAfter: '%s'"), template("terminationGracePeriod: '%s'")
	good := []string{"0s", "30s", "10m", "720h", "1h30m", "1m1m", "99999h"}
	bad := []string{"10sfoo", "foo10s", "1d", "1.5h", "-1h", "10", "1w", "100ms", "", " 1h"}
	return slices.Concat(
		each("consolidateAfter", after, "", append(good, "Never")...), each("consolidateAfter", after, nillable, append(bad, "never", "NeverEver")...),
		each("expireAfter", expire, "", append(good, "Never")...), each("expireAfter", expire, nillable, append(bad, "never", "NeverEver")...),
		each("terminationGracePeriod", grace, "", good...), each("terminationGracePeriod", grace, plain, append(bad, "Never")...),
		[]verdict{refuses("expireAfter as a number", template("expireAfter: 5"), `must be of type string: "integer"`)},
	)
}

// labels are cases of template labels and annotations.
func labels() []verdict {
	labelled := func(text string) string { return "template: {metadata: {labels: {" + text + "}}}" }
	many := func(n int) string {
		return labelled(repeated(n, func(i int) string { return fmt.Sprintf("k%d: v", i) }))
	}
	const value = `should match '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$'`
	return slices.Concat([]verdict{
		accepts("100 labels", many(100)),
		refuses("101 labels", many(101), "must have at most 100 items"),
		accepts("an empty label value", labelled("a: ''")),
		accepts("a label value of 63", labelled("a: "+strings.Repeat("b", 63))),
		refuses("a label value of 64", labelled("a: "+strings.Repeat("b", 64)), "may not be more than 63 bytes"),
		refuses("a label value with a slash", labelled("a: b/c"), value),
		refuses("a label value that ends in a dash", labelled("a: b-"), value),
		accepts("annotations of any form", "template: {metadata: {annotations: {'karpenter.sh/x': 'a/b c', 'kubernetes.io/hostname': ''}}}"),
		refuses("finalizers of a template", "template: {metadata: {finalizers: [a]}}", `unknown field "spec.template.metadata.finalizers"`),
	}, keyCases("label", labelled("'%s': v"), true))
}

// awsLabels are the keys of the restricted domain that may be asked for (api §2.2).
var awsLabels = []string{
	"ec2nodeclass", "instance-category", "instance-generation", "instance-family", "instance-size", "instance-cpu", "instance-memory",
	"instance-cpu-manufacturer", "instance-cpu-sustained-clock-speed-mhz", "instance-ebs-bandwidth", "instance-network-bandwidth",
	"instance-local-nvme", "instance-gpu-name", "instance-gpu-manufacturer", "instance-gpu-count", "instance-gpu-memory",
	"instance-accelerator-name", "instance-accelerator-manufacturer", "instance-accelerator-count", "instance-hypervisor",
	"instance-encryption-in-transit-supported", "instance-capability-flex", "instance-tenancy", "capacity-reservation-id",
	"capacity-reservation-type", "capacity-reservation-interruptible", "placement-group-id", "placement-group-partition",
}

// keyCases are the rules that label and requirement keys share.
func keyCases(what, patch string, pool bool) []verdict {
	var aws []string
	for _, l := range awsLabels {
		aws = append(aws, "karpenter.k8s.aws/"+l)
	}
	out := slices.Concat(
		each(what, patch, "", aws...),
		each(what, patch, "", "karpenter.sh/capacity-type", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
			"kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build",
			"node-restriction.kubernetes.io/team", "kops.k8s.io/instancegroup", "kubernetes.io/custom", "k8s.io/custom", "topology.k8s.aws/zone-id",
			"beta.kubernetes.io/arch", "failure-domain.beta.kubernetes.io/zone", "example.com/team", "team", "karpenter.sh.example.com/x", "example.com/karpenter.sh"),
		each(what, patch, `label domain "karpenter.sh" is restricted`, "karpenter.sh/initialized", "karpenter.sh/registered", "karpenter.sh/custom",
			"my-karpenter.sh/x", "sub.karpenter.sh/x", "karpenter.sh"),
		each(what, patch, `label domain "karpenter.k8s.aws" is restricted`, "karpenter.k8s.aws/custom", "karpenter.k8s.aws/instance-pods",
			"karpenter.k8s.aws/nitro-sandbox", "my-karpenter.k8s.aws/instance-cpu", "sub.karpenter.k8s.aws/instance-cpu", "karpenter.k8s.aws"),
		each(what, patch, `label "kubernetes.io/hostname" is restricted`, "kubernetes.io/hostname"),
	)
	if pool {
		return append(out, each(what, patch, `label "karpenter.sh/nodepool" is restricted`, "karpenter.sh/nodepool")...)
	}
	return append(out, each(what, patch, "", "karpenter.sh/nodepool")...)
}

// requirements are the cases of api §1.2, for NodePools or NodeClaims.
func requirements(pool bool) []verdict {
	list := func(items string) string {
		if pool {
			return template("requirements: [" + items + "]")
		}
		return "requirements: [" + items + "]"
	}
	req := func(fields string) string { return list("{" + fields + "}") }
	values := func(n int) string { return repeated(n, func(i int) string { return fmt.Sprintf("v%d", i) }) }
	many := func(n int) string { return list(repeated(n, func(int) string { return "{key: a, operator: Exists}" })) }
	const (
		in      = "requirements with operator 'In' must have a value defined"
		numbers = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value"
		minimum = "requirements with 'minValues' must have at least that many values specified in the 'values' field"
		ops     = `supported values: "Gt", "Lt", "Gte", "Lte", "Exists", "DoesNotExist", "In", "NotIn"`
	)
	return slices.Concat([]verdict{
		accepts("100 requirements", many(100)),
		refuses("101 requirements", many(101), "must have at most 100 items"),
		accepts("In with one value", req("key: a, operator: In, values: [b]")),
		accepts("In with 100 values", req("key: a, operator: In, values: ["+values(100)+"]")),
		refuses("In with an empty list", req("key: a, operator: In, values: []"), in),
		refuses("In without values", req("key: a, operator: In"), in),
		accepts("NotIn without values", req("key: a, operator: NotIn")),
		accepts("Exists with values", req("key: a, operator: Exists, values: [b]")),
		accepts("a value of any form, checked later", req("key: a, operator: In, values: ['???']")),
		accepts("a value of 64, checked later", req("key: a, operator: In, values: ["+strings.Repeat("b", 64)+"]")),
		refuses("no key", req("operator: Exists"), "Required value"),
		refuses("no operator", req("key: a"), "Required value"),
		accepts("a key of 316", req("key: "+strings.Repeat("k", 316)+", operator: Exists")),
		refuses("a key of 317", req("key: "+strings.Repeat("k", 317)+", operator: Exists"), "may not be more than 316 bytes"),
		accepts("minValues 1", req("key: a, operator: Exists, minValues: 1")),
		accepts("minValues 50", req("key: a, operator: Exists, minValues: 50")),
		refuses("minValues 0", req("key: a, operator: Exists, minValues: 0"), "should be greater than or equal to 1"),
		refuses("minValues 51", req("key: a, operator: Exists, minValues: 51"), "should be less than or equal to 50"),
		accepts("minValues as many as values", req("key: a, operator: In, minValues: 2, values: [b, c]")),
		refuses("minValues more than values", req("key: a, operator: In, minValues: 3, values: [b, c]"), minimum),
		accepts("minValues more than values of NotIn", req("key: a, operator: NotIn, minValues: 3, values: [b]")),
		refuses("the second requirement is looked at too", list("{key: a, operator: Exists}, {key: b, operator: In, values: []}"), in),
	},
		each("operator", req("key: a, operator: %s, values: ['1']"), "", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"),
		each("operator", req("key: a, operator: %s, values: ['1']"), ops, "in", "Equals", "''"),
		each("zero with", req("key: a, operator: %s, values: ['0']"), "", "Gt", "Lt", "Gte", "Lte"),
		each("no value with", req("key: a, operator: %s, values: []"), numbers, "Gt", "Lt", "Gte", "Lte"),
		each("absent values with", req("key: a, operator: %s"), numbers, "Gt", "Lt", "Gte", "Lte"),
		each("two values with", req("key: a, operator: %s, values: ['1', '2']"), numbers, "Gt", "Lt", "Gte", "Lte"),
		each("a negative value with", req("key: a, operator: %s, values: ['-1']"), numbers, "Gt", "Lt", "Gte", "Lte"),
		each("a word with", req("key: a, operator: %s, values: ['many']"), numbers, "Gt", "Lt", "Gte", "Lte"),
		each("a fraction with", req("key: a, operator: %s, values: ['1.5']"), numbers, "Gt", "Lt", "Gte", "Lte"),
		each("bad key", req("key: '%s', operator: Exists"), keyMessage, "a b", "?", "a/b/c", "/a", "a/", "Upper.example.com/a", "-a", ""),
		keyCases("requirement", req("key: '%s', operator: Exists"), pool),
	)
}
