package plan

import (
	"fmt"
	"strings"
)

func poolYAML(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

func templateOf(spec string) string { return "template: {spec: {" + spec + "}}" }

// nodeYAML is an initialized node of 2 CPUs.
func nodeYAML(name, zone, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: {kubernetes.io/hostname: %[1]s, topology.kubernetes.io/zone: %[2]s, karpenter.sh/nodepool: default,
  karpenter.sh/registered: "true", karpenter.sh/initialized: "true", node.kubernetes.io/instance-type: a.small}}
spec: {providerID: "aws:///%[2]s/i-%[1]s"%[3]s}
status: {capacity: {cpu: "2", memory: 4Gi, pods: "20"}, allocatable: {cpu: "2", memory: 4Gi, pods: "20"}}
`, name, zone, more)
}

const (
	required    = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}"
	spreadZone  = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: w}}%s}]"
	spreadHost  = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: %s, labelSelector: {matchLabels: {app: w}}}]"
	nearW       = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: %s, labelSelector: {matchLabels: {app: w}}}]}}"
	antiHost    = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: w}}}]}}"
	zoneClass   = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: zonal}\nprovisioner: ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\nallowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [zone-b]}]}]\n"
	mountData   = "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]"
	nodeClaimed = "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: %s, labels: {karpenter.sh/nodepool: default%s}}\nspec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [a.small]}]%s}\n"
)

var podProblems = []problem{
	{
		name:    "a gated pod waits for its gate, one that is nominated for its node, and one with another reason for kube-scheduler",
		objects: podYAML("gated", "1", "schedulingGates: [{name: x}]") + podYAML("nom", "1") + "status: {nominatedNodeName: x, conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable}]}\n" + podYAML("oth", "1") + "status: {phase: Pending}\n" + podYAML("p", "1"),
		want:    "default a.small zone-a spot 0.04: p",
	},
	{
		name: "sidecars count for ever, init containers at their peak",
		objects: `---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  initContainers:
  - {name: side, restartPolicy: Always, resources: {requests: {cpu: 500m}}}
  - {name: init, resources: {requests: {cpu: "1"}}}
  containers: [{name: c, resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: q}
spec:
  initContainers: [{name: init, resources: {requests: {cpu: "3"}}}]
  containers: [{name: c, resources: {requests: {cpu: "1"}}}]
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}
`,
		want: "default a.small zone-a spot 0.04: p\ndefault a.big zone-a spot 0.16: q",
	},
	{
		name: "requests of the pod itself replace those of its containers, limits stand in for requests",
		objects: podYAML("p", "1", "resources: {requests: {cpu: \"5\"}}") +
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: l}\nspec: {containers: [{name: c, resources: {limits: {cpu: \"2500m\"}}}]}\n",
		want: "default a.big zone-a spot 0.16: l p",
	},
	{
		name:    "overhead of a pod's runtime counts",
		objects: podYAML("p", "1500m", "overhead: {cpu: 500m}"),
		want:    "default a.big zone-a spot 0.16: p",
	},
	{
		name:    "restricted and malformed requirements",
		objects: podYAML("a", "1", `nodeSelector: {karpenter.k8s.aws/foo: "x"}`) + podYAML("b", "1", "nodeSelector: {kubernetes.io/hostname: h}") + podYAML("c", "1", fmt.Sprintf(required, "{matchFields: [{key: metadata.name, operator: In, values: [x]}]}")) + podYAML("d", "1", fmt.Sprintf(required, "{matchExpressions: [{key: cpu, operator: Gt, values: [x]}]}")) + podYAML("e", "1", "nodeSelector: {team: red}"),
		want: `no a: using label karpenter.k8s.aws/foo is not allowed as it might interfere with the internal provisioning logic; specify a well known label: [
			no b: using label kubernetes.io/hostname is not allowed
			no c: node selector term with matchFields is not supported
			no d: key cpu with operator Gt must have a single positive integer value
			no e: incompatible requirements, label "team" does not have known values`,
	},
	{
		name: "a pod may refuse our nodes; if only one of its terms does, the other counts",
		objects: podYAML("a", "1", fmt.Sprintf(required, "{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}")) +
			podYAML("b", "1", fmt.Sprintf(required, "{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}, {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-b]}]}")),
		want: `no a: configured to not run on a Karpenter provisioned node
			default a.small zone-b on-demand 0.1: b`,
	},
	{
		name:    "resource claims are refused and said so",
		objects: podYAML("a", "1", "resourceClaims: [{name: gpu, resourceClaimName: x}]"),
		want:    "no a: pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter",
	},
	{
		name:    "a typo of a million cores",
		objects: podYAML("a", "1000000"),
		want:    "no a: (CPU request >= 1 Million, m vs M typo?)",
	},
	{
		name:    "terms are alternatives, and preferences are given up, the lightest last",
		objects: podYAML("a", "900m", fmt.Sprintf(required, "{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [mars]}]}, {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-b]}]}")) + podYAML("b", "900m", "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 9, preference: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [mars]}]}}, {weight: 1, preference: {matchExpressions: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}]}}"),
		want:    "default a.small zone-b on-demand 0.1: a b",
	},
}

var poolProblems = []problem{
	{
		name: "the heavier NodePool first, then by name descending; one that is being deleted, static or not ready not at all",
		objects: poolYAML("light", templateOf("requirements: []")) + poolYAML("a", "weight: 5, "+templateOf("requirements: []")) + poolYAML("b", "weight: 5, "+templateOf("requirements: []")) +
			poolYAML("static", "replicas: 0, "+templateOf("requirements: []")) +
			"---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gone, deletionTimestamp: \"2026-03-02T09:00:00Z\", finalizers: [x]}\nspec: {weight: 9, template: {spec: {requirements: []}}}\n" +
			poolYAML("unready", "weight: 8, "+templateOf("requirements: []")) + "status: {conditions: [{type: Ready, status: \"False\", reason: X, message: m, lastTransitionTime: \"2026-03-02T09:00:00Z\"}]}\n" +
			podYAML("p", "1"),
		want: "b a.small zone-a spot 0.04: p",
	},
	{
		name: "taints must be tolerated, startup taints need not",
		objects: poolYAML("t", templateOf("requirements: [], taints: [{key: k, value: v, effect: NoSchedule}]")) +
			poolYAML("s", templateOf("requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [a.big]}], startupTaints: [{key: s, effect: NoExecute}]")) +
			podYAML("p", "1") + podYAML("q", "1100m", "tolerations: [{key: k, operator: Equal, value: v, effect: NoSchedule}]"),
		want: "s a.big zone-a spot 0.16: p\nt a.small zone-a spot 0.04: q",
	},
	{
		name:    "an untolerated taint is named",
		objects: poolYAML("t", templateOf("requirements: [], taints: [{key: k, value: v, effect: NoSchedule}]")) + poolYAML("u", templateOf("requirements: [], taints: [{key: k, effect: NoExecute}]")) + podYAML("p", "1"),
		want:    "no p: did not tolerate taint (taint=k:NoExecute); did not tolerate taint (taint=k=v:NoSchedule)",
	},
	{
		name: "PreferNoSchedule is avoided until nothing else is left",
		objects: poolYAML("prefer", "weight: 9, "+templateOf("requirements: [], taints: [{key: k, effect: PreferNoSchedule}]")) +
			poolYAML("small", templateOf("requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [a.small]}]")) + podYAML("p", "1") + podYAML("q", "5"),
		want: "small a.small zone-a spot 0.04: p\nprefer a.big zone-a spot 0.16: q",
	},
	{
		name:    "limits hold for what is planned and for what is there",
		objects: poolYAML("default", "limits: {cpu: \"4\"}, "+templateOf("requirements: []")) + nodeYAML("n1", "zone-a", "") + podYAML("w1", "1500m", antiHost) + podYAML("w2", "1500m", antiHost) + podYAML("w3", "1500m", antiHost),
		want:    "on n1: w1\ndefault a.small zone-a spot 0.04: w2\nno w3: all available instance types exceed limits for nodepool (NodePool=default)",
	},
	{
		name:    "the number of nodes is limited",
		objects: poolYAML("default", "limits: {nodes: \"1\"}, "+templateOf("requirements: []")) + podYAML("w1", "1", antiHost) + podYAML("w2", "1", antiHost),
		want:    "default a.small zone-a spot 0.04: w1\nno w2: node limits have been exhausted for nodepool (NodePool=default)",
	},
	{
		name:    "minValues need so many values",
		objects: poolYAML("default", templateOf("requirements: [{key: node.kubernetes.io/instance-type, operator: Exists, minValues: 2}]")) + podYAML("p", "1") + podYAML("q", "5"),
		want:    "default a.small zone-a spot 0.04: p\nno q: minValues requirement is not met for label(s) (label(s)=[node.kubernetes.io/instance-type])",
	},
	{
		name:    "a NodePool without a type that can be had",
		objects: poolYAML("default", templateOf("requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [mars]}]")) + podYAML("p", "1"),
		want:    "no p: nodepool requirements filtered out all available instance types; NodePool requirements filtered out all compatible available instance types",
	},
	{
		name:    "no NodePool at all",
		objects: podYAML("p", "1") + poolYAML("static", "replicas: 0, "+templateOf("requirements: []")),
		want:    "no p: no dynamic nodepools found",
	},
	{
		name: "labels of the template and of requirements can be asked for",
		objects: "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec: {template: {metadata: {labels: {team: red}}, spec: {requirements: [{key: tier, operator: In, values: [gold, iron]}, {key: any, operator: Exists}]}}}\n" +
			podYAML("a", "1", "nodeSelector: {team: red, tier: iron, any: thing}") + podYAML("b", "1", "nodeSelector: {tier: lead}"),
		want: "default a.small zone-a spot 0.04: a\nno b: incompatible requirements, key tier, tier In [lead] not in tier In [gold iron]",
	},
	{
		name: "DaemonSets take room on the nodes they run on",
		objects: defaultPool + `---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {template: {spec: {nodeSelector: {karpenter.sh/capacity-type: spot}, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: elsewhere}
spec: {template: {spec: {nodeSelector: {pool: other}, containers: [{name: c, resources: {requests: {cpu: "7"}}}]}}}
` + podYAML("p", "1500m", "nodeSelector: {topology.kubernetes.io/zone: zone-a}"),
		want: "default a.big zone-a spot 0.16: p",
	},
}

var nodeProblems = []problem{
	{
		name:    "nodes that exist first, as far as taints, labels and room allow",
		objects: defaultPool + nodeYAML("n1", "zone-a", "") + nodeYAML("cordoned", "zone-a", ", unschedulable: true") + nodeYAML("tainted", "zone-a", ", taints: [{key: k, effect: NoSchedule}]") + podYAML("p", "1500m") + podYAML("q", "1", "nodeSelector: {topology.kubernetes.io/zone: zone-b}"),
		want:    "on n1: p\ndefault a.small zone-b on-demand 0.1: q",
	},
	{
		name:    "pods of a node that is being deleted need a new place, those of a DaemonSet do not",
		objects: defaultPool + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1, deletionTimestamp: \"2026-03-02T09:00:00Z\", finalizers: [x], labels: {karpenter.sh/nodepool: default}}\nspec: {providerID: \"aws:///zone-a/i-n1\"}\nstatus: {allocatable: {cpu: \"8\", memory: 8Gi, pods: \"9\"}}\n" + podYAML("p", "1", "nodeName: n1") + "status: {phase: Running}\n" + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: d, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}\nspec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: \"5\"}}}]}\nstatus: {phase: Running}\n",
		want:    "default a.small zone-a spot 0.04: p",
	},
	{
		name:    "a NodeClaim with an instance is a node to come",
		objects: defaultPool + fmt.Sprintf(nodeClaimed, "c", ", topology.kubernetes.io/zone: zone-b", "") + "status: {providerID: \"aws:///zone-b/i-c\", capacity: {cpu: \"2\", memory: 4Gi, pods: \"20\"}, allocatable: {cpu: \"1900m\", memory: 4Gi, pods: \"20\"}}\n" + podYAML("p", "1500m") + podYAML("q", "1500m"),
		want:    "on c: p\ndefault a.small zone-a spot 0.04: q",
	},
	{
		name:    "a NodeClaim without an instance takes what fits all it may become, and holds nothing up",
		objects: poolYAML("default", "limits: {nodes: \"2\"}, "+templateOf("requirements: []")) + fmt.Sprintf(nodeClaimed, "c", "", "") + podYAML("p", "1500m") + podYAML("q", "1500m") + podYAML("r", "5"),
		want:    "on c: p\ndefault a.big zone-a spot 0.16: q r",
	},
	{
		name:    "a NodeClaim's startup taints do not keep pods away, its taints do",
		objects: defaultPool + fmt.Sprintf(nodeClaimed, "c", "", ", startupTaints: [{key: s, effect: NoSchedule}]") + fmt.Sprintf(nodeClaimed, "b", "", ", taints: [{key: t, effect: NoSchedule}]") + podYAML("p", "1"),
		want:    "on c: p",
	},
	{
		name:    "a node without allocatable amounts has its capacity",
		objects: defaultPool + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: \"2\", memory: 4Gi, pods: \"20\"}}\n" + podYAML("p", "1"),
		want:    "on n1: p",
	},
	{
		name:    "host ports are taken once per node",
		objects: defaultPool + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: &s {containers: [{name: c, ports: [{hostPort: 80, containerPort: 80}]}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {containers: [{name: c, ports: [{hostPort: 80, containerPort: 80}]}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: u}\nspec: {containers: [{name: c, ports: [{hostPort: 80, containerPort: 80, protocol: UDP}]}]}\n",
		want:    "default a.small zone-a spot 0.04: p u\ndefault a.small zone-a spot 0.04: q",
	},
}

var topologyProblems = []problem{
	{
		name:    "spread over zones, whatever they cost",
		objects: podYAML("w1", "100m", fmt.Sprintf(spreadZone, "")) + podYAML("w2", "100m", fmt.Sprintf(spreadZone, "")) + podYAML("w3", "100m", fmt.Sprintf(spreadZone, "")),
		want:    "default a.small zone-a spot 0.04: w1 w3\ndefault a.small zone-b on-demand 0.1: w2",
	},
	{
		name:    "equal selectors with different minDomains do not share their minimum",
		objects: podYAML("w1", "100m", fmt.Sprintf(spreadZone, "")) + podYAML("w2", "100m", fmt.Sprintf(spreadZone, "")) + podYAML("w3", "90m", fmt.Sprintf(spreadZone, ", minDomains: 3")) + podYAML("w4", "80m", fmt.Sprintf(spreadZone, "")),
		want:    "default a.small zone-a spot 0.04: w1 w4\ndefault a.small zone-b on-demand 0.1: w2\nno w3: unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = zone-a: ",
	},
	{
		name:    "equal selectors with different node filters do not share counts",
		objects: podYAML("w1", "100m", fmt.Sprintf(spreadZone, ""), "nodeSelector: {topology.kubernetes.io/zone: zone-a}") + podYAML("w2", "100m", fmt.Sprintf(spreadZone, ""), "nodeSelector: {topology.kubernetes.io/zone: zone-a}") + podYAML("w3", "100m", fmt.Sprintf(spreadZone, ""), "nodeSelector: {topology.kubernetes.io/zone: zone-b}"),
		want:    "default a.small zone-a spot 0.04: w1 w2\ndefault a.small zone-b on-demand 0.1: w3",
	},
	{
		name:    "a constraint without selector counts nobody",
		objects: podYAML("w1", "100m", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]") + podYAML("w2", "100m", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]"),
		want:    "default a.small zone-a spot 0.04: w1 w2",
	},
	{
		name:    "one per host, and rather one per host",
		objects: podYAML("w1", "100m", fmt.Sprintf(spreadHost, "DoNotSchedule")) + podYAML("w2", "100m", fmt.Sprintf(spreadHost, "ScheduleAnyway")),
		want:    "default a.small zone-a spot 0.04: w1\ndefault a.small zone-a spot 0.04: w2",
	},
	{
		name:    "anti-affinity keeps away pods that do not have it themselves",
		objects: podYAML("w1", "200m", antiHost) + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: v, labels: {app: w}}\nspec: {containers: [{name: c}]}\n",
		want:    "default a.small zone-a spot 0.04: w1\ndefault a.small zone-a spot 0.04: v",
	},
	{
		name:    "affinity follows a pod that runs",
		objects: defaultPool + nodeYAML("n1", "zone-b", "") + podYAML("w1", "1900m", "nodeName: n1") + "status: {phase: Running}\n" + podYAML("f", "1", "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: w}}}]}}"),
		want:    "default a.small zone-b on-demand 0.1: f",
	},
	{
		name:    "affinity to nobody",
		objects: podYAML("f", "1", "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: w}}}]}}"),
		want:    "no f: unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone (counts = zone-a: 0, zone-b: 0",
	},
	{
		name: "mismatchLabelKeys of a manifest that the API server has not seen",
		objects: podYAML("w1", "100m", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}, mismatchLabelKeys: [app]}]}}") +
			podYAML("w2", "90m") + podYAML("v", "80m"),
		want: "default a.small zone-a spot 0.04: w1 w2\ndefault a.small zone-a spot 0.04: v",
	},
	{
		name:    "a custom key of a NodePool",
		objects: poolYAML("default", templateOf("requirements: [{key: rack, operator: In, values: [r1, r2]}]")) + podYAML("w1", "100m", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: w}}}]") + podYAML("w2", "100m", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: w}}}]"),
		want:    "default a.small zone-a spot 0.04: w1\ndefault a.small zone-a spot 0.04: w2",
	},
}

// pricedZones has a cheaper zone that is not the first by name.
const pricedZones = "a.small 2 4 zone-a/on-demand/0.1 zone-b/on-demand/0.05 zone-c/on-demand/0.2"

var domainProblems = []problem{
	{
		name:    "of zones with equal counts the cheapest first",
		catalog: pricedZones,
		objects: podYAML("w1", "1", fmt.Sprintf(spreadZone, "")) + podYAML("w2", "1", fmt.Sprintf(spreadZone, "")),
		want:    "default a.small zone-b on-demand 0.05: w1\ndefault a.small zone-a on-demand 0.1: w2",
	},
	{
		name:    "affinity to itself begins in the cheapest zone",
		catalog: pricedZones,
		objects: podYAML("w1", "1500m", fmt.Sprintf(nearW, "topology.kubernetes.io/zone")) + podYAML("w2", "1500m", fmt.Sprintf(nearW, "topology.kubernetes.io/zone")),
		want:    "default a.small zone-b on-demand 0.05: w1\ndefault a.small zone-b on-demand 0.05: w2",
	},
	{
		name:    "anti-affinity takes the cheapest zones that are free",
		catalog: pricedZones,
		objects: podYAML("w1", "1", strings.Replace(antiHost, "kubernetes.io/hostname", "topology.kubernetes.io/zone", 1)) + podYAML("w2", "1", strings.Replace(antiHost, "kubernetes.io/hostname", "topology.kubernetes.io/zone", 1)),
		want:    "default a.small zone-b on-demand 0.05: w1\ndefault a.small zone-a on-demand 0.1: w2",
	},
	{
		name:    "a zone is as cheap as its types that hold the pod",
		catalog: "a.small 2 4 zone-a/on-demand/0.01 zone-b/on-demand/0.1\na.big 8 16 zone-a/on-demand/0.4 zone-b/on-demand/0.3",
		objects: podYAML("w1", "5", fmt.Sprintf(spreadZone, "")),
		want:    "default a.big zone-b on-demand 0.3: w1",
	},
	{
		name:    "a zone with free reserved capacity is the cheapest",
		catalog: "a.small 2 4 zone-a/on-demand/0.1 zone-b/on-demand/0.2 zone-b/reserved/0.00000002/cr-1/1",
		objects: podYAML("w1", "1", fmt.Sprintf(spreadZone, "")),
		want:    "default a.small zone-b reserved 0.00000002: w1",
	},
}

var volumeProblems = []problem{
	{
		name:    "an unbound claim goes where its class allows, by the driver's name of the zone",
		objects: zoneClass + "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {storageClassName: zonal}\n" + podYAML("p", "1", mountData),
		want:    "default a.small zone-b on-demand 0.1: p",
	},
	{
		name:    "a bound one to its volume's zone",
		objects: "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: \"yes\"}}\nspec: {volumeName: v}\n---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {csi: {driver: ebs.csi.aws.com, volumeHandle: h}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [zone-b]}]}]}}}\n" + podYAML("p", "1", mountData),
		want:    "default a.small zone-b on-demand 0.1: p",
	},
	{
		name:    "what is wrong with a claim is said, and holds nothing else up",
		objects: podYAML("a", "1", mountData) + podYAML("b", "1", "volumes: [{name: d, persistentVolumeClaim: {claimName: unbound}}]") + podYAML("c", "1", "volumes: [{name: d, persistentVolumeClaim: {claimName: lost}}]") + podYAML("d", "1", "volumes: [{name: d, persistentVolumeClaim: {claimName: classless}}]") + "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: unbound}\nspec: {storageClassName: none}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: lost}\nspec: {volumeName: v}\nstatus: {phase: Lost}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: classless}\nspec: {}\n" + podYAML("p", "1"),
		want: `no a: getting persistent volume claim, persistentvolumeclaims "data" not found
			no b: failed to validate pvc, failed to get storage class, storageclasses.storage.k8s.io "none" not found
			no c: persistentvolumeclaim bound to non-existent persistentvolume
			no d: unbound pvc must define a storage class
			default a.small zone-a spot 0.04: p`,
	},
}
