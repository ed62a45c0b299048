package planner

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/world"
)

// templateHashLabel is set by Deployments on the pods of their ReplicaSets, whose names end with its value.
const templateHashLabel = "pod-template-hash"

// DeploymentOf returns the name of the Deployment behind the ReplicaSet that controls the pods of a class, by
// the name that Deployments give to ReplicaSets; "" if no ReplicaSet of that form does.
func DeploymentOf(c *world.PodClass) string {
	hash := c.Labels[templateHashLabel]
	if c.OwnerKind != "ReplicaSet" || c.OwnerAPIVersion != "apps/v1" || hash == "" {
		return ""
	}
	name, ok := strings.CutSuffix(c.OwnerName, "-"+hash)
	if !ok {
		return ""
	}
	return name
}

// workload names what creates a pod: its Deployment, or else its controller; "" if it has none.
func workload(p *world.Pod) string {
	if d := DeploymentOf(p.Class); d != "" {
		return p.Namespace + "/" + d
	}
	return string(p.Class.OwnerUID)
}

// ReadyReplicas counts the pods that are ready, and not being deleted, of what created a pod. It is computed
// once for all.
func (s *Snapshot) ReadyReplicas(p *world.Pod) int {
	if s.cache.ready == nil {
		s.cache.ready = map[string]int{}
		for _, n := range s.StateNodes() {
			for _, p := range n.Pods {
				if p.Ready && p.Active() {
					s.cache.ready[workload(p)]++
				}
			}
		}
	}
	return s.cache.ready[workload(p)]
}

// Succeeded reports that a pod needs no other place although its node goes: its Deployment has created the
// pod that replaces it. It is computed once for all.
//
// Example. Of Deployment web two pods are on nodes that drain, and a surge of both was decided at 10:00. One
// pod of a newer ReplicaSet of web was created at 10:01: the first of the two by UID has succeeded, the
// second has not.
func (s *Snapshot) Succeeded(p *world.Pod) bool {
	if s.cache.succeeded == nil {
		s.cache.succeeded = s.succeeded()
	}
	return s.cache.succeeded[p.UID]
}

// surging are the pods of a Deployment that a surge was decided of.
type surging struct {
	pods []*world.Pod
	// since is when the first of them was, in nanoseconds; old are their ReplicaSets.
	since int64
	old   map[types.UID]bool
}

func (s *Snapshot) succeeded() map[types.UID]bool {
	byDeployment, done := map[string]*surging{}, map[types.UID]bool{}
	for _, d := range s.Ledger.Drains() {
		if len(d.Surges) == 0 {
			continue
		}
		for _, p := range s.World.PodsOn(d.Started.Node) {
			surge, ok := d.Surges[p.UID]
			if !ok || surge.Until.IsZero() || p.Terminal() {
				continue
			}
			x := byDeployment[surge.Deployment]
			if x == nil {
				x = &surging{old: map[types.UID]bool{}}
				byDeployment[surge.Deployment] = x
			}
			// Pods have their times to the second.
			if at := surge.At.Unix() * 1e9; len(x.pods) == 0 || at < x.since {
				x.since = at
			}
			x.pods, x.old[p.Class.OwnerUID] = append(x.pods, p), true
		}
	}
	if len(byDeployment) == 0 {
		return done
	}
	created := map[string]int{}
	count := func(p *world.Pod) {
		if x := byDeployment[workload(p)]; x != nil && p.Active() && p.Created >= x.since && !x.old[p.Class.OwnerUID] {
			created[workload(p)]++
		}
	}
	for _, p := range s.World.PendingPods() {
		count(p)
	}
	for _, n := range s.StateNodes() {
		for _, p := range n.Pods {
			count(p)
		}
	}
	for name, x := range byDeployment {
		slices.SortFunc(x.pods, func(a, b *world.Pod) int { return cmp.Compare(a.UID, b.UID) })
		for _, p := range x.pods[:min(created[name], len(x.pods))] {
			done[p.UID] = true
		}
	}
	return done
}
