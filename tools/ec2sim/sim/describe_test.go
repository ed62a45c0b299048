package sim_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

func filterBy(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}

func TestInstanceLifecycle(t *testing.T) {
	w := newWorld(t, func(c *sim.Config) {
		c.Settings = simclient.Settings{Pending: simclient.Duration(10 * time.Second), ShuttingDown: simclient.Duration(20 * time.Second)}
	})
	w.template("web")
	id := w.launch(w.fleetInput("web", a, "m5.large"))
	steps := []struct {
		after time.Duration
		want  string
	}{{0, "pending"}, {9 * time.Second, "pending"}, {time.Second, "running"}, {time.Hour, "running"}}
	for _, s := range steps {
		w.clock.Advance(s.after)
		if got := w.state(id); got != s.want {
			t.Errorf("after another %s: %s, want %s", s.after, got, s.want)
		}
	}
	out, err := w.ec2.TerminateInstances(ctxb(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	if c := out.TerminatingInstances[0]; c.CurrentState.Name != "shutting-down" || c.PreviousState.Name != "running" {
		t.Errorf("state change %+v", c)
	}
	w.clock.Advance(20 * time.Second)
	if got := w.state(id); got != "terminated" {
		t.Errorf("in the end %s", got)
	}
	w.clock.Advance(time.Hour + time.Second)
	_, err = w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
}

func TestDescribeInstancesTellsWhatWasLaunched(t *testing.T) {
	w := newWorld(t)
	template := w.template("web")
	in := w.fleetInput("web", a, "m5.large")
	in.TargetCapacitySpecification.DefaultTargetCapacityType = "spot"
	id := w.launch(in)
	out, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		filterBy("tag-key", "karpenter.sh/nodepool"), filterBy("tag:karpenter.sh/nodepool", "def*"),
		filterBy("instance-state-name", "pending", "running")}})
	w.must(err)
	if len(out.Reservations) != 1 {
		t.Fatalf("%d reservations", len(out.Reservations))
	}
	got := out.Reservations[0].Instances[0]
	if aws.ToString(got.InstanceId) != id || got.InstanceType != "m5.large" || got.InstanceLifecycle != "spot" ||
		!strings.HasPrefix(aws.ToString(got.SpotInstanceRequestId), "sir-") || aws.ToString(got.Placement.AvailabilityZone) != "us-west-2a" ||
		aws.ToString(got.SubnetId) != w.server.Defaults().Subnets["us-west-2a"] || got.Architecture != "x86_64" ||
		aws.ToString(got.ImageId) != w.image("x86_64") || got.IamInstanceProfile == nil || aws.ToTime(got.LaunchTime) != w.clock.Now() ||
		len(got.SecurityGroups) != 1 || len(got.NetworkInterfaces) != 1 || len(got.BlockDeviceMappings) != 1 {
		t.Errorf("got %+v", got)
	}
	tags, err := w.ec2.DescribeTags(ctxb(), &ec2.DescribeTagsInput{})
	w.must(err)
	kinds := map[ec2types.ResourceType]bool{}
	for _, tag := range tags.Tags {
		kinds[tag.ResourceType] = true
	}
	if !kinds["instance"] || !kinds["fleet"] || !kinds["network-interface"] || !kinds["launch-template"] {
		t.Errorf("tagged kinds %v; template %s", kinds, template)
	}
}

func TestUnknownInstancesFailTheWholeCall(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	id := w.launch(w.fleetInput("web", a, "m5.large"))
	unknown := "i-0123456789abcdef0"
	_, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{id, unknown}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
	_, err = w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{"instance"}})
	wantCode(t, err, "InvalidInstanceID.Malformed")
	_, err = w.ec2.TerminateInstances(ctxb(), &ec2.TerminateInstancesInput{InstanceIds: []string{id, unknown}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
	if got := w.state(id); got != "running" {
		t.Errorf("the known instance is %s after a refused call", got)
	}
	_, err = w.ec2.CreateTags(ctxb(), &ec2.CreateTagsInput{Resources: []string{unknown}, Tags: []ec2types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t)
	cases := map[string]struct {
		call func() error
		code string
	}{
		"an unknown filter": {func() error {
			_, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filterBy("no-such", "x")}})
			return err
		}, "InvalidParameterValue"},
		"ids with a page size": {func() error {
			_, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}, MaxResults: aws.Int32(5)})
			return err
		}, "InvalidParameterCombination"},
		"too large a page": {func() error {
			_, err := w.ec2.DescribeInstanceTypes(ctxb(), &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(101)})
			return err
		}, "InvalidParameterValue"},
		"a page token that is none": {func() error {
			_, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{NextToken: aws.String("x")})
			return err
		}, "InvalidNextToken"},
		"a type that does not exist": {func() error {
			_, err := w.ec2.DescribeInstanceTypes(ctxb(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"m99.large"}})
			return err
		}, "InvalidInstanceType"},
		"a subnet that does not exist": {func() error {
			_, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-1"}})
			return err
		}, "InvalidSubnetID.NotFound"},
		"a group that does not exist": {func() error {
			_, err := w.ec2.DescribeSecurityGroups(ctxb(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-1"}})
			return err
		}, "InvalidGroup.NotFound"},
		"an image that does not exist": {func() error {
			_, err := w.ec2.DescribeImages(ctxb(), &ec2.DescribeImagesInput{ImageIds: []string{"ami-1"}})
			return err
		}, "InvalidAMIID.NotFound"},
		"a template that does not exist": {func() error {
			_, err := w.ec2.DescribeLaunchTemplates(ctxb(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"nobody"}})
			return err
		}, "InvalidLaunchTemplateName.NotFoundException"},
		"deleting a template that does not exist": {func() error {
			_, err := w.ec2.DeleteLaunchTemplate(ctxb(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String("lt-0123")})
			return err
		}, "InvalidLaunchTemplateId.NotFound"},
		"user data over the limit": {func() error {
			_, err := w.ec2.CreateLaunchTemplate(ctxb(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("big"),
				LaunchTemplateData: &ec2types.RequestLaunchTemplateData{UserData: aws.String(strings.Repeat("QUFB", 6000))}})
			return err
		}, "InvalidUserData.Malformed"},
		"a capacity reservation": {func() error {
			_, err := w.ec2.DescribeCapacityReservations(ctxb(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{"cr-1"}})
			return err
		}, "InvalidCapacityReservationId.NotFound"},
		"an action that is not simulated": {func() error {
			_, err := w.ec2.DescribeVpcs(ctxb(), &ec2.DescribeVpcsInput{})
			return err
		}, "InvalidAction"},
		"a dry run of instance types": {func() error {
			_, err := w.ec2.DescribeInstanceTypes(ctxb(), &ec2.DescribeInstanceTypesInput{DryRun: aws.Bool(true)})
			return err
		}, "DryRunOperation"},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) { wantCode(t, c.call(), c.code) })
	}
}

func TestAllInstanceTypesByPages(t *testing.T) {
	w := newWorld(t)
	var all []ec2types.InstanceTypeInfo
	p := ec2.NewDescribeInstanceTypesPaginator(w.ec2, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100), Filters: []ec2types.Filter{
		filterBy("supported-virtualization-type", "hvm"), filterBy("processor-info.supported-architecture", "x86_64", "arm64")}})
	for p.HasMorePages() {
		out, err := p.NextPage(ctxb())
		w.must(err)
		if len(out.InstanceTypes) > 100 {
			t.Fatalf("a page of %d", len(out.InstanceTypes))
		}
		all = append(all, out.InstanceTypes...)
	}
	if len(all) < 1000 {
		t.Errorf("%d types", len(all))
	}
	i := slices.IndexFunc(all, func(it ec2types.InstanceTypeInfo) bool { return it.InstanceType == "g4dn.xlarge" })
	g := all[i]
	if aws.ToInt32(g.VCpuInfo.DefaultVCpus) != 4 || aws.ToInt64(g.MemoryInfo.SizeInMiB) != 16384 || aws.ToString(g.GpuInfo.Gpus[0].Name) != "T4" ||
		aws.ToInt32(g.NetworkInfo.NetworkCards[0].MaximumNetworkInterfaces) != 3 || aws.ToInt32(g.NetworkInfo.Ipv4AddressesPerInterface) != 10 ||
		aws.ToFloat64(g.NetworkInfo.NetworkCards[0].BaselineBandwidthInGbps) != 5 || aws.ToInt64(g.InstanceStorageInfo.TotalSizeInGB) != 125 ||
		aws.ToInt32(g.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps) != 3500 || g.Hypervisor != "nitro" || !slices.Contains(g.SupportedUsageClasses, "spot") ||
		aws.ToString(g.ProcessorInfo.Manufacturer) != "Intel" || g.NitroEnclavesSupport != "supported" || !aws.ToBool(g.NetworkInfo.EncryptionInTransitSupported) {
		t.Errorf("g4dn.xlarge: %+v", g)
	}
	i = slices.IndexFunc(all, func(it ec2types.InstanceTypeInfo) bool { return it.InstanceType == "inf2.24xlarge" })
	if n := all[i]; aws.ToInt32(n.NeuronInfo.NeuronDevices[0].Count) != 6 || aws.ToInt32(n.NeuronInfo.NeuronDevices[0].CoreInfo.Count) != 2 ||
		aws.ToString(n.InferenceAcceleratorInfo.Accelerators[0].Manufacturer) != "AWS" {
		t.Errorf("inf2.24xlarge: %+v", n)
	}
}

func TestOfferingsByPages(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	p := ec2.NewDescribeInstanceTypeOfferingsPaginator(w.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone", MaxResults: aws.Int32(1000)})
	pages := 0
	for p.HasMorePages() {
		out, err := p.NextPage(ctxb())
		w.must(err)
		pages++
		for _, o := range out.InstanceTypeOfferings {
			seen[string(o.InstanceType)+" "+aws.ToString(o.Location)] = true
		}
	}
	if len(seen) < 3500 || pages < 4 {
		t.Errorf("%d offerings on %d pages", len(seen), pages)
	}
	if !seen["m5.large us-west-2d"] || seen["g5.xlarge us-west-2d"] || !seen["g5.xlarge us-west-2a"] {
		t.Error("offerings are not as in the region's table")
	}
}

func TestSpotPriceHistoryTellsTheLatestPrices(t *testing.T) {
	w := newWorld(t)
	w.must(w.control.SetPrices(ctxb(), simclient.Price{InstanceType: "m5.large", CapacityType: "spot", Zone: "us-west-2b", USDPerHour: 0.0123}))
	prices, rows := map[string]string{}, 0
	p := ec2.NewDescribeSpotPriceHistoryPaginator(w.ec2, &ec2.DescribeSpotPriceHistoryInput{StartTime: aws.Time(w.clock.Now()),
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, MaxResults: aws.Int32(2000)})
	for p.HasMorePages() {
		out, err := p.NextPage(ctxb())
		w.must(err)
		for _, r := range out.SpotPriceHistory {
			rows++
			prices[string(r.InstanceType)+" "+aws.ToString(r.AvailabilityZone)] = aws.ToString(r.SpotPrice)
		}
	}
	if rows != len(prices) || rows < 3500 {
		t.Errorf("%d rows for %d pools", rows, len(prices))
	}
	if prices["m5.large us-west-2b"] != "0.012300" || prices["m5.large us-west-2a"] == "" {
		t.Errorf("m5.large: %s, %s", prices["m5.large us-west-2a"], prices["m5.large us-west-2b"])
	}
	if _, has := prices["t2.nano us-west-2a"]; has {
		t.Error("t2.nano has a spot price")
	}
}

func TestNetworkAndImages(t *testing.T) {
	w := newWorld(t)
	discovery := []ec2types.Filter{filterBy("tag:karpenter.sh/discovery", "millwright")}
	subnets, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{Filters: discovery, MaxResults: aws.Int32(500)})
	w.must(err)
	groups, err := w.ec2.DescribeSecurityGroups(ctxb(), &ec2.DescribeSecurityGroupsInput{Filters: discovery})
	w.must(err)
	zones, err := w.ec2.DescribeAvailabilityZones(ctxb(), &ec2.DescribeAvailabilityZonesInput{})
	w.must(err)
	if len(subnets.Subnets) != 4 || len(groups.SecurityGroups) != 2 || len(zones.AvailabilityZones) != 4 {
		t.Fatalf("%d subnets, %d groups, %d zones", len(subnets.Subnets), len(groups.SecurityGroups), len(zones.AvailabilityZones))
	}
	if s := subnets.Subnets[0]; aws.ToInt32(s.AvailableIpAddressCount) != 8187 || aws.ToString(s.AvailabilityZoneId) == "" || aws.ToString(s.VpcId) == "" {
		t.Errorf("subnet %+v", s)
	}
	both, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
	w.must(err)
	if len(both.Subnets) != 8 {
		t.Errorf("%d subnets with the public ones", len(both.Subnets))
	}
	images, err := w.ec2.DescribeImages(ctxb(), &ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []ec2types.Filter{
		filterBy("name", "amazon-eks-node-al2023-*-standard-1.36-v20260218"), filterBy("state", "available")}})
	w.must(err)
	if len(images.Images) != 2 || aws.ToString(images.Images[0].CreationDate) == "" {
		t.Errorf("%d images: %+v", len(images.Images), images.Images)
	}
	own, err := w.ec2.DescribeImages(ctxb(), &ec2.DescribeImagesInput{Owners: []string{"self"}})
	w.must(err)
	if len(own.Images) != 0 {
		t.Errorf("%d images of one's own", len(own.Images))
	}
	if _, err := w.ec2.DescribePlacementGroups(ctxb(), &ec2.DescribePlacementGroupsInput{}); err != nil {
		t.Error(err)
	}
	if _, err := w.ec2.DescribeCapacityReservations(ctxb(), &ec2.DescribeCapacityReservationsInput{}); err != nil {
		t.Error(err)
	}
}

func TestLaunchTemplates(t *testing.T) {
	w := newWorld(t)
	id := w.template("web")
	_, err := w.ec2.CreateLaunchTemplate(ctxb(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("web"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String("ami-0123")}})
	wantCode(t, err, "InvalidLaunchTemplateName.AlreadyExistsException")
	found, err := w.ec2.DescribeLaunchTemplates(ctxb(), &ec2.DescribeLaunchTemplatesInput{Filters: []ec2types.Filter{filterBy("tag:karpenter.k8s.aws/cluster", "millwright")}})
	w.must(err)
	if len(found.LaunchTemplates) != 1 || aws.ToString(found.LaunchTemplates[0].LaunchTemplateId) != id {
		t.Fatalf("found %+v", found.LaunchTemplates)
	}
	_, err = w.ec2.CreateLaunchTemplateVersion(ctxb(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String(id),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String("ami-0123"), SecurityGroupIds: []string{"sg-1"}}})
	w.must(err)
	versions, err := w.ec2.DescribeLaunchTemplateVersions(ctxb(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("web"), Versions: []string{"$Latest"}})
	w.must(err)
	if v := versions.LaunchTemplateVersions; len(v) != 1 || aws.ToInt64(v[0].VersionNumber) != 2 || aws.ToString(v[0].LaunchTemplateData.ImageId) != "ami-0123" ||
		len(v[0].LaunchTemplateData.SecurityGroupIds) != 1 {
		t.Fatalf("versions %+v", v)
	}
	_, err = w.ec2.DeleteLaunchTemplate(ctxb(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("web")})
	w.must(err)
	_, err = w.ec2.CreateFleet(ctxb(), w.fleetInput("web", a, "m5.large"))
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
}

func TestInstancesByPages(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	in := w.fleetInput("web", a, "t3.small")
	in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(23)
	w.launch(in)
	seen := map[string]bool{}
	p := ec2.NewDescribeInstancesPaginator(w.ec2, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
	pages := 0
	for p.HasMorePages() {
		out, err := p.NextPage(ctxb())
		w.must(err)
		pages++
		for _, r := range out.Reservations {
			seen[aws.ToString(r.Instances[0].InstanceId)] = true
		}
	}
	if len(seen) != 23 || pages != 5 {
		t.Errorf("%d instances on %d pages", len(seen), pages)
	}
}

// Go's client passes over the case of names; others, such as boto3, do not.
func TestElementsAreSpelledAsInEC2(t *testing.T) {
	w := newWorld(t)
	for action, element := range map[string]string{
		"DescribeSecurityGroups": "<securityGroupInfo>", "DescribeSubnets": "<subnetSet>", "DescribeImages": "<imagesSet>", "DescribeInstanceTypes": "<instanceTypeSet>",
		"DescribeInstances": "<reservationSet>", "DescribeLaunchTemplates": "<launchTemplates>", "DescribeCapacityReservations": "<capacityReservationSet>",
		"DescribeSpotPriceHistory": "<spotPriceHistorySet>", "DescribeInstanceTypeOfferings": "<instanceTypeOfferingSet>",
	} {
		r := httptest.NewRequest(http.MethodPost, "http://aws.simulated/", strings.NewReader(url.Values{"Action": {action}, "Version": {"2016-11-15"}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := w.server.Transport().RoundTrip(r)
		w.must(err)
		body, err := io.ReadAll(answer.Body)
		w.must(err)
		if text := string(body); !strings.Contains(text, element) && !strings.Contains(text, strings.Replace(element, ">", "/>", 1)) {
			t.Errorf("%s has no %s: %.200s", action, element, text)
		}
	}
}
