package sim_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/tools/ec2sim/simclient"
)

// A quota counts the vCPUs of all types of a group, of what is pending or runs; CreateFleet answers with an
// error for each override that it refuses, other groups and the other capacity type have their own, and more
// is launched when it is raised or something has ended.
func TestQuotasOfVCPUs(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	w.must(w.control.SetQuotas(ctxb(), simclient.Quota{Group: "standard", CapacityType: "on-demand", VCPUs: 7}, simclient.Quota{Group: "standard", CapacityType: "spot", VCPUs: 2}))
	fleet := func(token string, spot bool, count int32, types ...string) (launched []string, errs []ec2types.CreateFleetError) {
		t.Helper()
		in := w.fleetInput("web", a, types...)
		in.ClientToken, in.TargetCapacitySpecification.TotalTargetCapacity = aws.String(token), aws.Int32(count)
		if spot {
			in.TargetCapacitySpecification.DefaultTargetCapacityType, in.OnDemandOptions = ec2types.DefaultTargetCapacityTypeSpot, nil
		}
		out, err := w.ec2.CreateFleet(ctxb(), in)
		w.must(err)
		for _, group := range out.Instances {
			launched = append(launched, group.InstanceIds...)
		}
		return launched, out.Errors
	}
	first, errs := fleet("one", false, 4, "m5.large", "c5.large")
	if len(first) != 3 || len(errs) != 2 {
		t.Fatalf("%d instances of 2 vCPUs with a quota of 7, errors %+v", len(first), errs)
	}
	for _, e := range errs {
		o := e.LaunchTemplateAndOverrides.Overrides
		if aws.ToString(e.ErrorCode) != "VcpuLimitExceeded" || !strings.Contains(aws.ToString(e.ErrorMessage), "current vCPU limit of 7 ") || o.InstanceType == "" || aws.ToString(o.AvailabilityZone) != a[0] {
			t.Errorf("error %s: %s of %v", aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage), o)
		}
	}
	if got, errs := fleet("gpu", false, 1, "g4dn.xlarge"); len(got) != 1 {
		t.Errorf("another group: %v", errs)
	}
	if got, errs := fleet("spot", true, 2, "m5.large"); len(got) != 1 || len(errs) != 1 || aws.ToString(errs[0].ErrorCode) != "MaxSpotInstanceCountExceeded" {
		t.Errorf("spot: %d instances, %+v", len(got), errs)
	}
	_, err := w.ec2.RunInstances(ctxb(), &ec2.RunInstancesInput{InstanceType: "r5.large", ImageId: aws.String(w.image("x86_64")), MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
	wantCode(t, err, "VcpuLimitExceeded")
	_, err = w.ec2.TerminateInstances(ctxb(), &ec2.TerminateInstancesInput{InstanceIds: first[:1]})
	w.must(err)
	if got, errs := fleet("two", false, 2, "r5.large"); len(got) != 1 || len(errs) != 1 {
		t.Errorf("one has ended: %d instances, %+v", len(got), errs)
	}
	w.must(w.control.SetQuotas(ctxb(), simclient.Quota{Group: "standard", CapacityType: "on-demand", VCPUs: 70}))
	if got, errs := fleet("three", false, 2, "m5.8xlarge"); len(got) != 2 {
		t.Errorf("the quota is raised: %+v", errs)
	}
	for _, q := range []simclient.Quota{{Group: "p5", CapacityType: "on-demand"}, {Group: "small", CapacityType: "spot"}, {Group: "x", CapacityType: "any"}, {Group: "x", CapacityType: "spot", VCPUs: -1}} {
		if err := w.control.SetQuotas(ctxb(), q); err == nil {
			t.Errorf("%+v is taken", q)
		}
	}
}
