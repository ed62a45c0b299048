package launch

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"millwright/services/internal/ec2"
)

// The size is that of what a node boots with, not of its encoding, and goes with the class.
func TestUserDataIsMeasured(t *testing.T) {
	for _, size := range []int{0, 1, 2, 3, 16 << 10} {
		registry, there := prometheus.NewRegistry(), true
		m := newUserDataMetrics(registry, func(name string) bool { return there && name == "blue" })
		m.made("blue", ec2.LaunchTemplate{Data: &ec2types.RequestLaunchTemplateData{
			UserData: aws.String(base64.StdEncoding.EncodeToString(make([]byte, size)))}})
		want := fmt.Sprintf(`
# HELP karpenter_ec2nodeclasses_userdata_bytes Bytes of user data in the launch template that this process made last for a NodeClass, as EC2 counts them: packed, before base64.
# TYPE karpenter_ec2nodeclasses_userdata_bytes gauge
karpenter_ec2nodeclasses_userdata_bytes{nodeclass="blue"} %d
`, size)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		there = false
		if n := testutil.CollectAndCount(m); n != 0 || len(m.bytes) != 0 {
			t.Errorf("%d series of a class that is gone", n)
		}
	}
}

// What launches are built with is what is measured.
func TestUserDataOfALaunchIsMeasured(t *testing.T) {
	b := newBench(t)
	if _, err := b.Build(t.Context(), input(readyClass("AL2023"), claim(capacityTypes("spot")), m5large)); err != nil {
		t.Fatal(err)
	}
	for _, made := range b.templates.made {
		if got, want := testutil.ToFloat64(b.userData), len(aws.ToString(readable(made).Data.UserData)); want == 0 || got != float64(want) {
			t.Errorf("%v, want %d", got, want)
		}
	}
	if len(b.templates.made) != 1 {
		t.Errorf("%d templates", len(b.templates.made))
	}
}
