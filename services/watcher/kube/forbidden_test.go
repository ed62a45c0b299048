package kube

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
)

// A right that was never given, such as by a ClusterRole of an earlier version, holds nothing up. One that is
// taken away does: policies that are there would count as gone, and what they forbid would be done.
func TestPoliciesThatMayNoLongerBeReadStayInForce(t *testing.T) {
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.kind == events.KindDisruptionPolicy })
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: mwv1alpha1.SchemeGroupVersion.Group, Resource: "disruptionpolicies"}, "", errors.New("no right"))
	gone := apierrors.NewNotFound(schema.GroupResource{Group: mwv1alpha1.SchemeGroupVersion.Group, Resource: "disruptionpolicies"}, "")
	var answer error
	s := &Source{}
	newEpoch := func() *watched {
		w := &watched{kind: kinds[at], readable: s.readableOf(kinds[at]), listed: true}
		w.lister = &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &mwv1alpha1.DisruptionPolicyList{Items: []mwv1alpha1.DisruptionPolicy{{}}}, answer
		}}
		return w
	}
	items := func(w *watched) (int, error) {
		list, err := w.ListWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		return len(list.(*mwv1alpha1.DisruptionPolicyList).Items), nil
	}

	answer = forbidden
	if n, err := items(newEpoch()); n != 0 || err != nil {
		t.Errorf("never allowed: %d policies, %v", n, err)
	}
	answer = nil
	w := newEpoch()
	if n, err := items(w); n != 1 || err != nil {
		t.Errorf("allowed: %d policies, %v", n, err)
	}
	for _, w := range []*watched{w, newEpoch()} {
		answer = forbidden
		if n, err := items(w); !apierrors.IsForbidden(err) || w.state() == nil {
			t.Errorf("no longer allowed: %d policies, %v, and the heartbeat says that all is seen", n, err)
		}
		answer = gone
		if n, err := items(w); n != 0 || err != nil {
			t.Errorf("the CRD is gone: %d policies, %v", n, err)
		}
	}
}
