package workload

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	// settledLists is how many different lists of instance types the claims were planned with.
	settledLists = 40
)

// Settled is a cluster that needs no changes: full nodes of one NodePool with their NodeClaims, and
// so many pods on each, of 500 workloads; some have spread, affinity or a PodDisruptionBudget. Objects have
// names, labels and parts as in real clusters. since is when all of it came to be.
func Settled(nodes, podsPerNode int, since time.Time) *Problem {
	p := &Problem{Catalogue: RealTypes(0)}
	pool := General("default")
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	pool.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(30 * time.Second)
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}}
	Require(pool, karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "on-demand")
	p.addObjects(pool)
	kind, plans := settledType(p.Catalogue), settledPlans(p.Catalogue)
	for i := range settledBudgets {
		p.addObjects(settledBudget(i, nodes*podsPerNode/settledApps))
	}
	for i := range nodes {
		p.addObjects(settledNode(kind, i, since), settledClaim(kind, plans[i%len(plans)], i, since))
		for j := range podsPerNode {
			p.addObjects(SettledPod(i, j, podsPerNode, since))
		}
	}
	return p
}

// SettledNode is the name of the i-th node of Settled.
func SettledNode(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.us-west-2.compute.internal", i>>16, i>>8&255, i&255)
}

// settledPlans are lists of up to 600 instance types, as claims are planned with: by name, beginning with
// different ones.
func settledPlans(c Catalogue) (plans [][]string) {
	var names []string
	for _, t := range c.Types.InstanceTypes {
		if t.Requirements[corev1.LabelArchStable][0] == "amd64" {
			names = append(names, t.Name)
		}
	}
	most := min(600, len(names)-settledLists)
	for i := range settledLists {
		plans = append(plans, slices.Sorted(slices.Values(names[i:i+most])))
	}
	return plans
}

// settledType is the cheapest type of the pool that has 16 CPU and 64 GiB: no other type saves anything.
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

func settledZone(i int) string { return fmt.Sprintf("us-west-2%c", 'a'+i%3) }

func settledLabels(kind string, i int) map[string]string {
	return map[string]string{
		corev1.LabelTopologyZone: settledZone(i), corev1.LabelInstanceTypeStable: kind, corev1.LabelTopologyRegion: "us-west-2",
		karpv1.CapacityTypeLabelKey: "on-demand", karpv1.NodePoolLabelKey: "default", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		"topology.k8s.aws/zone-id": fmt.Sprint("usw2-az", 1+i%3), "karpenter.k8s.aws/ec2nodeclass": NodeClass,
		awsv1.LabelInstanceCategory: kind[:1], awsv1.LabelInstanceGeneration: "5", "karpenter.k8s.aws/instance-family": kind[:2],
		"karpenter.k8s.aws/instance-size": "4xlarge", "karpenter.k8s.aws/instance-cpu": "16", "karpenter.k8s.aws/instance-cpu-manufacturer": "intel",
		"karpenter.k8s.aws/instance-memory": "65536", "karpenter.k8s.aws/instance-hypervisor": "nitro", "karpenter.k8s.aws/instance-ebs-bandwidth": "4750",
		"karpenter.k8s.aws/instance-network-bandwidth": "5000", "karpenter.k8s.aws/instance-encryption-in-transit-supported": "true",
		"team": fmt.Sprint("team-", i%20), "env": "production",
	}
}

// settledAnnotations are those of a NodeClaim and of its node.
func settledAnnotations() map[string]string {
	return map[string]string{
		karpv1.NodePoolHashAnnotationKey: "8372610193847561029", karpv1.NodePoolHashVersionAnnotationKey: "v3",
		"karpenter.k8s.aws/ec2nodeclass-hash": "1723645098127364501", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
	}
}

func settledNode(kind string, i int, since time.Time) *corev1.Node {
	name, labels := SettledNode(i), settledLabels(kind, i)
	labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	labels[corev1.LabelHostname], labels["node.kubernetes.io/instance-type"] = name, kind
	amounts := map[string]string{"cpu": "15890m", "memory": "58Gi", "pods": "234", "ephemeral-storage": "95Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "0"}
	n := Node(name, amounts, labels)
	n.ResourceVersion, n.CreationTimestamp, n.Spec.ProviderID = "1", metav1.NewTime(since), settledProviderID(i)
	n.Finalizers, n.Annotations = []string{karpv1.TerminationFinalizer}, settledAnnotations()
	n.Annotations["csi.volume.kubernetes.io/nodeid"] = fmt.Sprintf(`{"ebs.csi.aws.com":"i-%017x"}`, i)
	n.Annotations["node.alpha.kubernetes.io/ttl"] = "0"
	n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: settledClaimName(i), UID: settledClaimUID(i)}}
	n.Status.Conditions = nil
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		c := corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.NewTime(since),
			Reason: "KubeletHas" + string(t), Message: "kubelet reports on " + string(t)}
		if t == corev1.NodeReady {
			c.Status = corev1.ConditionTrue
		}
		n.Status.Conditions = append(n.Status.Conditions, c)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: name}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3-eks-1a2b3c4", OSImage: "Amazon Linux 2023", ContainerRuntimeVersion: "containerd://2.1.4"}
	for image := range 40 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/service-%03d@sha256:%064x", image, image)}, SizeBytes: 200 << 20})
	}
	return n
}

func settledProviderID(i int) string { return fmt.Sprintf("aws:///%s/i-%017x", settledZone(i), i) }

func settledClaimName(i int) string   { return fmt.Sprintf("default-%05x", i) }
func settledClaimUID(i int) types.UID { return uid('c', i) }
func uid(kind byte, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-%02x4b-4a5f-9c3e-%012x", i*2654435761&0xffffffff, kind, i))
}

// settledClaim is the i-th node's NodeClaim, as it was made of a plan with many types.
func settledClaim(kind string, types []string, i int, since time.Time) *karpv1.NodeClaim {
	at := metav1.NewTime(since)
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: settledClaimName(i), UID: settledClaimUID(i), ResourceVersion: "1", CreationTimestamp: at, Labels: settledLabels(kind, i),
		Finalizers: []string{karpv1.TerminationFinalizer}, Annotations: settledAnnotations(), Generation: 1,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "default", UID: "pool-default"}},
	}}
	c.Annotations[awsv1.TaggedAnnotationKey], c.Annotations[awsv1.ClusterNameTaggedAnnotationKey] = "true", "true"
	c.Spec.NodeClassRef = Pool("").Spec.Template.Spec.NodeClassRef
	c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: types},
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-west-2a", "us-west-2b", "us-west-2c"}},
	}
	c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("15600m"), "memory": resource.MustParse("45Gi"), "pods": resource.MustParse("30")}
	c.Spec.ExpireAfter = karpv1.NewDuration(720 * time.Hour)
	c.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("60Gi"), "pods": resource.MustParse("234"), "ephemeral-storage": resource.MustParse("100Gi")}
	c.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("15890m"), "memory": resource.MustParse("58Gi"), "pods": resource.MustParse("234"), "ephemeral-storage": resource.MustParse("95Gi")}
	c.Status.LastPodEventTime, c.Status.ImageID = at, "ami-0abcdef1234567890"
	c.Status.NodeName, c.Status.ProviderID = SettledNode(i), settledProviderID(i)
	for _, t := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsolidatable, karpv1.ConditionTypeReady} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: t, Status: metav1.ConditionTrue, Reason: t, LastTransitionTime: at, ObservedGeneration: 1})
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

// SettledPod is the j-th pod of the i-th node of Settled: running and ready. It has a proxy and a collector
// of logs beside its main container, and what the API server and controllers add.
func SettledPod(i, j, podsPerNode int, since time.Time) *corev1.Pod {
	n := i*podsPerNode + j
	app := n % settledApps
	service, version := fmt.Sprintf("service-%03d", app), fmt.Sprintf("1.%d.%d", app%40, app%7)
	pod := Pod(fmt.Sprintf("%s-5d4f8c7b9-%05x", service, n), "1m", "1")
	pod.UID, pod.GenerateName = uid('d', n), service+"-5d4f8c7b9-"
	pod.Labels = map[string]string{
		"app": fmt.Sprint(app), "pod-template-hash": "5d4f8c7b9", "app.kubernetes.io/name": service, "app.kubernetes.io/instance": service,
		"app.kubernetes.io/version": version, "app.kubernetes.io/managed-by": "Helm", "team": fmt.Sprint("team-", app%20), "env": "production",
	}
	pod.Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": fmt.Sprintf("%064x", app)}
	yes, owner := true, service+"-5d4f8c7b9"
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: uid('e', app), Controller: &yes, BlockOwnerDeletion: &yes}}
	pod.Spec = settledSpec(service, version, []string{"300m", "400m", "500m"}[j%3], []string{"832Mi", "1856Mi"}[j%2])
	group := map[string]string{"app": pod.Labels["app"], "pod-template-hash": pod.Labels["pod-template-hash"]}
	switch app % 9 {
	case 0:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone, 1000, corev1.DoNotSchedule, group)
	case 1:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname, 5, corev1.ScheduleAnyway, group)
	case 2:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelTopologyZone, group)}}}
	}
	on(pod, SettledNode(i))
	at := metav1.NewTime(since)
	pod.CreationTimestamp, pod.Status.StartTime, pod.ResourceVersion = at, &at, "1"
	pod.Status.PodIP, pod.Status.HostIP, pod.Status.QOSClass = "10.1.2.3", "10.0.0.1", corev1.PodQOSBurstable
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	return pod
}

// settledSpec is that of a service whose main container asks for cpu and memory.
func settledSpec(service, version, cpu, memory string) corev1.PodSpec {
	container := func(name, image, cpu, memory string) corev1.Container {
		asked := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		return corev1.Container{
			Name: name, Image: image, Resources: corev1.ResourceRequirements{Requests: asked, Limits: corev1.ResourceList{"memory": asked["memory"]}},
			Env:          []corev1.EnvVar{{Name: "SERVICE", Value: service}, {Name: "LOG_LEVEL", Value: "info"}, {Name: "ENDPOINT", Value: "https://" + service + ".example.com"}},
			Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name}, {Name: "kube-api-access-x7x2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		}
	}
	grace, priority := int64(30), int32(0)
	return corev1.PodSpec{
		Containers: []corev1.Container{
			container("main", "registry.example.com/"+service+":"+version, cpu, memory),
			container("proxy", "registry.example.com/proxy:3.2.1", "100m", "128Mi"), container("logs", "registry.example.com/collector:0.9", "20m", "64Mi"),
		},
		InitContainers: []corev1.Container{container("migrate", "registry.example.com/"+service+":"+version, "50m", "64Mi")},
		RestartPolicy:  corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, Priority: &priority, ServiceAccountName: service,
		SchedulerName: corev1.DefaultSchedulerName, DNSPolicy: corev1.DNSClusterFirst,
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &grace},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &grace},
		},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: service}}}},
			{Name: "kube-api-access-x7x2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		},
	}
}
