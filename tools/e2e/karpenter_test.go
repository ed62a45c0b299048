package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

// release describes a version of Karpenter by the objects it leaves (reference: api §2.1, §4; lifecycle §1,
// §2).
type release struct {
	// pool is the name of its NodePool and EC2NodeClass.
	pool string
	// classHash is the version of the hash of EC2NodeClasses. NodePools have v3 in all of them.
	classHash string
	// classLabel: claims and Nodes carry the label of their NodeClass. generations: conditions carry the
	// generation that they observed.
	classLabel, generations bool
	claimAnnotations        map[string]string
	claimLabels, nodeLabels map[string]string
}

var releases = []release{
	{pool: "from-1-0", classHash: "v3", claimAnnotations: map[string]string{"compatibility.karpenter.k8s.aws/kubelet-drift-hash": "15379597991425564585"}},
	{pool: "from-1-6", classHash: "v4", classLabel: true, generations: true, nodeLabels: map[string]string{"karpenter.sh/do-not-sync-taints": "true"}},
	{pool: "from-1-14", classHash: "v5", classLabel: true, generations: true, nodeLabels: map[string]string{"karpenter.sh/do-not-sync-taints": "true"},
		claimLabels:      map[string]string{"karpenter.k8s.aws/instance-tenancy": "default"},
		claimAnnotations: map[string]string{"karpenter.k8s.aws/instance-profile-name": "demo_1234"}},
}

// hashes are the annotations that this release of Karpenter puts on the NodePool and the EC2NodeClass. What
// 1.0 computes is not known.
func (k *karpenter) hashes(r release) (ofPool, ofClass map[string]string) {
	k.Helper()
	var pool karpv1.NodePool
	var class awsv1.EC2NodeClass
	for gvr, into := range map[schema.GroupVersionResource]any{nodePools: &pool, nodeClasses: &class} {
		o, err := k.dyn.Resource(gvr).Get(k.Context(), r.pool, metav1.GetOptions{})
		if err != nil {
			k.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			k.Fatal(err)
		}
	}
	classHash := drifthash.NodeClass(r.classHash, &class.Spec, "AL2023", "")
	if classHash == "" {
		classHash = "2923284124402021938"
	}
	return map[string]string{"karpenter.sh/nodepool-hash": drifthash.NodePool(pool.Spec.Template), "karpenter.sh/nodepool-hash-version": "v3"},
		map[string]string{"karpenter.k8s.aws/ec2nodeclass-hash": classHash, "karpenter.k8s.aws/ec2nodeclass-hash-version": r.classHash}
}

// karpenter makes a cluster look as the releases of Karpenter leave it.
type karpenter struct {
	*env
	aws      *awsec2.Client
	defaults simclient.Defaults
	image    string
}

func newKarpenter(e *env) *karpenter {
	e.Helper()
	cfg := aws.Config{Region: stack.Region, BaseEndpoint: aws.String(e.stack.EC2Endpoint()),
		Credentials: aws.CredentialsProviderFunc(credentials)}
	defaults, err := e.ec2.Defaults(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	name := "/aws/service/eks/optimized-ami/" + defaults.KubernetesVersion + "/amazon-linux-2023/x86_64/standard/recommended/image_id"
	image, err := awsssm.NewFromConfig(cfg).GetParameter(e.Context(), &awsssm.GetParameterInput{Name: &name})
	if err != nil {
		e.Fatal(err)
	}
	return &karpenter{env: e, aws: awsec2.NewFromConfig(cfg), defaults: defaults, image: *image.Parameter.Value}
}

// pool creates a NodePool and an EC2NodeClass with Karpenter's hashes.
func (k *karpenter) pool(r release) {
	k.Helper()
	k.apply(strings.Replace(defaultClass, "name: default", "name: "+r.pool, 1))
	k.apply(strings.NewReplacer("name: default", "name: "+r.pool, "consolidateAfter: 1s", "consolidateAfter: Never").Replace(defaultPool))
	ofPool, ofClass := k.hashes(r)
	k.patch(nodePools.Resource, r.pool, map[string]any{"metadata": map[string]any{"annotations": ofPool}})
	k.patch(nodeClasses.Resource, r.pool, map[string]any{"metadata": map[string]any{"finalizers": []string{"karpenter.k8s.aws/termination"}, "annotations": ofClass}})
}

func (k *karpenter) patch(resource, name string, patch map[string]any, subresources ...string) {
	k.Helper()
	gvr := nodePools
	switch resource {
	case nodeClasses.Resource:
		gvr = nodeClasses
	case claimsGVR.Resource:
		gvr = claimsGVR
	}
	data, err := json.Marshal(patch)
	if err != nil {
		k.Fatal(err)
	}
	if _, err := k.dyn.Resource(gvr).Patch(k.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...); err != nil {
		k.Fatalf("patch %s %s: %v", resource, name, err)
	}
}

// userData is what AL2023 nodes of a NodePool boot from.
func (k *karpenter) userData(r release) string {
	text := fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: 10.100.0.0/16
    name: %s
  kubelet:
    config:
      clusterDNS: [10.100.0.10]
      maxPods: 29
      registerWithTaints: [{effect: NoExecute, key: karpenter.sh/unregistered}]
    flags: ['--node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=%s"']
`, k.defaults.ClusterEndpoint, base64.StdEncoding.EncodeToString(k.stack.Config().CAData), stack.ClusterName, r.pool)
	mime := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: application/node.eks.aws\n\n" + text + "\n--//--\n"
	return base64.StdEncoding.EncodeToString([]byte(mime))
}

// launch makes an instance with the tags that Karpenter gives. It returns instance id and provider id.
func (k *karpenter) launch(r release, claim string) (id, providerID string) {
	k.Helper()
	zone := k.defaults.Zones[0]
	tags := map[string]string{
		"kubernetes.io/cluster/" + stack.ClusterName: "owned", "karpenter.sh/nodepool": r.pool, "karpenter.k8s.aws/ec2nodeclass": r.pool,
		"eks:eks-cluster-name": stack.ClusterName, "karpenter.sh/nodeclaim": claim,
	}
	spec := ec2types.TagSpecification{ResourceType: ec2types.ResourceTypeInstance}
	for key, value := range tags {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	out, err := k.aws.RunInstances(k.Context(), &awsec2.RunInstancesInput{
		ImageId: &k.image, InstanceType: ec2types.InstanceTypeM5Large, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId: aws.String(k.defaults.Subnets[zone]), UserData: aws.String(k.userData(r)), SecurityGroupIds: k.defaults.SecurityGroups,
		TagSpecifications: []ec2types.TagSpecification{spec},
	})
	if err != nil {
		k.Fatal(err)
	}
	id = *out.Instances[0].InstanceId
	return id, "aws:///" + zone + "/" + id
}

// claim creates a NodeClaim as a release creates it; with a provider id it is launched already.
func (k *karpenter) claim(r release, name, providerID string) {
	k.Helper()
	owner, err := k.dyn.Resource(nodePools).Get(k.Context(), r.pool, metav1.GetOptions{})
	if err != nil {
		k.Fatal(err)
	}
	labels := map[string]string{"karpenter.sh/nodepool": r.pool, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
	annotations, ofClass := k.hashes(r)
	if r.classLabel {
		labels["karpenter.k8s.aws/ec2nodeclass"] = r.pool
	}
	if providerID != "" {
		maps.Copy(labels, map[string]string{"node.kubernetes.io/instance-type": "m5.large", "karpenter.sh/capacity-type": "on-demand",
			"topology.kubernetes.io/zone": k.defaults.Zones[0], "karpenter.k8s.aws/instance-family": "m5", "karpenter.k8s.aws/instance-category": "m",
			"karpenter.k8s.aws/instance-generation": "5"})
		maps.Copy(labels, r.claimLabels)
		maps.Copy(annotations, ofClass)
		maps.Copy(annotations, r.claimAnnotations)
	}
	object := map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
		"metadata": map[string]any{"name": name, "labels": labels, "annotations": annotations, "finalizers": []string{"karpenter.sh/termination"},
			"ownerReferences": []map[string]any{{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": r.pool, "uid": owner.GetUID(), "blockOwnerDeletion": true}}},
		"spec": map[string]any{"expireAfter": "720h", "nodeClassRef": map[string]string{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": r.pool},
			"requirements": []map[string]any{{"key": "karpenter.sh/nodepool", "operator": "In", "values": []string{r.pool}},
				{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []string{"m5.large", "m5.xlarge"}}},
			"resources": map[string]any{"requests": map[string]string{"cpu": "1", "memory": "1Gi"}}},
	}
	data, err := json.Marshal(object)
	if err != nil {
		k.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		k.Fatal(err)
	}
	if _, err := k.dyn.Resource(claimsGVR).Create(k.Context(), u, metav1.CreateOptions{}); err != nil {
		k.Fatalf("create nodeclaim %s: %v", name, err)
	}
	if providerID != "" {
		k.status(r, name, map[string]any{"providerID": providerID, "imageID": k.image,
			"capacity": map[string]string{"cpu": "2", "memory": "7577Mi", "pods": "29"}, "allocatable": map[string]string{"cpu": "1930m", "memory": "6903Mi", "pods": "29"}}, "Launched")
	}
}

// status writes the status of a claim with conditions that are True.
func (k *karpenter) status(r release, name string, status map[string]any, conditions ...string) {
	k.Helper()
	var list []map[string]any
	for _, c := range conditions {
		entry := map[string]any{"type": c, "status": "True", "reason": c, "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
		if r.generations {
			entry["observedGeneration"] = 1
		}
		list = append(list, entry)
	}
	status["conditions"] = list
	k.patch(claimsGVR.Resource, name, map[string]any{"status": status}, "status")
}

// joined waits until the instance has booted, and returns its Node.
func (k *karpenter) joined(providerID string) *corev1.Node {
	k.Helper()
	var found *corev1.Node
	k.eventually("node of "+providerID, func() string {
		list, err := k.kube.CoreV1().Nodes().List(k.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if list.Items[i].Spec.ProviderID == providerID {
				found = &list.Items[i]
				return ""
			}
		}
		return fmt.Sprintf("%d nodes", len(list.Items))
	})
	return found
}

// register does what registration and initialization would do.
func (k *karpenter) register(r release, claim, providerID string) {
	k.Helper()
	object, err := k.dyn.Resource(claimsGVR).Get(k.Context(), claim, metav1.GetOptions{})
	if err != nil {
		k.Fatal(err)
	}
	n := k.joined(providerID)
	labels := map[string]string{"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
	maps.Copy(labels, object.GetLabels())
	maps.Copy(labels, r.nodeLabels)
	block := true
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": object.GetAnnotations(), "finalizers": []string{"karpenter.sh/termination"},
			"ownerReferences": []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim, UID: object.GetUID(), BlockOwnerDeletion: &block}}},
		"spec": map[string]any{"taints": nil},
	})
	if err != nil {
		k.Fatal(err)
	}
	if _, err := k.kube.CoreV1().Nodes().Patch(k.Context(), n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		k.Fatal(err)
	}
	k.status(r, claim, map[string]any{"nodeName": n.Name}, "Initialized", "Launched", "Ready", "Registered")
	k.patch(claimsGVR.Resource, claim, map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		"karpenter.k8s.aws/tagged": "true", "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true"}}})
}

const leaseName, leaseNamespace = "karpenter-leader-election", "kube-system"

// lead makes a replica of Karpenter the holder of the Lease; with "" nobody holds it.
func (k *karpenter) lead(identity string) {
	k.Helper()
	leases := k.kube.CoordinationV1().Leases(leaseNamespace)
	seconds, now := int32(15), metav1.NewMicroTime(time.Now())
	spec := coordinationv1.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}
	k.retry("write lease", func() error {
		have, err := leases.Get(k.Context(), leaseName, metav1.GetOptions{})
		if err != nil {
			_, err = leases.Create(k.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: spec}, metav1.CreateOptions{})
			return err
		}
		have.Spec = spec
		_, err = leases.Update(k.Context(), have, metav1.UpdateOptions{})
		return err
	})
}

// leader is who holds the Lease.
func (k *karpenter) leader() string {
	k.Helper()
	l, err := k.kube.CoordinationV1().Leases(leaseNamespace).Get(k.Context(), leaseName, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		k.Fatalf("read lease: %v %v", l, err)
	}
	return *l.Spec.HolderIdentity
}
