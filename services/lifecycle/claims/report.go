package claims

import (
	"fmt"
	"slices"
	"time"

	"millwright/planner/condition"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
)

// report tells people of claims, by KubeEvents and in the log of the process.
type report struct {
	host   service.Host
	cache  Cache
	logger zerolog.Logger
}

// eventErrorMax bounds an error in a KubeEvent.
const eventErrorMax = 300

func referenceTo(o *karpv1.NodeClaim) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodeClaim", Name: o.Name, UID: o.UID}
}

func referenceToNode(n *corev1.Node) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
}

// tellTransitions publishes one KubeEvent per condition whose status changed.
func (r *report) tellTransitions(before, after *karpv1.NodeClaim) {
	for _, c := range after.Status.Conditions {
		from := "Unknown"
		if old := condition.Get(before.Status.Conditions, c.Type); old != nil {
			from = string(old.Status)
		}
		if from == string(c.Status) {
			continue
		}
		r.host.Event(service.KubeEvent{
			Object: referenceTo(after), Type: corev1.EventTypeNormal, Reason: c.Type, Message: service.Transition(c.Type, from, string(c.Status), c.Reason, c.Message),
		})
		r.logger.Info().Str("nodeclaim", after.Name).Str("condition", c.Type).Str("status", string(c.Status)).
			Str("reason", c.Reason).Msg("nodeclaim condition changed")
		if c.Type == karpv1.ConditionTypeConsistentStateFound && c.Status == metav1.ConditionFalse {
			r.tellShortfalls(after)
		}
	}
}

// tellShortfalls names each resource of which the claim's Node has too little.
func (r *report) tellShortfalls(o *karpv1.NodeClaim) {
	for _, n := range r.cache.NodesByProviderID(o.Status.ProviderID) {
		for _, text := range claim.Shortfalls(o, n) {
			r.host.Event(service.KubeEvent{Object: referenceTo(o), Type: corev1.EventTypeWarning, Reason: "FailedConsistencyCheck", Message: text})
		}
	}
}

// tellRefused says of a NodePool why no NodeClaim can be made of it.
func (r *report) tellRefused(v *claimView, err error) {
	p := v.ledger.Planned
	r.host.Event(service.KubeEvent{
		Object: corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool", Name: p.NodePool, UID: p.NodePoolUID},
		Type:   corev1.EventTypeWarning, Reason: "NodeClaimRefused", Message: shorten("The API server refuses a NodeClaim of NodePool " + p.NodePool + ": " + err.Error()),
	})
}

// tellStray says why a NodeClaim goes that was copied from one that Millwright made.
func (r *report) tellStray(v *claimView, a claim.Action) {
	if a.Reason == claim.ReasonWithdrawn && v.object != nil {
		r.host.Event(service.KubeEvent{Object: referenceTo(v.object), Type: corev1.EventTypeWarning, Reason: "NodeClaimWithdrawn",
			Message: "Deleted: annotation " + karpv1.RecordAnnotationKey + " says that it was planned, and the plan has been given up. A NodeClaim made by hand must not have it"})
	}
}

func (r *report) tellNoCapacity(v *claimView, f *ec2.Failure) {
	if v.object == nil || f.Class != ec2.NoCapacity {
		return
	}
	r.host.Event(service.KubeEvent{
		Object: referenceTo(v.object), Type: corev1.EventTypeWarning, Reason: "InsufficientCapacityError",
		Message: fmt.Sprintf("NodeClaim %s event: %s", v.name, shorten("insufficient capacity, "+f.Message)),
	})
}

// tellClassless says of a claim why it goes without a launch that failed: for its EC2NodeClass.
func (r *report) tellClassless(v *claimView, a claim.Action) {
	reason, why := "NodeClassNotReady", "NodeClassRef not ready, "
	switch {
	case v.own() == nil || v.own().DeletionTimestamp != nil:
		return
	case a.Reason == claim.ReasonInsufficientCapacity && v.input.NodeClass == nil:
		reason, why = "InsufficientCapacityError", "insufficient capacity, "
	case a.Reason != claim.ReasonNodeClassNotReady:
		return
	}
	r.host.Event(service.KubeEvent{
		Object: referenceTo(v.own()), Type: corev1.EventTypeWarning, Reason: reason,
		Message: fmt.Sprintf("NodeClaim %s event: %s", v.name, shorten(why+a.Message)),
	})
}

// tellForbidden says for a claim that the account may have no spot instances at all.
func (r *report) tellForbidden(v *claimView, failed []ledger.FailedOffering) {
	for _, f := range failed {
		if v == nil || v.object == nil || f != (ledger.FailedOffering{CapacityType: karpv1.CapacityTypeSpot, Code: f.Code}) {
			continue
		}
		r.host.Event(service.KubeEvent{
			Object: referenceTo(v.object), Type: corev1.EventTypeWarning, Reason: "SpotSLRCreationFailed",
			Message: fmt.Sprintf("Attempted to launch a spot instance but failed due to %q", f.Code),
		})
	}
}

func shorten(text string) string {
	if r := []rune(text); len(r) > eventErrorMax {
		return string(r[:eventErrorMax]) + "..."
	}
	return text
}

func (r *report) tellMissingTaint(v *claimView, n *corev1.Node) {
	r.host.Event(service.KubeEvent{
		Object: referenceTo(v.object), Type: corev1.EventTypeWarning, Reason: "UnregisteredTaintMissing",
		Message: "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes",
	})
	r.logger.Warn().Str("nodeclaim", v.name).Str("node", n.Name).Msg("node joined without the unregistered taint")
}

func (r *report) tellDeadline(v *claimView, deadline string) {
	message := "All pods will be deleted by " + deadline
	r.host.Event(service.KubeEvent{Object: referenceTo(v.object), Type: corev1.EventTypeWarning, Reason: "TerminationGracePeriodExpiring", Message: message})
	for _, n := range v.nodes {
		r.host.Event(service.KubeEvent{Object: referenceToNode(n), Type: corev1.EventTypeWarning, Reason: "TerminationGracePeriodExpiring", Message: message})
	}
}

func (r *report) tellFinalized(v *claimView) {
	o := v.own()
	r.host.Event(service.KubeEvent{
		Object: referenceTo(o), Type: corev1.EventTypeNormal, Reason: "Finalized", Message: "Finalized " + karpv1.TerminationFinalizer,
	})
	r.logger.Info().Str("nodeclaim", v.name).Str("nodepool", v.pool()).Str("provider_id", providerID(v.ledger, o)).Msg("deleted nodeclaim")
}

func (r *report) logDoom(v *claimView, a claim.Action) {
	message := map[string]string{
		claim.ReasonUnhealthy:           "deleting unhealthy node",
		claim.ReasonBlockEnding:         "deleting nodeclaim whose capacity block ends",
		claim.ReasonExpired:             "deleting expired nodeclaim",
		claim.ReasonGarbageCollected:    "garbage collecting nodeclaim with no cloudprovider representation",
		claim.ReasonLaunchTimeout:       "terminating due to timeout",
		claim.ReasonRegistrationTimeout: "terminating due to timeout",
	}[a.Reason]
	if _, ok := notices[a.Reason]; ok {
		message = "initiating delete from interruption message"
	}
	if message == "" {
		message = "deleting nodeclaim"
	}
	r.logger.Info().Str("nodeclaim", v.name).Str("nodepool", v.pool()).Str("reason", a.Reason).Str("message_text", a.Message).Msg(message)
}

// typesLogged bounds the instance types that a log line names.
const typesLogged = 5

func (r *report) logCreated(v *claimView) {
	p := v.ledger.Planned
	types := slices.Clone(p.InstanceTypes[:min(len(p.InstanceTypes), typesLogged)])
	if more := len(p.InstanceTypes) - typesLogged; more > 0 {
		types = append(types, fmt.Sprintf("and %d other(s)", more))
	}
	r.logger.Info().Str("nodeclaim", v.name).Str("nodepool", v.pool()).Interface("requests", p.Requests.List()).
		Strs("instance_types", types).Uint64("decision_id", v.ledger.ContentSeq()).Msg("created nodeclaim")
}

func (r *report) logLaunched(v *claimView, l *ledger.Launched) {
	r.logger.Info().Str("nodeclaim", v.name).Str("nodepool", v.pool()).Str("provider_id", l.ProviderID).Str("instance_type", l.InstanceType).
		Str("zone", l.Zone).Str("capacity_type", l.CapacityType).Int("attempt", l.Attempt).Msg("launched nodeclaim")
}

func (r *report) logLaunchFailed(v *claimView, l *ledger.LaunchFailed) {
	r.logger.Warn().Str("nodeclaim", v.name).Str("nodepool", v.pool()).Str("class", l.Class).Str("reason", l.Reason).Int("attempt", l.Attempt).
		Str("error", shorten(l.Message)).Msg("failed launching nodeclaim")
}

func (r *report) logNode(n *corev1.Node) *zerolog.Event {
	return r.logger.Info().Str("node", n.Name).Str("nodepool", n.Labels[karpv1.NodePoolLabelKey]).Str("provider_id", n.Spec.ProviderID)
}

// age since t in seconds.
func age(now, t time.Time) float64 { return max(0, now.Sub(t).Seconds()) }
