package launch

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func checkGolden(t *testing.T, name string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(withoutNulls(tree), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".json")
	if *rewrite {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimSpace(string(want)), string(got)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// readable replaces the user data by its text.
func readable(t ec2.LaunchTemplate) ec2.LaunchTemplate {
	data := *t.Data
	text, _ := base64.StdEncoding.DecodeString(aws.ToString(data.UserData))
	data.UserData = aws.String(string(text))
	t.Data = &data
	return t
}

// The rules: ec2 §4.4.
func TestLaunchTemplatesGolden(t *testing.T) {
	for _, family := range []string{"AL2", "AL2023", "Bottlerocket", "Windows2022", "Custom"} {
		t.Run(family, func(t *testing.T) {
			b := newBench(t)
			if _, err := b.Build(context.Background(), input(readyClass(family), claim(capacityTypes("spot")), m5large)); err != nil {
				t.Fatal(err)
			}
			checkGolden(t, "template-"+family, readable(b.templates.made["lt-1"]))
		})
	}
	t.Run("everything set", func(t *testing.T) {
		b := newBench(t)
		nc := readyClass("AL2023")
		size := resource.MustParse("30G")
		nc.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{{DeviceName: ptr("/dev/xvda"), RootVolume: true, EBS: &awsv1.BlockDevice{
			VolumeSize: &size, VolumeType: ptr("io2"), IOPS: ptr[int64](1000), Throughput: ptr[int64](125), Encrypted: ptr(false),
			DeleteOnTermination: ptr(true), KMSKeyID: ptr("key"), SnapshotID: ptr("snap-1"), VolumeInitializationRate: ptr[int32](200),
		}}}
		nc.Spec.MetadataOptions = &awsv1.MetadataOptions{HTTPEndpoint: ptr("disabled"), HTTPProtocolIPv6: ptr("enabled"), HTTPPutResponseHopLimit: ptr[int64](2), HTTPTokens: ptr("optional")}
		nc.Spec.AssociatePublicIPAddress, nc.Spec.DetailedMonitoring = ptr(false), ptr(true)
		nc.Spec.InstanceStorePolicy, nc.Spec.UserData = ptr(awsv1.InstanceStorePolicyRAID0), ptr("#!/bin/sh\necho hi\n")
		nc.Spec.Kubelet = &awsv1.KubeletConfiguration{MaxPods: ptr[int32](20), ClusterDNS: []string{"fd00::a"}}
		b.cluster.DNS = "fd00::b"
		c := claim(capacityTypes("on-demand"), []string{awsv1.LabelInstanceTenancy, "dedicated"})
		if _, err := b.Build(context.Background(), input(nc, c, m5large)); err != nil {
			t.Fatal(err)
		}
		checkGolden(t, "template-everything", readable(b.templates.made["lt-1"]))
	})
	t.Run("EFA", func(t *testing.T) {
		b := newBench(t)
		efa := kind{name: "p5.48xlarge", price: 5500, cpu: 192, pods: 100, extra: map[string]int64{"vpc.amazonaws.com/efa": 3}}
		c := claim(capacityTypes("on-demand"))
		c.Spec.Resources.Requests["vpc.amazonaws.com/efa"] = resource.MustParse("1")
		if _, err := b.Build(context.Background(), input(readyClass("AL2023"), c, efa)); err != nil {
			t.Fatal(err)
		}
		checkGolden(t, "template-efa", b.templates.made["lt-1"].Data.NetworkInterfaces)
	})
	t.Run("network", func(t *testing.T) {
		b := newBench(t)
		nc := readyClass("AL2023")
		nc.Spec.NetworkInterfaces = []awsv1.NetworkInterface{
			{InterfaceType: awsv1.InterfaceTypeInterface}, {DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly},
			{NetworkCardIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeInterface},
		}
		nc.Spec.IPPrefixCount, nc.Spec.ConnectionTracking = ptr[int32](2), &awsv1.ConnectionTracking{TCPEstablishedTimeout: ptr[int32](600), UDPTimeout: ptr[int32](45)}
		nc.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: ptr("enabled")}
		efa := kind{name: "p5.48xlarge", price: 5500, cpu: 192, pods: 100, extra: map[string]int64{"vpc.amazonaws.com/efa": 2}}
		c := claim(capacityTypes("on-demand"))
		c.Spec.Resources.Requests["vpc.amazonaws.com/efa"] = resource.MustParse("1")
		for i, dns := range []string{b.cluster.DNS, "fd00::a"} {
			b.cluster.DNS = dns
			if _, err := b.Build(context.Background(), input(nc, c, efa)); err != nil {
				t.Fatal(err)
			}
			data := b.templates.made[fmt.Sprint("lt-", i+1)].Data
			checkGolden(t, fmt.Sprint("template-network", 4+2*i), data.NetworkInterfaces)
			if data.CpuOptions == nil || data.CpuOptions.NestedVirtualization != "enabled" {
				t.Errorf("CPU options %+v", data.CpuOptions)
			}
		}
		nc.Spec.CPUOptions.NestedVirtualization = ptr("disabled") // as EC2 has it by itself
		if _, err := b.Build(context.Background(), input(nc, c, efa)); err != nil || b.templates.made["lt-3"].Data.CpuOptions != nil {
			t.Errorf("CPU options %+v, %v", b.templates.made["lt-3"].Data, err)
		}
	})
}

// The rules: ec2 §4.5.
// Only where minimums were given up is the class's context left out, whatever the policy.
func TestContextStaysUnlessMinimumsAreRelaxed(t *testing.T) {
	nc := readyClass("AL2023")
	nc.Spec.Context = ptr("ctx-1")
	for relaxed, want := range map[string]string{"": "ctx-1", "false": "ctx-1", "true": ""} {
		c := claim(capacityTypes("on-demand"))
		if relaxed != "" {
			c.Annotations = map[string]string{karpv1.MinValuesRelaxedAnnotationKey: relaxed}
		}
		in := input(nc, c, m5large)
		in.MinValuesBestEffort = true
		built, err := newBench(t).Build(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if got := aws.ToString(built.request(Order{}, nil).Context); got != want {
			t.Errorf("relaxed %q: context %q, want %q", relaxed, got, want)
		}
	}
}

func TestBuild(t *testing.T) {
	b := newBench(t)
	nc := readyClass("AL2023")
	nc.Spec.Context = ptr("ctx-1")
	in := input(nc, claim(capacityTypes("spot", "on-demand")), m5large, m6glarge, m5xlarge, c5large)
	built, err := b.Build(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	request := requestOf(b, built, "token-1")
	checkGolden(t, "request", request)
	if d := cmp.Diff([]ledger.LaunchTemplateRef{{ID: "lt-1", Version: "1"}, {ID: "lt-2", Version: "1"}, {ID: "lt-3", Version: "1"}}, built.Templates); d != "" {
		t.Error("one template per image and pod capacity:", d)
	}
	first, err := EncodeRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.Build(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := EncodeRequest(requestOf(b, again, "token-1"))
	if string(first) != string(second) {
		t.Error("equal inputs, other bytes")
	}
	if b.templates.ensured != 3 {
		t.Errorf("asked for templates %d times, they were known", b.templates.ensured)
	}
	b.now = b.now.Add(6 * time.Minute)
	if _, err := b.Build(context.Background(), in); err != nil || b.templates.ensured != 6 {
		t.Errorf("after five minutes their existence is asked for again: %d, %v", b.templates.ensured, err)
	}
	b.Forget(built.Templates[:1])
	if _, err := b.Build(context.Background(), in); err != nil || b.templates.ensured != 7 {
		t.Errorf("a forgotten one is asked for again: %d, %v", b.templates.ensured, err)
	}
}

// The rules: ec2 §4.4.
func TestClaimsShareTemplates(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"general-1", "general-2"} {
		c := claim(capacityTypes("spot"))
		c.Name, c.UID = name, "other"
		if _, err := b.Build(context.Background(), input(readyClass("AL2023"), c, m5large)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.templates.made) != 1 {
		t.Errorf("%d templates for two claims of one pool", len(b.templates.made))
	}
	c := claim(capacityTypes("spot"))
	c.Labels["team"] = "db"
	if _, err := b.Build(context.Background(), input(readyClass("AL2023"), c, m5large)); err != nil || len(b.templates.made) != 2 {
		t.Errorf("other labels need another template: %d, %v", len(b.templates.made), err)
	}
}

// TestLaunchesAtOnceAskOnce: fifty claims that need one new template make one call.
func TestLaunchesAtOnceAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		slow := &slowTemplates{fakeTemplates: b.templates}
		b.Builder = New(Config{Cloud: slow, Region: "eu-west-1", Now: b.cfg.Now, Cluster: b.cfg.Cluster})
		cancelled, cancel := context.WithCancel(context.Background())
		var group errgroup.Group
		build := func(ctx context.Context) func() error {
			return func() error {
				_, err := b.Build(ctx, input(readyClass("AL2023"), claim(capacityTypes("spot")), m5large))
				return err
			}
		}
		first := make(chan error, 1)
		go func() { first <- build(cancelled)() }()
		synctest.Wait() // it is asking
		for range 50 {
			group.Go(build(context.Background()))
		}
		synctest.Wait()
		cancel()
		if err := <-first; err == nil {
			t.Error("the cancelled launch succeeded")
		}
		if err := group.Wait(); err != nil {
			t.Errorf("one cancelled launch failed the others: %v", err)
		}
		if b.templates.ensured != 1 {
			t.Errorf("asked %d times", b.templates.ensured)
		}
	})
}

// slowTemplates takes a second to answer.
type slowTemplates struct {
	*fakeTemplates
	mu sync.Mutex
}

func (s *slowTemplates) EnsureLaunchTemplate(ctx context.Context, t ec2.LaunchTemplate) (ledger.LaunchTemplateRef, error) {
	select {
	case <-ctx.Done():
		return ledger.LaunchTemplateRef{}, ctx.Err()
	case <-time.After(time.Second):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fakeTemplates.EnsureLaunchTemplate(ctx, t)
}

// The rules: ec2 §4.1.
func TestBuildRefusals(t *testing.T) {
	cases := map[string]struct {
		edit   func(*bench, *Input)
		class  ec2.Class
		reason string
	}{
		"no class":        {func(_ *bench, in *Input) { in.NodeClass = nil }, ec2.NoCapacity, "NodeClassNotFound"},
		"class not ready": {func(_ *bench, in *Input) { in.NodeClass.Status.Conditions[0].Status = metav1.ConditionFalse }, ec2.NotReady, "NodeClassNotReady"},
		"status is stale": {func(_ *bench, in *Input) { in.NodeClass.Generation++ }, ec2.Transient, "NodeClassReadinessUnknown"},
		"no CIDR":         {func(b *bench, _ *Input) { b.cluster.CIDR = "" }, ec2.NotReady, "NodeClassNotReady"},
		"too much text":   {func(_ *bench, in *Input) { in.NodeClass.Spec.UserData = ptr(noise(30000)) }, ec2.Permanent, "UserDataSizeLimitExceeded"},
		"cannot make a template": {func(b *bench, _ *Input) {
			b.templates.err = &ec2.CallError{Action: "ec2:CreateLaunchTemplate", Mutating: true, Err: context.DeadlineExceeded}
		}, ec2.UnknownOutcome, "LaunchFailed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			in := input(readyClass("AL2023"), claim(capacityTypes("spot")), m5large)
			c.edit(b, &in)
			_, err := b.Build(context.Background(), in)
			var f *ec2.Failure
			if !errors.As(err, &f) || f.Class != c.class || f.Reason != c.reason {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The rules: ec2 §4.4.
func TestDeleteAndCollectTemplates(t *testing.T) {
	ctx, b := context.Background(), newBench(t)
	in := input(readyClass("AL2023"), claim(capacityTypes("spot")), m5large)
	if _, err := b.Build(ctx, in); err != nil {
		t.Fatal(err)
	}
	b.templates.made["lt-foreign"] = ec2.LaunchTemplate{Name: "foreign", Tags: map[string]string{"eks:eks-cluster-name": "green", "karpenter.k8s.aws/ec2nodeclass": "default"}}
	b.templates.made["lt-open"] = ec2.LaunchTemplate{Name: "open", Tags: map[string]string{"eks:eks-cluster-name": "blue", "karpenter.k8s.aws/ec2nodeclass": "default"}}
	if err := b.CollectTemplates(ctx, map[string]bool{"lt-open": true}, false); err != nil || len(b.templates.made) != 3 {
		t.Errorf("fresh, foreign and named ones stay: %v %v", b.templates.made, err)
	}
	b.now = b.now.Add(20 * time.Minute)
	if err := b.CollectTemplates(ctx, map[string]bool{"lt-open": true}, false); err != nil || len(b.templates.made) != 3 {
		t.Errorf("twenty minutes without use: %v %v", b.templates.made, err)
	}
	if _, err := b.Build(ctx, in); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(9 * time.Minute)
	if err := b.CollectTemplates(ctx, map[string]bool{"lt-open": true}, true); err != nil || len(b.templates.made) != 3 {
		t.Errorf("used nine minutes ago, and scarce: %v %v", b.templates.made, err)
	}
	b.now = b.now.Add(2 * time.Minute)
	if err := b.CollectTemplates(ctx, map[string]bool{"lt-open": true}, true); err != nil || len(b.templates.made) != 2 {
		t.Errorf("used eleven minutes ago, and scarce: %v %v", b.templates.made, err)
	}
	if _, err := b.Build(ctx, in); err != nil || len(b.templates.made) != 3 {
		t.Fatal(b.templates.made, err)
	}
	b.now = b.now.Add(31 * time.Minute)
	if err := b.CollectTemplates(ctx, map[string]bool{"lt-open": true}, false); err != nil || len(b.templates.made) != 2 {
		t.Errorf("half an hour without use: %v %v", b.templates.made, err)
	}
	if len(b.used) != 0 || len(b.Builder.templates) != 0 {
		t.Errorf("remembered: %v %v", b.used, b.Builder.templates)
	}
	if err := b.DeleteTemplates(ctx, "default"); err != nil || len(b.templates.made) != 1 || b.templates.made["lt-foreign"].Name == "" {
		t.Errorf("%v %v", b.templates.made, err)
	}
	if _, err := b.Build(ctx, in); err != nil || len(b.templates.made) != 2 {
		t.Errorf("a deleted template is made again: %v", err)
	}
}

func TestATemplateThatMayNotBeDeletedHoldsUpNoOther(t *testing.T) {
	ctx, b := context.Background(), newBench(t)
	for _, id := range []string{"lt-1", "lt-2", "lt-3"} {
		b.templates.made[id] = ec2.LaunchTemplate{Name: id, Tags: map[string]string{"eks:eks-cluster-name": "blue", "karpenter.k8s.aws/ec2nodeclass": "default"}}
	}
	b.templates.refused = map[string]error{"lt-1": no("DeleteLaunchTemplate")}
	if err := b.CollectTemplates(ctx, nil, false); !ec2.IsUnauthorized(err) {
		t.Errorf("error %v, want the refusal", err)
	}
	if _, kept := b.templates.made["lt-1"]; !kept || len(b.templates.made) != 1 {
		t.Errorf("left: %v, want lt-1 alone", b.templates.made)
	}

	b.templates.made["lt-2"] = b.templates.made["lt-1"]
	b.templates.refused["lt-1"] = answer("DeleteLaunchTemplate", "RequestLimitExceeded", "slow down")
	if err := b.CollectTemplates(ctx, nil, false); err == nil || len(b.templates.made) != 2 {
		t.Errorf("while EC2 limits the rate the others are deleted at once, too: left %v, %v", b.templates.made, err)
	}
}

func TestIsolatedRegionsHaveNoIPv6Metadata(t *testing.T) {
	if got := metadataOptions(nil, "us-iso-east-1").HttpProtocolIpv6; got != "" {
		t.Errorf("got %q", got)
	}
	if got := metadataOptions(nil, "us-east-1").HttpProtocolIpv6; got != ec2types.LaunchTemplateInstanceMetadataProtocolIpv6Disabled {
		t.Errorf("got %q", got)
	}
}

// TestOverlaidPricesSetTheOrder: EC2 does not know the prices of a NodeOverlay, so it is told what to try
// first. The rules: ec2 §4.5.
func TestOverlaidPricesSetTheOrder(t *testing.T) {
	for capacityType, strategy := range map[string]string{"spot": "capacity-optimized-prioritized", "on-demand": "prioritized"} {
		b, c := newBench(t), claim(capacityTypes(capacityType))
		c.Annotations = map[string]string{"karpenter.sh/price-overlay-applied": "true"}
		built, err := b.Build(t.Context(), input(readyClass("AL2023"), c, m5large, c5large))
		if err != nil {
			t.Fatal(err)
		}
		request := requestOf(b, built, "token-1")
		var got string
		if o := request.SpotOptions; o != nil {
			got = string(o.AllocationStrategy)
		}
		if o := request.OnDemandOptions; o != nil {
			got += string(o.AllocationStrategy)
		}
		last := 0.0
		for _, o := range request.LaunchTemplateConfigs[0].Overrides {
			if o.Priority == nil || *o.Priority < last {
				t.Fatalf("%s: priorities do not rise with the price: %v", capacityType, request.LaunchTemplateConfigs[0].Overrides)
			}
			last = *o.Priority
		}
		if got != strategy || last == 0 {
			t.Errorf("%s: strategy %q, want %q", capacityType, got, strategy)
		}
	}
}

// noise is a line that compression does not make shorter by much.
func noise(n int) string {
	rng, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rng.IntN(90))
	}
	return string(b)
}
