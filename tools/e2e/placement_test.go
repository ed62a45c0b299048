package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

const (
	labelGroup     = "karpenter.k8s.aws/placement-group-id"
	labelPartition = "karpenter.k8s.aws/placement-group-partition"
)

// placementGroup makes a placement group in the simulated account and returns its id.
func (e *env) placementGroup(name string, strategy ec2types.PlacementStrategy, partitions int32) string {
	e.Helper()
	client := awsec2.NewFromConfig(aws.Config{Region: stack.Region, BaseEndpoint: aws.String(e.stack.EC2Endpoint()),
		Credentials: aws.CredentialsProviderFunc(credentials)})
	in := &awsec2.CreatePlacementGroupInput{GroupName: aws.String(name), Strategy: strategy}
	if partitions > 0 {
		in.PartitionCount = aws.Int32(partitions)
	}
	out, err := client.CreatePlacementGroup(e.Context(), in)
	if err != nil {
		e.Fatal(err)
	}
	return aws.ToString(out.PlacementGroup.GroupId)
}

// TestPlacementGroups: pods that are spread over the partitions of a group get a node in each; a node for
// pods that do not care gets the label of the partition that EC2 chose before pods run on it; and a group
// that does not exist keeps the class from launching. Pods of a class whose subnet is on an Outpost get what
// it has.
func TestPlacementGroups(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.Bare = true })
	rack := e.rack("us-west-2c", "c5.xlarge", "m5.xlarge")
	if _, err := e.stack.StartMillwright(); err != nil {
		t.Fatal(err)
	}
	class := func(name string) string {
		return defaultClass + "  placementGroupSelector: {name: " + name + "}\n"
	}
	e.apply(class("rows"))
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "PlacementGroupReady", "False", `Placement group "rows" not found`)
	id := e.placementGroup("rows", ec2types.PlacementStrategyPartition, 3)
	e.hasCondition(nodeClasses, "default", "PlacementGroupReady", "True", "")
	apart := func(app string) *corev1.Affinity {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}}}
	}
	e.deploy("replicas", 3, "500m", "256Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: labelPartition,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "replicas"}}}}
	})
	e.running("replicas", 3)
	if n := len(e.partitions(id)); n != 3 {
		t.Errorf("replicas are in %d partitions", n)
	}
	e.deploy("any", 4, "500m", "256Mi", func(p *corev1.PodTemplateSpec) { p.Spec.Affinity = apart("any") })
	e.running("any", 4)
	e.partitions(id)
	e.matched()
	e.apply(class("other"))
	e.hasCondition(nodeClasses, "default", "Ready", "False", "")
	e.onRack(rack)
	for _, app := range []string{"replicas", "any", "rack"} {
		e.scale(app, 0)
	}
	e.clean()
	e.sound()
}

// rack puts the zone's subnet of the simulated account on an Outpost that has some instance types, and
// returns the subnet.
func (e *env) rack(zone string, types ...string) string {
	e.Helper()
	d, err := e.ec2.Defaults(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	outpost := simclient.Outpost{ARN: "arn:aws:outposts:us-west-2:111122223333:outpost/op-1", InstanceTypes: types}
	if err := e.ec2.PutOnOutpost(e.Context(), d.Subnets[zone], outpost); err != nil {
		e.Fatal(err)
	}
	return d.Subnets[zone]
}

// onRack has a pod that would rather have a spot instance of any size run in a class with that subnet alone.
func (e *env) onRack(subnet string) {
	e.Helper()
	e.apply(strings.NewReplacer("name: default", "name: rack", "{tags: {karpenter.sh/discovery: demo}}]\n  security", "{id: "+subnet+"}]\n  security").Replace(defaultClass))
	e.apply(strings.NewReplacer("name: default", "name: rack", "values: [on-demand]", "values: [on-demand, spot]").Replace(defaultPool))
	e.deploy("rack", 1, "500m", "256Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "rack"}
	})
	e.running("rack", 1)
	n, err := e.nodeUnder("rack")
	if err != nil {
		e.Fatal(err)
	}
	for _, i := range e.liveInstances() {
		if strings.HasSuffix(n.Spec.ProviderID, "/"+i.ID) && (i.SubnetID != subnet || i.CapacityType != "on-demand" || i.Type != "c5.xlarge" && i.Type != "m5.xlarge") {
			e.Errorf("the instance is %+v", i)
		}
	}
}

// partitions counts the nodes in the partitions of a group, and checks that nodes, NodeClaims and instances
// agree on them.
func (e *env) partitions(group string) map[string]int {
	e.Helper()
	var count map[string]int
	e.eventually("nodes labelled with their partition", func() string {
		count = map[string]int{}
		claimed := map[string]string{}
		for _, c := range e.nodeClaims() {
			claimed[c.GetName()] = c.GetLabels()[labelGroup] + "/" + c.GetLabels()[labelPartition]
		}
		for _, n := range e.nodes() {
			have := n.Labels[labelGroup] + "/" + n.Labels[labelPartition]
			for _, i := range e.liveInstances() {
				if want := i.PlacementGroup + "/" + strconv.Itoa(i.Partition); strings.HasSuffix(n.Spec.ProviderID, "/"+i.ID) && (i.PlacementGroup != group || have != want) {
					return fmt.Sprintf("node %s is labelled %s, its instance is in %s", n.Name, have, want)
				}
			}
			for _, o := range n.OwnerReferences {
				if o.Kind == "NodeClaim" && claimed[o.Name] != have {
					return fmt.Sprintf("node %s is labelled %s, its NodeClaim %s", n.Name, have, claimed[o.Name])
				}
			}
			count[n.Labels[labelPartition]]++
		}
		return ""
	})
	return count
}
