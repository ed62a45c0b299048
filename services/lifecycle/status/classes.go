package status

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millwright/planner"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/services/internal/lane"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/nodeclass"
)

// classesMax bounds how long a NodeClass goes without a look, classesMin how soon the next one follows:
// whoever keeps changing its status makes us write once a second at most.
const (
	classesMax = 5 * time.Minute
	classesMin = time.Second
)

// classRun is when a NodeClass is to be looked at again, and what was looked at last.
type classRun struct {
	at      time.Time
	version string
}

// StepClasses has each EC2NodeClass reconciled when it changed, when its claims changed in number, and when
// it is due.
func (k *Keeper) StepClasses(now time.Time) time.Time {
	if k.deps.Classes == nil {
		return time.Time{}
	}
	if !k.classes.touched.Swap(false) && (k.classes.wake.IsZero() || now.Before(k.classes.wake)) {
		return k.classes.wake
	}
	users := k.classUsers()
	var wake time.Time
	for _, nc := range k.deps.Cache.NodeClasses() {
		claims := users[nc.Name]
		key := "nodeclass/" + nc.Name
		version := string(nc.UID) + "/" + nc.ResourceVersion + "/" + strconv.Itoa(len(claims))
		if due := planner.Latest(k.classDue(nc.Name, version, now), k.effects.Retries.At(key, now)); now.Before(due) || k.deps.Outdated.Has(nc, now) {
			wake = effects.Earliest(planner.Latest(due, now.Add(classesMin)), wake)
			continue
		}
		k.effects.Start(key, lane.NodeClass, func(ctx context.Context) error {
			defer k.classes.touched.Store(true)
			return k.reconcileClass(ctx, key, version, nc, claims)
		})
	}
	k.classes.wake = wake
	return wake
}

// classUsers are the NodeClaims that refer to each NodeClass.
func (k *Keeper) classUsers() map[string][]*karpv1.NodeClaim {
	users := map[string][]*karpv1.NodeClaim{}
	now := k.host.Now()
	for _, o := range k.deps.Cache.NodeClaims() {
		if o = k.newest(o, now); claim.Managed(o) {
			users[o.Spec.NodeClassRef.Name] = append(users[o.Spec.NodeClassRef.Name], o)
		}
	}
	return users
}

func (k *Keeper) reconcileClass(ctx context.Context, key, version string, nc *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) error {
	change, again, err := k.deps.Classes.Reconcile(ctx, nc, claims)
	if change.Object != nil { // what did work is written also when something failed
		err = errors.Join(err, nodeclass.Apply(ctx, k.deps.Kube, nc, change))
	}
	for _, e := range change.Events {
		if k.host.Now().Sub(nc.CreationTimestamp.Time) < readyWithin {
			e.Type = corev1.EventTypeNormal
		}
		k.host.Event(e)
	}
	if err != nil {
		return k.effects.PutOff(key, fmt.Errorf("reconcile EC2NodeClass %s: %w", nc.Name, err))
	}
	k.effects.Retries.Succeeded(key)
	k.effects.Hold(key, classesMin)
	if again <= 0 || again > classesMax {
		again = classesMax
	}
	k.classDone(nc.Name, version, k.host.Now().Add(again))
	return nil
}

// classDue is when the class is to be looked at again; zero if it is not as it was last time, or if the clock
// was set back since.
func (k *Keeper) classDue(name, version string, now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.classAt[name]; r.version == version && r.at.Sub(now) <= classesMax {
		return r.at
	}
	return time.Time{}
}

func (k *Keeper) classDone(name, version string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.classAt[name] = classRun{at: at, version: version}
}

// TouchClasses has the next step look at EC2NodeClasses.
func (k *Keeper) TouchClasses() { k.classes.touched.Store(true) }
