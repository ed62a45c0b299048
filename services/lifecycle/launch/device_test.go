package launch

import (
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
}
