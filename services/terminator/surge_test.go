package terminator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/terminator"
)

// runSurge has a node that a command takes, in a NodePool with surge, and the only pod of a Deployment on it.
func runSurge(t *testing.T, change func(d *appsv1.Deployment, set *appsv1.ReplicaSet), test func(r *hosttest.Rig, s *terminator.Service)) {
	t.Helper()
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.See(plannertest.Pool("general"))
		r.Kube.Put(plannertest.Policy("gentle", "surge: {within: 5m}"))
		one, none, yes := intstr.FromInt32(1), intstr.FromInt32(0), true
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web"},
			Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}}}}
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-abc", UID: "uid-web-abc",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web", Controller: &yes}}}}
		if change != nil {
			change(d, set)
		}
		r.Kube.Put(d, set, single("web-abc-1"))
		byCommand(r)
		test(r, s)
	})
}

// single is the pod of ReplicaSet web-abc.
func single(name string) *corev1.Pod {
	p := bound(name, plannertest.Labels("pod-template-hash", "abc"), plannertest.OwnedBy("apps/v1", "ReplicaSet", "web-abc"))
	p.OwnerReferences[0].UID = "uid-web-abc"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

func surges(r *hosttest.Rig) (list []*ledger.SurgeDecided) {
	for _, e := range r.Entries(ledger.KindSurgeDecided) {
		list = append(list, e.Payload.(*ledger.SurgeDecided))
	}
	return list
}

func evicted(r *hosttest.Rig) int { return r.Kube.Called("evict default/web-abc-1") }

func TestTheOnlyPodOfADeploymentIsReplacedBeforeItIsEvicted(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		r.Settle(s, time.Minute)
		list := surges(r)
		if len(list) != 1 || len(list[0].Owners) != 1 || list[0].Owners[0].Facts.Deployment != "default/web" || list[0].Owners[0].Until.IsZero() {
			t.Fatalf("surges %+v", list)
		}
		d, err := r.Kube.Deployment(t.Context(), "default", "web")
		if err != nil || d.Spec.Template.Annotations[mwv1alpha1.SurgeAnnotationKey] != list[0].Command || list[0].Command == "" {
			t.Fatalf("template %v, %v", d.Spec.Template.Annotations, err)
		}
		if n := r.Kube.Called("surge default/web"); n != 1 || evicted(r) > 0 || drained(r) {
			t.Errorf("%d patches, %d evictions", n, evicted(r))
		}
		if !slices.ContainsFunc(r.Events, func(e string) bool {
			return strings.HasPrefix(e, "Deployment/web Surged: Replaces its pods before node n goes")
		}) {
			t.Errorf("events %q", r.Events)
		}
		r.Kube.Remove(single("web-abc-1")) // the Deployment's work
		r.Settle(s, 10*time.Second)
		if !drained(r) || evicted(r) > 0 {
			t.Errorf("drained %v, evictions %d", drained(r), evicted(r))
		}
	})
}

func TestASurgeIsRecordedBeforeTheDeploymentIsTouched(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		for range 100 {
			_, _ = r.Step(s)
			if r.Kube.Called("surge default/web") > 0 && len(surges(r)) == 0 {
				t.Fatal("the Deployment was patched before the record")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if r.Kube.Called("surge default/web") != 1 {
			t.Errorf("calls %q", r.Kube.Calls)
		}
	})
}

func TestASuccessorGoesOnWithASurge(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Fail["surge default/web"] = errors.New("api server away")
		r.Settle(s, 20*time.Second)
		delete(r.Kube.Fail, "surge default/web")
		before := r.Kube.Called("surge default/web")
		r.Settle(newService(r), 20*time.Second)
		if r.Kube.Called("surge default/web") != before+1 || len(surges(r)) != 1 || evicted(r) > 0 {
			t.Errorf("patches %d after %d, records %d, evictions %d", r.Kube.Called("surge default/web"), before, len(surges(r)), evicted(r))
		}
	})
}

func TestAPodThatIsNotReplacedInTimeIsEvicted(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		r.Settle(s, 4*time.Minute)
		if evicted(r) > 0 {
			t.Fatal("evicted before the time was over")
		}
		r.Settle(s, 2*time.Minute)
		if evicted(r) != 1 || !drained(r) {
			t.Errorf("evictions %d, drained %v", evicted(r), drained(r))
		}
		late := 0
		for _, e := range r.Entries(ledger.KindDrainTierStarted) {
			late += len(e.Payload.(*ledger.DrainTierStarted).Late)
		}
		if late != 1 || !slices.Contains(r.Events, "Pod/web-abc-1 SurgeLate: Evicted though its Deployment has not replaced it in time") {
			t.Errorf("%d pods recorded as late; events %q", late, r.Events)
		}
	})
}

func TestWhatCannotBeSurgedIsEvictedAndSaid(t *testing.T) {
	forbidden := apierrors.NewForbidden(appsv1.Resource("deployments"), "web", fmt.Errorf("no right"))
	cases := map[string]struct {
		change func(d *appsv1.Deployment, set *appsv1.ReplicaSet)
		fail   map[string]error
		why    string
	}{
		"a strategy that ends pods first": {change: func(d *appsv1.Deployment, _ *appsv1.ReplicaSet) { d.Spec.Strategy.Type = "Recreate" },
			why: "Deployment default/web has strategy Recreate"},
		"a paused Deployment": {change: func(d *appsv1.Deployment, _ *appsv1.ReplicaSet) { d.Spec.Paused = true }, why: "Deployment default/web is paused"},
		"a ReplicaSet of somebody else's": {change: func(_ *appsv1.Deployment, set *appsv1.ReplicaSet) { set.OwnerReferences[0].Kind = "Rollout" },
			why: "no Deployment controls its ReplicaSet"},
		"another ReplicaSet of the name":       {change: func(_ *appsv1.Deployment, set *appsv1.ReplicaSet) { set.UID = "other" }, why: "no Deployment controls its ReplicaSet"},
		"a Deployment that may not be read":    {fail: map[string]error{"get deployment default/web": forbidden}, why: "Deployment default/web may not be read"},
		"a ReplicaSet that may not be read":    {fail: map[string]error{"get replicaset default/web-abc": forbidden}, why: "ReplicaSet default/web-abc may not be read"},
		"a Deployment that may not be changed": {fail: map[string]error{"surge default/web": forbidden}, why: "Deployment default/web may not be changed"},
		"an API server that does not answer":   {fail: map[string]error{"get replicaset default/web-abc": errors.New("away")}, why: "the API server has not answered for 1m0s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			runSurge(t, c.change, func(r *hosttest.Rig, s *terminator.Service) {
				for call, err := range c.fail {
					r.Kube.Fail[call] = err
				}
				r.Settle(s, 90*time.Second)
				list := surges(r)
				if len(list) == 0 || list[len(list)-1].Owners[0].Refused != c.why || !drained(r) || evicted(r) != 1 {
					t.Errorf("surges %+v, evictions %d", list, evicted(r))
				}
				if !slices.Contains(r.Events, "Pod/web-abc-1 SurgeRefused: Evicted without a replacement: "+c.why) {
					t.Errorf("events %q", r.Events)
				}
			})
		})
	}
}

func TestADeploymentIsNotRestartedTwice(t *testing.T) {
	key := mwv1alpha1.SurgeAnnotationKey
	cases := map[string]func(d *appsv1.Deployment, set *appsv1.ReplicaSet){
		"another command restarted it": func(d *appsv1.Deployment, _ *appsv1.ReplicaSet) {
			d.Spec.Template.Annotations = map[string]string{key: "cmd-other"}
		},
		"a person rolls it out": func(d *appsv1.Deployment, set *appsv1.ReplicaSet) {
			d.Annotations, set.Annotations = map[string]string{"deployment.kubernetes.io/revision": "8"}, map[string]string{"deployment.kubernetes.io/revision": "7"}
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			runSurge(t, change, func(r *hosttest.Rig, s *terminator.Service) {
				r.Settle(s, time.Minute)
				if n := r.Kube.Called("surge default/web"); n > 0 || evicted(r) > 0 || len(surges(r)) != 1 {
					t.Errorf("%d patches, %d evictions, records %d", n, evicted(r), len(surges(r)))
				}
			})
		})
	}
}

func TestADrainThatNoCommandAskedForDoesNotWaitForASurge(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		r.Settle(s, 20*time.Second)
		if evicted(r) > 0 {
			t.Fatal("evicted at once")
		}
		r.Append(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: "n-claim", Reason: "interrupted", Deadline: r.Now().Add(2 * time.Minute)})
		r.Settle(s, 20*time.Second)
		if evicted(r) != 1 {
			t.Errorf("%d evictions after EC2's notice", evicted(r))
		}
	})
}

func TestAStopHoldsASurgeBack(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		r.Stop(ledger.StopVoluntary)
		r.Settle(s, 20*time.Second)
		if len(surges(r)) > 0 || r.Kube.Called("surge default/web") > 0 {
			t.Errorf("calls %q", r.Kube.Calls)
		}
	})
}

func TestWithoutTheBusASurgeGoesOn(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		r.Settle(s, 20*time.Second)
		for range 600 { // no heartbeats
			_, _ = r.Step(s)
			time.Sleep(100 * time.Millisecond)
		}
		if evicted(r) > 0 {
			t.Error("evicted what its Deployment replaces")
		}
	})
}

// The owners of pods that turn up later in a drain are asked about for as long as those of the first ones.
func TestOwnersAreAskedAboutForAsLongWheneverTheirPodsTurnUp(t *testing.T) {
	runSurge(t, nil, func(r *hosttest.Rig, s *terminator.Service) {
		r.Settle(s, 2*time.Minute)
		if len(surges(r)) != 1 {
			t.Fatalf("surges %+v", surges(r))
		}
		yes := true
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "api-abc", UID: "uid-api-abc",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web", Controller: &yes}}}}
		p := bound("api-abc-1", plannertest.Labels("pod-template-hash", "abc"), plannertest.OwnedBy("apps/v1", "ReplicaSet", "api-abc"))
		p.OwnerReferences[0].UID = "uid-api-abc"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		r.Kube.Fail["get replicaset default/api-abc"] = errors.New("api server away")
		r.Kube.Put(set, p)
		r.Settle(s, 5*time.Second)
		delete(r.Kube.Fail, "get replicaset default/api-abc")
		r.Settle(s, 20*time.Second)
		list := surges(r)
		if len(list) != 2 || len(list[1].Owners) != 1 || list[1].Owners[0].Refused != "" || r.Kube.Called("evict default/api-abc-1") > 0 {
			t.Errorf("surges %d, the last %+v, evictions %d", len(list), list[len(list)-1].Owners, r.Kube.Called("evict default/api-abc-1"))
		}
	})
}
