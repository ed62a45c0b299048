package e2e

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/deploy/iam"
	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

// unneeded are the actions in the policies that the test below does not reliably cause, each with the reason
// why it is granted.
var unneeded = map[string]string{
	"ec2:GetConsoleOutput":              "asked of instances that do not become Nodes",
	"ec2:DescribeCapacityReservations":  "asked for classes that select reservations",
	"ec2:DescribePlacementGroups":       "asked for classes that select a placement group",
	"ec2:DescribeInstanceStatus":        "asked of instances that do not become Nodes, and for scheduled events",
	"ec2:DescribeLaunchTemplates":       "left-over templates are looked for at times",
	"iam:ListInstanceProfiles":          "left-over profiles are looked for at times",
	"eks:DescribeCluster":               "asked at times",
	"pricing:GetProducts":               "asked at times",
	"iam:RemoveRoleFromInstanceProfile": "part of deleting a profile",
}

// TestServicesStayWithinTheirPolicies runs in an account that enforces the policies of `millctl aws policy`,
// with each service as its own caller: nodes come on demand and as spot, one is interrupted, and all go
// again, followed by the class, its instance profile and its launch templates.
func TestServicesStayWithinTheirPolicies(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses, o.Policies = true, true
		o.ServiceArgs = map[string][]string{"watcher": {"--interruption-queue", stack.ClusterName, "--enable-zonal-shift"}}
	})
	e.apply(defaultClass)
	e.apply(spotPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	instance := e.instanceOf(e.podOf("web").Spec.NodeName)
	if err := e.ec2.Interrupt(e.Context(), instance.ID, simclient.Interruption{Kind: "spot"}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the spot instance is gone", func() string {
		for _, i := range e.liveInstances() {
			if i.ID == instance.ID {
				return "it is there"
			}
		}
		return ""
	})
	e.apply(defaultPool)
	e.deploy("cache", 1, "500m", "14Gi")
	e.running("cache", 1)
	e.running("web", 1)
	e.matched()
	e.scale("web", 0)
	e.scale("cache", 0)
	e.clean()
	if err := e.dyn.Resource(nodeClasses).Delete(e.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the instance profile and the launch templates are gone", func() string {
		needed := e.needed()
		if needed["lifecycle"]["iam:DeleteInstanceProfile"].Allowed == 0 || needed["lifecycle"]["ec2:DeleteLaunchTemplate"].Allowed == 0 {
			return "none was deleted"
		}
		return ""
	})
	needed := e.needed()
	for key, actions := range needed {
		for action, v := range actions {
			if v.Refused > 0 {
				t.Errorf("the policy of %s refuses %s: %q", key, action, v.Refusals)
			}
		}
	}
	for _, s := range iam.Statements {
		for _, action := range s.Actions {
			used := slices.ContainsFunc([]string{"watcher", "lifecycle"}, func(key string) bool { return needed[key][action].Allowed > 0 })
			if !used && unneeded[action] == "" {
				t.Errorf("statement %s grants %s, which nobody needs", s.Sid, action)
			}
		}
	}
	for _, key := range []string{"provisioner", "disruptor", "terminator"} {
		if len(needed[key]) > 0 {
			t.Errorf("%s has no policy, and calls %v", key, needed[key])
		}
	}
	e.sound()
}

// needed lists the actions that each caller used.
func (e *env) needed() simclient.Callers {
	e.Helper()
	callers, err := e.ec2.Callers(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	return callers
}
