package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// poolsEvery is how often the sums in the status of NodePools are looked at.
const poolsEvery = time.Second

// resourceNodes counts nodes in status.resources and in limits.
const resourceNodes corev1.ResourceName = "nodes"

// StepPools brings hash and status of every NodePool up to date.
func (k *Keeper) StepPools(now time.Time) time.Time {
	if at := k.effects.Retries.At("pools"); now.Before(at) {
		return at
	}
	k.effects.Hold("pools", poolsEvery)
	sums := k.poolSums()
	k.readPools()
	for _, p := range k.deps.Cache.NodePools() {
		if !ours(p) {
			continue
		}
		key := "nodepool/" + p.Name
		if k.effects.Waits(key) || k.deps.Outdated.Has(p, now) {
			continue
		}
		hashed, want := k.withHash(p), k.poolStatus(p, sums[p.Name], now)
		if hashed == nil && samePoolStatus(p.Status, want) {
			continue
		}
		k.effects.Start(key, lane.Converge, func(ctx context.Context) error { return k.writePool(ctx, key, p, hashed, want) })
	}
	return now.Add(poolsEvery)
}

// supported: the pool's nodes are made from EC2NodeClasses. Others are none of ours.
func supported(p *karpv1.NodePool) bool {
	ref := p.Spec.Template.Spec.NodeClassRef
	return ref != nil && ref.Group == awsv1.Group && ref.Kind == "EC2NodeClass"
}

// ours: the pool is supported, or was meant to be: its nodeClassRef has our group or our kind, or cannot be read. Such a
// pool is told what is wrong with it; others belong to other providers' controllers.
func ours(p *karpv1.NodePool) bool {
	ref := p.Spec.Template.Spec.NodeClassRef
	return p.Unreadable != "" || ref != nil && (ref.Group == awsv1.Group || ref.Kind == "EC2NodeClass")
}

// readPool is what follows from a NodePool alone. The cache has another object once it has changed.
type readPool struct {
	pool        *karpv1.NodePool
	annotations map[string]string
	invalid     error
}

// readPools hashes and validates the NodePools that have changed.
func (k *Keeper) readPools() {
	read := map[string]readPool{}
	for _, p := range k.deps.Cache.NodePools() {
		r, ok := k.pools[p.Name]
		if !ok || r.pool != p {
			r = readPool{pool: p, annotations: claim.PoolAnnotations(p), invalid: ValidateNodePool(p)}
		}
		read[p.Name] = r
	}
	k.pools = read
}

// poolSum is what the nodes and launched claims of a pool have, without those that are going.
type poolSum struct {
	capacity resource.Vector
	nodes    int64
}

// poolSums are the sums by NodePool, and what they were made of.
type poolSums struct {
	cache  uint64
	ledger *ledger.Ledger
	sums   map[string]poolSum
	// capacities are what each NodeClaim counts for, as long as it and its Node stay as they are.
	capacities map[string]countedClaim
}

type countedClaim struct {
	object   *karpv1.NodeClaim
	node     *corev1.Node
	capacity resource.Vector
}

// poolSums adds up by NodePool, if anything has changed.
func (k *Keeper) poolSums() map[string]poolSum {
	now := poolSums{cache: k.deps.Cache.Version(), sums: map[string]poolSum{}, capacities: map[string]countedClaim{}}
	_ = k.host.Ledger(func(l *ledger.Ledger) error { now.ledger = l.Version(); return nil })
	if k.sums.sums != nil && now.cache == k.sums.cache && now.ledger == k.sums.ledger {
		return k.sums.sums
	}
	going := goingClaims(now.ledger)
	claimed := map[string]bool{}
	for _, o := range k.deps.Cache.NodeClaims() {
		if o.Status.ProviderID == "" {
			continue
		}
		claimed[o.Status.ProviderID] = true
		if o.DeletionTimestamp.IsZero() && !going[o.Name] {
			counted := k.counted(o)
			now.capacities[o.Name] = counted
			k.add(now.sums, o.Labels[karpv1.NodePoolLabelKey], counted.capacity)
		}
	}
	for _, n := range k.deps.Cache.Nodes() {
		if n.DeletionTimestamp.IsZero() && !claimed[n.Spec.ProviderID] {
			k.add(now.sums, n.Labels[karpv1.NodePoolLabelKey], resource.From(n.Status.Capacity))
		}
	}
	k.sums = now
	return now.sums
}

// counted is what a NodeClaim counts for, as counted last time if nothing has changed.
func (k *Keeper) counted(o *karpv1.NodeClaim) countedClaim {
	var n *corev1.Node
	if nodes := k.deps.Cache.NodesByProviderID(o.Status.ProviderID); len(nodes) == 1 {
		n = nodes[0]
	}
	if have, ok := k.sums.capacities[o.Name]; ok && have.object == o && have.node == n {
		return have
	}
	return countedClaim{o, n, capacityOf(o, n)}
}

func (k *Keeper) add(sums map[string]poolSum, pool string, capacity resource.Vector) {
	if pool == "" {
		return
	}
	sum := sums[pool]
	sums[pool] = poolSum{capacity: sum.capacity.Add(capacity), nodes: sum.nodes + 1}
}

// goingClaims are doomed, or taken by a running command. Without a Ledger the sums are a little high for a moment.
func goingClaims(l *ledger.Ledger) map[string]bool {
	going := map[string]bool{}
	if l == nil {
		return going
	}
	for _, c := range l.Claims() {
		if c.Doomed != nil {
			going[c.Name] = true
		}
	}
	for _, c := range l.Commands() {
		for _, candidate := range c.Started.Candidates {
			going[candidate.Claim] = true
		}
	}
	return going
}

// capacityOf is the Node's; what it does not report before it is initialized comes from the claim. n may be nil.
func capacityOf(o *karpv1.NodeClaim, n *corev1.Node) resource.Vector {
	estimate := resource.From(o.Status.Capacity)
	if n == nil {
		return estimate
	}
	have := resource.From(n.Status.Capacity)
	if n.Labels[karpv1.NodeInitializedLabelKey] == "true" {
		return have
	}
	for _, name := range estimate.Names() {
		if have.Get(name) == 0 {
			have.Set(name, estimate.Get(name))
		}
	}
	return have
}

// withHash returns the pool with the annotations of its hash; nil if it has them, or no spec that can be hashed.
func (k *Keeper) withHash(p *karpv1.NodePool) *karpv1.NodePool {
	if !supported(p) {
		return nil
	}
	want := merged(p.Annotations, k.pools[p.Name].annotations)
	if maps.Equal(want, p.Annotations) {
		return nil
	}
	after := p.DeepCopy()
	after.Annotations = want
	return after
}

// poolStatus is the status the pool should have. Its resources always name the base resources.
func (k *Keeper) poolStatus(p *karpv1.NodePool, sum poolSum, now time.Time) karpv1.NodePoolStatus {
	status := *p.Status.DeepCopy()
	status.Resources = sum.capacity.List()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
		if _, has := status.Resources[name]; !has {
			status.Resources[name] = *quantity.NewQuantity(0, quantity.DecimalSI)
		}
	}
	status.Resources[resourceNodes] = *quantity.NewQuantity(sum.nodes, quantity.DecimalSI)
	status.Nodes = &sum.nodes
	c := &condition.List{
		Generation: p.Generation, Created: p.CreationTimestamp.Time, Now: now, Deleting: !p.DeletionTimestamp.IsZero(),
		Root: karpv1.ConditionTypeReady, Dependents: []string{karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady},
		Conditions: slices.Clone(p.Status.Conditions),
	}
	k.judgePool(c, p)
	if nc := k.classOf(p); nc != nil {
		status.NodeClassObservedGeneration = nc.Generation
	}
	judgeRegistration(c, k.registrations.of(p, status.NodeClassObservedGeneration))
	status.Conditions = c.Finish()
	return status
}

// classOf is the pool's NodeClass; nil if there is none.
func (k *Keeper) classOf(p *karpv1.NodePool) *awsv1.EC2NodeClass {
	if !supported(p) {
		return nil
	}
	return k.deps.Cache.NodeClass(p.Spec.Template.Spec.NodeClassRef.Name)
}

func (k *Keeper) judgePool(c *condition.List, p *karpv1.NodePool) {
	if err := k.pools[p.Name].invalid; err != nil {
		c.Set(karpv1.ConditionTypeValidationSucceeded, metav1.ConditionFalse, "NodePoolValidationFailed", err.Error())
	} else {
		c.True(karpv1.ConditionTypeValidationSucceeded)
	}
	if p.Unreadable != "" {
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionUnknown, "NodeClassReadinessUnknown", "nodeClassRef cannot be read")
		return
	}
	ref := p.Spec.Template.Spec.NodeClassRef
	switch nc := k.classOf(p); {
	case !supported(p):
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, "NodeClassNotSupported", fmt.Sprintf(
			"spec.template.spec.nodeClassRef: group %q and kind %q are not supported, must be %q and %q", ref.Group, ref.Kind, awsv1.Group, "EC2NodeClass"))
	case nc == nil:
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, "NodeClassNotFound", "NodeClass not found on cluster")
	case !nc.DeletionTimestamp.IsZero():
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, "NodeClassTerminating", "NodeClass is Terminating")
	default:
		judgeClass(c, condition.Get(nc.Status.Conditions, karpv1.ConditionTypeReady))
	}
}

func judgeClass(c *condition.List, ready *metav1.Condition) {
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, "NodeClassReadinessUnknown", "Node Class Readiness Unknown")
	case ready.Status == metav1.ConditionFalse:
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, ready.Reason, ready.Message)
	default:
		c.True(karpv1.ConditionTypeNodeClassReady)
	}
}

func samePoolStatus(a, b karpv1.NodePoolStatus) bool {
	nodes := func(s karpv1.NodePoolStatus) int64 {
		if s.Nodes == nil {
			return -1
		}
		return *s.Nodes
	}
	return nodes(a) == nodes(b) && a.NodeClassObservedGeneration == b.NodeClassObservedGeneration && condition.Equal(a.Conditions, b.Conditions) &&
		maps.EqualFunc(a.Resources, b.Resources, func(x, y quantity.Quantity) bool { return x.Cmp(y) == 0 })
}

// writePool writes the hash, before it those of the pool's claims if the algorithm changed, then the status.
func (k *Keeper) writePool(ctx context.Context, key string, p, hashed *karpv1.NodePool, status karpv1.NodePoolStatus) error {
	before := p
	if hashed != nil {
		if err := k.restamp(ctx, p); err != nil {
			return k.effects.PutOff(key, err)
		}
		written, err := k.deps.Kube.UpdateNodePool(ctx, p, hashed)
		if err != nil {
			return k.effects.PutOff(key, fmt.Errorf("write hash of nodepool %s: %w", p.Name, err))
		}
		before = written.DeepCopy()
		before.Status = p.Status
	}
	after := before.DeepCopy()
	after.Status = status
	written, err := k.deps.Kube.UpdateNodePoolStatus(ctx, before, after)
	if err != nil {
		return k.effects.PutOff(key, fmt.Errorf("write status of nodepool %s: %w", p.Name, err))
	}
	k.effects.Retries.Succeeded(key)
	k.tellPoolTransitions(p, written)
	return nil
}

// restamp gives the pool's NodeClaims hashes of the present algorithm.
func (k *Keeper) restamp(ctx context.Context, p *karpv1.NodePool) error {
	if p.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == claim.PoolHashVersion {
		return nil
	}
	for _, o := range k.deps.Cache.NodeClaims() {
		o = k.newest(o, k.host.Now())
		if o.Labels[karpv1.NodePoolLabelKey] != p.Name || !o.DeletionTimestamp.IsZero() {
			continue
		}
		annotations, differ := claim.Restamped(o, p)
		if !differ {
			continue
		}
		after := o.DeepCopy()
		after.Annotations = annotations
		if _, err := k.deps.Kube.UpdateNodeClaim(ctx, o, after); err != nil {
			return fmt.Errorf("write hash of nodeclaim %s: %w", o.Name, err)
		}
	}
	return nil
}

// readyWithin is how long a NodePool or NodeClass may take to become ready without a warning: they are often made together, in any
// order.
const readyWithin = 15 * time.Second

// isYoung reports that the NodePool or its NodeClass, which may be nil, was made a moment ago.
func (k *Keeper) isYoung(p *karpv1.NodePool, nc *awsv1.EC2NodeClass) bool {
	now := k.host.Now()
	return now.Sub(p.CreationTimestamp.Time) < readyWithin || nc != nil && now.Sub(nc.CreationTimestamp.Time) < readyWithin
}

// tellPoolTransitions publishes one KubeEvent per condition whose status changed, or that is False for another cause.
func (k *Keeper) tellPoolTransitions(before, after *karpv1.NodePool) {
	for _, c := range after.Status.Conditions {
		from := metav1.Condition{Status: metav1.ConditionUnknown}
		if old := condition.Get(before.Status.Conditions, c.Type); old != nil {
			from = *old
		}
		refused := c.Status == metav1.ConditionFalse
		if from.Status == c.Status && !(refused && (from.Reason != c.Reason || from.Message != c.Message)) {
			continue
		}
		kind := corev1.EventTypeNormal
		if refused && !k.isYoung(after, k.classOf(after)) {
			kind = corev1.EventTypeWarning
		}
		k.host.Event(service.KubeEvent{
			Object: corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool", Name: after.Name, UID: after.UID},
			Type:   kind, Reason: c.Type, Message: service.Transition(c.Type, string(from.Status), string(c.Status), c.Reason, c.Message),
		})
	}
}
