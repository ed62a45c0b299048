package preflight

import (
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// actorLease is held by the one autoscaler, Karpenter or Millwright, that acts on a cluster.
const actorLease = "karpenter-leader-election"

// otherAutoscalers hold these Leases.
var otherAutoscalers = []string{"cluster-autoscaler"}

// checkLease looks in all namespaces for autoscalers that are active.
func checkLease(ctx context.Context, cfg Config, r *report) {
	c := client(cfg, r)
	if c == nil {
		return
	}
	leases, err := c.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	if err != nil {
		r.add(Skipped, "", "Ask as a user who may list Leases.", "list Leases: %v", err)
		return
	}
	found := false
	for i := range leases.Items {
		l := &leases.Items[i]
		object, holder := l.Namespace+"/"+l.Name, holderOf(l, time.Now())
		switch {
		case l.Name == actorLease && strings.HasPrefix(holder, "millwright/") && l.Namespace != cfg.Namespace:
			r.add(Failed, object, "Remove one of the installations, or name its namespace by --namespace.", "another Millwright, %s, is active", holder)
		case l.Name == actorLease && strings.HasPrefix(holder, "millwright/"):
			r.add(OK, object, "", "is held by %s", holder)
		case l.Name == actorLease && holder != "":
			r.add(Failed, object, "Scale Karpenter down once Millwright runs in mode shadow: docs/migrate-from-karpenter.md.",
				"is held by %s: another autoscaler is active, and Millwright will not act beside it", holder)
		case slices.Contains(otherAutoscalers, l.Name) && holder != "":
			r.add(Warning, object, "Have it leave node groups alone that Millwright is to empty, or scale it down.", "is held by %s: it buys nodes for the same pods", holder)
		default:
			continue
		}
		found = true
	}
	if !found {
		r.add(OK, "", "", "no other autoscaler is active")
	}
}

// holderOf a Lease; "" if it has none, or none that renewed it in time.
func holderOf(l *coordinationv1.Lease, now time.Time) string {
	s := l.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil ||
		now.Sub(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return ""
	}
	return *s.HolderIdentity
}
