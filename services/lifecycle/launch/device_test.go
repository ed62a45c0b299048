package launch

import (
	"math"
	"reflect"
	"testing"

	awsv1 "millwright/api/karpenteraws/v1"
)

// The rules: ec2 §10.
func TestPerformanceOfZeroIsLeftOut(t *testing.T) {
	zeros, plain := ebs(&awsv1.BlockDevice{IOPS: ptr[int64](0), Throughput: ptr[int64](0)}), ebs(&awsv1.BlockDevice{})
	if !reflect.DeepEqual(plain, zeros) {
		t.Errorf("%d, %d", *zeros.Iops, *zeros.Throughput)
	}
	if set := ebs(&awsv1.BlockDevice{IOPS: ptr[int64](3000), Throughput: ptr[int64](125)}); *set.Iops != 3000 || *set.Throughput != 125 {
		t.Errorf("%d, %d", *set.Iops, *set.Throughput)
	}
	if most := ebs(&awsv1.BlockDevice{IOPS: ptr[int64](1<<32 + 3000)}); *most.Iops != math.MaxInt32 {
		t.Errorf("%d of 4,294,970,296 are asked for, which EC2 would not refuse", *most.Iops)
	}
}
