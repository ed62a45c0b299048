package overview

import (
	"slices"
	"testing"

	karpv1 "millwright/api/karpenter/v1"
	pt "millwright/planner/plannertest"
)

func TestWhatWouldLetAPodRun(t *testing.T) {
	c := pt.New(append(pt.WithCatalogue(), pt.Pool("p", func(p *karpv1.NodePool) { p.Spec.Limits = karpv1.Limits(pt.Resources("cpu", "0")) }),
		pt.Pod("waits", pt.Unschedulable(), pt.Requests("cpu", "1")), pt.Pod("never", pt.Unschedulable(), pt.Requests("cpu", "900")), pt.Pod("young"))...)
	raised := "now: to let it run, raise limits.cpu of NodePool p by 2, to 2: it would run on t3.small spot in us-west-2a at $0.0083/h"
	for pod, want := range map[string][]string{
		"waits": {raised}, "default/waits": {raised}, "nobody": nil, "never": {"now: neither one change nor two of a NodePool or of the pod would let it run"},
	} {
		if got := PodWaits(c.Snapshot(), pod, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pod, got, want)
		}
	}
	if got := PodWaits(c.Snapshot(), "never", func() bool { return true }); !slices.Equal(got, []string{"now: not every change was tried, for want of time"}) {
		t.Errorf("%q", got)
	}
}
