package sim_test

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	policies "millwright/deploy/iam"
	"millwright/tools/ec2sim/sim"
)

// as returns clients that sign as another caller.
func (w *world) as(key string) aws.Config {
	cfg := w.aws.Copy()
	cfg.Credentials = credentials.NewStaticCredentialsProvider(key, "secret", "")
	return cfg
}

// TestPoliciesKeepToTheirCluster tries to get past the generated policies: instances of other clusters,
// launches without the cluster's tags, other roles and queues, and calls of services that need none.
func TestPoliciesKeepToTheirCluster(t *testing.T) {
	w := newWorld(t, func(c *sim.Config) { c.ClusterName, c.Roles = "demo", []string{"Admin"} })
	documents := map[string]json.RawMessage{}
	for _, service := range policies.Services {
		d, err := policies.Policy(service, policies.Account{Cluster: "demo", Region: "us-west-2", Account: "111122223333"})
		w.must(err)
		documents[service], err = d.JSON()
		w.must(err)
	}
	w.must(w.server.Enforce(documents))
	lifecycle, watcher := ec2.NewFromConfig(w.as("lifecycle")), ec2.NewFromConfig(w.as("watcher"))
	tags := func(cluster string) []ec2types.Tag {
		return []ec2types.Tag{{Key: aws.String("kubernetes.io/cluster/" + cluster), Value: aws.String("owned")},
			{Key: aws.String("eks:eks-cluster-name"), Value: aws.String(cluster)}, {Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("p")}}
	}
	template := func(cluster string) *ec2.CreateLaunchTemplateInput {
		return &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("of-" + cluster),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String(recommended(w, "x86_64"))},
			TagSpecifications:  []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: tags(cluster)}}}
	}
	made, err := lifecycle.CreateLaunchTemplate(t.Context(), template("demo"))
	w.must(err)
	other, err := w.ec2.CreateLaunchTemplate(t.Context(), template("other")) // the account's root
	w.must(err)

	_, err = lifecycle.CreateLaunchTemplate(t.Context(), template("third"))
	wantCode(t, err, "UnauthorizedOperation")
	_, err = watcher.CreateLaunchTemplate(t.Context(), template("demo"))
	wantCode(t, err, "UnauthorizedOperation")
	_, err = lifecycle.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: other.LaunchTemplate.LaunchTemplateId})
	wantCode(t, err, "UnauthorizedOperation")
	_, err = lifecycle.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{*other.LaunchTemplate.LaunchTemplateId}, Tags: tags("demo")})
	wantCode(t, err, "UnauthorizedOperation")
	_, err = lifecycle.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: made.LaunchTemplate.LaunchTemplateId})
	w.must(err)

	_, err = ec2.NewFromConfig(w.as("disruptor")).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	wantCode(t, err, "UnauthorizedOperation")
	_, err = watcher.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	w.must(err)

	profiles := iam.NewFromConfig(w.as("lifecycle"))
	createProfile(w, "foreign")
	_, err = profiles.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("foreign"), RoleName: aws.String("Admin")})
	wantCode(t, err, "AccessDenied")
	_, err = profiles.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String("foreign")})
	wantCode(t, err, "AccessDenied")
	_, err = profiles.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("untagged")})
	wantCode(t, err, "AccessDenied")
	ours := []iamtypes.Tag{{Key: aws.String("kubernetes.io/cluster/demo"), Value: aws.String("owned")}, {Key: aws.String("eks:eks-cluster-name"), Value: aws.String("demo")},
		{Key: aws.String("topology.kubernetes.io/region"), Value: aws.String("us-west-2")}, {Key: aws.String("karpenter.k8s.aws/ec2nodeclass"), Value: aws.String("c")}}
	_, err = profiles.TagInstanceProfile(t.Context(), &iam.TagInstanceProfileInput{InstanceProfileName: aws.String("foreign"), Tags: ours})
	wantCode(t, err, "AccessDenied") // once tagged it could be changed
	_, err = profiles.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("elsewhere"), Tags: ours})
	wantCode(t, err, "AccessDenied")
	_, err = profiles.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("ours"), Tags: ours,
		Path: aws.String("/karpenter/us-west-2/demo/00000000-0000-0000-0000-000000000000/")})
	w.must(err)

	_, err = sqs.NewFromConfig(w.as("watcher")).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("payments")})
	wantCode(t, err, "AccessDeniedException")
	_, err = sqs.NewFromConfig(w.as("lifecycle")).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("demo")})
	wantCode(t, err, "AccessDeniedException")
	callers, err := w.control.Callers(t.Context())
	w.must(err)
	if v := callers["lifecycle"]["iam:PassRole"]; v.Refused != 1 || v.Allowed != 0 {
		t.Errorf("passing another role: %+v", v)
	}
}
