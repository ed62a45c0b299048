package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright/tools/child"
	"millwright/tools/stack"
)

// foreignRegion is one that no other test is in.
const foreignRegion = "eu-west-3"

// foreign is an AWS account as moto plays it, an emulator that is not ours: it knows no price API and not
// every filter, has a default VPC and other instance types, answers in other orders, and leaves out what it
// does not know. No kubelet runs on its instances.
type foreign struct {
	*env
	ec2 *awsec2.Client
	iam *iam.Client
	sqs *sqs.Client
	eks *eks.Client
	// subnets, image and profile are of the account; stranger is an instance of another cluster.
	subnets         []string
	image, stranger string
}

const (
	foreignRole    = "KarpenterNodeRole-demo"
	foreignProfile = "somebody-else"
	// foreignImages name images that moto has; those of EKS are not among them.
	foreignImages = "[{ssmParameter: /aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64}, " +
		"{ssmParameter: /aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64}]"
)

// TestAForeignEC2: in an account that we did not make, from nothing to instances of five EC2NodeClasses,
// whose images, subnets and instance families differ; an interruption; and back to nothing, without
// touching what belongs to others.
func TestAForeignEC2(t *testing.T) {
	program := motoProgram(t)
	t.Parallel()
	endpoint := startMoto(t, program)
	e := startAtOnce(t, func(o *stack.Options) {
		o.Bare, o.Endpoint, o.EndpointRegion = true, endpoint, foreignRegion
		o.MillwrightArgs = append(o.MillwrightArgs, "--interruption-queue", stack.ClusterName)
	})
	a := foreignAccount(e, endpoint)
	a.prepare()
	if _, err := e.stack.StartMillwright(); err != nil {
		t.Fatal(err)
	}
	launched := a.launchEachKind()
	a.interrupt(launched["web"])
	a.goesToNothing()
	if out, code := e.millctl("verify"); code != 0 {
		t.Errorf("verify the hash chain: exit %d\n%s", code, out)
	}
	if out, code := e.millctl("replay"); code != 0 || !strings.Contains(out, " 0 divergences") {
		t.Errorf("replay: exit %d\n%s", code, out)
	}
}

// motoProgram finds moto's server, or skips the test.
func motoProgram(t *testing.T) []string {
	t.Helper()
	for _, program := range [][]string{{"moto_server"}, {"python3", "-m", "moto.server"}} {
		if exec.CommandContext(t.Context(), program[0], append(program[1:], "--help")...).Run() == nil {
			return program
		}
	}
	t.Skip("skipped: moto's server is not installed (moto_server, or python3 -m moto.server)")
	return nil
}

// startMoto runs an empty account and returns its URL at once.
func startMoto(t *testing.T, program []string) string {
	t.Helper()
	port, err := stack.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "moto.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program[0], append(program[1:], "-H", "127.0.0.1", "-p", strconv.Itoa(port))...)
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return "http://127.0.0.1:" + strconv.Itoa(port)
}

// foreignAccount waits until the account answers.
func foreignAccount(e *env, endpoint string) *foreign {
	e.Helper()
	e.eventually("moto answers", func() string {
		resp, err := http.Get(endpoint + "/moto-api/data.json")
		if err != nil {
			return err.Error()
		}
		return strings.TrimPrefix(resp.Status, "200 OK")
	})
	cfg := aws.Config{Region: foreignRegion, BaseEndpoint: aws.String(endpoint), Credentials: aws.CredentialsProviderFunc(credentials)}
	return &foreign{env: e, ec2: awsec2.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg), sqs: sqs.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg)}
}

// prepare makes what a user makes for a cluster, and what others have in the same account.
func (a *foreign) prepare() {
	a.Helper()
	ctx := a.Context()
	subnets, err := a.ec2.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{})
	a.must(err)
	groups, err := a.ec2.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{})
	a.must(err)
	images, err := a.ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []ec2types.Filter{
		{Name: aws.String("name"), Values: []string{"al2023-ami-2023*"}}, {Name: aws.String("architecture"), Values: []string{"x86_64"}}}})
	a.must(err)
	if len(subnets.Subnets) < 2 || len(groups.SecurityGroups) == 0 || len(images.Images) < 2 {
		a.Fatalf("moto has %d subnets, %d security groups and %d images", len(subnets.Subnets), len(groups.SecurityGroups), len(images.Images))
	}
	tagged := []string{aws.ToString(groups.SecurityGroups[0].GroupId)}
	for _, s := range subnets.Subnets {
		a.subnets = append(a.subnets, aws.ToString(s.SubnetId))
	}
	a.image = aws.ToString(images.Images[0].ImageId)
	a.tag(map[string]string{"karpenter.sh/discovery": stack.ClusterName}, append(tagged, a.subnets...)...)
	a.tag(map[string]string{"purpose": "nodes"}, a.image)
	_, err = a.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String(foreignRole), AssumeRolePolicyDocument: aws.String("{}")})
	a.must(err)
	_, err = a.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(foreignProfile), Path: aws.String("/others/")})
	a.must(err)
	_, err = a.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(stack.ClusterName)})
	a.must(err)
	_, err = a.eks.CreateCluster(ctx, &eks.CreateClusterInput{Name: aws.String(stack.ClusterName), RoleArn: aws.String("arn:aws:iam::123456789012:role/eks"),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: a.subnets}})
	a.must(err)
	run, err := a.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: aws.String(a.image), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
	a.must(err)
	a.stranger = aws.ToString(run.Instances[0].InstanceId)
	a.tag(map[string]string{"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default", "eks:eks-cluster-name": "another"}, a.stranger)
}

func (a *foreign) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *foreign) tag(tags map[string]string, resources ...string) {
	a.Helper()
	in := &awsec2.CreateTagsInput{Resources: resources}
	for k, v := range tags {
		in.Tags = append(in.Tags, ec2types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	_, err := a.ec2.CreateTags(a.Context(), in)
	a.must(err)
}

// foreignKind is an EC2NodeClass, what its nodes boot with, and what a pod asks for that goes to one.
type foreignKind struct {
	class, boots string
	asks         func(*corev1.PodTemplateSpec)
	// types are the beginnings of the names that its instance may have.
	types string
}

// kinds by the name of their EC2NodeClass, NodePool and Deployment.
func (a *foreign) kinds() map[string]foreignKind {
	choose := func(key, value string) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	const family = "karpenter.k8s.aws/instance-family"
	return map[string]foreignKind{
		"web":    {foreignClass("web", "AL2023", foreignImages, "[{tags: {karpenter.sh/discovery: demo}}]"), "node.eks.aws/v1alpha1", choose(family, "m5"), "m5."},
		"arm":    {foreignClass("arm", "AL2023", foreignImages, "[{tags: {karpenter.sh/discovery: \"*\"}}]"), "node.eks.aws/v1alpha1", choose(corev1.LabelArchStable, "arm64"), "c6g m6g r6g c7g m7g r7g c8g m8g r8g"},
		"bottle": {foreignClass("bottle", "Bottlerocket", "[{id: "+a.image+"}]", "[{id: "+a.subnets[0]+"}]"), "[settings.kubernetes]", choose(family, "r6i"), "r6i."},
		"custom": {foreignClass("custom", "Custom", "[{tags: {purpose: nodes}}]", "[{tags: {karpenter.sh/discovery: demo}}]") + "  userData: echo it is mine\n", "echo it is mine", choose(family, "c5"), "c5."},
		"gpu": {foreignClass("gpu", "AL2023", "[{name: \"al2023-ami-2023*\", owner: amazon}]", "[{tags: {karpenter.sh/discovery: demo}}]"), "node.eks.aws/v1alpha1", func(p *corev1.PodTemplateSpec) {
			one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
			p.Spec.Containers[0].Resources.Limits, p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = one, one["nvidia.com/gpu"]
			p.Spec.NodeSelector = map[string]string{family: "g4dn"}
		}, "g4dn."},
	}
}

func foreignClass(name, family, images, subnets string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: %s
  amiFamily: %s
  amiSelectorTerms: %s
  subnetSelectorTerms: %s
  securityGroupSelectorTerms: [{name: default}]
`, name, foreignRole, family, images, subnets)
}

func foreignPool(name string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r, g]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
`, name, name)
}

// launchEachKind has a pod of each kind get an instance, and returns the NodeClaims by kind.
func (a *foreign) launchEachKind() map[string]string {
	a.Helper()
	for name, k := range a.kinds() {
		a.apply(k.class)
		a.apply(foreignPool(name))
		a.deploy(name, 1, "1", "1Gi", func(p *corev1.PodTemplateSpec) {
			k.asks(p)
			p.Spec.NodeSelector["karpenter.sh/nodepool"] = name
		})
	}
	launched := map[string]string{}
	a.eventually("an instance of each kind", func() string {
		for _, c := range a.nodeClaims() {
			if s, _, _ := condition(&c, "Launched"); s == "True" {
				launched[c.GetLabels()["karpenter.sh/nodepool"]] = c.GetName()
			}
		}
		return strings.TrimPrefix(fmt.Sprintf("%d of %d", len(launched), len(a.kinds())), fmt.Sprintf("%[1]d of %[1]d", len(a.kinds())))
	})
	for name := range a.kinds() {
		a.hasCondition(nodeClasses, name, "Ready", "True", "")
		a.isAsAsked(name, launched[name])
	}
	return launched
}

// isAsAsked compares a NodeClaim with what moto says of its instance.
func (a *foreign) isAsAsked(kind, claim string) {
	a.Helper()
	o, err := a.dyn.Resource(claimsGVR).Get(a.Context(), claim, metav1.GetOptions{})
	a.must(err)
	k, i := a.kinds()[kind], a.instanceOfClaim(o)
	tags := map[string]string{}
	for _, t := range i.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	labels := o.GetLabels()
	for what, pair := range map[string][2]string{
		"zone":          {labels[corev1.LabelTopologyZone], aws.ToString(i.Placement.AvailabilityZone)},
		"region":        {labels[corev1.LabelTopologyRegion], foreignRegion},
		"type":          {labels[corev1.LabelInstanceTypeStable], string(i.InstanceType)},
		"image":         {text(o, "status", "imageID"), aws.ToString(i.ImageId)},
		"nodeclaim":     {claim, tags["karpenter.sh/nodeclaim"]},
		"nodepool":      {kind, tags["karpenter.sh/nodepool"]},
		"cluster":       {stack.ClusterName, tags["eks:eks-cluster-name"]},
		"capacity type": {labels["karpenter.sh/capacity-type"], map[bool]string{true: "spot", false: "on-demand"}[i.InstanceLifecycle == "spot"]},
	} {
		if pair[0] != pair[1] || pair[0] == "" {
			a.Errorf("%s: %s is %q on the NodeClaim and %q on its instance", kind, what, pair[0], pair[1])
		}
	}
	if !slices.ContainsFunc(strings.Fields(k.types), func(prefix string) bool { return strings.HasPrefix(string(i.InstanceType), prefix) }) {
		a.Errorf("%s: the instance is a %s, want one of %s", kind, i.InstanceType, k.types)
	}
	if kind == "gpu" && text(o, "status", "capacity", "nvidia.com/gpu") == "" {
		a.Errorf("gpu: the NodeClaim has %v", o.Object["status"])
	}
	if boot := a.bootTextOf(kind); !strings.Contains(boot, k.boots) {
		a.Errorf("%s: the instance boots with\n%s", kind, boot)
	}
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// instanceOfClaim is the instance of a NodeClaim, as moto describes it.
func (a *foreign) instanceOfClaim(claim *unstructured.Unstructured) ec2types.Instance {
	a.Helper()
	id := text(claim, "status", "providerID")
	return a.instance(id[strings.LastIndex(id, "/")+1:])
}

func (a *foreign) instance(id string) ec2types.Instance {
	a.Helper()
	out, err := a.ec2.DescribeInstances(a.Context(), &awsec2.DescribeInstancesInput{InstanceIds: []string{id}})
	a.must(err)
	return out.Reservations[0].Instances[0]
}

// bootTextOf is the user data of a NodePool's launch templates.
func (a *foreign) bootTextOf(pool string) string {
	a.Helper()
	var all []string
	templates, err := a.ec2.DescribeLaunchTemplates(a.Context(), &awsec2.DescribeLaunchTemplatesInput{Filters: []ec2types.Filter{{Name: aws.String("tag:karpenter.sh/nodepool"), Values: []string{pool}}}})
	a.must(err)
	for _, t := range templates.LaunchTemplates {
		v, err := a.ec2.DescribeLaunchTemplateVersions(a.Context(), &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: t.LaunchTemplateId})
		a.must(err)
		data, err := base64.StdEncoding.DecodeString(aws.ToString(v.LaunchTemplateVersions[0].LaunchTemplateData.UserData))
		a.must(err)
		all = append(all, string(data))
	}
	return strings.Join(all, "\n")
}

// interrupt plays the kubelet of a NodeClaim, then EC2 that takes the instance back: the node is drained and
// its instance ended, and another one is launched.
func (a *foreign) interrupt(claim string) {
	a.Helper()
	o, err := a.dyn.Resource(claimsGVR).Get(a.Context(), claim, metav1.GetOptions{})
	a.must(err)
	i := a.instanceOfClaim(o)
	a.join(o, aws.ToString(i.PrivateDnsName))
	a.hasCondition(claimsGVR, claim, "Initialized", "True", "")
	a.eventually("the instance has its node's name", func() string {
		if slices.ContainsFunc(a.instance(*i.InstanceId).Tags, func(t ec2types.Tag) bool { return aws.ToString(t.Key) == "Name" && *t.Value == *i.PrivateDnsName }) {
			return ""
		}
		return "it has not"
	})
	queue, err := a.sqs.GetQueueUrl(a.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(stack.ClusterName)})
	a.must(err)
	_, err = a.sqs.SendMessage(a.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String(fmt.Sprintf(
		`{"version":"0","id":"1","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","time":%q,"detail":{"instance-id":%q,"instance-action":"terminate"}}`,
		time.Now().UTC().Format(time.RFC3339), *i.InstanceId))})
	a.must(err)
	a.claimGone(claim)
	if state := a.instance(*i.InstanceId).State.Name; state != "shutting-down" && state != "terminated" {
		a.Errorf("the instance of NodeClaim %s, which is gone, is %s", claim, state)
	}
	a.eventually("another instance", func() string {
		for _, c := range a.nodeClaims() {
			if s, _, _ := condition(&c, "Launched"); s == "True" && c.GetLabels()["karpenter.sh/nodepool"] == "web" {
				return ""
			}
		}
		return "no NodeClaim of web is launched"
	})
}

// join makes the Node that the kubelet of a NodeClaim's instance would.
func (a *foreign) join(claim *unstructured.Unstructured, name string) {
	a.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{
		ProviderID: text(claim, "status", "providerID"), Taints: []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}}}
	created, err := a.kube.CoreV1().Nodes().Create(a.Context(), node, metav1.CreateOptions{})
	a.must(err)
	a.retry("the node is ready", func() error {
		now, err := a.kube.CoreV1().Nodes().Get(a.Context(), created.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Capacity, now.Status.Allocatable = quantities(claim, "capacity"), quantities(claim, "allocatable")
		now.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		_, err = a.kube.CoreV1().Nodes().UpdateStatus(a.Context(), now, metav1.UpdateOptions{})
		return err
	})
}

func quantities(claim *unstructured.Unstructured, field string) corev1.ResourceList {
	amounts, _, _ := unstructured.NestedStringMap(claim.Object, "status", field)
	list := corev1.ResourceList{}
	for name, amount := range amounts {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

// goesToNothing removes all that was made: nothing of ours stays in the account, and all that is others'.
func (a *foreign) goesToNothing() {
	a.Helper()
	for name := range a.kinds() {
		a.must(a.kube.AppsV1().Deployments("default").Delete(a.Context(), name, metav1.DeleteOptions{}))
		a.remove(foreignPool(name))
		a.remove(a.kinds()[name].class)
	}
	for _, c := range a.nodeClaims() { // Kubernetes would, but takes half a minute to begin with
		if err := a.dyn.Resource(claimsGVR).Delete(a.Context(), c.GetName(), metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			a.must(err)
		}
	}
	a.eventually("no NodeClaim and no EC2NodeClass", func() string {
		classes, err := a.dyn.Resource(nodeClasses).List(a.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if n, m := len(a.nodeClaims()), len(classes.Items); n+m > 0 {
			return fmt.Sprintf("%d NodeClaims and %d EC2NodeClasses", n, m)
		}
		return ""
	})
	ctx := a.Context()
	all, err := a.ec2.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{})
	a.must(err)
	for _, r := range all.Reservations {
		for _, i := range r.Instances {
			if id, state := aws.ToString(i.InstanceId), i.State.Name; (id == a.stranger) != (state == "running") {
				a.Errorf("instance %s is %s; that of another cluster is %s", id, state, a.stranger)
			}
		}
	}
	templates, err := a.ec2.DescribeLaunchTemplates(ctx, &awsec2.DescribeLaunchTemplatesInput{})
	a.must(err)
	profiles, err := a.iam.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{})
	a.must(err)
	if len(templates.LaunchTemplates) > 0 || len(profiles.InstanceProfiles) != 1 || aws.ToString(profiles.InstanceProfiles[0].InstanceProfileName) != foreignProfile {
		a.Errorf("left are %d launch templates and %d instance profiles, want none and the one of others", len(templates.LaunchTemplates), len(profiles.InstanceProfiles))
	}
}
