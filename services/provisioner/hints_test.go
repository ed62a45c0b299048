package provisioner_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/provisioner"
)

// hinter notes the hints; err is the answer to each of them.
type hinter struct {
	mu    sync.Mutex
	calls []string
	err   error
}

func (h *hinter) HintPod(_ context.Context, _, name string, _ types.UID, version, node string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, name+"@"+version+" -> "+node)
	return version + "h", h.err
}

// versioned gives a pod a resourceVersion, and what the scheduler has nominated.
func versioned(version, nominated string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.ResourceVersion, p.Status.NominatedNodeName = version, nominated }
}

// hinted runs a provisioner that has planned a claim for the pod "p" at version 1.
func hinted(t *testing.T, test func(r *hosttest.Rig, s *provisioner.Service, h *hinter, claim string)) {
	t.Helper()
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general"))
		h := &hinter{}
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Kube: h})
		r.Settle(s, 2*time.Second)
		created := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(r.Now()) }
		r.See(pending("p", versioned("1", ""), created))
		r.Settle(s, time.Second)
		claim := ledger.ClaimName(r.Host.LogID(), "general", r.Entries(ledger.KindProvisioningPlanned)[0].Seq, 0)
		r.Append(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim, UID: "uid"}, ledger.ClaimAggregate(claim))
		if len(h.calls) > 0 {
			t.Errorf("hints before there is a node: %v", h.calls)
		}
		test(r, s, h, claim)
	})
}

// join shows the node of a claim, not ready yet.
func join(r *hosttest.Rig, claim string, options ...func(*karpv1.NodeClaim)) {
	n := plannertest.Node("n", plannertest.NotReady)
	delete(n.Labels, karpv1.NodeInitializedLabelKey)
	r.See(plannertest.Claim(claim, "n", "general", options...), n)
}

func TestAPodIsHintedWhenItsNodeIsThere(t *testing.T) {
	hinted(t, func(r *hosttest.Rig, s *provisioner.Service, h *hinter, claim string) {
		join(r, claim)
		r.Settle(s, 20*time.Second)
		if want := []string{"p@1 -> n"}; !slices.Equal(h.calls, want) {
			t.Fatalf("hints %v, want %v", h.calls, want)
		}
		r.See(pending("p", versioned("1h", "")))
		r.Settle(s, 20*time.Second)
		if len(h.calls) != 1 {
			t.Errorf("a hint that stands is written again: %v", h.calls)
		}
		for i := range 10 {
			r.See(pending("p", versioned(fmt.Sprint("later-", i), "")))
			r.Settle(s, 3*time.Second)
		}
		if n := len(h.calls); n < 3 || n > 6 {
			t.Errorf("%d hints to a scheduler that takes each back, want a few: %v", n, h.calls)
		}
	})
}

func TestAStaleHintIsCleared(t *testing.T) {
	hinted(t, func(r *hosttest.Rig, s *provisioner.Service, h *hinter, claim string) {
		join(r, claim)
		r.Settle(s, time.Second)
		r.See(pending("p", versioned("2", "")))
		join(r, claim, func(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: r.Now()} })
		r.Settle(s, 5*time.Second)
		if want := []string{"p@1 -> n", "p@2 -> "}; !slices.Equal(h.calls, want) {
			t.Errorf("hints %v, want %v", h.calls, want)
		}
	})
}

func TestWhatTheSchedulerNominatesStays(t *testing.T) {
	hinted(t, func(r *hosttest.Rig, s *provisioner.Service, h *hinter, claim string) {
		r.See(pending("p", versioned("2", "preempting")))
		join(r, claim)
		r.Settle(s, 5*time.Second)
		if len(h.calls) > 0 {
			t.Errorf("hints over the scheduler's own: %v", h.calls)
		}
	})
}

func TestAHintThatLostIsWrittenToThePodAsItIsThen(t *testing.T) {
	hinted(t, func(r *hosttest.Rig, s *provisioner.Service, h *hinter, claim string) {
		h.err = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", nil)
		join(r, claim)
		r.Settle(s, 5*time.Second)
		if len(h.calls) != 1 {
			t.Fatalf("a write that lost is repeated as it was: %v", h.calls)
		}
		h.err = nil
		r.See(pending("p", versioned("2", "")))
		r.Settle(s, time.Second)
		if want := []string{"p@1 -> n", "p@2 -> n"}; !slices.Equal(h.calls, want) {
			t.Errorf("hints %v, want %v", h.calls, want)
		}
	})
}

// A watcher of the previous version shows hints as nominations, by which pods count as placed: beside it no
// hints are given.
func TestNoHintsBesideAnOldWatcher(t *testing.T) {
	hinted(t, func(r *hosttest.Rig, s *provisioner.Service, h *hinter, claim string) {
		join(r, claim)
		r.Settle(s, time.Second)
		r.See(pending("p", versioned("1h", "n")))
		r.Settle(s, 5*time.Second)
		r.See(pending("p", versioned("3", "")))
		r.Settle(s, 5*time.Second)
		if len(h.calls) != 1 {
			t.Errorf("hints go on: %v", h.calls)
		}
	})
}

func TestAStopEndsHints(t *testing.T) {
	hinted(t, func(r *hosttest.Rig, s *provisioner.Service, h *hinter, claim string) {
		r.Stop(ledger.StopAll)
		join(r, claim)
		r.Settle(s, 5*time.Second)
		if len(h.calls) > 0 {
			t.Errorf("hints under a stop: %v", h.calls)
		}
	})
}

// slowHinter takes long for each hint.
type slowHinter struct {
	hinter
	takes time.Duration
}

func (h *slowHinter) HintPod(ctx context.Context, namespace, name string, uid types.UID, version, node string) (string, error) {
	select {
	case <-time.After(h.takes):
		return h.hinter.HintPod(ctx, namespace, name, uid, version, node)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// As behind a webhook of admission that does not answer: what there was no time for is written later.
func TestEachPodOfANodeIsHintedThoughEachWriteTakesLong(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general"))
		h := &slowHinter{takes: 26 * time.Second}
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Kube: h})
		r.Settle(s, 2*time.Second)
		names := []string{"p1", "p2", "p3", "p4", "p5", "p6"}
		for _, name := range names {
			r.See(pending(name, versioned(name, ""), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(r.Now()) }))
		}
		r.Settle(s, time.Second)
		claim := ledger.ClaimName(r.Host.LogID(), "general", r.Entries(ledger.KindProvisioningPlanned)[0].Seq, 0)
		r.Append(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim, UID: "uid"}, ledger.ClaimAggregate(claim))
		join(r, claim)
		r.Settle(s, 5*time.Minute)
		for _, name := range names {
			if !slices.Contains(h.calls, name+"@"+name+" -> n") {
				t.Errorf("no hint for %s: %v", name, h.calls)
			}
		}
	})
}
