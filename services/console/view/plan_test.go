package view_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"millwright/services/console/consoletest"
	"millwright/services/console/view"
)

const bigPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: big}\nspec: {containers: [{name: c, resources: {requests: {cpu: \"7\"}}}]}\n"

// A plan is for what is given on top of the cluster, and changes neither World nor log.
func TestAPlanTouchesNothing(t *testing.T) {
	r := consoletest.New(t, "test")
	before, err := r.View.Now()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := r.View.Plan(t.Context(), "ann", view.PlanRequest{Manifests: bigPod + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" +
			"spec: {replicas: 3, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}}\n"})
		if err != nil {
			t.Fatal(err)
		}
		if p.Nodes != 1 || p.Provisioning.Stats.Pods != 5 || len(p.Provisioning.NewNodeClaims) == 0 || p.Disruption.Before == nil || p.Disruption.Settled == nil {
			t.Errorf("%+v, %+v", p, p.Provisioning)
		}
	}
	after, err := r.View.Now()
	if err != nil || len(after.Pending) != len(before.Pending) || len(after.Nodes) != len(before.Nodes) {
		t.Errorf("%d nodes and %d pods that wait, were %d and %d; %v", len(after.Nodes), len(after.Pending), len(before.Nodes), len(before.Pending), err)
	}
	if head, err := r.Log.Head(t.Context()); err != nil || head.Seq != 1 {
		t.Errorf("record %d, %v", head.Seq, err)
	}
}

func TestAPlanForManifestsAlone(t *testing.T) {
	r := consoletest.New(t, "test")
	pool := "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: q}\nspec: {template: {spec: {requirements: []}}}\n"
	catalog := `{"instanceTypes": [{"name": "m.big", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
"capacity": {"cpu": "8", "memory": "16Gi", "pods": "20"}, "offerings": [{"zone": "z", "capacityType": "on-demand", "price": "0.4"}]}]}`
	p, err := r.View.Plan(t.Context(), "ann", view.PlanRequest{Manifests: bigPod + pool, Catalog: catalog, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Provisioning.NewNodeClaims) != 1 || p.Provisioning.NewNodeClaims[0].CheapestOffering.InstanceType != "m.big" || p.Nodes != 0 || p.LedgerSeq != 0 {
		t.Errorf("%+v, %+v", p, p.Provisioning)
	}
}

// What no API server has validated, what is endless and what is too much is refused, and nothing stays behind
// that keeps the next plan out.
func TestQuestionsThatCannotBePlanned(t *testing.T) {
	r := consoletest.New(t, "test")
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: %d, template: {spec: {containers: []}}}\n"
	bombs := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n" +
		"f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n"
	for manifests, want := range map[string]string{
		"kind: Pod": "apiVersion: is missing", bombs: "excessive aliasing", "{": "document 1", strings.Repeat("#", view.PlanInputMax+1): "bytes long",
		fmt.Sprintf(deployment, 1<<30): "spec.replicas: asks for 1073741824 pods", fmt.Sprintf(deployment, -1): "must not be negative",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{resources: {limits: {cpu: \"1e2000000000\"}}}]}\n":                 "containers[0].resources.limits.cpu: is a number that takes too long",
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {replicas: 2000000000, template: {spec: {requirements: []}}}\n": "spec.replicas: asks for 2000000000 nodes",
	} {
		if _, err := r.View.Plan(t.Context(), "ann", view.PlanRequest{Manifests: manifests}); !errors.Is(err, view.ErrQuestion) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want …%s…", manifests, err, want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.View.Plan(gone, "ann", view.PlanRequest{Manifests: bigPod}); err != nil && !errors.Is(err, view.ErrQuestion) {
		t.Error(err)
	}
}
