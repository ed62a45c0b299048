package events

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// benchPod is a trimmed pod of a Deployment: about 1 KiB encoded.
func benchPod() *corev1.Pod {
	quantities := corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("512Mi")}
	labels := map[string]string{}
	for i := range 6 {
		labels[fmt.Sprintf("app.kubernetes.io/label-%d", i)] = fmt.Sprintf("some-value-of-label-%d", i)
	}
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-7d9f8c6b5d-abcde", Namespace: "production", UID: "3f1e4c3a-0000-4000-8000-000000000001",
			ResourceVersion: "123456789", CreationTimestamp: metav1.Unix(1.7e9, 0), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d9f8c6b5d", UID: "3f1e4c3a-0000-4000-8000-000000000002", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "web", Resources: corev1.ResourceRequirements{Requests: quantities, Limits: quantities}},
				{Name: "proxy", Resources: corev1.ResourceRequirements{Requests: quantities}},
			},
			NodeSelector: map[string]string{"kubernetes.io/arch": "amd64"}, SchedulerName: "default-scheduler",
			Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: "Equal", Value: "web", Effect: "NoSchedule"}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "DoNotSchedule",
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/label-0": "some-value-of-label-0"}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: metav1.Unix(1.7e9, 0),
			Message: "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found.",
		}}},
	}
}

func BenchmarkEncodePod(b *testing.B) {
	o := upsert(KindPod, benchPod())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePod(b *testing.B) {
	data, err := Encode(upsert(KindPod, benchPod()))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
