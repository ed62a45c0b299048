package disruptor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"millwright/planner/condition"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/world"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
)

// stale is a node that is marked although nothing removes it.
type stale struct {
	node, claim       string
	nodeUID, claimUID types.UID
	// nodeVersion is the resourceVersion of the Node that was checked.
	nodeVersion string
	tainted     bool
}

// takeBack removes taint and condition from nodes that no command, deletion or drain accounts for: of a
// command that was rolled back, or of one that another autoscaler left behind.
func (s *Service) takeBack() error {
	var list []stale
	err := s.host.Snapshot(service.ForDisruption, func(snap *planner.Snapshot) error {
		now := idle{at: snap.Now, seq: snap.Ledger.Seq(), revision: snap.World.UnboundRevision()}
		if s.cleared.tooSoon(now) {
			return nil
		}
		s.cleared = now
		if !anyMark(snap) {
			return nil
		}
		for _, n := range snap.StateNodes() {
			if x, ok := staleMark(snap, n); ok {
				list = append(list, x)
			}
		}
		return nil
	})
	for _, x := range list {
		s.unmark(x)
	}
	return err
}

// anyMark reports that some node has a mark, rightly or not.
func anyMark(snap *planner.Snapshot) bool {
	return slices.ContainsFunc(snap.World.NodeClaims(), func(c *karpv1.NodeClaim) bool {
		return condition.Get(c.Status.Conditions, karpv1.ConditionTypeDisruptionReason) != nil
	}) || slices.ContainsFunc(snap.World.Nodes(), func(n *world.Node) bool { return kube.IsDisrupted(n.Object) })
}

func staleMark(snap *planner.Snapshot, n *planner.StateNode) (stale, bool) {
	if n.Claim == nil || n.Node == nil || !n.Registered || n.MarkedForDeletion ||
		n.Node.Object.DeletionTimestamp != nil || snap.Ledger.Drain(n.Name) != nil || snap.CommandOf(n.Claim.Name) != "" {
		return stale{}, false
	}
	tainted := kube.IsDisrupted(n.Node.Object)
	condition := condition.Get(n.Claim.Status.Conditions, karpv1.ConditionTypeDisruptionReason)
	x := stale{node: n.Name, claim: n.Claim.Name, nodeUID: n.Node.Object.UID, claimUID: n.Claim.UID,
		nodeVersion: n.Node.Object.ResourceVersion, tainted: tainted}
	return x, tainted || condition != nil
}

// unmark checks both objects again before it changes them.
func (s *Service) unmark(x stale) {
	s.startEffect("taint/"+x.node, "unmark "+x.node+" at "+x.nodeVersion, func(ctx context.Context) error {
		claim, err := s.kube.GetNodeClaim(ctx, x.claim)
		if err != nil || claim.UID != x.claimUID || claim.DeletionTimestamp != nil {
			return ignore(err, kube.NotFound)
		}
		return errors.Join(s.untaint(ctx, x), s.clear(ctx, x))
	})
}

// untaint removes the mark only from the Node in the state that was checked: a later state may carry the mark
// of a later command, which this process, if it no longer leads, does not know of.
func (s *Service) untaint(ctx context.Context, x stale) error {
	node, err := s.kube.Node(ctx, x.node)
	if err != nil || node.UID != x.nodeUID || node.ResourceVersion != x.nodeVersion || node.DeletionTimestamp != nil {
		return ignore(err, kube.NotFound)
	}
	patch := kube.WithoutDisruptedTaint(node)
	if patch == nil {
		return nil
	}
	if _, err := s.kube.PatchNode(ctx, x.node, *patch); err != nil {
		return ignore(fmt.Errorf("untaint node %s: %w", x.node, err), kube.NotFound)
	}
	s.logger.Info().Str("node", x.node).Str("nodeclaim", x.claim).Msg("removed stale taint")
	return nil
}

func (s *Service) clear(ctx context.Context, x stale) error {
	err := s.kube.SetClaimCondition(ctx, x.claim, x.claimUID, metav1.Condition{Type: karpv1.ConditionTypeDisruptionReason}, s.host.Now())
	return ignore(err, kube.NotFound)
}
