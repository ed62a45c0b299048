package drain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
)

// IsOf reports that a drain is of this Node, of the NodeClaim with this UID or none, rather than of one that
// had its name before: EC2 gives an address, and with it the Node's name, to another instance soon. A drain
// is known by the name alone until its end is recorded. Without NodeClaims to go by, the times tell.
func IsOf(d *ledger.Drain, n *corev1.Node, claim types.UID) bool {
	if d.Started.ClaimUID != "" && claim != "" {
		return d.Started.ClaimUID == claim
	}
	return d.At.IsZero() || !n.CreationTimestamp.After(d.At.Add(ledger.ClockTolerance))
}
