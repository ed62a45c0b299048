package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/ec2sim/simclient"
)

func TestNoCapacityForTheCheapest(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	// No zone has capacity for what the plan will choose first.
	var none []simclient.Capacity
	for _, cheap := range []string{"c6a.large", "c5a.large", "c7i-flex.large", "c6i.large", "c5.large", "c8i-flex.large"} {
		none = append(none, simclient.Capacity{InstanceType: cheap, Limit: 0})
	}
	if err := e.ec2.SetCapacity(e.Context(), none...); err != nil {
		t.Fatal(err)
	}
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	for _, i := range e.liveInstances() {
		if strings.HasPrefix(i.Type, "c6a.large") || strings.HasPrefix(i.Type, "c5a.large") {
			t.Errorf("instance %s is a %s, which was not to be had", i.ID, i.Type)
		}
	}
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

func TestNoCapacityAtAllThenSome(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(strings.Replace(defaultPool, "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
		"{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, c5.xlarge]}", 1))
	if err := e.ec2.SetCapacity(e.Context(), simclient.Capacity{InstanceType: "m5.large", Limit: 0}); err != nil {
		t.Fatal(err)
	}
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	if live := e.liveInstances(); len(live) != 1 || live[0].Type != "c5.xlarge" {
		t.Errorf("instances %v, want one c5.xlarge", live)
	}
	e.scale("web", 0)
	e.clean()
	e.sound()
}

func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	cases := map[string][]simclient.Fault{
		"CreateFleet launches but never answers": {{Action: "CreateFleet", Count: 2, Drop: true, After: true}},
		"CreateFleet is throttled":               {{Action: "CreateFleet", Count: 4, Code: "RequestLimitExceeded", Status: 503}},
		"every call is throttled at times":       {{Action: "*", Service: "ec2", Rate: 0.3, Count: 60, Code: "RequestLimitExceeded", Status: 503}},
		"CreateFleet answers late":               {{Action: "CreateFleet", Count: 2, After: true, Delay: simclient.Duration(5 * time.Second)}},
		"TerminateInstances fails at first":      {{Action: "TerminateInstances", Count: 3, Code: "InternalError", Status: 500}},
	}
	for name, faults := range cases {
		t.Run(name, func(t *testing.T) {
			e := start(t, nil)
			e.apply(defaultClass)
			e.apply(defaultPool)
			e.hasCondition(nodeClasses, "default", "Ready", "True", "")
			for _, f := range faults {
				if _, err := e.ec2.AddFault(e.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
			e.deploy("web", 3, "3", "1Gi")
			e.running("web", 3)
			e.matched()
			e.scale("web", 0)
			e.clean()
			e.sound()
		})
	}
}

func TestReadsThatLag(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	settings, err := e.ec2.Settings(e.Context())
	if err != nil {
		t.Fatal(err)
	}
	settings.Consistency = simclient.Duration(5 * time.Second)
	if err := e.ec2.SetSettings(e.Context(), settings); err != nil {
		t.Fatal(err)
	}
	e.deploy("web", 2, "3", "1Gi")
	e.running("web", 2)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

func TestMalformedObjectsHoldNothingElseUp(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	named := func(manifest, name string, replace ...string) string {
		return strings.NewReplacer(replace...).Replace(strings.Replace(manifest, "metadata: {name: default}", "metadata: {name: "+name+"}", 1))
	}
	e.apply(named(defaultClass, "nosubnets", "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]", "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nowhere}}]"))
	e.apply(named(defaultClass, "badalias", "al2023@latest", "al2023@v19990101"))
	e.apply(named(defaultPool, "contradictory",
		"{key: kubernetes.io/arch, operator: In, values: [amd64]}",
		"{key: kubernetes.io/arch, operator: In, values: [amd64]}\n        - {key: kubernetes.io/arch, operator: In, values: [arm64]}"))
	e.apply(named(defaultPool, "orphan", "name: default}", "name: missing}"))
	e.apply(named(defaultPool, "badcron", `budgets: [{nodes: "100%"}]`, `budgets: [{nodes: "1", schedule: "99 99 * * *", duration: 1h}]`))
	e.apply(named(defaultPool, "restrictedlabel", "  template:\n    spec:", "  template:\n    metadata: {labels: {karpenter.k8s.aws/ec2nodeclass: x}}\n    spec:"))

	e.hasCondition(nodeClasses, "nosubnets", "SubnetsReady", "False", "SubnetsNotFound")
	e.hasCondition(nodeClasses, "nosubnets", "Ready", "False", "SubnetsReady=False")
	e.hasCondition(nodeClasses, "badalias", "AMIsReady", "False", "AMINotFound")
	e.hasCondition(nodePools, "orphan", "NodeClassReady", "False", "NodeClassNotFound")
	e.hasCondition(nodePools, "badcron", "ValidationSucceeded", "False", "schedule")
	e.hasCondition(nodePools, "restrictedlabel", "ValidationSucceeded", "False", "karpenter.k8s.aws/ec2nodeclass")
	e.hasCondition(nodePools, "contradictory", "ValidationSucceeded", "False", "kubernetes.io/arch")
	e.hasEvent("EC2NodeClass", "nosubnets", "SubnetsReady")
	e.hasEvent("NodePool", "badcron", "ValidationSucceeded")

	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	if pool := e.nodes()[0].Labels["karpenter.sh/nodepool"]; pool != "default" {
		t.Errorf("the node is of NodePool %s, want default", pool)
	}
	if err := e.dyn.Resource(nodePools).Delete(e.Context(), "badcron", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.scale("web", 0)
	e.clean()
	e.sound()
}
