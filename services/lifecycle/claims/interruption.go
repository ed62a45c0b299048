package claims

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/planner/claim"
	"millwright/services/internal/service"
)

// notice is how people are told of a message (reference: operations §3).
type notice struct{ kind, reason, message string }

var notices = map[string]notice{
	events.SpotInterrupted:         {corev1.EventTypeWarning, "SpotInterrupted", "Spot interruption warning was triggered"},
	events.RebalanceRecommendation: {corev1.EventTypeNormal, "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered"},
	events.ScheduledChange:         {corev1.EventTypeWarning, "InstanceUnhealthy", "An unhealthy warning was triggered for the instance"},
	events.InstanceStatus:          {corev1.EventTypeWarning, "InstanceUnhealthy", "An unhealthy warning was triggered for the instance"},
	events.SystemStatus:            {corev1.EventTypeWarning, "InstanceUnhealthy", "An unhealthy warning was triggered for the instance"},
	events.EventStatus:             {corev1.EventTypeWarning, "InstanceUnhealthy", "An unhealthy warning was triggered for the instance"},
	events.InstanceStopped:         {corev1.EventTypeWarning, "InstanceStopping", "Instance is stopping"},
	events.InstanceTerminated:      {corev1.EventTypeWarning, "InstanceTerminating", "Instance is terminating"},
	events.CapacityReservationInterrupted: {corev1.EventTypeWarning, "CapacityReservationInstanceInterrupted",
		"Capacity Reservation interruption warning was triggered"},
}

// tellInterruptions publishes what came about the claim's instance since it was last looked at. Of an
// instance that ends because the claim does, nothing is reported.
func (r *report) tellInterruptions(v *claimView, mem *memory) {
	if v.own() == nil || v.own().DeletionTimestamp != nil {
		return
	}
	for _, i := range v.input.Interruptions {
		if mem.isTold(v.name, i.Kind, i.At) {
			continue
		}
		if n, ok := notices[i.Kind]; ok {
			r.tellBoth(v, n.kind, n.reason, n.message, n.message)
		}
	}
}

// tellEndedBy publishes that a message ends the claim.
func (r *report) tellEndedBy(v *claimView, a claim.Action) {
	if _, ok := notices[a.Reason]; !ok || v.own() == nil || v.own().DeletionTimestamp != nil {
		return
	}
	r.tellBoth(v, corev1.EventTypeWarning, "TerminatingOnInterruption",
		"Interruption triggered termination for the NodeClaim", "Interruption triggered termination for the Node")
}

// tellBoth publishes about the NodeClaim and its Nodes.
func (r *report) tellBoth(v *claimView, kind, reason, ofClaim, ofNode string) {
	r.host.Event(service.KubeEvent{Object: referenceTo(v.own()), Type: kind, Reason: reason, Message: ofClaim})
	for _, n := range v.nodes {
		r.host.Event(service.KubeEvent{Object: referenceToNode(n), Type: kind, Reason: reason, Message: ofNode})
	}
}

// isTold reports that a message was reported already, and remembers that it is now.
func (m *memory) isTold(name, kind string, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := toldKey{name, kind}
	if m.told[key].Equal(at) {
		return true
	}
	m.told[key] = at
	return false
}

type toldKey struct{ name, kind string }
