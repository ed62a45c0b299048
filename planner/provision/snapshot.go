package provision

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/overlay"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// freeReserved counts what is free of a capacity reservation by EC2's count and the records since.
func freeReserved(s *planner.Snapshot) func(id string, free int64, at time.Time) int64 {
	var apart time.Duration
	if s.Options.ReservationClocks {
		apart = ledger.ClockTolerance
	}
	return func(id string, free int64, at time.Time) int64 { return s.Ledger.ReservationFree(id, free, at, apart) }
}

// inputOf reads a Snapshot. Nodes that are going offer nothing and their pods need a place; a scenario's
// nodes count as going.
func inputOf(s *planner.Snapshot, sc Scenario) *solve.Input {
	in := &solve.Input{
		Input: place.Input{
			Input: offer.Input{
				Options: s.Options, Daemons: daemonInputs(s), Unavailable: s.Ledger.UnavailableOfferings(s.Now),
				FullSubnets: s.Ledger.UnavailableSubnets(s.Now), ClosedZones: s.ClosedZones,
			},
			Volumes: &holders{World: s.World}, Classes: s.World.Classes(), FreeReserved: freeReserved(s),
		},
		Now: s.Now, Namespaces: namespaces(s.World),
	}
	if s.Options.ProbeOfferings {
		in.Unproven = s.Ledger.UnprovenOfferings(s.Now)
	}
	if s.Options.AcceleratedWave > 0 {
		lately := launchedLately(s)
		in.Unproven = append(in.Unproven, suspects(s, lately)...)
		for _, c := range lately {
			in.LaunchedLately = append(in.LaunchedLately, offer.Launch{NodePool: c.NodePool, InstanceType: c.Instance.InstanceType})
		}
	}
	going := map[string]bool{}
	for _, name := range sc.Without {
		going[name] = true
	}
	usage := map[string]*offer.PoolInput{}
	for _, p := range s.World.NodePools() {
		if !slices.Contains(sc.WithoutPools, p.Name) {
			in.Pools = append(in.Pools, offer.PoolInput{Pool: overlay.Pool{NodePool: p, Catalog: overlay.CatalogOf(s.World, p)}})
		}
	}
	overlays := overlay.Of(s)
	if overlays != nil {
		in.OverlayProblems = overlays.Problems
	}
	for i := range in.Pools {
		p := &in.Pools[i]
		usage[p.NodePool.Name] = p
		if overlays == nil {
			continue
		}
		if changed, ok := overlays.ByName(p.NodePool.Name); ok {
			p.Pool = changed
		}
	}
	addPods(in, s, going)
	for _, n := range s.StateNodes() {
		if n.MarkedForDeletion || going[n.Name] {
			addLeaving(in, s, n, going[n.Name])
			continue
		}
		in.Nodes = append(in.Nodes, n)
		if p := usage[n.NodePool]; p != nil {
			p.Used, p.Nodes = p.Used.Add(n.Capacity), p.Nodes+1
		}
	}
	addPlanned(in, s, usage)
	return in
}

func addPods(in *solve.Input, s *planner.Snapshot, going map[string]bool) {
	for _, p := range s.World.PendingPods() {
		if planner.IsProvisionable(p) {
			in.Pods = append(in.Pods, p)
		}
	}
	for _, b := range s.Buffers() {
		in.Pods = append(in.Pods, b.Pods...)
	}
	budgets := s.PodBudgets()
	for _, n := range s.StateNodes() {
		if !podsMove(s, n, going[n.Name]) {
			continue
		}
		for _, p := range n.Pods {
			if budgets.IsMoving(p, s.Now) && !s.Succeeded(p) {
				in.Pods = append(in.Pods, p)
			}
		}
	}
}

// podsMove reports that those pods of a node need a place that can move.
func podsMove(s *planner.Snapshot, n *planner.StateNode, going bool) bool {
	return going || n.MarkedForDeletion && !s.StaysAfterAll(n)
}

// addLeaving adds a node that is going, if pods stay on it until then: those that do not move, or all.
func addLeaving(in *solve.Input, s *planner.Snapshot, n *planner.StateNode, going bool) {
	if s.Options.Revision < options.Revision1 {
		return
	}
	budgets, move := s.PodBudgets(), podsMove(s, n, going)
	var stay []*world.Pod
	for _, p := range n.Pods {
		if p.Active() && !(move && budgets.IsMoving(p, s.Now) && !s.Succeeded(p)) {
			stay = append(stay, p)
		}
	}
	if len(stay) > 0 {
		in.Leaving = append(in.Leaving, place.Leaving{Node: n, Pods: stay})
	}
}

// addPlanned lists the claims that are not nodes yet, with the pods that wait for each. A pod belongs where
// its last verdict puts it; without one, to the claim that was planned for it.
func addPlanned(in *solve.Input, s *planner.Snapshot, usage map[string]*offer.PoolInput) {
	plannedFor := map[types.UID]place.Target{}
	for _, c := range s.Ledger.Claims() {
		if c.Planned == nil || c.Doomed != nil {
			continue
		}
		for _, p := range c.Planned.Pods {
			plannedFor[p.UID] = place.Target{Claim: c.Name}
		}
	}
	in.Since = func(uid types.UID) time.Time {
		if v := s.Ledger.Verdict(uid); v != nil {
			return v.Since
		}
		return time.Time{}
	}
	in.LastPodEvent = s.World.LastPodEvent
	in.Excluded = func(uid types.UID) []ledger.ExcludedNode { return s.Ledger.Verdict(uid).ExcludedAt(s.Now) }
	in.Prior = func(uid types.UID) place.Target {
		if v := s.Ledger.Verdict(uid); v != nil {
			return place.Target{Node: v.Node, Claim: v.Claim}
		}
		return plannedFor[uid]
	}
	waiting := waitingFor(in)
	for _, c := range s.InFlight() {
		if p := usage[c.NodePool]; p != nil {
			p.Used, p.Nodes = p.Used.Add(c.Capacity), p.Nodes+1
		}
		if c.Planned != nil {
			cat := s.World.Catalog(c.Planned.NodeClassRef.Name)
			if p := usage[c.NodePool]; p != nil && len(p.CapacityOverlaid) > 0 {
				cat = p.Catalog
			}
			if cat == nil {
				cat = catalog.New(nil, nil)
			}
			uncreated := c.State == ledger.ClaimPlanned && c.CommandID == "" && len(c.Planned.InstanceTypes) > 0 && s.World.NodeClaim(c.Name) == nil
			in.Planned = append(in.Planned, place.PlannedInput{Claim: c, Catalog: cat, Pods: waiting[c.Name], Uncreated: uncreated})
		}
	}
	addAdopted(in, s, usage, waiting)
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
func daemonInputs(s *planner.Snapshot) []offer.DaemonSet {
	var list []offer.DaemonSet
	var owned map[types.UID]resource.Vector
	for _, ds := range s.World.DaemonSets() {
		if len(ds.Spec.Template.Spec.ResourceClaims) > 0 {
			continue // its pods are refused like others with claims, so no node need hold them
		}
		if owned == nil {
			owned = daemonRequests(s)
		}
		spec := &ds.Spec.Template.Spec
		list = append(list, offer.DaemonSet{Spec: spec, Requests: daemonAmount(ds, owned), Ports: demand.HostPortsOf(spec, &s.Options)})
	}
	return list
}

func daemonAmount(ds *appsv1.DaemonSet, owned map[types.UID]resource.Vector) resource.Vector {
	if v, ok := owned[ds.UID]; ok {
		return v
	}
	return world.PodRequests(&ds.Spec.Template.Spec, nil)
}

// daemonRequests is, by DaemonSet, what its newest pod requests that neither ends nor has ended; by earlier
// rules the most any class of its pods does.
func daemonRequests(s *planner.Snapshot) map[types.UID]resource.Vector {
	owned := map[types.UID]resource.Vector{}
	if s.Options.Revision < options.Revision1 {
		for _, c := range s.World.Classes() {
			if c.DaemonSetOwned() && c.OwnerUID != "" {
				owned[c.OwnerUID] = owned[c.OwnerUID].Max(c.Requests)
			}
		}
		return owned
	}
	newest := map[types.UID]*world.Pod{}
	look := func(pods []*world.Pod) {
		for _, p := range pods {
			if !p.Class.DaemonSetOwned() || p.Class.OwnerUID == "" || !p.Active() {
				continue
			}
			n := newest[p.Class.OwnerUID]
			if n == nil || cmp.Or(cmp.Compare(p.Created, n.Created), cmp.Compare(p.UID, n.UID)) > 0 {
				newest[p.Class.OwnerUID] = p
			}
		}
	}
	look(s.World.PendingPods())
	for _, n := range s.StateNodes() {
		look(n.Pods)
	}
	for uid, p := range newest {
		owned[uid] = p.Class.Requests
	}
	return owned
}

func compareTargets(a, b place.Target) int {
	return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Claim, b.Claim))
}

// FailureMessage is the text of a refusal: one error per NodePool.
func FailureMessage(reasons []ledger.Refusal) string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.Message
	}
	return "Failed to schedule pod, " + strings.Join(texts, "; ")
}
