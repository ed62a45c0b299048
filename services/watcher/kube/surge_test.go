package kube

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/services/watcher"
)

// keeper is a Sink that keeps the Deployments that are published.
type keeper struct {
	recorder
	last *appsv1.Deployment
}

func (k *keeper) Publish(c watcher.Change) error {
	k.last, _ = c.Object.(*appsv1.Deployment)
	return k.recorder.Publish(c)
}

func deployment(version string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: types.UID("u"), ResourceVersion: version}}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app"}}
	return d
}

// While a DisruptionPolicy asks for surge all Deployments are published, without their templates; one that a
// CapacityBuffer names as well has its template at the same version. What is only about its status is not
// published again.
func TestDeploymentsArePublishedForSurge(t *testing.T) {
	k := &keeper{}
	s := newStore(deployments, k, func() {})
	check(t, s.Add(deployment("1")))
	k.expect(t)
	s.setWanted(map[string]bool{every: true})
	check(t, s.Replace([]any{deployment("1")}, "1"))
	k.expect(t, "upsert ns/web u@1")
	if got := k.last; len(got.Spec.Template.Spec.Containers) != 0 || got.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("published %+v", got.Spec)
	}
	changed := deployment("2")
	changed.Status.ReadyReplicas = 1
	check(t, s.Update(changed))
	k.expect(t)
	s.setWanted(map[string]bool{every: true, "ns/web": true})
	check(t, s.Replace([]any{changed}, "2"))
	k.expect(t, "upsert ns/web u@2")
	if len(k.last.Spec.Template.Spec.Containers) != 1 {
		t.Errorf("published %+v", k.last.Spec)
	}
	s.setWanted(map[string]bool{})
	check(t, s.Replace(nil, "3"))
	k.expect(t, "delete ns/web u@")
}

// The watch of Deployments begins once all DisruptionPolicies are known, and moves when the first of them
// asks for surge, or the last no longer does.
func TestPoliciesWithSurgeReferToDeployments(t *testing.T) {
	r := newReferences((&Source{kinds: kinds}).WithSurge().kinds, true)
	moved := func() bool {
		select {
		case <-r.moved[events.KindDeployment]:
			return true
		default:
			return false
		}
	}
	first, second := reference{events.KindDisruptionPolicy, "first"}, reference{events.KindDisruptionPolicy, "second"}
	gentle := &mwv1alpha1.DisruptionPolicy{Spec: mwv1alpha1.DisruptionPolicySpec{Surge: &mwv1alpha1.Surge{}}}
	for i, step := range []struct {
		referrer reference
		object   metav1.Object
		moves    bool
		all      bool
	}{
		{first, &mwv1alpha1.DisruptionPolicy{}, false, false}, {first, gentle, true, true}, {second, gentle, false, true},
		{first, nil, false, true}, {second, &mwv1alpha1.DisruptionPolicy{}, true, false},
	} {
		r.note(step.referrer, step.object)
		if got, all := moved(), r.ofKind(events.KindDeployment)[every]; got != step.moves || all != step.all {
			t.Errorf("step %d: moved %v, all %v", i, got, all)
		}
	}
	select {
	case <-r.listed:
		t.Error("listed before the policies are")
	default:
	}
	r.allListed(events.KindDisruptionPolicy)
	<-r.listed
}
