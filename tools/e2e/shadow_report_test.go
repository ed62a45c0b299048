package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/store/audit/shadow"
	"millwright/tools/stack"
)

// TestShadowReportBesideAnotherController: while somebody else launches and removes nodes, Millwright in
// mode shadow touches nothing, and the report says what it would have done.
func TestShadowReportBesideAnotherController(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.Bare = true
		o.MillwrightArgs = append(o.MillwrightArgs, "--mode", "shadow")
	})
	k := newKarpenter(e)
	k.lead("karpenter-5d8f7_1")
	r := releases[2]
	k.pool(r)
	k.patch(nodePools.Resource, r.pool, map[string]any{"spec": map[string]any{"disruption": map[string]any{"consolidateAfter": "1s"}}})
	k.ready(r)
	p, err := e.stack.StartMillwright()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.stack.AwaitReady(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	e.deploy("web", 1, "500m", "100Mi")
	shadowed := func(kind string) {
		e.Helper()
		e.eventually("a "+kind+" in mode shadow", func() string {
			if text, _ := e.millctl("log", "--kind", kind); !strings.Contains(text, "(shadow)") {
				return "millctl log prints " + strconv.Quote(text)
			}
			return ""
		})
	}
	shadowed("ProvisioningPlanned")
	id, providerID := k.launch(r, "theirs")
	k.claim(r, "theirs", providerID)
	k.register(r, "theirs", providerID)
	e.running("web", 1)
	e.scale("web", 0)
	shadowed("CommandStarted")
	if left := e.liveInstances(); len(left) != 1 || left[0].ID != id {
		t.Errorf("beside the other controller there are %v", left)
	}
	k.remove("theirs", id, providerID)

	var report shadow.Report
	e.eventually("the report has seen it go", func() string {
		text, status := e.millctl("shadow", "report", "--since", "1h", "-o", "json")
		if status != 0 || json.Unmarshal([]byte(text), &report) != nil || report.Actual.Removed == 0 {
			return text
		}
		return ""
	})
	a, m := report.Actual, report.Millwright
	if a.Launched != 1 || a.Removed != 1 || a.Waited < 1 || m.Waited != a.Waited || a.USD <= 0 || a.NodesMost != 1 || report.Decisions < 2 {
		t.Errorf("what happened: %+v; with Millwright: %+v; %d decisions", a, m, report.Decisions)
	}
	if len(report.Curve) == 0 || len(report.Caveats) == 0 || len(report.Differences) < 2 {
		t.Errorf("%+v", report)
	}
	if !slices.ContainsFunc(report.Differences, func(d shadow.Difference) bool {
		return strings.Contains(d.Decided, "takes 1 node(s)") && strings.Contains(d.Instead, "m5.large") && d.SavedUSD > 0
	}) {
		t.Errorf("no difference tells of the empty node: %+v", report.Differences)
	}
	text, status := e.millctl("shadow", "report")
	if status != 0 || !strings.Contains(text, "HAPPENED") || !strings.Contains(text, "happened:") {
		t.Errorf("%d:\n%s", status, text)
	}
}

// ready writes the status that a controller gives a NodePool and its class.
func (k *karpenter) ready(r release) {
	k.Helper()
	is := func(kind string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
	}
	var subnets, groups []map[string]any
	for _, zone := range k.defaults.Zones {
		subnets = append(subnets, map[string]any{"id": k.defaults.Subnets[zone], "zone": zone})
	}
	for _, id := range k.defaults.SecurityGroups {
		groups = append(groups, map[string]any{"id": id})
	}
	k.patch(nodeClasses.Resource, r.pool, map[string]any{"status": map[string]any{"subnets": subnets, "securityGroups": groups, "instanceProfile": "demo_1234",
		"amis":       []map[string]any{{"id": k.image, "name": "al2023", "requirements": []map[string]any{{"key": "kubernetes.io/arch", "operator": "In", "values": []string{"amd64"}}}}},
		"conditions": []map[string]any{is("Ready"), is("SubnetsReady"), is("SecurityGroupsReady"), is("AMIsReady"), is("InstanceProfileReady"), is("ValidationSucceeded")}}}, "status")
	k.patch(nodePools.Resource, r.pool, map[string]any{"status": map[string]any{"conditions": []map[string]any{is("Ready"), is("ValidationSucceeded"), is("NodeClassReady")}}}, "status")
}

// remove ends a node as Karpenter would: its instance, then its finalizers and objects.
func (k *karpenter) remove(claim, instance, providerID string) {
	k.Helper()
	node := k.joined(providerID)
	if err := k.dyn.Resource(claimsGVR).Delete(k.Context(), claim, metav1.DeleteOptions{}); err != nil {
		k.Fatal(err)
	}
	if err := k.kube.CoreV1().Nodes().Delete(k.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
		k.Fatal(err)
	}
	if _, err := k.aws.TerminateInstances(k.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{instance}}); err != nil {
		k.Fatal(err)
	}
	k.eventually("instance "+instance+" ends", func() string {
		if n := len(k.liveInstances()); n > 0 {
			return fmt.Sprintf("%d instances live", n)
		}
		return ""
	})
	k.patch(claimsGVR.Resource, claim, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	k.retry("release node", func() error {
		n, err := k.kube.CoreV1().Nodes().Get(k.Context(), node.Name, metav1.GetOptions{})
		if err != nil {
			return nil //nolint:nilerr // it is gone
		}
		n.Finalizers = nil
		_, err = k.kube.CoreV1().Nodes().Update(k.Context(), n, metav1.UpdateOptions{})
		return err
	})
}
