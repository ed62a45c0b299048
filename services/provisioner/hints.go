package provisioner

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// kube-scheduler does not know the plan: it may bind a pod elsewhere, so that the node that was launched for
// it stays half empty. A placement hint is the pod's status.nominatedNodeName, set to the node that the pod
// waits for as soon as that node exists: the scheduler tries it first, and reserves its room against pods of
// no higher priority. Nothing relies on a hint. The scheduler's own nominations, for preemption, are kept.

const (
	// hintsMax is how often the same node is hinted for a pod: the scheduler may clear a hint each time the
	// pod fits nowhere.
	hintsMax = 5
	// hintAgain is how long a hint is left alone before it is set again.
	hintAgain = 2 * time.Second
	// hintTimeout bounds the hints of one node. It is as long as the API server works on one request.
	hintTimeout = time.Minute
)

// Hinter sets placement hints.
type Hinter interface {
	// HintPod sets status.nominatedNodeName of the pod with this UID and resourceVersion, and returns its new
	// resourceVersion; "" clears the hint.
	HintPod(ctx context.Context, namespace, name string, uid types.UID, resourceVersion, node string) (string, error)
}

// hints are those given, by pod. Entries of pods that no longer wait are dropped at each look.
type hints struct {
	mu    sync.Mutex
	given map[types.UID]*hint
	// off: the watcher does not distinguish hints from the scheduler's nominations, so pods with one would
	// count as placed.
	off bool
	// started is when the first look was: older pods may have hints of another process.
	started time.Time
}

// hint is what was last written for a pod.
type hint struct {
	// node is "" once it was cleared, and hintUnknown if the write failed.
	node string
	// base is the resourceVersion that the write was bound to, written the one that it produced.
	base, written string
	at            time.Time
	// times that node was written; busy: a write is under way.
	times int
	busy  bool
}

// hintUnknown is not a valid node name.
const hintUnknown = "?"

// pendingHint is a write that is due.
type pendingHint struct {
	namespace, name string
	uid             types.UID
	version, node   string
}

// stepHints makes the hints follow the verdicts on record.
func (s *Service) stepHints() {
	if s.kube == nil || s.hints.off || s.host.Stop() == ledger.StopAll {
		return
	}
	var due map[string][]pendingHint
	err := s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		due = s.hints.due(snap, s.host.Now())
		return nil
	})
	if err != nil {
		return // looked at again once there is a World
	}
	for node, list := range due {
		taken := s.host.Effect("hints/"+node, lane.Converge, hintTimeout, func(ctx context.Context) error { return s.writeHints(ctx, list) })
		if !taken {
			s.hints.untried(list)
			s.hints.release(list)
		}
	}
}

// due lists the hints to write, by node.
func (h *hints) due(s *planner.Snapshot, now time.Time) map[string][]pendingHint {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started.IsZero() {
		h.started = now
	}
	next := map[types.UID]*hint{}
	var due map[string][]pendingHint
	for _, p := range s.World.PendingPods() {
		want := hintFor(s, p)
		x := h.given[p.UID]
		if x == nil && want == "" && (p.Created == 0 || p.Created > h.started.UnixNano()) {
			continue
		}
		if x == nil {
			x = &hint{} // it is not known whether another process has set a hint: clearing one that does not exist costs little
			if want == "" {
				x.node = hintUnknown
			}
		}
		next[p.UID] = x
		if p.NominatedNode != "" {
			h.off = h.off || p.NominatedNode == x.node && p.ResourceVersion == x.written
			continue
		}
		if !x.isDue(want, p.ResourceVersion, now) {
			continue
		}
		x.busy, x.base, x.at = true, p.ResourceVersion, now
		if x.node != want {
			x.times = 0
		}
		x.node, x.times = want, x.times+1
		if due == nil {
			due = map[string][]pendingHint{}
		}
		due[want] = append(due[want], pendingHint{p.Namespace, p.Name, p.UID, p.ResourceVersion, want})
	}
	h.given = next
	return due
}

// isDue reports that a hint is to be written for a pod at a resourceVersion.
func (x *hint) isDue(want, version string, now time.Time) bool {
	switch {
	case x.busy, x.base == version, x.written == version:
		return false // the World has not seen the last write, or the pod is as that write left it
	case x.base == "" && x.rests(now):
		return false // it failed
	case x.node != want:
		return true
	}
	return want != "" && x.times < hintsMax && !x.rests(now)
}

// rests reports that the hint was written a moment ago; a clock that was set back does not make it later.
func (x *hint) rests(now time.Time) bool {
	d := now.Sub(x.at)
	return 0 <= d && d < hintAgain
}

// hintFor is the node that a pod waits for, once that exists; "" if there is none.
func hintFor(s *planner.Snapshot, p *world.Pod) string {
	if !planner.IsProvisionable(p) {
		return ""
	}
	v := s.Ledger.Verdict(p.UID)
	if v == nil || !mayBeThere(s.World, v) {
		return ""
	}
	n := s.StateNode(v.Node)
	if v.Claim != "" {
		n = s.StateNodeOfClaim(v.Claim)
	}
	if n == nil || n.Node == nil || n.MarkedForDeletion {
		return ""
	}
	return n.Name
}

// mayBeThere looks for a Node of the verdict without a look at the whole cluster.
func mayBeThere(w *world.World, v *ledger.Verdict) bool {
	if v.Claim == "" {
		return v.Node != "" && w.Node(v.Node) != nil
	}
	c := w.NodeClaim(v.Claim)
	return c != nil && c.Status.ProviderID != "" && w.NodeByProviderID(c.Status.ProviderID) != nil
}

// writeHints writes the hints of one node.
func (s *Service) writeHints(ctx context.Context, list []pendingHint) error {
	defer s.hints.release(list)
	var failed error
	for i, p := range list {
		if s.host.Stop() == ledger.StopAll {
			s.hints.untried(list[i:])
			return service.ErrStopped
		}
		version, err := s.kube.HintPod(ctx, p.namespace, p.name, p.uid, p.version, p.node)
		outcome := "set"
		switch class := kube.Classify(err); {
		case class == kube.Conflict, class == kube.NotFound:
			outcome = "outdated" // the pod has changed since: looked at again once the World shows that
			s.hints.lost(p, p.version)
		case err != nil:
			outcome, failed = "failed", errors.Join(failed, err)
			s.hints.lost(p, "")
		case p.node == "":
			outcome = "cleared"
		}
		s.hints.wrote(p, version)
		s.metrics.hints.WithLabelValues(outcome).Inc()
		if ctx.Err() != nil {
			s.hints.untried(list[i+1:])
			break
		}
	}
	return failed
}

// wrote notes the version that a write produced; "" if there was nothing to write.
func (h *hints) wrote(p pendingHint, version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.given[p.uid]; x != nil {
		x.written = version
	}
}

// lost notes that a write was not made; it is not tried again while the pod is at base.
func (h *hints) lost(p pendingHint, base string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.given[p.uid]; x != nil {
		x.node, x.base = hintUnknown, base
	}
}

// untried notes writes for which there was no time, or no room: they are due again in a moment.
func (h *hints) untried(list []pendingHint) {
	for _, p := range list {
		h.lost(p, "")
	}
}

// release ends the writes.
func (h *hints) release(list []pendingHint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range list {
		if x := h.given[p.uid]; x != nil {
			x.busy = false
		}
	}
}
