package status

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	"millwright/planner"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// buffersEvery is how often the status of CapacityBuffers is looked at.
const buffersEvery = time.Second

// wantedStatus of a CapacityBuffer.
type wantedStatus struct {
	buffer *bufferv1beta1.CapacityBuffer
	status bufferv1beta1.CapacityBufferStatus
}

// StepBuffers writes to the status of each CapacityBuffer how many pods it stands for, and where they fit, as
// the planner of this very World and Ledger sees it.
func (k *Keeper) StepBuffers(now time.Time) time.Time {
	if at := k.effects.Retries.At("buffers", now); now.Before(at) {
		return at
	}
	k.effects.Hold("buffers", buffersEvery)
	var list []wantedStatus
	gate := false
	_ = k.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error { // without a World it is written later
		gate = snap.Options.CapacityBuffers
		for _, b := range snap.Buffers() {
			if want := snap.BufferStatus(b); !equality.Semantic.DeepEqual(b.Object.Status, want) {
				list = append(list, wantedStatus{b.Object, want})
			}
		}
		return nil
	})
	if gate && !k.crdSeen.Load() {
		const key = "crd/capacitybuffers"
		if !k.effects.Waits(key) {
			k.effects.Start(key, lane.Converge, func(ctx context.Context) error { return k.installBufferCRD(ctx, key) })
		}
	}
	for _, w := range list {
		key := "capacitybuffer/" + w.buffer.Namespace + "/" + w.buffer.Name
		if k.effects.Waits(key) || k.deps.Outdated.Has(w.buffer, now) {
			continue
		}
		k.effects.Start(key, lane.Converge, func(ctx context.Context) error { return k.writeBuffer(ctx, key, w) })
	}
	return now.Add(buffersEvery)
}

func (k *Keeper) writeBuffer(ctx context.Context, key string, w wantedStatus) error {
	after := w.buffer.DeepCopy()
	after.Status = w.status
	if _, err := k.deps.Kube.UpdateBufferStatus(ctx, w.buffer, after); err != nil {
		return k.effects.PutOff(key, fmt.Errorf("write status of capacitybuffer %s/%s: %w", w.buffer.Namespace, w.buffer.Name, err))
	}
	k.effects.Retries.Succeeded(key)
	return nil
}

// installBufferCRD makes the CRD where there is none: the API is shared, so one that is there is left as it
// is. Without the right to make it nothing more is tried: somebody else installs it, or there are no
// CapacityBuffers.
func (k *Keeper) installBufferCRD(ctx context.Context, key string) error {
	err := k.deps.Kube.InstallBufferCRD(ctx)
	if err != nil && kube.Classify(err) != kube.Permanent {
		return k.effects.PutOff(key, fmt.Errorf("install the CRD of CapacityBuffers: %w", err))
	}
	k.crdSeen.Store(true)
	k.effects.Retries.Succeeded(key)
	return err
}
