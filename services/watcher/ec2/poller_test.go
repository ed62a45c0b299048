package ec2

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/tools/ec2sim/simclient"
)

func TestCataloguesFollowTheirNodeClasses(t *testing.T) {
	r := newRig(t, nil)
	unready := nodeClass("unready", func(nc *karpawsv1.EC2NodeClass) { nc.Status.Subnets = nil })
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", nil), unready}
	r.poll("instance_types", "nodeclasses")
	if c := r.catalog(); c.NodeClass != "default" || len(c.InstanceTypes) < 600 || c.Generation != 1 {
		t.Fatalf("catalogue of %s with %d types", c.NodeClass, len(c.InstanceTypes))
	}
	steps := []struct {
		sentence string
		change   func(nc *karpawsv1.EC2NodeClass)
		emits    bool
	}{
		{"nothing changed", func(*karpawsv1.EC2NodeClass) {}, false},
		{"subnets in another order", func(nc *karpawsv1.EC2NodeClass) {
			nc.Status.Subnets[0], nc.Status.Subnets[1] = nc.Status.Subnets[1], nc.Status.Subnets[0]
		}, false},
		{"images changed", func(nc *karpawsv1.EC2NodeClass) { nc.Status.AMIs = []karpawsv1.AMI{{ID: "ami-1"}} }, false},
		{"a zone less", func(nc *karpawsv1.EC2NodeClass) { nc.Status.Subnets = nc.Status.Subnets[:1] }, true},
		{"kubelet", func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.Kubelet = &karpawsv1.KubeletConfiguration{MaxPods: ptr(int32(5))}
		}, true},
		{"devices", func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.BlockDeviceMappings = []*karpawsv1.BlockDeviceMapping{device("/dev/xvda", "99Gi", false)}
		}, true},
		{"instance store", func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.InstanceStorePolicy = ptr(karpawsv1.InstanceStorePolicyRAID0)
		}, true},
		{"family", func(nc *karpawsv1.EC2NodeClass) { nc.Spec.AMIFamily = ptr("Custom") }, true},
		{"generation", func(nc *karpawsv1.EC2NodeClass) { nc.Generation++ }, true},
	}
	for _, s := range steps {
		nc := r.classes[0].DeepCopy()
		s.change(nc)
		r.classes[0] = nc
		r.poll("nodeclasses")
		if got := r.out.take(events.KindCatalog); (len(got) == 1) != s.emits {
			t.Fatalf("%s: %d catalogues emitted", s.sentence, len(got))
		}
	}
	r.classes = []*karpawsv1.EC2NodeClass{unready}
	r.poll("nodeclasses")
	if got := r.out.take(events.KindCatalog); len(got) != 1 || got[0].Op != events.OpDelete || got[0].Name != "default" {
		t.Fatalf("after the NodeClass went: %+v", got)
	}
}

// One that is deleted and made anew has the same name, and the same generation, 1.
func TestANodeClassMadeAnewHasACatalogueOfItsOwn(t *testing.T) {
	r := newRig(t, nil)
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", func(nc *karpawsv1.EC2NodeClass) { nc.UID = "first" })}
	r.poll("instance_types", "nodeclasses")
	if !typeOf(t, r.catalog(), "m4.large").Offerings[0].Available {
		t.Fatal("m4.large is not offered")
	}
	r.classes[0] = nodeClass("default", func(nc *karpawsv1.EC2NodeClass) {
		nc.UID = "second"
		nc.Spec.ConnectionTracking = &karpawsv1.ConnectionTracking{TCPEstablishedTimeout: ptr(int32(600))}
	})
	r.poll("nodeclasses")
	if typeOf(t, r.catalog(), "m4.large").Offerings[0].Available {
		t.Error("m4.large, which is not nitro, cannot have its connections tracked")
	}
}

func TestTypesAnewWithoutChangeEmitNothing(t *testing.T) {
	r := newRig(t, nil)
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", nil)}
	r.poll("instance_types", "nodeclasses")
	first := r.out.take(events.KindCatalog)
	r.poll("instance_types", "nodeclasses")
	if got := r.out.take(events.KindCatalog); len(got) != 0 {
		t.Fatalf("emitted again: %+v", got)
	}
	r.Resync()
	r.poll("nodeclasses")
	again := r.out.take(events.KindCatalog)
	if len(again) != 1 || again[0].Object.(*events.CatalogRef).Hash != first[0].Object.(*events.CatalogRef).Hash {
		t.Fatalf("after a resync: %+v", again)
	}
}

func TestOneBrokenNodeClassDoesNotStopOthers(t *testing.T) {
	r := newRig(t, nil)
	broken := nodeClass("broken", func(nc *karpawsv1.EC2NodeClass) {
		nc.Spec.Kubelet = &karpawsv1.KubeletConfiguration{KubeReserved: map[string]string{"memory": "lots"}}
	})
	r.classes = []*karpawsv1.EC2NodeClass{broken, nodeClass("sound", nil)}
	r.poll("instance_types", "nodeclasses")
	if c := r.catalog(); c.NodeClass != "sound" {
		t.Fatalf("catalogue of %s", c.NodeClass)
	}
	repaired := broken.DeepCopy()
	repaired.Spec.Kubelet.KubeReserved["memory"] = "1Gi"
	r.classes[0] = repaired
	r.poll("nodeclasses")
	if c := r.catalog(); c.NodeClass != "broken" {
		t.Fatalf("catalogue of %s", c.NodeClass)
	}
}

func TestPricesAreDifferences(t *testing.T) {
	r := newRig(t, nil)
	r.poll("on_demand_prices")
	first := r.out.prices()
	if got := first[priceKey{"m5.large", "on-demand", ""}]; got != 96000 {
		t.Errorf("m5.large on demand: %d", got)
	}
	if got := first[priceKey{"m5.large", "spot", ""}]; got != 96000 {
		t.Errorf("before the history answers, spot costs what on-demand does, not %d", got)
	}
	if _, ok := first[priceKey{"m5.metal", "on-demand", ""}]; !ok {
		t.Error("no price of bare metal")
	}
	for name := range pricesFor(r.cfg.Region).Prices {
		if _, ok := first[priceKey{name, "on-demand", ""}]; !ok {
			t.Errorf("the price API knows no price of %s, and the built-in one is not used", name)
			break
		}
	}
	r.poll("spot_prices")
	second := r.out.prices()
	if got := second[priceKey{"m5.large", "spot", "us-west-2a"}]; got <= 0 || got >= 96000 {
		t.Errorf("m5.large spot: %d", got)
	}
	if got, ok := second[priceKey{"m5.large", "spot", ""}]; !ok || got != 0 {
		t.Errorf("the assumed spot price was not taken back: %d, %v", got, ok)
	}
	r.control("PUT", "prices", []simclient.Price{
		{InstanceType: "m5.large", CapacityType: "spot", Zone: "us-west-2a", USDPerHour: 0.0501},
		{InstanceType: "c5.large", CapacityType: "on-demand", USDPerHour: 0.09},
	})
	r.poll("on_demand_prices", "spot_prices")
	changed := r.out.prices()
	for key := range changed { // the simulated market moves by itself
		if key.capacityType == spot && key.instanceType != "m5.large" {
			delete(changed, key)
		}
	}
	if changed[priceKey{"m5.large", "spot", "us-west-2a"}] != 50100 || changed[priceKey{"c5.large", "on-demand", ""}] != 90000 {
		t.Errorf("differences %v", changed)
	}
	if _, ok := changed[priceKey{"m5.large", "on-demand", ""}]; ok {
		t.Error("a price that did not change was emitted")
	}
}

// The rules: ec2 §2.2.
func TestPricesWithoutThePriceAPI(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"isolated":    func(r *rig) { r.cfg.Options.IsolatedVPC = true },
		"gov cloud":   func(r *rig) { r.cfg.Region = "us-gov-west-1" },
		"unreachable": func(r *rig) { r.control("POST", "faults", simclient.Fault{Action: "GetProducts", Drop: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			change(r)
			err := r.task("on_demand_prices").pollPatiently(t.Context())
			if failed := err != nil; failed != (name == "unreachable") {
				t.Fatalf("got error %v", err)
			}
			want := map[bool]int64{true: 121000, false: 96000}[name == "gov cloud"] // as GovCloud has its own table
			if got := r.out.prices()[priceKey{"m5.large", "on-demand", ""}]; got != want {
				t.Errorf("built-in price of m5.large: %d", got)
			}
		})
	}
}

// In China the price API answers in yuan, of which the built-in dollars that stood in for it are seven.
func TestDollarsDoNotStayBesideYuan(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Region, c.Pricing = "cn-north-1", yuanPricing{} })
	if err := r.emitBuiltInPrices(); err != nil { // it took more than a few seconds
		t.Fatal(err)
	}
	if got := r.out.prices(); got[priceKey{"m5.large", onDemand, ""}] != 96000 || got[priceKey{"m4.large", spot, ""}] != 100000 {
		t.Fatalf("the built-in prices do not stand in: %d of them", len(got))
	}
	r.poll("on_demand_prices")
	if got := r.out.prices(); got[priceKey{"m5.large", onDemand, ""}] != 700000 || got[priceKey{"m5.large", spot, ""}] != 700000 {
		t.Errorf("m5.large costs %d", got[priceKey{"m5.large", onDemand, ""}])
	}
	want := map[priceKey]int64{}
	for _, name := range []string{"m5.large", "m5.metal"} {
		want[priceKey{name, onDemand, ""}], want[priceKey{name, spot, ""}] = 700000, 700000
	}
	if d := cmp.Diff(want, r.prices.emitted); d != "" {
		t.Errorf("prices that nobody has told in yuan (-want +got):\n%.300s", d)
	}
	r.poll("on_demand_prices")
	if got := r.out.prices(); len(got) != 0 {
		t.Errorf("the same answer changes %v", got)
	}
}

// yuanPricing names a virtual machine and bare metal.
type yuanPricing struct{}

func (yuanPricing) GetProducts(_ context.Context, in *pricing.GetProductsInput, _ ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
	name := "m5.large"
	if slices.ContainsFunc(in.Filters, func(f pricingtypes.Filter) bool { return aws.ToString(f.Value) == "Dedicated" }) {
		name = "m5.metal"
	}
	return &pricing.GetProductsOutput{PriceList: []string{`{"product":{"attributes":{"instanceType":"` + name + `"}},
		"terms":{"OnDemand":{"x":{"priceDimensions":{"y":{"pricePerUnit":{"CNY":"0.7"}}}}}}}`}}, nil
}

// hangingPricing is a price API to which there is no route.
type hangingPricing struct{}

func (hangingPricing) GetProducts(ctx context.Context, _ *pricing.GetProductsInput, _ ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestPricesThatCannotBeAskedForDoNotHoldUpTheFirstResync(t *testing.T) {
	for name, c := range map[string]struct {
		config   func(*Config)
		faults   []string
		atLatest time.Duration
	}{
		"no permission to ask for any": {faults: []string{"GetProducts", "DescribeSpotPriceHistory"}, atLatest: 2 * time.Second},
		"no route to the price API":    {config: func(c *Config) { c.Pricing = hangingPricing{} }, atLatest: patience + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.config)
				for _, action := range c.faults {
					r.control("POST", "faults", simclient.Fault{Action: action, Code: "AccessDeniedException", Status: 403})
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(c.atLatest)
				if !r.Synced() {
					t.Error("the resync is held up")
				}
				known := r.out.prices()
				if got := known[priceKey{"m5.large", "on-demand", ""}]; got != 96000 {
					t.Errorf("on-demand price of m5.large: %d", got)
				}
				if got := known[priceKey{"m5.large", "spot", ""}]; c.faults != nil && got != 96000 {
					t.Errorf("spot price of m5.large: %d", got)
				}
				cancel()
				<-ended
			})
		})
	}
}

func TestAFailedPollKeepsWhatWasKnown(t *testing.T) {
	r := newRig(t, nil)
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", func(nc *karpawsv1.EC2NodeClass) {
		nc.Status.CapacityReservations = []karpawsv1.CapacityReservation{{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-west-2a"}}
	})}
	r.poll("on_demand_prices", "spot_prices")
	r.out.prices()
	r.control("POST", "faults", simclient.Fault{Action: "*", Code: "RequestLimitExceeded", Status: 503})
	for _, task := range r.tasks {
		if err := task.poll(t.Context()); err == nil || (task.name != "nodeclasses" && !strings.Contains(err.Error(), "RequestLimitExceeded")) {
			t.Errorf("%s: %v", task.name, err)
		}
	}
	if got := r.out.prices(); len(got) != 0 {
		t.Errorf("prices changed: %v", got)
	}
}

func TestInstancesAreEmittedAsTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		id := r.launch("blue")
		r.launch("green") // another cluster's
		r.poll("instances")
		got := r.out.take(events.KindInstanceState)
		if len(got) != 1 || got[0].Name != id || got[0].Op != events.OpUpsert {
			t.Fatalf("emitted %+v", got)
		}
		s := got[0].Object.(*events.InstanceState)
		want := &events.InstanceState{
			ID: id, State: "pending", InstanceType: "m5.large", Zone: s.Zone, CapacityType: "spot", LaunchTime: s.LaunchTime,
			Tags: map[string]string{karpawsv1.TagNodePool: "general", karpawsv1.TagLaunch: "log/uid/1"},
		}
		if diff := cmp.Diff(want, s); diff != "" || !strings.HasPrefix(s.Zone, "us-west-2") || s.LaunchTime.IsZero() {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r.poll("instances")
		if again := r.out.take(events.KindInstanceState); len(again) != 0 {
			t.Errorf("emitted without change: %+v", again)
		}
		time.Sleep(5 * time.Second)
		r.poll("instances")
		if now := r.out.take(events.KindInstanceState); len(now) != 1 || now[0].Object.(*events.InstanceState).State != "running" {
			t.Errorf("emitted %+v", now)
		}
		r.control("POST", "instances/"+id+"/terminate", nil)
		time.Sleep(time.Minute)
		r.Resync() // must not make it forget that the instance is to be deleted
		r.poll("instances")
		if now := r.out.take(events.KindInstanceState); len(now) != 1 || now[0].Op != events.OpDelete || now[0].Name != id {
			t.Errorf("emitted %+v", now)
		}
	})
}

// launch starts a spot instance with the tags that a launch gives.
func (r *rig) launch(cluster string) string {
	r.t.Helper()
	client := awsec2.NewFromConfig(r.sdk)
	ctx := context.Background()
	images, err := client.DescribeImages(ctx, &awsec2.DescribeImagesInput{
		Filters: []ec2types.Filter{{Name: aws.String("architecture"), Values: []string{"x86_64"}}},
	})
	if err != nil || len(images.Images) == 0 {
		r.t.Fatalf("images: %v", err)
	}
	template, err := client.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("t-" + cluster),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: images.Images[0].ImageId},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	subnets, err := client.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{})
	if err != nil || len(subnets.Subnets) == 0 {
		r.t.Fatalf("subnets: %v", err)
	}
	tags := map[string]string{
		karpawsv1.TagNodePool: "general", karpawsv1.TagNodeClass: "default", karpawsv1.TagEKSClusterName: cluster,
		karpawsv1.TagLaunch: "log/uid/1", "team": "secret",
	}
	spec := ec2types.TagSpecification{ResourceType: ec2types.ResourceTypeInstance}
	for k, v := range tags {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	out, err := client.CreateFleet(ctx, &awsec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant, TagSpecifications: []ec2types.TagSpecification{spec},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeSpot,
		},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateId: template.LaunchTemplate.LaunchTemplateId, Version: aws.String("$Latest"),
			},
			Overrides: []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large", SubnetId: subnets.Subnets[0].SubnetId}},
		}},
	})
	if err != nil || len(out.Instances) != 1 {
		r.t.Fatalf("fleet: %+v, %v", out, err)
	}
	return out.Instances[0].InstanceIds[0]
}

func TestRunPollsAllAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		r := newRig(t, func(c *Config) { c.Registerer = registry })
		r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", nil)}
		r.control("POST", "faults", simclient.Fault{Action: "DescribeInstanceTypes", Code: "InternalError", Status: 500, Count: 2})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(100 * time.Millisecond)
		if r.Synced() {
			t.Error("synced without instance types")
		}
		if n, err := testutil.GatherAndCount(registry, "millwright_watcher_aws_polls_total"); err != nil || n != 2*len(r.tasks) {
			t.Errorf("%d series of outcomes of polls, %v; want both of each poll from the start", n, err)
		}
		time.Sleep(20 * time.Second)
		if !r.Synced() {
			t.Error("not synced after the fault")
		}
		if c := r.catalog(); len(c.InstanceTypes) == 0 {
			t.Error("no catalogue")
		}
		for _, kind := range []events.Kind{events.KindCatalog, events.KindPrices, events.KindInstanceState} {
			if r.out.polledAt(kind).IsZero() {
				t.Errorf("no progress of %s", kind)
			}
		}
		r.setClasses(nodeClass("default", nil), nodeClass("second", nil))
		time.Sleep(1500 * time.Millisecond)
		if c := r.catalog(); c.NodeClass != "second" {
			t.Errorf("catalogue of %s", c.NodeClass)
		}
		r.out.prices()
		r.Resync()
		time.Sleep(2 * time.Second)
		if got := r.out.take(events.KindCatalog); len(got) != 2 {
			t.Errorf("%d catalogues after a resync", len(got))
		}
		if got := r.out.prices(); got[priceKey{"m5.large", "on-demand", ""}] != 96000 {
			t.Error("prices were not emitted again")
		}
		if n := testutil.ToFloat64(r.metrics.polls.WithLabelValues("instance_types", "failed")); n != 2 {
			t.Errorf("%v failed polls counted", n)
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestWhatTheBusRefusesIsEmittedLater(t *testing.T) {
	r := newRig(t, nil)
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", nil)}
	r.poll("instance_types")
	r.launch("blue")
	r.out.setBroken(true)
	for _, name := range []string{"nodeclasses", "on_demand_prices", "instances"} {
		if err := r.task(name).poll(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r.out.setBroken(false)
	r.poll("nodeclasses", "on_demand_prices", "instances")
	if len(r.out.take(events.KindCatalog)) != 1 || len(r.out.prices()) == 0 || len(r.out.take(events.KindInstanceState)) != 1 {
		t.Error("something was not emitted again")
	}
}

func TestPricesFitTheBus(t *testing.T) {
	r := newRig(t, nil)
	r.poll("on_demand_prices", "spot_prices")
	for _, e := range r.out.take(events.KindPrices) {
		if data, err := json.Marshal(e.Object); err != nil || len(data) > events.MaxObjectBytes {
			t.Errorf("a message of %d bytes, %v", len(data), err)
		}
	}
}

func TestMicroUSD(t *testing.T) {
	for text, want := range map[string]int64{
		"0.0960000000": 96000, "0.034200": 34200, "32.7726": 32772600, "0": 0, "0.0000001": 1, "0.0000015": 2, "1": 1_000_000,
	} {
		if got, err := microUSD(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "free", "-1", "1e400", strings.Repeat("9", 30)} {
		if got, err := microUSD(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

// The rules: ec2 §2.2.
func TestReadProduct(t *testing.T) {
	const entry = `{"product":{"attributes":{"instanceType":"m5.large"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"a.1":{"pricePerUnit":{"USD":"0.0960000000"}}}}}}}`
	for text, want := range map[string]int64{
		entry: 96000, strings.Replace(entry, "0.0960000000", "0.0000000000", 1): 0, strings.Replace(entry, "USD", "CNY", 1): 0,
	} {
		if name, got, err := readProduct(text, "USD"); err != nil || name != "m5.large" || got != want {
			t.Errorf("%s: %s %d, %v", text, name, got, err)
		}
	}
	for _, text := range []string{"", "{}", "[]", strings.Replace(entry, "0.0960000000", "much", 1)} {
		if _, _, err := readProduct(text, "USD"); err == nil {
			t.Errorf("read %q", text)
		}
	}
}

// The rules: ec2 §0.1.
func TestPricingRegion(t *testing.T) {
	for region, want := range map[string]string{
		"us-west-2": "us-east-1", "eu-north-1": "eu-central-1", "ap-northeast-1": "ap-south-1", "cn-north-1": "cn-northwest-1", "sa-east-1": "us-east-1",
	} {
		if got := pricingRegion(region); got != want {
			t.Errorf("%s asks %s, want %s", region, got, want)
		}
	}
}
