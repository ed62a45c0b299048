package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// poolsEvery is how often the sums in the status of NodePools are looked at.
const poolsEvery = time.Second

// StepPools brings hash and status of every NodePool up to date.
func (k *Keeper) StepPools(now time.Time) time.Time {
	if at := k.effects.Retries.At("pools", now); now.Before(at) {
		return at
	}
	k.effects.Hold("pools", poolsEvery)
	if k.host.Ledger(func(l *ledger.Ledger) error { k.sums.update(k.deps.Cache, l.Version()); return nil }) != nil {
		return now.Add(poolsEvery) // which claims are going is not known without a Ledger
	}
	k.readPools()
	for _, p := range k.deps.Cache.NodePools() {
		if !nodepool.Ours(p) {
			continue
		}
		key := "nodepool/" + p.Name
		if k.effects.Waits(key) || k.deps.Outdated.Has(p, now) {
			continue
		}
		hashed, want := k.withHash(p), k.poolStatus(p, k.sums.ofPool[p.Name], now)
		if hashed == nil && nodepool.SameStatus(p.Status, want) {
			continue
		}
		k.effects.Start(key, lane.Converge, func(ctx context.Context) error { return k.writePool(ctx, key, p, hashed, want) })
	}
	return now.Add(poolsEvery)
}

// readPool is what follows from a NodePool alone. The cache has another object once it has changed.
type readPool struct {
	pool        *karpv1.NodePool
	annotations map[string]string
	invalid     error
	// usable: what is invalid, if anything, is budgets.
	usable bool
}

// readPools hashes and validates the NodePools that have changed.
func (k *Keeper) readPools() {
	read := map[string]readPool{}
	for _, p := range k.deps.Cache.NodePools() {
		r, ok := k.pools[p.Name]
		if !ok || r.pool != p {
			r = readPool{pool: p, annotations: nodepool.HashAnnotations(p), invalid: nodepool.Validate(p), usable: nodepool.Usable(p)}
		}
		read[p.Name] = r
	}
	k.pools = read
}

// withHash returns the pool with the annotations of its hash; nil if it has them, or no spec that can be
// hashed.
func (k *Keeper) withHash(p *karpv1.NodePool) *karpv1.NodePool {
	if !nodepool.Supported(p) {
		return nil
	}
	want := k.pools[p.Name].annotations
	after := p.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	maps.Copy(after.Annotations, want)
	if maps.Equal(after.Annotations, p.Annotations) {
		return nil
	}
	return after
}

// poolStatus is the status the pool should have.
func (k *Keeper) poolStatus(p *karpv1.NodePool, sum nodepool.Sum, now time.Time) karpv1.NodePoolStatus {
	read := k.pools[p.Name]
	facts := nodepool.Facts{Sum: sum, Invalid: read.invalid, Usable: read.usable, Class: k.classOf(p)}
	facts.Registrations = k.registrations.of(p, facts.ClassGeneration(p))
	return nodepool.Status(p, facts, now)
}

// classOf is the pool's NodeClass; nil if there is none.
func (k *Keeper) classOf(p *karpv1.NodePool) *awsv1.EC2NodeClass {
	if !nodepool.Supported(p) {
		return nil
	}
	return k.deps.Cache.NodeClass(p.Spec.Template.Spec.NodeClassRef.Name)
}

// writePool writes the hash, before it those of the pool's claims if the algorithm changed, then the status.
func (k *Keeper) writePool(ctx context.Context, key string, p, hashed *karpv1.NodePool, status karpv1.NodePoolStatus) error {
	before := p
	var unhashed error // the status does not wait for it: pods do
	if hashed != nil {
		if unhashed = k.restamp(ctx, p); unhashed != nil && nodepool.Unseen(p) {
			return k.effects.PutOff(key, unhashed) // the status would hide that some claims are of an earlier generation
		}
	}
	if hashed != nil && unhashed == nil {
		written, err := k.deps.Kube.UpdateNodePool(ctx, p, hashed)
		if err == nil {
			before = written.DeepCopy()
			before.Status = p.Status
		} else {
			unhashed = fmt.Errorf("write hash of nodepool %s: %w", p.Name, err)
		}
	}
	after := before.DeepCopy()
	after.Status = status
	written, err := k.deps.Kube.UpdateNodePoolStatus(ctx, before, after)
	if err != nil {
		return k.effects.PutOff(key, errors.Join(unhashed, fmt.Errorf("write status of nodepool %s: %w", p.Name, err)))
	}
	if unhashed != nil {
		k.tellPoolTransitions(p, written)
		return k.effects.PutOff(key, unhashed)
	}
	k.effects.Retries.Succeeded(key)
	k.tellPoolTransitions(p, written)
	return nil
}

// restamp gives the pool's NodeClaims hashes of the present algorithm.
func (k *Keeper) restamp(ctx context.Context, p *karpv1.NodePool) error {
	if p.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == nodepool.HashVersion {
		return nil
	}
	for _, o := range k.deps.Cache.NodeClaims() {
		o = k.newest(o, k.host.Now())
		if o.Labels[karpv1.NodePoolLabelKey] != p.Name || !o.DeletionTimestamp.IsZero() {
			continue
		}
		annotations, differ := nodepool.Restamped(o, p)
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

// readyWithin is how long a NodePool or NodeClass may take to become ready without a warning: they are often
// made together, in any order.
const readyWithin = 15 * time.Second

// isYoung reports that the NodePool or its NodeClass, which may be nil, was made a moment ago.
func (k *Keeper) isYoung(p *karpv1.NodePool, nc *awsv1.EC2NodeClass) bool {
	now := k.host.Now()
	return now.Sub(p.CreationTimestamp.Time) < readyWithin || nc != nil && now.Sub(nc.CreationTimestamp.Time) < readyWithin
}

// tellPoolTransitions publishes how conditions changed.
func (k *Keeper) tellPoolTransitions(before, after *karpv1.NodePool) {
	object := corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool", Name: after.Name, UID: after.UID}
	young := k.isYoung(after, k.classOf(after))
	for _, e := range service.Transitions(object, before.Status.Conditions, after.Status.Conditions) {
		if young {
			e.Type = corev1.EventTypeNormal
		}
		k.host.Event(e)
	}
}
