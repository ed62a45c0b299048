package nodepool_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/planner/nodepool"
	vector "millwright/planner/resource"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func class(ready metav1.ConditionStatus, reason, message string) *awsv1.EC2NodeClass {
	nc := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "main", Generation: 5}}
	if ready != "" {
		nc.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionTypeReady, Status: ready, Reason: reason, Message: message}}
	}
	return nc
}

// The rules: api §3, lifecycle §11.
func TestConditionsOfANodePool(t *testing.T) {
	going := class("True", "Ready", "")
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	foreign := func(p *karpv1.NodePool) { p.Spec.Template.Spec.NodeClassRef.Group = "karpenter.azure.com" }
	none := func(*karpv1.NodePool) {}
	lost := nodepool.Registration{Failed: true, Reason: "RegistrationFailed", Message: "no"}
	for name, c := range map[string]struct {
		change func(*karpv1.NodePool)
		facts  nodepool.Facts
		want   []string
	}{
		"ready":     {none, nodepool.Facts{Class: class("True", "Ready", "")}, []string{"NodeClassReady=True", "Ready=True", "ValidationSucceeded=True"}},
		"not valid": {none, nodepool.Facts{Class: class("True", "Ready", ""), Invalid: errors.New("odd")}, []string{"Ready=False/UnhealthyDependents/ValidationSucceeded=False", "ValidationSucceeded=False/NodePoolValidationFailed/odd"}},
		"not valid, but in its budgets alone": {none, nodepool.Facts{Class: class("True", "Ready", ""), Invalid: errors.New("odd"), Usable: true},
			[]string{"Ready=True", "ValidationSucceeded=False/NodePoolValidationFailed/odd"}},
		"no class":                  {none, nodepool.Facts{}, []string{"NodeClassReady=False/NodeClassNotFound/NodeClass not found on cluster"}},
		"a class that goes":         {none, nodepool.Facts{Class: going}, []string{"NodeClassReady=False/NodeClassTerminating/NodeClass is Terminating"}},
		"a class nobody looked at":  {none, nodepool.Facts{Class: class("", "", "")}, []string{"NodeClassReady=False/NodeClassReadinessUnknown/Node Class Readiness Unknown"}},
		"a class that is not ready": {none, nodepool.Facts{Class: class("False", "SubnetsNotFound", "none")}, []string{"NodeClassReady=False/SubnetsNotFound/none"}},
		"a class of others": {foreign, nodepool.Facts{}, []string{
			`NodeClassReady=False/NodeClassNotSupported/spec.template.spec.nodeClassRef: group "karpenter.azure.com" and kind "EC2NodeClass" are not supported, must be "karpenter.k8s.aws" and "EC2NodeClass"`}},
		"unreadable":               {func(p *karpv1.NodePool) { p.Unreadable = "odd" }, nodepool.Facts{Invalid: errors.New("odd")}, []string{"NodeClassReady=Unknown/NodeClassReadinessUnknown/nodeClassRef cannot be read"}},
		"nodes that never joined":  {none, nodepool.Facts{Class: class("True", "Ready", ""), Registrations: []nodepool.Registration{lost, lost}}, []string{"NodeRegistrationHealthy=False/RegistrationFailed/no", "Ready=True"}},
		"a node that joined again": {none, nodepool.Facts{Registrations: []nodepool.Registration{lost, {}}}, []string{"NodeRegistrationHealthy=True"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := karpenterPool()
			p.Status.Conditions, p.CreationTimestamp = nil, metav1.NewTime(noon.Add(-time.Hour))
			c.change(p)
			got := nodepool.Status(p, c.facts, noon)
			var texts []string
			for _, x := range got.Conditions {
				text := x.Type + "=" + string(x.Status)
				if x.Message != "" {
					text += "/" + x.Reason + "/" + x.Message
				}
				texts = append(texts, text)
			}
			for _, w := range c.want {
				if !slices.Contains(texts, w) {
					t.Errorf("%q is not among %q", w, texts)
				}
			}
			if !nodepool.SameStatus(got, nodepool.Status(&karpv1.NodePool{ObjectMeta: p.ObjectMeta, Spec: p.Spec, Unreadable: p.Unreadable, Status: got}, c.facts, noon.Add(time.Hour))) {
				t.Error("the same again differs")
			}
		})
	}
}

// The rules: api §3, lifecycle §11.
func TestResourcesOfANodePool(t *testing.T) {
	p, o := karpenterPool()
	o.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "nvidia.com/gpu": resource.MustParse("1")}
	n := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("3")}}}
	var sum nodepool.Sum
	for _, capacity := range []vector.Vector{nodepool.Capacity(o, nil), nodepool.Capacity(o, n)} {
		sum = sum.Plus(capacity)
	}
	n.Labels = map[string]string{karpv1.NodeInitializedLabelKey: "true"}
	sum = sum.Plus(nodepool.Capacity(o, n)) // from now on, what the kubelet does not report counts as not there
	s := nodepool.Status(p, nodepool.Facts{Sum: sum, Class: class("True", "Ready", "")}, noon)
	for name, want := range map[corev1.ResourceName]string{"cpu": "10", "nvidia.com/gpu": "2", "nodes": "3", "memory": "0", "pods": "0", "ephemeral-storage": "0"} {
		if got, ok := s.Resources[name]; !ok || got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s is %s, want %s", name, got.String(), want)
		}
	}
	if *s.Nodes != 3 || s.NodeClassObservedGeneration != 5 {
		t.Errorf("%d nodes, generation %d of the class", *s.Nodes, s.NodeClassObservedGeneration)
	}
	if gone := nodepool.Status(&karpv1.NodePool{Spec: p.Spec, Status: s}, nodepool.Facts{}, noon); gone.NodeClassObservedGeneration != 5 || *gone.Nodes != 0 {
		t.Errorf("without a class: %+v", gone)
	}
}

func TestOutcomesOfRegistrationAreForgottenWithTheSpec(t *testing.T) {
	p, _ := karpenterPool()
	p.Status.Conditions, p.Status.NodeClassObservedGeneration = []metav1.Condition{{
		Type: karpv1.ConditionTypeNodeRegistrationHealthy, Status: "False", Reason: "RegistrationFailed", ObservedGeneration: p.Generation}}, 5
	outcomes, h := nodepool.Registrations{}.With(nodepool.Registration{}).Under(p, 5)
	if len(outcomes) != 3 || !outcomes[0].Failed || outcomes[2].Failed {
		t.Errorf("what a former leader left and one success: %+v", outcomes)
	}
	for range 2 * nodepool.RegistrationsMax {
		h = h.With(nodepool.Registration{})
	}
	if outcomes, h = h.Under(p, 5); len(outcomes) != nodepool.RegistrationsMax {
		t.Errorf("%d are kept", len(outcomes))
	}
	if outcomes, _ = h.Under(p, 6); len(outcomes) != 0 {
		t.Errorf("under another NodeClass: %+v", outcomes)
	}
	p.Generation++
	if outcomes, _ = h.Under(p, 5); len(outcomes) != 0 || condition.Get(p.Status.Conditions, "Ready") != nil {
		t.Errorf("under another spec: %+v", outcomes)
	}
}
