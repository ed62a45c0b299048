package stay_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/stay"
	pt "millwright/planner/plannertest"
)

// cluster has two nodes of m5.xlarge, a with the pods given, quiet for an hour.
func cluster(options ...func(*karpv1.NodePool)) *pt.Cluster {
	c := pt.New(append(pt.WithCatalogue(), pt.Pool("p", options...))...)
	for _, n := range []string{"a", "b"} {
		c.AddNode(n, "p")
		c.See(pt.Node(n, pt.InPool("p"), func(o *corev1.Node) {
			o.Labels[corev1.LabelInstanceTypeStable], o.Labels[karpv1.CapacityTypeLabelKey] = "m5.xlarge", karpv1.CapacityTypeOnDemand
		}))
	}
	return c
}

func causes(x *stay.Stay) string {
	var list []string
	for _, b := range x.Blockers {
		list = append(list, string(b.Cause))
	}
	return strings.Join(list, " ")
}

// All that keeps a node is named, not only the first, and since when it does.
// The rules: disruption §2.
func TestEveryBlockerIsNamed(t *testing.T) {
	c := cluster(pt.ConsolidateAfter("2h"), pt.Budgets(karpv1.Budget{Nodes: "0"}))
	began := pt.Start.Add(10 * time.Minute)
	pdb := pt.PDB("default", "guard", 0, "app", "web")
	pdb.Status.Conditions = []metav1.Condition{{Type: "DisruptionAllowed", Status: "False", Reason: "InsufficientPods", LastTransitionTime: metav1.NewTime(began)}}
	c.See(pdb, pt.Pod("safe", pt.On("a"), pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")), pt.Pod("web", pt.On("a"), pt.Labels("app", "web"), pt.Requests("cpu", "500m")),
		pt.Policy("calm", `pause: {until: "2030-01-01T00:00:00Z", reason: holidays}`))
	c.Advance(time.Hour)
	x := stay.Of(c.Snapshot(), "a")
	if got := causes(x); got != "pod-do-not-disrupt pdb not-quiet paused budget" {
		t.Errorf("kept by %s", got)
	}
	for _, b := range x.Blockers {
		switch b.Cause {
		case disrupt.CausePDB:
			if !b.Since.Equal(began) {
				t.Errorf("the budget holds since %v, want %v", b.Since, began)
			}
		case disrupt.CauseNotQuiet:
			if b.Since.IsZero() || b.Until.Sub(b.Since) != 2*time.Hour {
				t.Errorf("quiet from %v until %v", b.Since, b.Until)
			}
		}
	}
	if x.Pods != 2 || x.Requests.MilliCPU != 600 || x.MicroUSDPerHour != 192000 {
		t.Errorf("%d pods want %d m of CPU, at %d", x.Pods, x.Requests.MilliCPU, x.MicroUSDPerHour)
	}
	if stay.Of(c.Snapshot(), "nobody") != nil {
		t.Error("a node that is not there is explained")
	}
}

// Where a policy wants surge it is said why a PodDisruptionBudget keeps the node nevertheless, and of no
// other blocker. The rules: disruption §4.1.
func TestSurgeDoesNotHelpAgainstABudget(t *testing.T) {
	for _, x := range []struct{ policy, want string }{
		{`surge: {}`, `surge of DisruptionPolicy "first" begins once a command has taken the node, and none takes it while the budget allows no eviction`},
		{`minNodeAge: 1m`, ""},
		{"nodePoolSelector: {matchLabels: {of: others}}\nsurge: {}", ""},
	} {
		c := cluster(pt.Budgets(karpv1.Budget{Nodes: "0"}))
		c.See(pt.PDB("default", "guard", 0, "app", "web"), pt.Pod("web", pt.On("a"), pt.Labels("app", "web")), pt.Policy("first", x.policy))
		c.Advance(time.Hour)
		got := stay.Of(c.Snapshot(), "a")
		if causes(got) != "pdb budget" {
			t.Errorf("kept by %s", causes(got))
		}
		for _, b := range got.Blockers {
			if want := x.want; b.Cause == disrupt.CausePDB && b.Note != want || b.Cause != disrupt.CausePDB && b.Note != "" {
				t.Errorf("%s: the note on %s is %q", x.policy, b.Cause, b.Note)
			}
		}
	}
}

// A node that nothing forbids to take stays for its price: the cheapest alternative, and by how much it
// fails. The rules: disruption §5.
func TestTheCheapestAlternative(t *testing.T) {
	full := []any{pt.Pod("x", pt.On("a"), pt.Requests("cpu", "3", "memory", "6Gi")), pt.Pod("y", pt.On("b"), pt.Requests("cpu", "3", "memory", "6Gi"))}
	onDemand := func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
			karpv1.NodeSelectorRequirementWithMinValues{Key: karpv1.CapacityTypeLabelKey, Operator: "In", Values: []string{karpv1.CapacityTypeOnDemand}})
	}
	only := func(types ...string) func(*karpv1.NodePool) {
		return func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
				karpv1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: types})
		}
	}
	c := cluster(onDemand, only("m5.xlarge"))
	c.See(full...)
	c.Advance(time.Hour)
	x := stay.Of(c.Snapshot(), "a")
	if causes(x) != "" || x.Without == nil || len(x.Without.Claims) != 1 || x.Without.Reason != "Can't replace with a cheaper node" {
		t.Fatalf("kept by %q, without it %+v", causes(x), x.Without)
	}
	if price, short := x.Instead(); price != 192000 || short != 3840 {
		t.Errorf("an alternative at %d, short by %d, want 192000 and 3840 (one part in 50)", price, short)
	}
	c = cluster(onDemand)
	c.See(pt.Pod("x", pt.On("a"), pt.Requests("cpu", "100m")), full[1])
	c.Advance(time.Hour)
	if x = stay.Of(c.Snapshot(), "a"); x.Without.Elsewhere != 1 || len(x.Without.Claims) > 0 {
		t.Errorf("a's pod fits on b: %+v", x.Without)
	}
}

// A pod that nothing can take is named with the reason.
func TestAPodWithoutAnotherPlace(t *testing.T) {
	c := cluster()
	c.See(pt.Pod("here", pt.On("a"), pt.Selector(corev1.LabelHostname, "a")))
	c.Advance(time.Hour)
	x := stay.Of(c.Snapshot(), "a")
	if x.Without == nil || len(x.Without.Unplaced) != 1 || !strings.HasPrefix(x.Without.Unplaced[0], "default/here: ") {
		t.Errorf("without it: %+v", x.Without)
	}
}
