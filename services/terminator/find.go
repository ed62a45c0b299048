package terminator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/claim"
	"millwright/planner/disrupt"
	"millwright/planner/drain"
	"millwright/planner/ledger"
)

// forceful is the reason of a drain that no command asked for (reference: operations §2.2).
const forceful = "Forceful Termination"

// leaving is a node that must be emptied.
type leaving struct {
	node *corev1.Node
	// claim is nil if the Node has none.
	claim *karpv1.NodeClaim
}

// nodesToDrain returns the nodes to drain, by name: managed Nodes that are being deleted and hold our
// finalizer, and Nodes of managed NodeClaims that are being deleted. Those of another provider, or of nobody
// without the label of an EC2NodeClass, are drained by who manages them.
func nodesToDrain(c Cluster) []leaving {
	nodes := map[string]*corev1.Node{}
	for _, n := range c.DeletingNodes() {
		nodes[n.Name] = n
	}
	for _, o := range c.DeletingNodeClaims() {
		for _, n := range c.NodesByProviderID(o.Status.ProviderID) {
			nodes[n.Name] = n
		}
	}
	var list []leaving
	for _, n := range nodes {
		l := leaving{node: n}
		if claims := c.NodeClaimsByProviderID(n.Spec.ProviderID); len(claims) > 0 {
			l.claim = claims[len(claims)-1]
		}
		deleted := n.DeletionTimestamp != nil && slices.Contains(n.Finalizers, karpv1.TerminationFinalizer)
		if l.managed() && (deleted || l.claim != nil && l.claim.DeletionTimestamp != nil && registered(n, l.claim)) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b leaving) int { return strings.Compare(a.node.Name, b.node.Name) })
	return list
}

// has reports that a drain is of this very node.
func (l leaving) has(d *ledger.Drain) bool {
	uid := types.UID("")
	if l.claim != nil {
		uid = l.claim.UID
	}
	return drain.IsOf(d, l.node, uid)
}

// managed reports that the node is of an EC2NodeClass. A Node that Karpenter 1.0 has made has no label of it.
func (l leaving) managed() bool {
	if l.claim != nil {
		return claim.Managed(l.claim)
	}
	_, labelled := l.node.Labels[awsv1.LabelEC2NodeClass]
	return labelled
}

func registered(n *corev1.Node, o *karpv1.NodeClaim) bool {
	c := condition.Get(o.Status.Conditions, karpv1.ConditionTypeRegistered)
	return n.Labels[karpv1.NodeRegisteredLabelKey] == "true" || c != nil && c.Status == metav1.ConditionTrue
}

// reason of the disruption: of the command that took the node, if one had its NodeClaim deleted. The Ledger
// says so: the condition DisruptionReason is also on a NodeClaim that somebody else has deleted before its
// command was confirmed, and it may come after the deletion, or late to this cache. relied are the aggregates
// that this follows from.
func (l leaving) reason(led *ledger.Ledger) (reason string, relied []string) {
	if l.claim == nil {
		return forceful, nil
	}
	relied = []string{ledger.ClaimAggregate(l.claim.Name)}
	known := led.Claim(l.claim.Name)
	if known == nil || known.UID != l.claim.UID {
		return forceful, relied
	}
	if id := led.TakenBy(known.Name, known.UID); id != "" {
		relied = append(relied, ledger.CommandAggregate(id))
		if cmd := led.Command(id); cmd != nil {
			if cmd.State == ledger.CommandConfirmedState {
				return string(cmd.Started.Reason), relied
			}
			return forceful, relied
		}
	}
	return cmp.Or(doomedFor(known), forceful), relied
}

// doomedFor is the reason of the command that has succeeded for a claim, also if EC2 has sent a notice since;
// "" if there was none.
func doomedFor(c *ledger.Claim) string {
	for _, r := range append(slices.Clone(disrupt.Reasons), mwv1alpha1.ReasonPreferredAvailable) {
		if c.Doomed != nil && c.Doomed.Reason == strings.ToLower(string(r)) {
			return string(r)
		}
	}
	return ""
}

// deadline is the termination timestamp; zero if there is none or it cannot be parsed.
func (l leaving) deadline() time.Time {
	if l.claim == nil {
		return time.Time{}
	}
	t, err := drain.ParseDeadline(l.claim.Annotations[karpv1.TerminationTimestampAnnotationKey])
	if err != nil {
		return time.Time{}
	}
	return t
}

// invalidDeadline is the termination timestamp if it cannot be parsed.
func (l leaving) invalidDeadline() (text string, invalid bool) {
	if l.claim != nil {
		text, invalid = l.claim.Annotations[karpv1.TerminationTimestampAnnotationKey]
	}
	_, err := drain.ParseDeadline(text)
	return text, invalid && err != nil
}

func (l leaving) claimName() string {
	if l.claim == nil {
		return ""
	}
	return l.claim.Name
}
