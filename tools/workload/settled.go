package workload

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

const (
	settledApps = 500
	// settledBudgets are the workloads with a PodDisruptionBudget.
	settledBudgets = 100
)

// Settled is a cluster in which nothing is to be done: full nodes of one NodePool with their NodeClaims, and so many pods on each, of 500
// workloads; some have spread, affinity or a PodDisruptionBudget. since is when all of it came to be.
func Settled(nodes, podsPerNode int, since time.Time) *Problem {
	p := &Problem{Catalogue: RealTypes(0)}
	pool := General("default")
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	pool.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(30 * time.Second)
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}}
	Require(pool, karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "on-demand")
	p.add(pool)
	kind := settledType(p.Catalogue)
	for i := range settledBudgets {
		p.add(settledBudget(i, nodes*podsPerNode/settledApps))
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		p.add(settledNode(name, kind, i), settledClaim(name, kind, i, since))
		for j := range podsPerNode {
			p.add(SettledPod(i, j, podsPerNode, since))
		}
	}
	return p
}

// settledType is the cheapest type of the pool that has 16 CPU and 64 GiB: nothing is saved by another one.
func settledType(c Catalogue) (best string) {
	prices := map[string]int64{}
	for _, e := range c.Prices.Entries {
		if e.CapacityType == karpv1.CapacityTypeOnDemand {
			prices[e.InstanceType] = e.MicroUSDPerHour
		}
	}
	for _, t := range c.Types.InstanceTypes {
		fits := t.Capacity["cpu"] >= 16_000 && t.Capacity["memory"] >= 58<<30 && t.Requirements[corev1.LabelArchStable][0] == "amd64" &&
			slices.Contains([]string{"c", "m", "r"}, t.Requirements[awsv1.LabelInstanceCategory][0]) && t.Requirements[awsv1.LabelInstanceGeneration][0] > "2"
		if price := prices[t.Name]; fits && price > 0 && (best == "" || price < prices[best]) {
			best = t.Name
		}
	}
	return best
}

func settledLabels(kind string, i int) map[string]string {
	return map[string]string{
		corev1.LabelTopologyZone: fmt.Sprintf("us-west-2%c", 'a'+i%3), corev1.LabelInstanceTypeStable: kind,
		karpv1.CapacityTypeLabelKey: "on-demand", karpv1.NodePoolLabelKey: "default", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	}
}

func settledNode(name, kind string, i int) *corev1.Node {
	labels := settledLabels(kind, i)
	labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	n := Node(name, map[string]string{"cpu": "15890m", "memory": "58Gi", "pods": "234"}, labels)
	n.ResourceVersion = "1"
	return n
}

// settledClaim is the NodeClaim "<node>-claim".
func settledClaim(node, kind string, i int, since time.Time) *karpv1.NodeClaim {
	at := metav1.NewTime(since)
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: node + "-claim", UID: types.UID("claim-" + node), ResourceVersion: "1", CreationTimestamp: at, Labels: settledLabels(kind, i),
		Finalizers: []string{karpv1.TerminationFinalizer},
	}}
	c.Spec.NodeClassRef = Pool("").Spec.Template.Spec.NodeClassRef
	c.Status.LastPodEventTime = at
	c.Status.NodeName, c.Status.ProviderID = node, "aws:///zone-1/i-"+node
	for _, t := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: t, Status: metav1.ConditionTrue, Reason: t, LastTransitionTime: at})
	}
	return c
}

func settledBudget(app, replicas int) *policyv1.PodDisruptionBudget {
	most := intstr.FromString("10%")
	name := fmt.Sprintf("app-%03d", app)
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pdb-" + name), ResourceVersion: "1"}}
	b.Spec.Selector, b.Spec.MaxUnavailable = selector(map[string]string{"app": fmt.Sprint(app)}), &most
	b.Status.DisruptionsAllowed = int32(replicas / 10)
	return b
}

// SettledPod is the j-th pod of the i-th node of Settled: running and ready.
func SettledPod(i, j, podsPerNode int, since time.Time) *corev1.Pod {
	app := (i*podsPerNode + j) % settledApps
	pod := Pod(fmt.Sprintf("pod-%05d-%02d", i, j), []string{"420m", "520m", "620m"}[j%3], []string{"1Gi", "2Gi"}[j%2])
	pod.Labels = map[string]string{"app": fmt.Sprint(app), "pod-template-hash": "5d4f8c7b9"}
	yes, owner := true, fmt.Sprintf("app-%03d-5d4f8c7b9", app)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &yes}}
	switch app % 9 {
	case 0:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone, 1000, corev1.DoNotSchedule, pod.Labels)
	case 1:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname, 5, corev1.ScheduleAnyway, pod.Labels)
	case 2:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelTopologyZone, pod.Labels)}}}
	}
	on(pod, fmt.Sprintf("node-%05d", i))
	at := metav1.NewTime(since)
	pod.CreationTimestamp, pod.Status.StartTime, pod.ResourceVersion = at, &at, "1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}
