package sim_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/tools/ec2sim/sim"
)

func inProcess(server *sim.Server) *ec2.Client {
	return ec2.NewFromConfig(aws.Config{Region: "us-west-2", BaseEndpoint: aws.String("http://sim"),
		HTTPClient:  &http.Client{Transport: server.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", "")})
}

// BenchmarkCreateFleet launches one instance out of 240 overrides, as a broad NodePool asks for.
func BenchmarkCreateFleet(b *testing.B) {
	server := sim.New(sim.Config{})
	client, d := inProcess(server), server.Defaults()
	images, err := client.DescribeImages(ctxb(), &ec2.DescribeImagesInput{Filters: []ec2types.Filter{
		filterBy("name", "amazon-eks-node-al2023-x86_64-standard-1.36-v20260311")}})
	if err != nil {
		b.Fatal(err)
	}
	_, err = client.CreateLaunchTemplate(ctxb(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("web"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: images.Images[0].ImageId}})
	if err != nil {
		b.Fatal(err)
	}
	var overrides []ec2types.FleetLaunchTemplateOverridesRequest
	for _, family := range []string{"m5", "c5", "r5", "m6i", "c6i", "r6i", "m7i", "c7i", "r7i", "m6a", "c6a", "r6a"} {
		for _, size := range []string{"large", "xlarge", "2xlarge", "4xlarge", "12xlarge"} {
			for _, zone := range d.Zones {
				overrides = append(overrides, ec2types.FleetLaunchTemplateOverridesRequest{
					InstanceType: ec2types.InstanceType(family + "." + size), SubnetId: aws.String(d.Subnets[zone])})
			}
		}
	}
	for n := range b.N {
		out, err := client.CreateFleet(ctxb(), &ec2.CreateFleetInput{Type: ec2types.FleetTypeInstant, ClientToken: aws.String(strconv.Itoa(n)),
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{Overrides: overrides,
				LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("web"), Version: aws.String("$Latest")}}},
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: "spot"}})
		if err != nil || len(out.Instances) != 1 {
			b.Fatalf("%+v, %v", out, err)
		}
	}
}

// BenchmarkNew measures the start of an account; the catalogue is built once, before.
func BenchmarkNew(b *testing.B) {
	for range b.N {
		sim.New(sim.Config{})
	}
}
