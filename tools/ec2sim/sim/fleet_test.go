package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

func TestFleetTakesTheCheapestOverrideAndEchoesIt(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	out, err := w.ec2.CreateFleet(ctxb(), w.fleetInput("web", a, "m5.large", "c5.large", "r5.large"))
	w.must(err)
	if len(out.Instances) != 1 || len(out.Errors) != 0 {
		t.Fatalf("got %+v, errors %+v", out.Instances, out.Errors)
	}
	got := out.Instances[0]
	o := got.LaunchTemplateAndOverrides.Overrides
	if got.InstanceType != "c5.large" || got.Lifecycle != "on-demand" || aws.ToString(o.AvailabilityZone) != "us-west-2a" ||
		aws.ToString(o.ImageId) != w.image("x86_64") && aws.ToString(o.ImageId) != "" || o.InstanceType != "c5.large" {
		t.Errorf("got %+v with overrides %+v", got, o)
	}
}

func TestFleetStrategies(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	w.must(w.control.SetPrices(ctxb(),
		simclient.Price{InstanceType: "m5.large", CapacityType: "spot", USDPerHour: 0.01},
		simclient.Price{InstanceType: "c5.large", CapacityType: "spot", USDPerHour: 0.05}))
	cases := map[string]struct {
		adjust func(*ec2.CreateFleetInput)
		want   ec2types.InstanceType
	}{
		"prioritized goes by the lowest number": {func(in *ec2.CreateFleetInput) {
			in.OnDemandOptions.AllocationStrategy = ec2types.FleetOnDemandAllocationStrategyPrioritized
			in.LaunchTemplateConfigs[0].Overrides[0].Priority = aws.Float64(1)
			in.LaunchTemplateConfigs[0].Overrides[1].Priority = aws.Float64(2)
		}, "m5.large"},
		"spot goes by spot prices": {func(in *ec2.CreateFleetInput) {
			in.TargetCapacitySpecification.DefaultTargetCapacityType = "spot"
			in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: "price-capacity-optimized"}
		}, "m5.large"},
		"on-demand goes by on-demand prices": {func(*ec2.CreateFleetInput) {}, "c5.large"},
	}
	n := 0
	for sentence, c := range cases {
		n++
		t.Run(sentence, func(t *testing.T) {
			in := w.fleetInput("web", a, "m5.large", "c5.large")
			in.ClientToken = aws.String(fmt.Sprint("strategy-", n))
			c.adjust(in)
			out, err := w.ec2.CreateFleet(ctxb(), in)
			if err != nil || len(out.Instances) != 1 || out.Instances[0].InstanceType != c.want {
				t.Fatalf("got %+v, %v; want %s", out, err, c.want)
			}
		})
	}
}

func TestFleetWithoutCapacity(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	t.Run("the next pool is taken and the empty one is an error", func(t *testing.T) {
		w.must(w.control.SetCapacity(ctxb(), simclient.Capacity{InstanceType: "c5.large", Zone: "us-west-2a", Limit: 0}))
		out, err := w.ec2.CreateFleet(ctxb(), w.fleetInput("web", a, "m5.large", "c5.large"))
		w.must(err)
		if len(out.Instances) != 1 || out.Instances[0].InstanceType != "m5.large" || len(out.Errors) != 1 {
			t.Fatalf("got %+v", out)
		}
		e := out.Errors[0]
		o := e.LaunchTemplateAndOverrides.Overrides
		if aws.ToString(e.ErrorCode) != "InsufficientInstanceCapacity" || o.InstanceType != "c5.large" ||
			aws.ToString(o.AvailabilityZone) != "us-west-2a" || aws.ToString(o.SubnetId) == "" {
			t.Errorf("error %+v overrides %+v", e, o)
		}
	})
	t.Run("no pool has any: success with no instance", func(t *testing.T) {
		w.must(w.control.SetCapacity(ctxb(), simclient.Capacity{Limit: 0, Code: "VcpuLimitExceeded"}))
		in := w.fleetInput("web", a, "m5.large", "c5.large")
		in.ClientToken = aws.String("none")
		out, err := w.ec2.CreateFleet(ctxb(), in)
		w.must(err)
		if len(out.Instances) != 0 || len(out.Errors) != 2 || aws.ToString(out.Errors[0].ErrorCode) != "VcpuLimitExceeded" {
			t.Fatalf("got %+v", out)
		}
	})
	t.Run("a fleet of five gets the three there are", func(t *testing.T) {
		w.must(w.control.SetCapacity(ctxb(), simclient.Capacity{InstanceType: "r5.large", Limit: 2}, simclient.Capacity{InstanceType: "r5a.large", Limit: 1}))
		in := w.fleetInput("web", a, "r5.large", "r5a.large")
		in.ClientToken = aws.String("five")
		in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(5)
		out, err := w.ec2.CreateFleet(ctxb(), in)
		w.must(err)
		n := 0
		for _, group := range out.Instances {
			n += len(group.InstanceIds)
		}
		if n != 3 || len(out.Instances) != 2 || len(out.Errors) != 2 {
			t.Fatalf("%d instances in %+v, errors %+v", n, out.Instances, out.Errors)
		}
	})
	t.Run("the capacity of a terminated instance can be had again", func(t *testing.T) {
		w.must(w.control.SetCapacity(ctxb(), simclient.Capacity{InstanceType: "t3.small", Limit: 1}))
		in := w.fleetInput("web", a, "t3.small")
		in.ClientToken = nil
		id := w.launch(in)
		in.ClientToken = nil // the SDK has filled it in
		out, err := w.ec2.CreateFleet(ctxb(), in)
		w.must(err)
		if len(out.Instances) != 0 {
			t.Fatal("launched over the limit")
		}
		_, err = w.ec2.TerminateInstances(ctxb(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
		w.must(err)
		in.ClientToken = nil
		w.launch(in)
	})
}

func TestOverridesThatCannotLaunch(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	cases := map[string]struct {
		adjust func(*ec2types.FleetLaunchTemplateOverridesRequest)
		code   string
	}{
		"a type that is not offered in the zone": {func(o *ec2types.FleetLaunchTemplateOverridesRequest) { o.InstanceType = "p3.2xlarge" }, "Unsupported"},
		"a type that does not exist":             {func(o *ec2types.FleetLaunchTemplateOverridesRequest) { o.InstanceType = "m99.large" }, "InvalidParameterValue"},
		"a subnet that does not exist":           {func(o *ec2types.FleetLaunchTemplateOverridesRequest) { o.SubnetId = aws.String("subnet-1") }, "InvalidSubnetID.NotFound"},
		"a subnet in another zone": {func(o *ec2types.FleetLaunchTemplateOverridesRequest) {
			o.SubnetId = aws.String(w.server.Defaults().Subnets["us-west-2b"])
		}, "InvalidParameterValue"},
		"an image of another architecture": {func(o *ec2types.FleetLaunchTemplateOverridesRequest) { o.ImageId = aws.String(w.image("arm64")) }, "InvalidParameterValue"},
		"an image that does not exist":     {func(o *ec2types.FleetLaunchTemplateOverridesRequest) { o.ImageId = aws.String("ami-0123") }, "InvalidAMIID.NotFound"},
		"an image id that is none":         {func(o *ec2types.FleetLaunchTemplateOverridesRequest) { o.ImageId = aws.String("image") }, "InvalidAMIID.Malformed"},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			in := w.fleetInput("web", a, "m5.large")
			in.ClientToken = nil
			c.adjust(&in.LaunchTemplateConfigs[0].Overrides[0])
			out, err := w.ec2.CreateFleet(ctxb(), in)
			w.must(err)
			if len(out.Instances) != 0 || len(out.Errors) != 1 || aws.ToString(out.Errors[0].ErrorCode) != c.code {
				t.Fatalf("got %+v, want %s", out, c.code)
			}
		})
	}
}

func TestFleetRequestsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	id := w.template("web")
	cases := map[string]struct {
		adjust func(*ec2.CreateFleetInput)
		code   string
	}{
		"dry run":                    {func(in *ec2.CreateFleetInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation"},
		"a template name nobody has": {func(in *ec2.CreateFleetInput) { setTemplate(in, "", "other") }, "InvalidLaunchTemplateName.NotFoundException"},
		"both id and name":           {func(in *ec2.CreateFleetInput) { setTemplate(in, id, "web") }, "InvalidParameterCombination"},
		"a strategy of the other kind": {func(in *ec2.CreateFleetInput) {
			in.OnDemandOptions.AllocationStrategy = "price-capacity-optimized"
		}, "InvalidParameterValue"},
		"a fleet that is not instant": {func(in *ec2.CreateFleetInput) { in.Type = ec2types.FleetTypeMaintain }, "UnsupportedOperation"},
		"a reserved tag": {func(in *ec2.CreateFleetInput) {
			in.TagSpecifications[0].Tags[0].Key = aws.String("aws:mine")
		}, "InvalidParameterValue"},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			in := w.fleetInput("web", a, "m5.large")
			in.ClientToken = nil
			c.adjust(in)
			_, err := w.ec2.CreateFleet(ctxb(), in)
			wantCode(t, err, c.code)
		})
	}
	t.Run("a template id nobody has is a fleet error", func(t *testing.T) {
		in := w.fleetInput("web", a, "m5.large")
		setTemplate(in, "lt-0123456789abcdef0", "")
		out, err := w.ec2.CreateFleet(ctxb(), in)
		w.must(err)
		if len(out.Errors) != 1 || aws.ToString(out.Errors[0].ErrorCode) != "InvalidLaunchTemplateId.NotFound" {
			t.Fatalf("got %+v", out)
		}
	})
	if n := len(w.server.Instances()); n != 0 {
		t.Errorf("%d instances were launched", n)
	}
}

func setTemplate(in *ec2.CreateFleetInput, id, name string) {
	spec := &ec2types.FleetLaunchTemplateSpecificationRequest{Version: aws.String("$Latest")}
	if id != "" {
		spec.LaunchTemplateId = aws.String(id)
	}
	if name != "" {
		spec.LaunchTemplateName = aws.String(name)
	}
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification = spec
}

func TestClientTokens(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	in := w.fleetInput("web", a, "m5.large")
	id := w.launch(in)

	t.Run("the same request answers with the same instance", func(t *testing.T) {
		if again := w.launch(in); again != id {
			t.Errorf("got %s, want %s", again, id)
		}
	})
	t.Run("another request is a mismatch", func(t *testing.T) {
		_, err := w.ec2.CreateFleet(ctxb(), w.fleetInput("web", a, "c5.large"))
		wantCode(t, err, "IdempotentParameterMismatch")
	})
	t.Run("the dead id is answered after termination, also when EC2 has forgotten it", func(t *testing.T) {
		_, err := w.ec2.TerminateInstances(ctxb(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
		w.must(err)
		if again := w.launch(in); again != id {
			t.Errorf("got %s, want the dead %s", again, id)
		}
		w.clock.Advance(2 * time.Hour)
		if again := w.launch(in); again != id {
			t.Errorf("got %s after two hours, want the dead %s", again, id)
		}
	})
	t.Run("a fleet that launched nothing is remembered too", func(t *testing.T) {
		w.must(w.control.SetCapacity(ctxb(), simclient.Capacity{InstanceType: "r5.large", Limit: 0}))
		empty := w.fleetInput("web", a, "r5.large")
		empty.ClientToken = aws.String("empty")
		first, err := w.ec2.CreateFleet(ctxb(), empty)
		w.must(err)
		w.must(w.control.SetCapacity(ctxb()))
		second, err := w.ec2.CreateFleet(ctxb(), empty)
		w.must(err)
		if len(second.Instances) != 0 || aws.ToString(second.FleetId) != aws.ToString(first.FleetId) || len(second.Errors) != 1 {
			t.Errorf("got %+v, want the first answer again", second)
		}
		other := w.fleetInput("web", a, "m5.large")
		other.ClientToken = aws.String("empty")
		_, err = w.ec2.CreateFleet(ctxb(), other)
		wantCode(t, err, "IdempotentParameterMismatch")
	})
	t.Run("a refused call is not remembered", func(t *testing.T) {
		bad := w.fleetInput("other", a, "m5.large")
		bad.ClientToken = aws.String("refused")
		_, err := w.ec2.CreateFleet(ctxb(), bad)
		wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
		good := w.fleetInput("web", a, "m5.large")
		good.ClientToken = aws.String("refused")
		w.launch(good)
	})
	outcomes := []string{}
	for _, e := range w.server.Ledger(0) {
		outcomes = append(outcomes, e.Call+" "+e.Outcome)
	}
	want := "[CreateFleet launched CreateFleet repeated CreateFleet mismatch TerminateInstances terminated CreateFleet repeated CreateFleet repeated " +
		"CreateFleet none CreateFleet repeated CreateFleet mismatch CreateFleet launched]"
	if fmt.Sprint(outcomes) != want {
		t.Errorf("ledger\n got %v\nwant %s", outcomes, want)
	}
}

func TestSubnetsRunOutOfAddresses(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	subnet := w.server.Defaults().Subnets["us-west-2a"]
	count := func() int32 {
		out, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
		w.must(err)
		return aws.ToInt32(out.Subnets[0].AvailableIpAddressCount)
	}
	before := count()
	in := w.fleetInput("web", a, "m5.large")
	in.ClientToken = nil
	w.launch(in)
	if count() != before-1 {
		t.Errorf("from %d to %d free addresses by one launch", before, count())
	}
	w.must(w.control.SetAvailableAddresses(ctxb(), subnet, 1))
	if count() != 1 {
		t.Errorf("%d free addresses, want 1", count())
	}
	in.ClientToken = nil
	w.launch(in)
	in.ClientToken = nil
	out, err := w.ec2.CreateFleet(ctxb(), in)
	w.must(err)
	if len(out.Errors) != 1 || aws.ToString(out.Errors[0].ErrorCode) != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("got %+v", out)
	}
}

func TestNewInstanceProfilesAreRefusedForAWhile(t *testing.T) {
	w := newWorld(t, func(c *sim.Config) { c.Settings.IAM = simclient.Duration(10 * time.Second) })
	createProfile(w, "fresh")
	run := &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large", DryRun: aws.Bool(true),
		ImageId: aws.String(w.image("x86_64")), SubnetId: aws.String(w.server.Defaults().Subnets["us-west-2a"]),
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("fresh")}}
	_, err := w.ec2.RunInstances(ctxb(), run)
	wantCode(t, err, "InvalidParameterValue")
	w.clock.Advance(10 * time.Second)
	_, err = w.ec2.RunInstances(ctxb(), run)
	wantCode(t, err, "DryRunOperation")
}

// TestHardwareThatATypeDoesNotHaveIsRefused covers cards, adapters, prefixes, timeouts and nested
// virtualization.
func TestHardwareThatATypeDoesNotHaveIsRefused(t *testing.T) {
	type nic = ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	at := func(card, device int32, kind string) nic {
		return nic{NetworkCardIndex: aws.Int32(card), DeviceIndex: aws.Int32(device), InterfaceType: aws.String(kind)}
	}
	primary := at(0, 0, "interface")
	with := func(change func(*nic)) []nic {
		n := primary
		change(&n)
		return []nic{n}
	}
	tracking := func(n *nic) {
		n.ConnectionTrackingSpecification = &ec2types.ConnectionTrackingSpecificationRequest{UdpTimeout: aws.Int32(40)}
	}
	prefixes := func(many int32) func(*nic) { return func(n *nic) { n.Ipv4PrefixCount = aws.Int32(many) } }
	public := primary
	public.AssociatePublicIpAddress = aws.Bool(true)
	for name, c := range map[string]struct {
		kind   string
		nics   []nic
		nested ec2types.NestedVirtualizationSpecification
		code   string
	}{
		"EFA on several cards":   {kind: "p4d.24xlarge", nics: []nic{primary, at(0, 1, "efa-only"), at(3, 0, "efa-only")}},
		"no such card":           {kind: "m5.large", nics: []nic{primary, at(1, 0, "interface")}, code: "InvalidParameterValue"},
		"no such interface":      {kind: "m5.large", nics: []nic{primary, at(0, 3, "interface")}, code: "AttachmentLimitExceeded"},
		"no EFA":                 {kind: "m5.large", nics: []nic{primary, at(0, 1, "efa-only")}, code: "UnsupportedOperation"},
		"too many EFA":           {kind: "c5n.18xlarge", nics: []nic{primary, at(0, 1, "efa-only"), at(0, 2, "efa-only")}, code: "AttachmentLimitExceeded"},
		"a place twice":          {kind: "m5.large", nics: []nic{primary, primary}, code: "InvalidParameterCombination"},
		"no primary":             {kind: "m5.large", nics: []nic{at(0, 1, "interface")}, code: "InvalidParameterValue"},
		"public and several":     {kind: "m5.large", nics: []nic{public, at(0, 1, "interface")}, code: "InvalidParameterCombination"},
		"prefixes":               {kind: "m5.large", nics: with(prefixes(9))},
		"too many prefixes":      {kind: "m5.large", nics: with(prefixes(10)), code: "PrivateIpAddressLimitExceeded"},
		"prefixes without nitro": {kind: "m4.large", nics: with(prefixes(1)), code: "UnsupportedOperation"},
		"timeouts":               {kind: "m5.large", nics: with(tracking)},
		"timeouts without nitro": {kind: "m4.large", nics: with(tracking), code: "UnsupportedOperation"},
		"nested":                 {kind: "m8i.large", nics: []nic{primary}, nested: "enabled"},
		"nested where it is not": {kind: "m5.large", nics: []nic{primary}, nested: "enabled", code: "InvalidParameterCombination"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			data := &ec2types.RequestLaunchTemplateData{ImageId: aws.String(w.image("x86_64")), NetworkInterfaces: c.nics}
			if c.nested != "" {
				data.CpuOptions = &ec2types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: c.nested}
			}
			_, err := w.ec2.CreateLaunchTemplate(ctxb(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("net"), LaunchTemplateData: data})
			w.must(err)
			out, err := w.ec2.CreateFleet(ctxb(), w.fleetInput("net", a, c.kind))
			w.must(err)
			got := ""
			if len(out.Errors) > 0 {
				got = aws.ToString(out.Errors[0].ErrorCode)
			}
			if got != c.code || (len(out.Instances) == 1) != (c.code == "") {
				t.Errorf("%d instances, %q, want %q: %v", len(out.Instances), got, c.code, out.Errors)
			}
		})
	}
}
