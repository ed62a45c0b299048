package disruptor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt/drainout"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
	"millwright/store"
)

// Reasons of the KubeEvents on nodes that are to run empty by themselves, or are not any more.
const (
	EventDrainingOut   = "DrainingOut"
	EventDrainOutEnded = "DrainOutEnded"
)

// drainOuts ends what is over of the nodes that are to run empty by themselves, and has the taints follow the
// log: on those nodes, and on no other.
func (s *Service) drainOuts(ctx context.Context) error {
	if err := s.endDrainOuts(ctx); err != nil {
		return err
	}
	var taint, untaint []marked
	err := s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		s.metrics.drain(snap)
		now := idle{at: snap.Now, seq: snap.Ledger.Seq(), revision: snap.World.UnboundRevision()}
		if !s.tainted.tooSoon(now) {
			s.tainted = now
			taint, untaint = drainOutTaints(snap)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range taint {
		s.startEffect("taint/"+n.name, "let drain out "+n.name, func(ctx context.Context) error { return s.letDrainOut(ctx, n) })
	}
	for _, n := range untaint {
		s.startEffect("taint/"+n.name, "do not let drain out "+n.name+" at "+n.version, func(ctx context.Context) error { return s.endTaint(ctx, n) })
	}
	return nil
}

// endDrainOuts records the end of those that are over by one look, such as when a person has paused or
// stopped disruption. Whether their pods still fit elsewhere is asked when everything is planned.
func (s *Service) endDrainOuts(ctx context.Context) error {
	var p pending
	err := s.host.Snapshot(service.ForDisruption, func(snap *planner.Snapshot) error {
		now := idle{at: snap.Now, seq: snap.Ledger.Seq(), revision: snap.World.Revision()}
		if s.stopped() && snap.Ledger.Stop() == ledger.StopNone || s.overseen.tooSoon(now) {
			return nil // without an answer from the log it is not known that anybody stopped it
		}
		s.overseen = now
		p = pending{decision: drainout.Ends(snap), basis: snap.Basis()}
		return nil
	})
	if err != nil || p.decision == nil {
		return err
	}
	s.overseen = idle{}
	rec, err := s.host.Decide(ctx, p.basis, *p.decision)
	switch {
	case errors.Is(err, store.ErrConflict): // the next step looks again
		return nil
	case err != nil:
		return fmt.Errorf("end drain-outs: %w", err)
	case rec.Seq != 0:
		s.tellDrainOuts(p.decision)
	}
	return nil
}

// marked is a Node as it was checked, with its resourceVersion.
type marked struct {
	name, version string
	object        *corev1.Node
}

// drainOutTaints are the nodes that lack the taint, and those that have it though nothing asks for it.
func drainOutTaints(snap *planner.Snapshot) (lack, excess []marked) {
	for _, name := range snap.Ledger.DrainOuts() {
		n := snap.StateNode(name)
		if n == nil || n.Node == nil || n.MarkedForDeletion || !snap.DrainsOut(n) || hasDrainOut(n.Node.Object) {
			continue
		}
		lack = append(lack, marked{name, n.Node.Object.ResourceVersion, n.Node.Object})
	}
	for _, w := range snap.World.Nodes() {
		if !hasDrainOut(w.Object) || w.Object.DeletionTimestamp != nil {
			continue
		}
		if n := snap.StateNode(w.Object.Name); n == nil || !snap.DrainsOut(n) {
			excess = append(excess, marked{w.Object.Name, w.Object.ResourceVersion, w.Object})
		}
	}
	return lack, excess
}

func hasDrainOut(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, planner.IsDrainOut) }

func (s *Service) letDrainOut(ctx context.Context, n marked) error {
	node, err := s.kube.Node(ctx, n.name)
	if err != nil || node.UID != n.object.UID {
		return ignore(err, kube.NotFound)
	}
	patch := kube.WithDrainOutTaint(node)
	if patch == nil {
		return nil
	}
	if err := s.unlessStopped("taint node " + n.name); err != nil {
		return err
	}
	if _, err := s.kube.PatchNode(ctx, n.name, *patch); err != nil {
		return ignore(fmt.Errorf("taint node %s: %w", n.name, err), kube.NotFound)
	}
	s.logger.Info().Str("node", n.name).Str("taint", mwv1alpha1.DrainOutTaintKey).Msg("tainted node")
	return nil
}

// endTaint takes the taint from the Node in the state that was checked: a later one may have it for what was
// recorded since, of which this process, if it no longer leads, does not know.
func (s *Service) endTaint(ctx context.Context, n marked) error {
	node, err := s.kube.Node(ctx, n.name)
	if err != nil || node.UID != n.object.UID || node.ResourceVersion != n.version {
		return ignore(err, kube.NotFound)
	}
	patch := kube.WithoutDrainOutTaint(node)
	if patch == nil {
		return nil
	}
	if _, err := s.kube.PatchNode(ctx, n.name, *patch); err != nil {
		return ignore(fmt.Errorf("untaint node %s: %w", n.name, err), kube.NotFound)
	}
	s.logger.Info().Str("node", n.name).Str("taint", mwv1alpha1.DrainOutTaintKey).Msg("untainted node")
	return nil
}

// tellDrainOuts publishes and logs a decision about nodes that are to run empty by themselves.
func (s *Service) tellDrainOuts(d *planner.Decision) {
	tell := func(node, reason, message string) {
		s.host.Event(service.KubeEvent{Object: nodeReference(node), Type: corev1.EventTypeNormal, Reason: reason, Message: message, DedupeFor: time.Hour})
		s.logger.Info().Str("node", node).Str("reason", reason).Msg(message)
	}
	switch p := d.Payload.(type) {
	case *ledger.DrainOutStarted:
		for i := range p.Nodes {
			n := &p.Nodes[i]
			var pods []string
			for _, pod := range n.Pods {
				pods = append(pods, fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, pod.Why))
			}
			if n.PodsMore > 0 {
				pods = append(pods, fmt.Sprintf("%d more", n.PodsMore))
			}
			tell(n.Node, EventDrainingOut, fmt.Sprintf("Node is to run empty by itself, as DisruptionPolicy %q wants: nothing but these pods keeps it: %s", n.Policy, strings.Join(pods, ", ")))
		}
	case *ledger.DrainOutEnded:
		for _, n := range p.Nodes {
			tell(n.Node, EventDrainOutEnded, "Node is not to run empty by itself any more: "+n.Reason)
		}
	}
}

// drain counts the nodes that are to run empty by themselves.
func (m *metrics) drain(snap *planner.Snapshot) {
	m.drainingOut.Reset()
	for _, node := range snap.Ledger.DrainOuts() {
		d, _ := snap.Ledger.DrainOut(node)
		m.drainingOut.WithLabelValues(d.NodePool).Inc()
	}
}
