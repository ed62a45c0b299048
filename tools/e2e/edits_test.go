package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"millwright/tools/stack"
)

// edit is a change that a user makes to an example, and what should follow.
type edit struct {
	// pool and class are merge patches of its NodePool and EC2NodeClass, as YAML; OTHER stands for the
	// architecture that the first node does not have.
	pool, class string
	// drift is the reason why the first node drifts; "" if it does not.
	drift string
	// labels and check apply to a node created afterwards; nil: none is created.
	labels map[string]string
	check  func(e *env, n corev1.Node)
	// pools lists the NodePools that the new node may belong to; the example's own unless set.
	pools []string
}

const anyType = `{key: kubernetes.io/os, operator: In, values: [linux]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}`

func requirements(list string) string {
	return "{spec: {template: {spec: {requirements: [" + anyType + ", " + list + "]}}}}"
}

// newImages is the release date of the images that the simulated AWS publishes before the edits.
const newImages = "20260401"

var edits = map[string]edit{
	"general-purpose": {drift: "RequirementsDrifted", labels: map[string]string{"karpenter.k8s.aws/instance-category": "r"},
		pool: requirements(`{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]},
{key: karpenter.k8s.aws/instance-category, operator: In, values: [r]}`)},
	"spot": {drift: "RequirementsDrifted", labels: onDemand,
		pool: requirements(`{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]}`)},
	"arm64": {drift: "NodePoolDrifted", labels: map[string]string{"kubernetes.io/arch": "arm64"}, check: hasTaint("arch=graviton:NoSchedule"),
		pool: "{spec: {template: {spec: {taints: [{key: arch, value: graviton, effect: NoSchedule}]}}}}"},
	"multi-arch": {drift: "RequirementsDrifted", labels: map[string]string{"kubernetes.io/arch": "OTHER"},
		pool: requirements(`{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}, {key: kubernetes.io/arch, operator: In, values: [OTHER]}`)},
	"weights": {labels: map[string]string{"karpenter.sh/nodepool": "weights-second"}, pools: []string{"weights-first", "weights-second"},
		pool: `{spec: {limits: {cpu: "1"}}}`},
	"max-lifetime": {drift: "NodePoolDrifted", labels: onDemand, check: claims("spec.expireAfter", "24h"),
		pool: "{spec: {template: {spec: {expireAfter: 24h}}}}"},
	"taints": {drift: "NodePoolDrifted", labels: map[string]string{"team": "red"}, check: hasTaint("team=red:NoSchedule"),
		pool: "{spec: {template: {metadata: {labels: {team: red}}, spec: {startupTaints: null, taints: [{key: team, value: red, effect: NoSchedule}]}}}}"},
	"instance-types": {drift: "RequirementsDrifted", labels: map[string]string{"node.kubernetes.io/instance-type": "m5.xlarge", "topology.kubernetes.io/zone": "us-west-2c"},
		pool: requirements(`{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]},
{key: topology.kubernetes.io/zone, operator: In, values: [us-west-2c]}`)},
	"kubelet": {drift: "NodeClassDrift", labels: onDemand, check: capacity("pods", 30, 30), class: "{spec: {kubelet: {maxPods: 30}}}"},
	"block-devices": {drift: "NodeClassDrift", labels: onDemand, check: capacity("ephemeral-storage", 45<<30, 50<<30),
		class: "{spec: {blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 50Gi, volumeType: gp3}}]}}"},
	"instance-store": {drift: "NodeClassDrift", labels: onDemand, check: capacity("ephemeral-storage", 15<<30, 20<<30), class: "{spec: {instanceStorePolicy: null}}"},
	"ami-selector": {drift: "AMIDrift", labels: onDemand, check: image("amazon-eks-node-al2023-x86_64-standard-1.36-v" + newImages),
		class: `{spec: {amiSelectorTerms: [{name: "amazon-eks-node-al2023-x86_64-standard-1.36-v2026*", owner: amazon}]}}`},
	"ami-pinned":   {drift: "AMIDrift", labels: onDemand, check: image("v20260311"), class: "{spec: {amiSelectorTerms: [{alias: al2023@v20260311}]}}"},
	"bottlerocket": {drift: "NodeClassDrift", labels: onDemand, check: bootText("300000"), class: `{spec: {userData: "[settings.kernel.sysctl]\n\"vm.max_map_count\" = \"300000\"\n"}}`},
	"user-data": {drift: "NodeClassDrift", labels: onDemand, check: bootText("hello from the second start"),
		class: `{spec: {userData: "#!/bin/bash\necho hello from the second start\n"}}`},
	"network":               {drift: "NodeClassDrift", labels: map[string]string{"karpenter.sh/capacity-type": "on-demand"}, class: `{spec: {ipPrefixCount: null, connectionTracking: {udpTimeout: 60}}}`},
	"nested-virtualization": {drift: "NodeClassDrift", labels: map[string]string{"karpenter.sh/capacity-type": "on-demand"}, class: `{spec: {cpuOptions: null}}`},
	"placement-group":       {drift: "NodeClassDrift", labels: onDemand, class: `{spec: {placementGroupSelector: null}}`},
	"efa":                   {drift: "NodeClassDrift", labels: onDemand, class: `{spec: {networkInterfaces: null}}`},
	"capacity-block": {drift: "CapacityReservationDrift", labels: map[string]string{"karpenter.k8s.aws/capacity-reservation-type": "capacity-block"},
		class: `{spec: {capacityReservationSelectorTerms: [{tags: {purpose: training-next}}]}}`},
	"windows": {drift: "NodeClassDrift", labels: map[string]string{"kubernetes.io/os": "windows"}, check: bootText("W. Europe Standard Time"),
		class: `{spec: {userData: "Set-TimeZone -Id \"W. Europe Standard Time\"\n"}}`},
	"metadata-and-tags": {drift: "NodeClassDrift", labels: onDemand, check: instanceTag("cost-center", "4712"), class: `{spec: {tags: {cost-center: "4712"}}}`},
}

// edited are the examples whose edits have tests of their own.
var edited = []string{"limits", "static", "budgets", "never-disrupt"}

// editExamples makes all edits at once: nodes created before report that they have drifted, nodes created
// afterwards follow the edit.
func (e *env) editExamples() {
	e.Helper()
	first := map[string]corev1.Node{}
	for name := range edits {
		n, err := e.nodeUnder(name)
		if err != nil {
			e.Fatalf("%s: %v", name, err)
		}
		first[name] = n
	}
	if err := e.ec2.PublishImages(e.Context(), newImages); err != nil {
		e.Fatal(err)
	}
	for name, x := range edits {
		other := strings.NewReplacer("OTHER", map[string]string{"amd64": "arm64", "arm64": "amd64"}[first[name].Labels["kubernetes.io/arch"]])
		if x.pool != "" {
			e.patch(nodePools, examples[name].poolOf(name), other.Replace(x.pool))
		}
		if x.class != "" {
			e.patch(nodeClasses, name, x.class)
		}
	}
	for name, x := range edits {
		e.drifts(first[name].Spec.ProviderID, x.drift)
	}
	for name, x := range edits {
		e.deploy(name+"-new", 1, "500m", "256Mi", x.wants(name))
	}
	for name, x := range edits {
		e.running(name+"-new", 1)
		want := example{pool: examples[name].pool, check: x.check, labels: map[string]string{}}
		for key, value := range x.labels {
			if want.labels[key] = value; value == "OTHER" {
				want.labels[key] = map[string]string{"amd64": "arm64", "arm64": "amd64"}[first[name].Labels[key]]
			}
		}
		if pool := x.labels["karpenter.sh/nodepool"]; pool != "" {
			want.pool = pool
		}
		e.checkNode(name+"-new", want.poolOf(name), want)
	}
}

// wants makes the pod ask for its own node.
func (x edit) wants(name string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		examples[name].wants(name)(p)
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}}}}}
		if len(x.pools) == 0 {
			return
		}
		p.Spec.NodeSelector = nil
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpIn, Values: x.pools}}}}}}
	}
}

// drifts waits until the NodeClaim of an instance has drifted for this reason, or is being deleted because of
// it.
func (e *env) drifts(providerID, reason string) {
	e.Helper()
	if reason == "" {
		return
	}
	e.eventually(fmt.Sprintf("NodeClaim of %s: %s", providerID, reason), func() string {
		for _, c := range e.nodeClaims() {
			if id, _, _ := unstructured.NestedString(c.Object, "status", "providerID"); id == providerID && c.GetDeletionTimestamp() == nil {
				status, got, message := condition(&c, "Drifted")
				if status != "True" || got != reason || message != reason {
					return fmt.Sprintf("%s is %q, %q, %q", c.GetName(), status, got, message)
				}
			}
		}
		return ""
	})
}

func (e *env) patch(gvr schema.GroupVersionResource, name, patch string) {
	e.Helper()
	data, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		e.Fatal(err)
	}
	if _, err := e.dyn.Resource(gvr).Patch(e.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		e.Fatalf("patch %s %s: %v", gvr.Resource, name, err)
	}
}

// editBudgets: an empty node stays while its budget allows none to go.
func (e *env) editBudgets() {
	e.Helper()
	e.patch(nodePools, "budgets", `{spec: {disruption: {consolidateAfter: 0s, budgets: [{nodes: "0"}]}}}`)
	e.scale("budgets", 0)
	e.hasEvent("NodePool", "budgets", "No allowed disruptions for disruption reason Empty due to blocking budget")
	if _, there := e.nodeOf("budgets"); !there {
		e.Error("the node went although the budget is 0")
	}
	e.patch(nodePools, "budgets", `{spec: {disruption: {budgets: [{nodes: "1"}]}}}`)
	e.nodesGone("budgets")
}

// editNeverDisrupt: an empty node is not considered at all until consolidation is enabled.
func (e *env) editNeverDisrupt() {
	e.Helper()
	e.scale("never-disrupt", 0)
	for _, c := range e.nodeClaims() {
		if status, _, _ := condition(&c, "Consolidatable"); c.GetLabels()["karpenter.sh/nodepool"] == "never-disrupt" && status != "" {
			e.Errorf("%s may be consolidated: %s", c.GetName(), status)
		}
	}
	e.patch(nodePools, "never-disrupt", `{spec: {disruption: {consolidateAfter: 0s, budgets: [{nodes: "1"}]}}}`)
	e.nodesGone("never-disrupt")
}

// editConsolidation: empty nodes go once the time that was set has passed.
func (e *env) editConsolidation() {
	e.Helper()
	e.patch(nodePools, "general-purpose", `{spec: {disruption: {consolidateAfter: 1s, budgets: [{nodes: "100%"}]}}}`)
	e.scale("general-purpose", 0)
	e.scale("general-purpose-new", 0)
	e.nodesGone("general-purpose")
}

func (e *env) nodesGone(pool string) {
	e.Helper()
	e.eventually("no node of "+pool, func() string {
		if n, there := e.nodeOf(pool); there {
			return n.Name + " is there"
		}
		return ""
	})
}

// bootText checks that the instance of the node booted from user data that contains a text.
func bootText(want string) func(*env, corev1.Node) {
	return func(e *env, n corev1.Node) {
		e.Helper()
		client := awsec2.NewFromConfig(aws.Config{Region: stack.Region, BaseEndpoint: aws.String(e.stack.EC2Endpoint()),
			Credentials: aws.CredentialsProviderFunc(credentials)})
		class := n.Labels["karpenter.k8s.aws/ec2nodeclass"]
		for pages := awsec2.NewDescribeLaunchTemplatesPaginator(client, &awsec2.DescribeLaunchTemplatesInput{}); pages.HasMorePages(); {
			page, err := pages.NextPage(e.Context())
			if err != nil {
				e.Fatal(err)
			}
			for _, t := range page.LaunchTemplates {
				v, err := client.DescribeLaunchTemplateVersions(e.Context(), &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: t.LaunchTemplateId, Versions: []string{"$Latest"}})
				if err != nil || len(v.LaunchTemplateVersions) != 1 {
					e.Fatalf("describe launch template %s: %v", aws.ToString(t.LaunchTemplateId), err)
				}
				text, err := base64.StdEncoding.DecodeString(aws.ToString(v.LaunchTemplateVersions[0].LaunchTemplateData.UserData))
				if err == nil && strings.Contains(string(text), want) {
					return
				}
			}
		}
		e.Errorf("no launch template has user data of %s with %q", class, want)
	}
}
