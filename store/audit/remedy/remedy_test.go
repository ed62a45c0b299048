package remedy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

const category = "karpenter.k8s.aws/instance-category"

func requires(key string, operator corev1.NodeSelectorOperator, values ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator, Values: values})
	}
}

func limits(pairs ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Limits = karpv1.Limits(pt.Resources(pairs...)) }
}

func tainted(p *karpv1.NodePool) {
	p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
}

// The smallest change that gives a pod a place, as proven by planning with it. Prices and sizes are those of
// plannertest.Types.
func TestTheSmallestChange(t *testing.T) {
	large := pt.Requests("cpu", "1", "memory", "14Gi")
	for about, tc := range map[string]struct {
		pools []any
		pod   []func(*corev1.Pod)
		want  []string
		fits  bool
	}{
		"nothing": {[]any{pt.Pool("p")}, nil, nil, true},
		"a category": {[]any{pt.Pool("p", requires(category, corev1.NodeSelectorOpIn, "c", "t"))}, []func(*corev1.Pod){large},
			[]string{"let NodePool p have " + category + " r too (it names c, t): it would run on r5.large spot in us-west-2a"}, false},
		"one that is excluded": {[]any{pt.Pool("p", requires("kubernetes.io/arch", corev1.NodeSelectorOpIn, "amd64"), requires(category, corev1.NodeSelectorOpNotIn, "m", "r"))}, []func(*corev1.Pod){large},
			[]string{"let NodePool p have " + category + " r too (it names m, r): it would run on r5.large spot in us-west-2a"}, false},
		"a limit": {[]any{pt.Pool("p", limits("cpu", "3"), requires(category, corev1.NodeSelectorOpIn, "c"))}, []func(*corev1.Pod){pt.Requests("cpu", "3")},
			[]string{"raise limits.cpu of NodePool p by 1, to 4: it would run on c5.xlarge spot in us-west-2a"}, false},
		"a limit of nodes": {[]any{pt.Pool("p", limits("nodes", "0"))}, nil,
			[]string{"raise limits.nodes of NodePool p by 1, to 1: it would run on t3.small spot in us-west-2a"}, false},
		"a taint": {[]any{pt.Pool("p", tainted)}, nil, []string{"let the pod tolerate the taint team=a:NoSchedule of NodePool p: it would run on t3.small spot in us-west-2a"}, false},
		"a selector": {[]any{pt.Pool("p")}, []func(*corev1.Pod){pt.Selector("team", "b")},
			[]string{"drop nodeSelector team=b of the pod: it would run on t3.small spot in us-west-2a"}, false},
		"a zone of the NodePool, or the pod's": {[]any{pt.Pool("p", requires(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "us-west-2a"))}, []func(*corev1.Pod){pt.Selector(corev1.LabelTopologyZone, "us-west-2b")},
			[]string{"drop nodeSelector topology.kubernetes.io/zone=us-west-2b of the pod: it would run on t3.small spot in us-west-2a",
				"let NodePool p have topology.kubernetes.io/zone us-west-2b too (it names us-west-2a): it would run on t3.small spot in us-west-2b"}, false},
		"two, if one does not do": {[]any{pt.Pool("p", tainted, limits("cpu", "1"))}, nil,
			[]string{"let the pod tolerate the taint team=a:NoSchedule of NodePool p, and raise limits.cpu of NodePool p by 1, to 2: it would run on t3.small spot in us-west-2a"}, false},
		"none": {[]any{pt.Pool("p", limits("cpu", "100"))}, []func(*corev1.Pod){pt.Requests("cpu", "500")}, nil, false},
	} {
		t.Run(about, func(t *testing.T) {
			options := append([]func(*corev1.Pod){pt.Unschedulable(), pt.Requests("cpu", "1")}, tc.pod...)
			pod := pt.Pod("waits", options...)
			c := pt.New(append(append(pt.WithCatalogue(), tc.pools...), pod, pt.Pod("another", pt.Unschedulable(), pt.Requests("cpu", "7")))...)
			s := c.Snapshot()
			_, before := provision.Plan(s)
			found := Of(s, pod.UID, nil)
			var got []string
			for i := range found.Remedies {
				got = append(got, found.Remedies[i].Text())
			}
			if !slices.Equal(got, tc.want) || found.Fits != tc.fits || found.Cut {
				t.Errorf("fits %v, cut %v, remedies\n%s\nwant\n%s", found.Fits, found.Cut, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if _, after := provision.Plan(c.Snapshot()); len(after.Verdicts) != len(before.Verdicts) || after.Refused != before.Refused {
				t.Errorf("the cluster has changed: %d refused, were %d", after.Refused, before.Refused)
			}
		})
	}
}

func TestNothingIsSoughtForOthersAndWithoutTime(t *testing.T) {
	running := pt.Pod("runs", pt.On("a"))
	waits := pt.Pod("waits", pt.Unschedulable(), pt.Selector("team", "b"))
	c := pt.New(append(pt.WithCatalogue(), pt.Pool("p"), pt.Node("a"), running, waits)...)
	for _, uid := range []string{"nobody", string(running.UID)} {
		if found := Of(c.Snapshot(), pt.Pod(uid).UID, nil); found.Fits || len(found.Remedies) > 0 {
			t.Errorf("%s: %+v", uid, found)
		}
	}
	if found := Of(c.Snapshot(), running.UID, nil); found.Fits || len(found.Remedies) > 0 {
		t.Errorf("%+v", found)
	}
	if found := Of(c.Snapshot(), waits.UID, func() bool { return true }); !found.Cut || len(found.Remedies) > 0 {
		t.Errorf("%+v", found)
	}
}
