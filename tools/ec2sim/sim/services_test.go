package sim_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

func recommended(w *world, arch string) string {
	w.t.Helper()
	out, err := ssm.NewFromConfig(w.aws).GetParameter(ctxb(), &ssm.GetParameterInput{
		Name: aws.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/" + arch + "/standard/recommended/image_id")})
	w.must(err)
	return aws.ToString(out.Parameter.Value)
}

func createProfile(w *world, name string) {
	w.t.Helper()
	client := iam.NewFromConfig(w.aws)
	_, err := client.CreateInstanceProfile(ctxb(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(name),
		Path: aws.String("/karpenter/us-west-2/millwright/uid/"),
		Tags: []iamtypes.Tag{{Key: aws.String("owner"), Value: aws.String("test")}}})
	w.must(err)
}

func TestParameters(t *testing.T) {
	w := newWorld(t)
	client := ssm.NewFromConfig(w.aws)
	for _, name := range []string{
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/neuron/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.36-v20260218/image_id",
		"/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20260107/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.36/x86_64/latest/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.36-nvidia/arm64/1.54.0/image_id",
	} {
		out, err := client.GetParameter(ctxb(), &ssm.GetParameterInput{Name: aws.String(name)})
		if err != nil || !strings.HasPrefix(aws.ToString(out.Parameter.Value), "ami-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := client.GetParameter(ctxb(), &ssm.GetParameterInput{
		Name: aws.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2/recommended/image_id")})
	wantCode(t, err, "ParameterNotFound")
	before := recommended(w, "x86_64")
	w.must(w.control.PublishImages(ctxb(), "20260501"))
	if recommended(w, "x86_64") == before {
		t.Error("a new release did not move the recommended image")
	}
}

func TestCluster(t *testing.T) {
	w := newWorld(t, func(c *sim.Config) { c.ClusterEndpoint, c.ClusterCA = "https://10.1.2.3:6443", []byte("PEM") })
	client := eks.NewFromConfig(w.aws)
	out, err := client.DescribeCluster(ctxb(), &eks.DescribeClusterInput{Name: aws.String("millwright")})
	w.must(err)
	c := out.Cluster
	if aws.ToString(c.Endpoint) != "https://10.1.2.3:6443" || aws.ToString(c.Version) != "1.36" ||
		aws.ToString(c.CertificateAuthority.Data) != base64.StdEncoding.EncodeToString([]byte("PEM")) ||
		aws.ToString(c.KubernetesNetworkConfig.ServiceIpv4Cidr) != "10.100.0.0/16" {
		t.Errorf("got %+v", c)
	}
	_, err = client.DescribeCluster(ctxb(), &eks.DescribeClusterInput{Name: aws.String("other")})
	wantCode(t, err, "ResourceNotFoundException")
}

func TestInstanceProfiles(t *testing.T) {
	w := newWorld(t)
	client, name := iam.NewFromConfig(w.aws), aws.String("p")
	_, err := client.GetInstanceProfile(ctxb(), &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity")
	createProfile(w, "p")
	_, err = client.CreateInstanceProfile(ctxb(), &iam.CreateInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "EntityAlreadyExists")
	_, err = client.AddRoleToInstanceProfile(ctxb(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("nobody")})
	wantCode(t, err, "NoSuchEntity")
	role := aws.String("KarpenterNodeRole-millwright")
	_, err = client.AddRoleToInstanceProfile(ctxb(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: role})
	w.must(err)
	_, err = client.AddRoleToInstanceProfile(ctxb(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: role})
	wantCode(t, err, "LimitExceeded")
	_, err = client.TagInstanceProfile(ctxb(), &iam.TagInstanceProfileInput{InstanceProfileName: name,
		Tags: []iamtypes.Tag{{Key: aws.String("more"), Value: aws.String("1")}}})
	w.must(err)
	got, err := client.GetInstanceProfile(ctxb(), &iam.GetInstanceProfileInput{InstanceProfileName: name})
	w.must(err)
	if p := got.InstanceProfile; len(p.Roles) != 1 || aws.ToString(p.Roles[0].RoleName) != *role || len(p.Tags) != 2 {
		t.Errorf("got %+v", p)
	}
	list, err := client.ListInstanceProfiles(ctxb(), &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/us-west-2/millwright/")})
	w.must(err)
	if len(list.InstanceProfiles) != 1 {
		t.Errorf("listed %d profiles under the path, want 1", len(list.InstanceProfiles))
	}
	_, err = client.DeleteInstanceProfile(ctxb(), &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "DeleteConflict")
	_, err = client.RemoveRoleFromInstanceProfile(ctxb(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: role})
	w.must(err)
	_, err = client.DeleteInstanceProfile(ctxb(), &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	w.must(err)
}

func TestCallerIdentity(t *testing.T) {
	w := newWorld(t)
	out, err := sts.NewFromConfig(w.aws).GetCallerIdentity(ctxb(), &sts.GetCallerIdentityInput{})
	w.must(err)
	if aws.ToString(out.Account) != "111122223333" {
		t.Errorf("account %s", aws.ToString(out.Account))
	}
}

func TestProducts(t *testing.T) {
	w := newWorld(t)
	w.must(w.control.SetPrices(ctxb(), simclient.Price{InstanceType: "m5.large", CapacityType: "on-demand", USDPerHour: 0.5}))
	prices := map[string]string{}
	pages := 0
	for _, q := range [][2]string{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		filter := func(field, value string) pricingtypes.Filter {
			return pricingtypes.Filter{Field: aws.String(field), Value: aws.String(value), Type: pricingtypes.FilterTypeTermMatch}
		}
		p := pricing.NewGetProductsPaginator(pricing.NewFromConfig(w.aws), &pricing.GetProductsInput{
			ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(100), Filters: []pricingtypes.Filter{
				filter("regionCode", "us-west-2"), filter("serviceCode", "AmazonEC2"), filter("preInstalledSw", "NA"),
				filter("operatingSystem", "Linux"), filter("capacitystatus", "Used"), filter("marketoption", "OnDemand"),
				filter("tenancy", q[0]), filter("productFamily", q[1])}})
		for p.HasMorePages() {
			out, err := p.NextPage(ctxb())
			w.must(err)
			pages++
			for _, text := range out.PriceList {
				name, usd := readProduct(t, text)
				prices[name] = usd
			}
		}
	}
	for name, want := range map[string]string{"m5.large": "0.5000000000", "c5.large": "0.0850000000", "m5.metal": "4.6080000000"} {
		if prices[name] != want {
			t.Errorf("%s costs %q, want %s", name, prices[name], want)
		}
	}
	if len(prices) < 1000 || pages < 10 {
		t.Errorf("%d products on %d pages", len(prices), pages)
	}
}

func readProduct(t *testing.T, text string) (name, usd string) {
	t.Helper()
	var p struct {
		Product struct{ Attributes map[string]string }
		Terms   struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct{ PricePerUnit map[string]string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			usd = d.PricePerUnit["USD"]
		}
	}
	return p.Product.Attributes["instanceType"], usd
}

func TestQueue(t *testing.T) {
	w := newWorld(t)
	client := sqs.NewFromConfig(w.aws)
	_, err := client.GetQueueUrl(ctxb(), &sqs.GetQueueUrlInput{QueueName: aws.String("other")})
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue")
	q, err := client.GetQueueUrl(ctxb(), &sqs.GetQueueUrlInput{QueueName: aws.String("millwright")})
	w.must(err)
	receive := func(wait int32) *sqs.ReceiveMessageOutput {
		out, err := client.ReceiveMessage(ctxb(), &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, MaxNumberOfMessages: 10,
			WaitTimeSeconds: wait, VisibilityTimeout: 20})
		w.must(err)
		return out
	}
	if n := len(receive(20).Messages); n != 0 {
		t.Fatalf("%d messages on an empty queue", n)
	}
	_, err = client.SendMessage(ctxb(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("one")})
	w.must(err)
	first := receive(0)
	if len(first.Messages) != 1 || aws.ToString(first.Messages[0].Body) != "one" || first.Messages[0].Attributes["SentTimestamp"] == "" {
		t.Fatalf("received %+v", first.Messages)
	}
	if n := len(receive(0).Messages); n != 0 {
		t.Error("a message in flight was received again")
	}
	w.clock.Advance(21 * time.Second)
	again := receive(0)
	if len(again.Messages) != 1 {
		t.Fatal("the message did not come back after its visibility timeout")
	}
	_, err = client.DeleteMessage(ctxb(), &sqs.DeleteMessageInput{QueueUrl: q.QueueUrl, ReceiptHandle: again.Messages[0].ReceiptHandle})
	w.must(err)
	w.clock.Advance(21 * time.Second)
	if n := len(receive(0).Messages); n != 0 {
		t.Error("a deleted message came back")
	}
	for range 2 {
		_, err = client.SendMessage(ctxb(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("two")})
		w.must(err)
	}
	both := receive(0)
	out, err := client.DeleteMessageBatch(ctxb(), &sqs.DeleteMessageBatchInput{QueueUrl: q.QueueUrl, Entries: []sqstypes.DeleteMessageBatchRequestEntry{
		{Id: aws.String("a"), ReceiptHandle: both.Messages[0].ReceiptHandle}, {Id: aws.String("b"), ReceiptHandle: aws.String("no such!")},
		{Id: aws.String("c"), ReceiptHandle: both.Messages[1].ReceiptHandle}}})
	w.must(err)
	w.clock.Advance(21 * time.Second)
	if len(out.Successful) != 2 || len(out.Failed) != 1 || aws.ToString(out.Failed[0].Id) != "b" || len(receive(0).Messages) != 0 {
		t.Errorf("a batch deleted %d, failed %d", len(out.Successful), len(out.Failed))
	}
	_, err = client.DeleteMessageBatch(ctxb(), &sqs.DeleteMessageBatchInput{QueueUrl: q.QueueUrl, Entries: []sqstypes.DeleteMessageBatchRequestEntry{}})
	if empty := (*sqstypes.EmptyBatchRequest)(nil); !errors.As(err, &empty) {
		t.Errorf("an empty batch: %v", err)
	}
}
