package plan

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
)

// workloads that stand for pods, and for how many they may stand, with the nodes of static NodePools.
type workloads struct{ left, most int }

func newWorkloads(c Config) *workloads {
	if !c.Workloads {
		return nil
	}
	most := cmp.Or(c.PodsMost, PodsMostDefault)
	return &workloads{most, most}
}

// podsOf says for which kinds of workloads how many pods of which template there are.
var podsOf = map[string]func(metav1.Object) (n int32, field string, template *corev1.PodTemplateSpec){
	"Deployment": func(o metav1.Object) (int32, string, *corev1.PodTemplateSpec) {
		d := o.(*appsv1.Deployment)
		return orOne(d.Spec.Replicas), "spec.replicas", &d.Spec.Template
	},
	"StatefulSet": func(o metav1.Object) (int32, string, *corev1.PodTemplateSpec) {
		s := o.(*appsv1.StatefulSet)
		return orOne(s.Spec.Replicas), "spec.replicas", &s.Spec.Template
	},
	"ReplicaSet": func(o metav1.Object) (int32, string, *corev1.PodTemplateSpec) {
		r := o.(*appsv1.ReplicaSet)
		return orOne(r.Spec.Replicas), "spec.replicas", &r.Spec.Template
	},
	"Job": func(o metav1.Object) (int32, string, *corev1.PodTemplateSpec) {
		j := o.(*batchv1.Job)
		n := orOne(j.Spec.Parallelism)
		if c := j.Spec.Completions; c != nil {
			n = min(n, *c)
		}
		return n, "spec.parallelism", &j.Spec.Template
	},
}

func orOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// expand shows the pods that a workload stands for: pending ones, named after it and numbered, beside the
// pods that there are. The claims of a StatefulSet's volumes are made when its pods are, so they hold nothing
// back.
func (f *feeder) expand(d *document, o *object) error {
	if pool, ok := o.meta.(*karpv1.NodePool); ok && pool.Spec.Replicas != nil {
		if n := *pool.Spec.Replicas; n > int64(f.workloads.left) {
			return d.fail(o.label, "spec.replicas", fmt.Errorf("asks for %d nodes; %d are planned for at most", n, f.workloads.most))
		}
		f.workloads.left -= int(max(0, *pool.Spec.Replicas))
	}
	count := podsOf[o.typeName]
	if count == nil {
		return nil
	}
	n, field, template := count(o.meta)
	if n < 0 {
		return d.fail(o.label, field, fmt.Errorf("is %d and must not be negative", n))
	}
	if int(n) > f.workloads.left {
		return d.fail(o.label, field, fmt.Errorf("asks for %d pods; %d are planned for at most", n, f.workloads.most))
	}
	f.workloads.left -= int(n)
	if o.meta.GetUID() == "" {
		o.meta.SetUID(types.UID(o.typeName + "/" + o.name))
	}
	yes := true
	owner := metav1.OwnerReference{APIVersion: o.apiVersion, Kind: o.typeName, Name: o.meta.GetName(), UID: o.meta.GetUID(), Controller: &yes}
	for i := range n {
		p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		p.Name, p.Namespace, p.UID = fmt.Sprintf("%s-%d", o.meta.GetName(), i), o.meta.GetNamespace(), types.UID(fmt.Sprintf("%s/%s/%d", o.typeName, o.name, i))
		p.OwnerReferences = []metav1.OwnerReference{owner}
		pod := &object{kind: kinds["Pod"], meta: p, name: p.Namespace + "/" + p.Name, typeName: "Pod"}
		pod.label = "Pod " + pod.name
		if err := f.once(d, pod); err != nil {
			return err
		}
		f.show(pod)
	}
	return nil
}
