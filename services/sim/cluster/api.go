package cluster

import (
	"errors"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/services/internal/kube"
	"millwright/services/internal/kube/kubetest"
)

// The methods below are the calls of kube.Client, without context: they happen at once.

func resourceOf(kind events.Kind) schema.GroupResource {
	return schema.GroupResource{Resource: kind.String()}
}

func notFound(kind events.Kind, key string) error {
	return apierrors.NewNotFound(resourceOf(kind), key)
}

var errPrecondition = errors.New("the object has been modified")

// checked applies the preconditions of a write.
func (k *Cluster) checked(kind events.Kind, key string, uid types.UID, version string) (Object, error) {
	o := k.get(kind, key)
	switch {
	case o == nil:
		return nil, notFound(kind, key)
	case uid != "" && o.GetUID() != uid, version != "" && o.GetResourceVersion() != version:
		return nil, apierrors.NewConflict(resourceOf(kind), key, errPrecondition)
	}
	return o, nil
}

// CreateNodeClaim refuses a name that is taken.
func (k *Cluster) CreateNodeClaim(c *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	if k.NodeClaim(c.Name) != nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(events.KindNodeClaim), c.Name)
	}
	o := c.DeepCopy()
	o.Status = karpv1.NodeClaimStatus{}
	k.put(events.KindNodeClaim, o)
	return o, nil
}

// Get returns an object or NotFound.
func Get[T Object](k *Cluster, kind events.Kind, key string) (none T, err error) {
	o := k.get(kind, key)
	if o == nil {
		return none, notFound(kind, key)
	}
	return o.DeepCopyObject().(T), nil
}

// Remove asks for the deletion of the object with this UID.
func (k *Cluster) Remove(kind events.Kind, name string, uid types.UID) error {
	o, err := k.checked(kind, name, uid, "")
	if err != nil {
		return err
	}
	k.markDeleted(kind, o)
	return nil
}

// Update writes what differs outside the status, if before is what is stored. Without a difference it returns
// after.
func Update[T Object](k *Cluster, kind events.Kind, before, after T) (none T, err error) {
	if equality.Semantic.DeepEqual(withoutStatus(before), withoutStatus(after)) {
		return after, nil
	}
	have, err := k.checked(kind, keyOf(before), before.GetUID(), before.GetResourceVersion())
	if err != nil {
		return none, err
	}
	o := after.DeepCopyObject().(T)
	copyStatus(o, have)
	return store(k, kind, have, o), nil
}

// UpdateStatus writes what differs in the status, like Update.
func UpdateStatus[T Object](k *Cluster, kind events.Kind, before, after T) (none T, err error) {
	if equality.Semantic.DeepEqual(statusOf(before), statusOf(after)) {
		return after, nil
	}
	have, err := k.checked(kind, keyOf(before), before.GetUID(), before.GetResourceVersion())
	if err != nil {
		return none, err
	}
	o := shallow(have.(T))
	copyStatus(o, after.DeepCopyObject())
	return store(k, kind, have, o), nil
}

// store keeps what the API server owns and drops fractions of seconds.
func store[T Object](k *Cluster, kind events.Kind, have Object, o T) T {
	o.SetUID(have.GetUID())
	o.SetCreationTimestamp(have.GetCreationTimestamp())
	o.SetDeletionTimestamp(have.GetDeletionTimestamp())
	for _, c := range conditionsOf(o) {
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Truncate(time.Second))
	}
	if equality.Semantic.DeepEqual(have, o) {
		return o
	}
	k.put(kind, o)
	return o
}

func statusField(o any) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }
func statusOf(o any) any              { return statusField(o).Interface() }
func copyStatus(to, from any)         { statusField(to).Set(statusField(from)) }

// shallow is another object that shares what o refers to.
func shallow[T Object](o T) T {
	other := reflect.New(reflect.TypeOf(o).Elem())
	other.Elem().Set(reflect.ValueOf(o).Elem())
	return other.Interface().(T)
}

func withoutStatus[T Object](o T) T {
	bare := shallow(o)
	statusField(bare).SetZero()
	return bare
}

func conditionsOf(o any) (list []*metav1.Condition) {
	field := statusField(o).FieldByName("Conditions")
	if !field.IsValid() {
		return nil
	}
	if conditions, ok := field.Interface().([]metav1.Condition); ok {
		for i := range conditions {
			list = append(list, &conditions[i])
		}
	}
	return list
}

// PatchNode applies a JSON merge patch with preconditions.
func (k *Cluster) PatchNode(name string, p kube.Patch) (*corev1.Node, error) {
	have, err := k.checked(events.KindNode, name, p.UID, p.ResourceVersion)
	if err != nil {
		return nil, err
	}
	o := kubetest.Patched(have.(*corev1.Node), p.Body)
	return store(k, events.KindNode, have, o), nil
}

// SetClaimCondition sets or, with an empty status, removes one condition of the claim with this UID.
func (k *Cluster) SetClaimCondition(name string, uid types.UID, version string, want metav1.Condition, now time.Time) error {
	have, err := k.checked(events.KindNodeClaim, name, "", version)
	if err != nil || have.GetUID() != uid {
		return err
	}
	o := have.(*karpv1.NodeClaim).DeepCopy()
	list := o.Status.Conditions
	at := slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == want.Type })
	want.LastTransitionTime, want.ObservedGeneration = metav1.NewTime(now), o.Generation
	if at >= 0 {
		if have := list[at]; have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
		list = slices.Delete(list, at, at+1)
	}
	if want.Status != "" {
		list = append(list, want)
	}
	o.Status.Conditions = list
	store(k, events.KindNodeClaim, have, o)
	return nil
}

// EvictPod is the Eviction API: it refuses what a PodDisruptionBudget forbids.
func (k *Cluster) EvictPod(namespace, name string, uid types.UID) error {
	o, err := k.checked(events.KindPod, namespace+"/"+name, uid, "")
	if err != nil {
		return err
	}
	p := o.(*corev1.Pod)
	budgets := k.budgetsOf(p)
	switch {
	case len(budgets) > 1:
		return kubetest.ManyBudgets()
	case p.DeletionTimestamp != nil || len(budgets) == 0:
	case !takeDisruption(k, budgets[0], p):
		return kubetest.EvictionForbidden()
	}
	if p.DeletionTimestamp == nil && p.Spec.NodeName != "" {
		p = p.DeepCopy()
		setPodCondition(p, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: k.now()})
		k.put(events.KindPod, p)
	}
	k.endPod(p, graceOf(p))
	return nil
}

// MayEvict reports that the budgets would let the pod go now.
func (k *Cluster) MayEvict(p *corev1.Pod) bool {
	return !slices.ContainsFunc(k.budgetsOf(p), func(b *policyv1.PodDisruptionBudget) bool { return b.Status.DisruptionsAllowed <= 0 })
}

// takeDisruption uses up one disruption of the budget, unless the pod is not healthy and the budget's pods
// are.
func takeDisruption(k *Cluster, b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	if !isReadyPod(p) && b.Status.CurrentHealthy >= b.Status.DesiredHealthy {
		return true
	}
	if b.Status.DisruptionsAllowed <= 0 {
		return false
	}
	after := b.DeepCopy()
	after.Status.DisruptionsAllowed--
	k.put(events.KindPodDisruptionBudget, after)
	return true
}

// DeletePod deletes the pod with this UID whatever budgets say.
func (k *Cluster) DeletePod(namespace, name string, uid types.UID, grace int64) error {
	o, err := k.checked(events.KindPod, namespace+"/"+name, uid, "")
	if err != nil {
		return err
	}
	k.endPod(o.(*corev1.Pod), grace)
	return nil
}
