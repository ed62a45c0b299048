package kube_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/kube"
	"millwright/tools/clustertest"
)

func nodeClaim(name string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{karpv1.TerminationFinalizer}, Annotations: map[string]string{karpv1.RecordAnnotationKey: "log/1"},
		},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: "kubernetes.io/arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}},
		},
	}
}

// await takes the notices of the informers until ok holds.
func await(t *testing.T, f *kube.Informers, what string, ok func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-f.Changed():
		case <-limit:
			t.Fatalf("the informers never showed: %s", what)
		}
	}
}

func TestObjectsOfARealAPIServer(t *testing.T) {
	cluster := clustertest.Start(t)
	client, err := kube.New(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	informers := kube.NewInformers(client)
	group.Go(func() { _ = informers.Run(ctx) })
	defer group.Wait()
	defer cancel()
	await(t, informers, "a first list", informers.Synced)

	made, err := client.CreateNodeClaim(ctx, nodeClaim("a"))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := client.CreateNodeClaim(ctx, nodeClaim("a")); !kube.IsAlreadyExists(err) {
		t.Errorf("second create: %v", err)
	}
	await(t, informers, "the new claim", func() bool { return informers.NodeClaim("a") != nil })

	t.Run("metadata and status are written apart, bound to the version", func(t *testing.T) {
		after := made.DeepCopy()
		after.Labels = map[string]string{"topology.kubernetes.io/zone": "eu-1a"}
		after.Annotations["more"] = "yes"
		written, err := client.UpdateNodeClaim(ctx, made, after)
		if err != nil {
			t.Fatalf("update: %v", err)
		}
		if written.Annotations[karpv1.RecordAnnotationKey] != "log/1" || written.Labels["topology.kubernetes.io/zone"] != "eu-1a" {
			t.Errorf("metadata = %+v", written.ObjectMeta)
		}
		if _, err := client.UpdateNodeClaim(ctx, made, nodeClaim("a")); !kube.IsConflict(err) {
			t.Errorf("a write on an old version: %v", err)
		}
		status := written.DeepCopy()
		status.Status.ProviderID = "aws:///eu-1a/i-1"
		status.Status.Conditions = []metav1.Condition{{
			Type: "Launched", Status: "True", Reason: "Launched", LastTransitionTime: metav1.NewTime(time.Unix(1_700_000_000, 0)), ObservedGeneration: 1,
		}}
		told, err := client.UpdateNodeClaimStatus(ctx, written, status)
		if err != nil {
			t.Fatalf("update status: %v", err)
		}
		if told.Status.ProviderID != "aws:///eu-1a/i-1" || len(told.Status.Conditions) != 1 {
			t.Errorf("status = %+v", told.Status)
		}
		same, err := client.UpdateNodeClaimStatus(ctx, told, told.DeepCopy())
		if err != nil || same.ResourceVersion != told.ResourceVersion {
			t.Errorf("an equal status was written: %v", err)
		}
		made = told
	})

	t.Run("a node is registered in one write and found by its provider id", func(t *testing.T) {
		n, err := client.Core.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-1a/i-1", Taints: []corev1.Taint{karpv1.UnregisteredTaint()}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		await(t, informers, "the node", func() bool { return len(informers.NodesByProviderID("aws:///eu-1a/i-1")) == 1 })
		var written *corev1.Node
		for range 10 { // kube-controller-manager writes on new nodes too
			after := n.DeepCopy()
			after.Spec.Taints = []corev1.Taint{{Key: "team", Value: "blue", Effect: corev1.TaintEffectNoSchedule}}
			after.Finalizers = append(after.Finalizers, karpv1.TerminationFinalizer)
			after.Labels = map[string]string{karpv1.NodeRegisteredLabelKey: "true"}
			if written, err = client.UpdateNode(ctx, n, after); !kube.IsConflict(err) {
				break
			}
			if n, err = client.Node(ctx, "n"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || len(written.Spec.Taints) != 1 || written.Spec.ProviderID == "" || len(written.Finalizers) != 1 {
			t.Fatalf("node = %+v, %v", written, err)
		}
		if nodes := informers.NodesByProviderID(""); len(nodes) != 0 {
			t.Errorf("nodes without provider id: %v", nodes)
		}
	})

	t.Run("deletion waits for the finalizer and is bound to the UID", func(t *testing.T) {
		if err := client.DeleteNodeClaim(ctx, "a", "another"); !kube.IsConflict(err) {
			t.Errorf("delete of another object: %v", err)
		}
		if err := client.DeleteNodeClaim(ctx, "a", made.UID); err != nil {
			t.Fatalf("delete: %v", err)
		}
		await(t, informers, "the deletion", func() bool { c := informers.NodeClaim("a"); return c != nil && !c.DeletionTimestamp.IsZero() })
		c := informers.NodeClaim("a")
		if len(c.ManagedFields) != 0 {
			t.Error("managed fields are kept in memory")
		}
		after := c.DeepCopy()
		after.Finalizers = nil
		if _, err := client.UpdateNodeClaim(ctx, c, after); err != nil {
			t.Fatalf("remove finalizer: %v", err)
		}
		if _, err := client.GetNodeClaim(ctx, "a"); !kube.IsNotFound(err) {
			t.Errorf("get after the end: %v", err)
		}
		await(t, informers, "the end", func() bool { return informers.NodeClaim("a") == nil })
		if _, err := client.UpdateNodeClaim(ctx, c, after); !kube.IsNotFound(err) && !kube.IsConflict(err) {
			t.Errorf("write after the end: %v", err)
		}
	})

	t.Run("lists are by name", func(t *testing.T) {
		for _, name := range []string{"z", "m", "b"} {
			if _, err := client.CreateNodeClaim(ctx, nodeClaim(name)); err != nil {
				t.Fatal(err)
			}
		}
		list, err := client.ListNodeClaims(ctx)
		if err != nil || len(list) != 3 || list[0].Name != "b" || list[2].Name != "z" {
			t.Errorf("list = %v, %v", list, err)
		}
		if pools, err := client.ListNodePools(ctx); err != nil || len(pools) != 0 {
			t.Errorf("pools = %v, %v", pools, err)
		}
	})
}
