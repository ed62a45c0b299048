package launch

import (
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/lifecycle/launch/userdata"
)

const gib = 1 << 30

// blockDevices returns the NodeClass's mappings, else the family's defaults (userdata §7). Custom has none:
// the image's own count.
func blockDevices(nc *awsv1.EC2NodeClass, family string) []ec2types.LaunchTemplateBlockDeviceMappingRequest {
	if len(nc.Spec.BlockDeviceMappings) == 0 {
		return defaultDevices(family)
	}
	var out []ec2types.LaunchTemplateBlockDeviceMappingRequest
	for _, m := range nc.Spec.BlockDeviceMappings {
		if m != nil {
			out = append(out, ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName, Ebs: ebs(m.EBS)})
		}
	}
	return out
}

func ebs(b *awsv1.BlockDevice) *ec2types.LaunchTemplateEbsBlockDeviceRequest {
	if b == nil {
		return nil
	}
	out := &ec2types.LaunchTemplateEbsBlockDeviceRequest{
		DeleteOnTermination: b.DeleteOnTermination, Encrypted: b.Encrypted, KmsKeyId: b.KMSKeyID, SnapshotId: b.SnapshotID,
		Iops: unlessZero(b.IOPS), Throughput: unlessZero(b.Throughput), VolumeInitializationRate: b.VolumeInitializationRate,
		VolumeType: ec2types.VolumeType(aws.ToString(b.VolumeType)),
	}
	if b.VolumeSize != nil {
		out.VolumeSize = aws.Int32(int32((b.VolumeSize.Value() + gib - 1) / gib))
	}
	return out
}

// unlessZero leaves out a zero, which EC2 refuses: the type's default is meant. What an int32 does not hold
// is more than EC2 takes, too.
func unlessZero(n *int64) *int32 {
	if aws.ToInt64(n) == 0 {
		return nil
	}
	return aws.Int32(int32(max(math.MinInt32, min(*n, math.MaxInt32))))
}

func defaultDevices(family string) []ec2types.LaunchTemplateBlockDeviceMappingRequest {
	switch {
	case family == awsv1.AMIFamilyCustom:
		return nil
	case family == awsv1.AMIFamilyBottlerocket:
		return []ec2types.LaunchTemplateBlockDeviceMappingRequest{defaultDevice("/dev/xvda", 4), defaultDevice("/dev/xvdb", 20)}
	case userdata.IsWindows(family):
		return []ec2types.LaunchTemplateBlockDeviceMappingRequest{defaultDevice("/dev/sda1", 50)}
	}
	return []ec2types.LaunchTemplateBlockDeviceMappingRequest{defaultDevice("/dev/xvda", 20)}
}

func defaultDevice(name string, sizeGiB int32) ec2types.LaunchTemplateBlockDeviceMappingRequest {
	return ec2types.LaunchTemplateBlockDeviceMappingRequest{
		DeviceName: aws.String(name),
		Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{
			Encrypted: aws.Bool(true), VolumeType: ec2types.VolumeTypeGp3, VolumeSize: aws.Int32(sizeGiB),
		},
	}
}
