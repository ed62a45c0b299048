package provision

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// inputOf reads a Snapshot. Nodes that are going offer nothing and their pods need a place; a scenario's
// nodes count as going.
func inputOf(s *planner.Snapshot, sc Scenario) *input {
	in := &input{
		now: s.Now, options: s.Options, volumes: s.World, classes: s.World.Classes(), namespaces: namespaces(s.World),
		daemons: daemonInputs(s.World), unavailable: s.Ledger.UnavailableOfferings(s.Now),
		freeReserved: s.Ledger.ReservationFree, fullSubnets: s.Ledger.UnavailableSubnets(s.Now), closedZones: s.ClosedZones,
	}
	going := map[string]bool{}
	for _, name := range sc.Without {
		going[name] = true
	}
	usage := map[string]*poolInput{}
	for _, p := range s.World.NodePools() {
		if !slices.Contains(sc.WithoutPools, p.Name) {
			in.pools = append(in.pools, poolInput{pool: p})
		}
	}
	for i := range in.pools {
		p := &in.pools[i]
		usage[p.pool.Name] = p
		p.catalog = catalogOf(s.World, p.pool)
	}
	if o := overlaysOf(s); o != nil {
		in.overlayProblems = o.problems
		for i := range in.pools {
			if p, ok := o.pools[in.pools[i].pool.Name]; ok {
				in.pools[i] = p
				usage[p.pool.Name] = &in.pools[i]
			}
		}
	}
	in.addPods(s, going)
	for _, n := range s.StateNodes() {
		if n.MarkedForDeletion || going[n.Name] {
			continue
		}
		in.nodes = append(in.nodes, n)
		if p := usage[n.NodePool]; p != nil {
			p.used, p.nodes = p.used.Add(n.Capacity), p.nodes+1
		}
	}
	in.addPlanned(s, usage)
	return in
}

// catalogOf is what EC2 offers to a pool, without overlays; nil if it was not seen.
func catalogOf(w *world.World, p *karpv1.NodePool) *catalog.Catalog {
	if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil {
		return w.Catalog(ref.Name)
	}
	return nil
}

func (in *input) addPods(s *planner.Snapshot, going map[string]bool) {
	for _, p := range s.World.PendingPods() {
		if planner.IsProvisionable(p) {
			in.pods = append(in.pods, p)
		}
	}
	budgets := s.PodBudgets()
	for _, n := range s.StateNodes() {
		if !n.MarkedForDeletion && !going[n.Name] {
			continue
		}
		for _, p := range n.Pods {
			if budgets.IsMoving(p, s.Now) {
				in.pods = append(in.pods, p)
			}
		}
	}
}

// addPlanned lists the claims that are not nodes yet, with the pods that wait for each. A pod belongs where
// its last verdict puts it; without one, to the claim that was planned for it.
func (in *input) addPlanned(s *planner.Snapshot, usage map[string]*poolInput) {
	plannedFor := map[types.UID]target{}
	for _, c := range s.Ledger.Claims() {
		if c.Planned == nil || c.Doomed != nil {
			continue
		}
		for _, p := range c.Planned.Pods {
			plannedFor[p.UID] = target{claim: c.Name}
		}
	}
	in.since = func(uid types.UID) time.Time {
		if v := s.Ledger.Verdict(uid); v != nil {
			return v.Since
		}
		return time.Time{}
	}
	in.excluded = func(uid types.UID) []ledger.ExcludedNode { return s.Ledger.Verdict(uid).ExcludedAt(s.Now) }
	in.prior = func(uid types.UID) target {
		if v := s.Ledger.Verdict(uid); v != nil {
			return target{v.Node, v.Claim}
		}
		return plannedFor[uid]
	}
	waiting := in.waitingFor(in.prior)
	for _, c := range s.InFlight() {
		if p := usage[c.NodePool]; p != nil {
			p.used, p.nodes = p.used.Add(c.Capacity), p.nodes+1
		}
		if c.Planned != nil {
			cat := s.World.Catalog(c.Planned.NodeClassRef.Name)
			if p := usage[c.NodePool]; p != nil && len(p.capacityOverlaid) > 0 {
				cat = p.catalog
			}
			if cat == nil {
				cat = catalog.New(nil, nil)
			}
			uncreated := c.State == ledger.ClaimPlanned && c.CommandID == "" && len(c.Planned.InstanceTypes) > 0 && s.World.NodeClaim(c.Name) == nil
			in.planned = append(in.planned, plannedInput{claim: c, catalog: cat, pods: waiting[c.Name], uncreated: uncreated})
		}
	}
	in.addAdopted(s, usage, waiting)
}

func namespaces(w *world.World) []topology.Namespace {
	list := make([]topology.Namespace, 0, len(w.Namespaces()))
	for _, n := range w.Namespaces() {
		list = append(list, topology.Namespace{Name: n.Name, Labels: n.Labels})
	}
	return list
}

// daemonInputs lists the DaemonSets as their pods are: requests of the pods that exist, which admission may
// have changed, else the template's; placement always the template's.
func daemonInputs(w *world.World) []daemonInput {
	var list []daemonInput
	var owned map[types.UID]resource.Vector
	for _, ds := range w.DaemonSets() {
		if len(ds.Spec.Template.Spec.ResourceClaims) > 0 {
			continue // its pods are refused like others with claims, so no node need hold them
		}
		if owned == nil {
			owned = daemonRequests(w)
		}
		list = append(list, daemonInput{spec: &ds.Spec.Template.Spec, requests: daemonAmount(ds, owned)})
	}
	return list
}

func daemonAmount(ds *appsv1.DaemonSet, owned map[types.UID]resource.Vector) resource.Vector {
	if v, ok := owned[ds.UID]; ok {
		return v
	}
	return world.PodRequests(&ds.Spec.Template.Spec, nil)
}

// daemonRequests is, by DaemonSet, the most any class of its pods requests.
func daemonRequests(w *world.World) map[types.UID]resource.Vector {
	owned := map[types.UID]resource.Vector{}
	for _, c := range w.Classes() {
		if c.DaemonSetOwned() && c.OwnerUID != "" {
			owned[c.OwnerUID] = owned[c.OwnerUID].Max(c.Requests)
		}
	}
	return owned
}

func compareTargets(a, b target) int {
	return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.claim, b.claim))
}

func sortedSet(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// FailureMessage is the text of a refusal: one error per NodePool.
func FailureMessage(reasons []ledger.Refusal) string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.Message
	}
	return "Failed to schedule pod, " + strings.Join(texts, "; ")
}
