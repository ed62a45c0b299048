package world_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	pt "millwright/planner/plannertest"
)

// What no planner reads is no reason to look again, and pods that have a node are distinguished.
func TestRevisionsRiseWithWhatPlannersRead(t *testing.T) {
	version := func(v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.ResourceVersion = v } }
	ready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	c := pt.New(pt.Node("n"), pt.Pod("bound", pt.On("n")), pt.Pod("waits", pt.Unschedulable()))
	for _, x := range []struct {
		what             string
		do               func()
		changes, unbound bool
	}{
		{"a heartbeat", c.Beat, false, false},
		{"another resourceVersion of a pod with a node", func() { c.See(pt.Pod("bound", pt.On("n"), version("2"))) }, false, false},
		{"another resourceVersion of a pod that waits", func() { c.See(pt.Pod("waits", pt.Unschedulable(), version("2"))) }, false, false},
		{"a pod that is not ready any more", func() { c.See(pt.Pod("bound", pt.On("n"), ready)) }, true, false},
		{"other requests", func() { c.See(pt.Pod("bound", pt.On("n"), pt.Requests("cpu", "2"))) }, true, false},
		{"a pod that begins on a node", func() { c.See(pt.Pod("static", pt.On("n"))) }, true, false},
		{"a pod that is gone", func() { c.Gone(pt.Pod("static", pt.On("n"))) }, true, false},
		{"a pod that waits", func() { c.See(pt.Pod("new", pt.Unschedulable())) }, true, true},
		{"one that waits no more", func() { c.See(pt.Pod("new", pt.On("n"))) }, true, true},
		{"one that is gone while it waits", func() { c.Gone(pt.Pod("waits")) }, true, true},
		{"a Node", func() { c.See(pt.Node("n")) }, true, true},
		{"a NodePool", func() { c.See(pt.Pool("p")) }, true, true},
		{"a resync", func() { c.Resync(pt.Node("n")) }, true, true},
	} {
		all, unbound := c.World.Revision(), c.World.UnboundRevision()
		x.do()
		if got := c.World.Revision() != all; got != x.changes {
			t.Errorf("%s: Revision rises: %v, want %v", x.what, got, x.changes)
		}
		if got := c.World.UnboundRevision() != unbound; got != x.unbound {
			t.Errorf("%s: UnboundRevision rises: %v, want %v", x.what, got, x.unbound)
		}
	}
}
