package hosttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/services/internal/kube"
	"millwright/services/internal/kube/kubetest"
)

// Kube is an API server in memory, with informers that are always up to date. Its changes are published as
// observations, unless Blind.
type Kube struct {
	rig *Rig
	mu  sync.Mutex

	nodes       map[string]*corev1.Node
	claims      map[string]*karpv1.NodeClaim
	policies    map[string]*mwv1alpha1.DisruptionPolicy
	pods        map[string]*corev1.Pod
	attachments map[string]*storagev1.VolumeAttachment
	deployments map[string]*appsv1.Deployment
	sets        map[string]*appsv1.ReplicaSet
	version     int

	// Calls that were made, as "verb name".
	Calls []string
	// Fail holds errors by "verb name"; they last until deleted.
	Fail map[string]error
	// Linger: evicted pods stay, being deleted.
	Linger bool
	// Blind: changes are not published.
	Blind bool
	// Slow is how long a write takes, as behind a webhook of admission that does not answer in time and that
	// the API server then does without. Who gives up before has written nothing.
	Slow time.Duration
}

func newKube(r *Rig) *Kube {
	return &Kube{rig: r, policies: map[string]*mwv1alpha1.DisruptionPolicy{}, nodes: map[string]*corev1.Node{}, claims: map[string]*karpv1.NodeClaim{}, pods: map[string]*corev1.Pod{},
		deployments: map[string]*appsv1.Deployment{}, sets: map[string]*appsv1.ReplicaSet{}, attachments: map[string]*storagev1.VolumeAttachment{}, Fail: map[string]error{}}
}

// Put stores objects as they are and publishes them.
func (k *Kube) Put(objects ...any) {
	for _, o := range objects {
		k.mu.Lock()
		k.put(o)
		k.mu.Unlock()
	}
	synctest.Wait()
}

func (k *Kube) put(o any) {
	k.version++
	version := strconv.Itoa(k.version)
	switch o := o.(type) {
	case *corev1.Node:
		o.ResourceVersion = version
		k.nodes[o.Name] = o.DeepCopy()
	case *karpv1.NodeClaim:
		o.ResourceVersion = version
		k.claims[o.Name] = o.DeepCopy()
	case *mwv1alpha1.DisruptionPolicy:
		o.ResourceVersion = version
		k.policies[o.Name] = o.DeepCopy()
	case *corev1.Pod:
		o.ResourceVersion = version
		k.pods[o.Namespace+"/"+o.Name] = o.DeepCopy()
	case *storagev1.VolumeAttachment:
		o.ResourceVersion = version
		k.attachments[o.Name] = o.DeepCopy()
	case *appsv1.Deployment: // no planner reads it
		o.ResourceVersion = version
		k.deployments[o.Namespace+"/"+o.Name] = o.DeepCopy()
		return
	case *appsv1.ReplicaSet:
		o.ResourceVersion = version
		k.sets[o.Namespace+"/"+o.Name] = o.DeepCopy()
		return
	}
	if !k.Blind {
		k.rig.seeQuietly(o)
	}
}

// Remove deletes objects for good and publishes that.
func (k *Kube) Remove(objects ...any) {
	for _, o := range objects {
		k.mu.Lock()
		switch o := o.(type) {
		case *corev1.Node:
			delete(k.nodes, o.Name)
		case *karpv1.NodeClaim:
			delete(k.claims, o.Name)
		case *corev1.Pod:
			delete(k.pods, o.Namespace+"/"+o.Name)
		case *storagev1.VolumeAttachment:
			delete(k.attachments, o.Name)
		}
		k.mu.Unlock()
	}
	if !k.Blind {
		k.rig.Gone(objects...)
	}
}

// GetNode and GetClaim return copies; nil if there is none.
func (k *Kube) GetNode(name string) *corev1.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes[name].DeepCopy()
}

func (k *Kube) GetClaim(name string) *karpv1.NodeClaim {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.claims[name].DeepCopy()
}

// GetPod returns a copy; nil if there is none.
func (k *Kube) GetPod(key string) *corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pods[key].DeepCopy()
}

// admitted waits for as long as a write takes.
func (k *Kube) admitted(ctx context.Context) error {
	if k.Slow == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(k.Slow):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call records a call and returns the error it is to fail with.
func (k *Kube) call(verb, name string) error {
	k.Calls = append(k.Calls, verb+" "+name)
	return k.Fail[verb+" "+name]
}

// Called counts the calls of a verb on a name.
func (k *Kube) Called(call string) (count int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.Calls {
		if c == call {
			count++
		}
	}
	return count
}

// Synced and the lists below are those of informers.
func (k *Kube) Synced() bool { return true }

func (k *Kube) Nodes() []*corev1.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return sorted(k.nodes)
}

func (k *Kube) NodeClaims() []*karpv1.NodeClaim {
	k.mu.Lock()
	defer k.mu.Unlock()
	return sorted(k.claims)
}

func (k *Kube) VolumeAttachmentsOf(node string) []*storagev1.VolumeAttachment {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(sorted(k.attachments), func(a *storagev1.VolumeAttachment) bool { return a.Spec.NodeName != node })
}

func (k *Kube) NodesByProviderID(id string) []*corev1.Node {
	return slices.DeleteFunc(k.Nodes(), func(n *corev1.Node) bool { return id == "" || n.Spec.ProviderID != id })
}

func (k *Kube) NodeClaimsByProviderID(id string) []*karpv1.NodeClaim {
	return slices.DeleteFunc(k.NodeClaims(), func(c *karpv1.NodeClaim) bool { return id == "" || c.Status.ProviderID != id })
}

func (k *Kube) DeletingNodes() []*corev1.Node {
	return slices.DeleteFunc(k.Nodes(), func(n *corev1.Node) bool { return n.DeletionTimestamp == nil })
}

func (k *Kube) DeletingNodeClaims() []*karpv1.NodeClaim {
	return slices.DeleteFunc(k.NodeClaims(), func(c *karpv1.NodeClaim) bool { return c.DeletionTimestamp == nil })
}

func sorted[T any](m map[string]T) []T {
	var list []T
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[key])
	}
	return list
}

// Node, PatchNode and the methods below are the calls of kube.Client of those names.
func (k *Kube) Node(_ context.Context, name string) (*corev1.Node, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.nodes[name]; n != nil {
		return n.DeepCopy(), nil
	}
	return nil, notFound("nodes", name)
}

func (k *Kube) PatchNode(ctx context.Context, name string, p kube.Patch) (*corev1.Node, error) {
	if err := k.admitted(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("patch", name); err != nil {
		return nil, err
	}
	n := k.nodes[name]
	if n == nil {
		return nil, notFound("nodes", name)
	}
	if p.UID != "" && p.UID != n.UID || p.ResourceVersion != "" && p.ResourceVersion != n.ResourceVersion {
		return nil, conflict("nodes", name)
	}
	patched := kubetest.Patched(n, p.Body)
	k.put(patched)
	return patched.DeepCopy(), nil
}

func (k *Kube) GetNodeClaim(_ context.Context, name string) (*karpv1.NodeClaim, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.claims[name]; c != nil {
		return c.DeepCopy(), nil
	}
	return nil, notFound("nodeclaims", name)
}

func (k *Kube) GetPolicy(_ context.Context, name string) (*mwv1alpha1.DisruptionPolicy, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.policies[name]; p != nil {
		return p.DeepCopy(), nil
	}
	return nil, notFound("disruptionpolicies", name)
}

func (k *Kube) UpdatePolicyStatus(ctx context.Context, before, after *mwv1alpha1.DisruptionPolicy) (*mwv1alpha1.DisruptionPolicy, error) {
	if err := k.admitted(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("status", before.Name); err != nil {
		return nil, err
	}
	if p := k.policies[before.Name]; p == nil || p.ResourceVersion != before.ResourceVersion {
		return nil, conflict("disruptionpolicies", before.Name)
	}
	k.put(after)
	return after, nil
}

func (k *Kube) DeleteNodeClaim(ctx context.Context, name string, uid types.UID) error {
	if err := k.admitted(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("delete", name); err != nil {
		return err
	}
	c := k.claims[name].DeepCopy()
	switch {
	case c == nil:
		return notFound("nodeclaims", name)
	case uid != "" && c.UID != uid:
		return conflict("nodeclaims", name)
	case c.DeletionTimestamp == nil:
		c.DeletionTimestamp = &metav1.Time{Time: k.rig.Now()}
		k.put(c)
	}
	return nil
}

func (k *Kube) SetClaimCondition(ctx context.Context, name string, uid types.UID, want metav1.Condition, now time.Time) error {
	if err := k.admitted(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("condition", name); err != nil {
		return err
	}
	c := k.claims[name].DeepCopy()
	if c == nil {
		return notFound("nodeclaims", name)
	}
	if c.UID != uid {
		return nil
	}
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(x metav1.Condition) bool { return x.Type == want.Type })
	if want.Status != "" {
		want.LastTransitionTime = metav1.NewTime(now)
		c.Status.Conditions = append(c.Status.Conditions, want)
	}
	k.put(c)
	return nil
}

func (k *Kube) PodsOnNode(_ context.Context, node string) ([]corev1.Pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("list", node); err != nil {
		return nil, err
	}
	var list []corev1.Pod
	for _, p := range sorted(k.pods) {
		if p.Spec.NodeName == node {
			list = append(list, *p.DeepCopy())
		}
	}
	return list, nil
}

func (k *Kube) EvictPod(ctx context.Context, namespace, name string, uid types.UID) error {
	return k.removePod(ctx, "evict", namespace, name, uid)
}

func (k *Kube) DeletePod(ctx context.Context, namespace, name string, uid types.UID, grace int64) error {
	return k.removePod(ctx, fmt.Sprintf("delete[%d]", grace), namespace, name, uid)
}

func (k *Kube) ReplicaSet(_ context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("get", "replicaset "+namespace+"/"+name); err != nil {
		return nil, err
	}
	if o := k.sets[namespace+"/"+name]; o != nil {
		return o.DeepCopy(), nil
	}
	return nil, notFound("replicasets", name)
}

func (k *Kube) Deployment(_ context.Context, namespace, name string) (*appsv1.Deployment, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("get", "deployment "+namespace+"/"+name); err != nil {
		return nil, err
	}
	if o := k.deployments[namespace+"/"+name]; o != nil {
		return o.DeepCopy(), nil
	}
	return nil, notFound("deployments", name)
}

func (k *Kube) SurgeDeployment(ctx context.Context, d *appsv1.Deployment, value string) error {
	if err := k.admitted(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key := d.Namespace + "/" + d.Name
	if err := k.call("surge", key); err != nil {
		return err
	}
	o, p := k.deployments[key], kube.SurgePatch(d, value)
	switch {
	case o == nil:
		return notFound("deployments", d.Name)
	case o.UID != p.UID || o.ResourceVersion != p.ResourceVersion:
		return conflict("deployments", d.Name)
	}
	k.put(kubetest.Patched(o, p.Body))
	return nil
}

func (k *Kube) removePod(ctx context.Context, verb, namespace, name string, uid types.UID) error {
	if err := k.admitted(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	key := namespace + "/" + name
	if err := k.call(verb, key); err != nil {
		k.mu.Unlock()
		return err
	}
	p := k.pods[key].DeepCopy()
	switch {
	case p == nil:
		k.mu.Unlock()
		return notFound("pods", name)
	case p.UID != uid:
		k.mu.Unlock()
		return conflict("pods", name)
	case k.Linger:
		p.DeletionTimestamp = &metav1.Time{Time: k.rig.Now().Add(30 * time.Second)}
		k.put(p)
	default:
		delete(k.pods, key)
		if !k.Blind {
			k.rig.goneQuietly(p)
		}
	}
	k.mu.Unlock()
	return nil
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func conflict(resource, name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, fmt.Errorf("precondition failed"))
}
