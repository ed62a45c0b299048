package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

const revisionAnnotation = "deployment.kubernetes.io/revision"

// template names the present template of a Deployment: r0 is the first.
func (d *Deployment) template() string { return fmt.Sprintf("r%d", len(d.surges)) }

func replicaSetName(deployment, template string) string { return deployment + "-" + template }

func templateOf(p *corev1.Pod) string { return p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] }

func deploymentUID(d *Deployment) types.UID { return types.UID("deployment-" + d.Name) }

// rollOut replaces the pods of earlier templates: one new pod at a time comes first, and an old one goes
// for each that is ready.
func (k *controllers) rollOut(d *Deployment, have, old []*corev1.Pod) {
	fresh := slices.DeleteFunc(slices.Clone(have), func(p *corev1.Pod) bool { return templateOf(p) != d.template() })
	for range min(d.Replicas-len(fresh), d.Replicas+1-len(have)) {
		k.makePod(d)
	}
	ready := 0
	for _, p := range have {
		if isReadyPod(p) {
			ready++
		}
	}
	for _, p := range old {
		if isReadyPod(p) {
			if ready <= d.Replicas {
				continue
			}
			ready--
		}
		k.endPod(p, graceOf(p))
	}
	for i := range len(fresh) - d.Replicas {
		k.endPod(fresh[i], graceOf(fresh[i]))
	}
}

func (k *controllers) deployment(name string) *Deployment {
	for _, d := range k.deployments {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// ReplicaSet of a template of a Deployment.
func (k *Cluster) ReplicaSet(namespace, name string) (*appsv1.ReplicaSet, error) {
	at := strings.LastIndexByte(name, '-')
	d := k.controllers.deployment(name[:max(at, 0)])
	revision, err := strconv.Atoi(strings.TrimPrefix(name[at+1:], "r"))
	if d == nil || err != nil || revision > len(d.surges) {
		return nil, apierrors.NewNotFound(appsv1.Resource("replicasets"), name)
	}
	yes := true
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("rs-" + name),
		Annotations:     map[string]string{revisionAnnotation: strconv.Itoa(revision)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: deploymentUID(d), Controller: &yes}}}}
	set.Spec.Template.Annotations = d.surgedAt(revision)
	return set, nil
}

// surgedAt are the annotations of the template of a revision.
func (d *Deployment) surgedAt(revision int) map[string]string {
	if revision == 0 {
		return nil
	}
	return map[string]string{mwv1alpha1.SurgeAnnotationKey: d.surges[revision-1]}
}

// Deployment as the API server has it.
func (k *Cluster) Deployment(namespace, name string) (*appsv1.Deployment, error) {
	d := k.controllers.deployment(name)
	if d == nil {
		return nil, apierrors.NewNotFound(appsv1.Resource("deployments"), name)
	}
	replicas, revision := int32(d.Replicas), len(d.surges)
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if !d.MaySurge {
		surge, unavailable = unavailable, surge
	}
	o := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: deploymentUID(d), ResourceVersion: strconv.Itoa(revision + 1),
		Annotations: map[string]string{revisionAnnotation: strconv.Itoa(revision)}}}
	o.Spec.Replicas = &replicas
	o.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}}
	o.Spec.Template.Annotations = d.surgedAt(revision)
	return o, nil
}

// SurgeDeployment changes the template of a Deployment as it was read.
func (k *Cluster) SurgeDeployment(read *appsv1.Deployment, value string) error {
	d := k.controllers.deployment(read.Name)
	switch {
	case d == nil:
		return apierrors.NewNotFound(appsv1.Resource("deployments"), read.Name)
	case read.ResourceVersion != strconv.Itoa(len(d.surges)+1):
		return apierrors.NewConflict(appsv1.Resource("deployments"), read.Name, errors.New("it was changed"))
	}
	d.surges = append(d.surges, value)
	k.controllers.soon("replicas", 50, 300, k.controllers.replicate)
	return nil
}
