package disruptor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/disruptor"
	"millwright/services/internal/host/hosttest"
)

// The rules: disruption §2, §9.
func TestPodsAreToldOfTheirProtection(t *testing.T) {
	run(t, ledger.ModeActive, func(r *hosttest.Rig, s *disruptor.Service) {
		pod := func(name, value string, options ...func(*corev1.Pod)) {
			r.Kube.Put(plannertest.Pod(name, append(options, plannertest.On("empty"), plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, value))...))
		}
		pod("ever", "true")
		pod("timed", "1m")
		pod("false", "false")
		pod("negative", "-5m")
		pod("long", strings.Repeat("x", 2000))
		pod("gone", "false", plannertest.Deleting(plannertest.Start.Add(time.Hour)))
		r.Settle(s, 5*time.Second)
		until := plannertest.Start.Add(time.Minute).UTC().Format(time.RFC3339)
		want := []string{
			"Pod/timed DoNotDisruptUntil: The karpenter.sh/do-not-disrupt grace period will elapse at " + until,
			`Pod/false InvalidDoNotDisruptAnnotation: Invalid karpenter.sh/do-not-disrupt annotation: time: invalid duration "false", ignoring annotation`,
			`Pod/negative InvalidDoNotDisruptAnnotation: Invalid karpenter.sh/do-not-disrupt annotation: duration "-5m" is not positive, ignoring annotation`,
		}
		told(t, r, want...)
		r.Settle(s, time.Minute)
		told(t, r, append(want, "Pod/timed DoNotDisruptGracePeriodElapsed: The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable")...)
	})
}

// told demands these events of pods, and one more that is not too long.
func told(t *testing.T, r *hosttest.Rig, want ...string) {
	t.Helper()
	var got []string
	for _, e := range r.Events {
		if strings.HasPrefix(e, "Pod/long InvalidDoNotDisruptAnnotation: ") && len(e) < 500 {
			e = "long"
		}
		if !strings.HasPrefix(e, "Node") {
			got = append(got, e)
		}
	}
	want = append(slices.Clone(want), "long")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
