package overview

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	pt "millwright/planner/plannertest"
)

// Why a node is not disrupted: each check of reference: disruption §2 that names a cause, and those of
// budgets, windows, policies and NodePools, is an answer, in the words of the reference where it has them.
func TestEveryReasonToStayIsAnAnswer(t *testing.T) {
	pool := func(options ...func(*karpv1.NodePool)) *karpv1.NodePool { return pt.Pool("p", options...) }
	claim := func(options ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		return pt.Claim("a-claim", "a", "p", options...)
	}
	node := func(options ...func(*corev1.Node)) *corev1.Node {
		return pt.Node("a", append([]func(*corev1.Node){pt.InPool("p")}, options...)...)
	}
	web := pt.Pod("web", pt.On("a"), pt.Labels("app", "web"), pt.Requests("cpu", "1"))
	for want, objects := range map[string][]any{
		"it has no NodeClaim": {pool(), node()},
		"Node isn't initialized": {pool(), claim(func(c *karpv1.NodeClaim) { c.Status.Conditions = c.Status.Conditions[:2] }), node(func(n *corev1.Node) {
			delete(n.Labels, karpv1.NodeInitializedLabelKey)
		})},
		"Node is deleting or marked for deletion": {pool(), claim(func(c *karpv1.NodeClaim) {
			now := metav1.NewTime(pt.Start)
			c.DeletionTimestamp = &now
		}), node()},
		"it bears the taint of another command": {pool(), claim(), node(pt.Tainted(karpv1.DisruptedTaint()))},
		`Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`: {pool(), claim(), node(func(n *corev1.Node) {
			n.Annotations = pt.Map(karpv1.DoNotDisruptAnnotationKey, "true")
		})},
		"Node doesn't have required label (label=karpenter.sh/nodepool)": {pool(), claim(func(c *karpv1.NodeClaim) { delete(c.Labels, karpv1.NodePoolLabelKey) }), node(func(n *corev1.Node) {
			delete(n.Labels, karpv1.NodePoolLabelKey)
		})},
		"NodePool not found (NodePool=p)":                {claim(), node()},
		"Node runs Millwright itself (Pod=default/self)": {pool(), claim(), node(), pt.Pod("self", pt.On("a"), pt.Labels("app.kubernetes.io/name", "millwright"))},
		`Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/keep)`: {pool(), claim(), node(), pt.Pod("keep", pt.On("a"),
			pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true"))},
		"Pdb prevents pod evictions (PodDisruptionBudget=[default/guard])": {pool(), claim(), node(), web, pt.PDB("default", "guard", 0, "app", "web")},
		"Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[default/one default/two])": {pool(), claim(), node(), web, pt.PDB("default", "one", 1, "app", "web"),
			pt.PDB("default", "two", 1, "app", "web")},
		"the disruption budget":                       {pool(pt.Budgets(karpv1.Budget{Nodes: "0"})), claim(), node()},
		"pods came or went within consolidateAfter":   {pool(pt.ConsolidateAfter("2h")), claim(), node()},
		"NodePool \"p\" has consolidation disabled":   {pool(pt.ConsolidateAfter(karpv1.Never)), claim(), node()},
		"its NodePool has a fixed number of replicas": {pool(func(p *karpv1.NodePool) { one := int64(1); p.Spec.Replicas = &one }), claim(), node()},
		"DisruptionPolicy \"held\"":                   {pool(), claim(), node(), pt.Policy("held", `pause: {until: "2030-01-01T00:00:00Z", reason: holidays}`)},
		"DisruptionPolicy \"nights\"":                 {pool(), claim(), node(), pt.Policy("nights", `windows: [{action: Allow, schedule: "0 3 1 1 *", duration: 1h}]`)},
		"DisruptionPolicy \"old\"":                    {pool(), claim(), node(), pt.Policy("old", `minNodeAge: 24h`)},
	} {
		got := NodeNow(pt.New(append(pt.WithCatalogue(), objects...)...).Snapshot(), "a")
		if !strings.Contains(strings.Join(got, "\n"), "stays: "+want) && !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("it lacks %q:\n%s", want, strings.Join(got, "\n"))
		}
	}
}
