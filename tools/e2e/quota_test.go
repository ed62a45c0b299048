package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/tools/ec2sim/simclient"
)

// markEnds is how long an offering is marked at first (ec2 §2.4).
const markEnds = 3 * time.Minute

// TestQuotaOfVCPUs: where the account's quota of a group of families is used up, claims get what another
// group has; pods that cannot use it wait, and are told why; and once the quota is raised they get their
// nodes.
func TestQuotaOfVCPUs(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(strings.Replace(defaultPool, "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
		"{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, c5.large, g4dn.xlarge]}", 1))
	quota := func(vcpus int) {
		t.Helper()
		if err := e.ec2.SetQuotas(e.Context(), simclient.Quota{Group: "standard", CapacityType: "on-demand", VCPUs: vcpus}); err != nil {
			t.Fatal(err)
		}
	}
	quota(5)
	e.deploy("web", 3, "1", "1Gi", onePerNode("web"))
	e.running("web", 3)
	if got := e.typesByCategory(); got["g"] != 1 || got["c"]+got["m"] != 2 {
		t.Errorf("with 5 vCPUs for types of 2: %v", got)
	}
	e.deploy("std", 1, "1500m", "1Gi", func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-category": "m"}
	})
	refused := e.refusedBy("VcpuLimitExceeded")
	if out, code := e.millctl("why", "nodeclaim", refused); code != 0 || !strings.Contains(out, "VcpuLimitExceeded") || !strings.Contains(out, "current vCPU limit of 5") {
		t.Errorf("why nodeclaim %s: exit %d\n%s", refused, code, out)
	}
	quota(50)
	raised := time.Now()
	for p := e.podOf("std"); time.Since(raised) < markEnds && (p == nil || p.Status.Phase != corev1.PodRunning); p = e.podOf("std") {
		time.Sleep(time.Second)
	}
	e.running("std", 1)
	t.Logf("%s after the quota was raised", time.Since(raised).Round(time.Second))
	e.matched()
	e.scale("web", 0)
	e.scale("std", 0)
	e.clean()
	e.sound()
}

// typesByCategory counts the instances that run.
func (e *env) typesByCategory() map[string]int {
	e.Helper()
	count := map[string]int{}
	for _, i := range e.liveInstances() {
		count[i.Type[:1]]++
	}
	return count
}

// refusedBy waits for a launch that failed with a code of EC2, and returns its NodeClaim.
func (e *env) refusedBy(code string) (claim string) {
	e.Helper()
	e.eventually("a launch that fails with "+code, func() string {
		failed := []ledger.LaunchFailed{}
		for _, r := range records[ledger.LaunchFailed](e, "LaunchFailed") {
			failed = append(failed, r.Payload)
		}
		for _, r := range records[ledger.FleetAnswered](e, "FleetAnswered") {
			failed = append(failed, r.Payload.Failed...)
		}
		for _, f := range failed {
			if claim = f.Claim; strings.Contains(f.Message, code) {
				return ""
			}
		}
		return fmt.Sprintf("%+v", failed)
	})
	return claim
}
