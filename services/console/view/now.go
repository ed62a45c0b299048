package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/condition"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/resource"
)

// States of a node.
const (
	StatePlanned   = "planned"
	StateLaunching = "launching"
	StateBooting   = "booting"
	StateReady     = "ready"
	StateNotReady  = "not ready"
	StateGoing     = "going"
	StateDraining  = "draining"
)

// Now is the state of the cluster at a moment. Nobody may change it.
type Now struct {
	At time.Time
	// AsOf is what the World is as of; Torn: it misses something since its last complete resync.
	AsOf time.Time
	Torn bool
	// Nodes by name, those to come included; Pools by name, "" for nodes of none; Pending pods by name.
	Nodes   []Node
	Pools   []Pool
	Pending []Pod
	// MicroUSDPerHour sums the known prices, of which Unpriced nodes have none.
	MicroUSDPerHour int64
	Unpriced        int
	// LeastMicroUSDPerHour sums those of the NodePools.
	LeastMicroUSDPerHour int64
	// StaysAsOf is when it was found why nodes stay; zero: it is not known.
	StaysAsOf time.Time
	// verdicts by pod, in the order of Pending.
	verdicts []*ledger.Verdict
}

// Amounts of what nodes have and pods ask for.
type Amounts struct {
	MilliCPU    int64 `json:"milliCPU"`
	MemoryBytes int64 `json:"memoryBytes"`
}

func amounts(v resource.Vector) Amounts { return Amounts{v.MilliCPU, v.Memory} }

func (a *Amounts) add(b Amounts) {
	a.MilliCPU, a.MemoryBytes = a.MilliCPU+b.MilliCPU, a.MemoryBytes+b.MemoryBytes
}

// Node of the cluster, or a claim that is to become one.
type Node struct {
	Name         string `json:"name"`
	NodeClaim    string `json:"nodeClaim,omitempty"`
	NodePool     string `json:"nodePool,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// State is planned, launching, booting, ready, not ready, going (a command takes it, or it is being
	// deleted) or draining.
	State string `json:"state"`
	// Command that takes it; "" if none does.
	Command string `json:"command,omitempty"`
	// Stays is what keeps a node that is ready, the first thing if there are more; "" if nothing does or it
	// is not known yet. ToGo: the next command would take it.
	Stays   string    `json:"stays,omitempty"`
	ToGo    bool      `json:"toGo,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// MicroUSDPerHour is 0 if the price is not known.
	MicroUSDPerHour int64   `json:"microUSDPerHour"`
	Allocatable     Amounts `json:"allocatable"`
	Requested       Amounts `json:"requested"`
	Pods            int     `json:"pods"`
	// Managed: a NodeClaim stands behind it.
	Managed bool `json:"managed"`
}

// Pool is a NodePool with what runs in it.
type Pool struct {
	Name            string `json:"name"`
	Weight          int32  `json:"weight,omitempty"`
	Ready           bool   `json:"ready"`
	Nodes           int    `json:"nodes"`
	Pods            int    `json:"pods"`
	MicroUSDPerHour int64  `json:"microUSDPerHour"`
	// LeastMicroUSDPerHour is a price below which no nodes of it, as it is now, can hold what the pods on
	// its nodes request; 0 if it is not known.
	LeastMicroUSDPerHour int64   `json:"leastMicroUSDPerHour,omitempty"`
	Allocatable          Amounts `json:"allocatable"`
	Requested            Amounts `json:"requested"`
	// Limits by resource, as the NodePool has them.
	Limits map[string]string `json:"limits,omitempty"`
	// States counts its nodes.
	States map[string]int `json:"states"`
}

func makeNow(s *planner.Snapshot) *Now {
	x := &Now{AsOf: s.World.AsOf().UTC(), Torn: s.World.Torn(), Nodes: []Node{}, Pools: []Pool{}, Pending: []Pod{}}
	draining := map[string]bool{}
	for _, d := range s.Ledger.Drains() {
		draining[d.Started.Node] = true
	}
	for _, n := range s.StateNodes() {
		x.Nodes = append(x.Nodes, nodeOf(s, n, draining[n.Name]))
	}
	for _, c := range s.InFlight() {
		x.Nodes = append(x.Nodes, toCome(c))
	}
	slices.SortFunc(x.Nodes, func(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.NodeClaim, b.NodeClaim)) })
	x.sumPools(s)
	for _, p := range s.World.PendingPods() {
		if !p.Active() {
			continue
		}
		verdict := s.Ledger.Verdict(p.UID)
		x.Pending = append(x.Pending, podOf(p, verdict))
		x.verdicts = append(x.verdicts, verdict)
	}
	return x
}

func nodeOf(s *planner.Snapshot, n *planner.StateNode, draining bool) Node {
	x := Node{
		Name: n.Name, NodeClaim: n.ClaimName(), NodePool: n.NodePool, InstanceType: n.InstanceTypeName(), CapacityType: n.CapacityType(),
		Zone: n.Zone(), Managed: n.Managed, MicroUSDPerHour: disrupt.Price(s, n), Allocatable: amounts(n.Allocatable), Pods: len(n.Pods),
		Requested: amounts(n.Allocatable.Sub(n.Available)), State: stateOf(n, draining),
	}
	switch {
	case n.Claim != nil:
		x.Created, x.Command = n.Claim.CreationTimestamp.UTC(), s.CommandOf(n.Claim.Name)
	case n.Node != nil:
		x.Created = n.Node.Object.CreationTimestamp.UTC()
	}
	return x
}

func stateOf(n *planner.StateNode, draining bool) string {
	switch {
	case draining:
		return StateDraining
	case n.MarkedForDeletion:
		return StateGoing
	case !n.Registered || !n.Initialized:
		return StateBooting
	case !n.Ready():
		return StateNotReady
	}
	return StateReady
}

// toCome is an open claim that has no instance in the World yet.
func toCome(c *ledger.Claim) Node {
	x := Node{Name: c.Name, NodeClaim: c.Name, NodePool: c.NodePool, State: StatePlanned, Created: c.OpenedAt.UTC(), Managed: true}
	if c.State != ledger.ClaimPlanned {
		x.State = StateLaunching
	}
	if p := c.Planned; p != nil {
		x.InstanceType, x.Zone, x.CapacityType = p.Cheapest.InstanceType, p.Cheapest.Zone, p.Cheapest.CapacityType
		x.MicroUSDPerHour, x.Requested, x.Pods = p.Cheapest.MicroUSDPerHour, amounts(p.Requests), len(p.Pods)
	}
	if i := c.Instance; i != nil {
		x.InstanceType, x.Zone, x.CapacityType, x.MicroUSDPerHour = i.InstanceType, i.Zone, i.CapacityType, i.Price
		x.Allocatable = amounts(i.Allocatable)
	}
	return x
}

func (x *Now) sumPools(s *planner.Snapshot) {
	pools, want := map[string]*Pool{}, wanted(s)
	for _, o := range s.World.NodePools() {
		p := &Pool{Name: o.Name, LeastMicroUSDPerHour: leastCost(s, o, want[o.Name]), States: map[string]int{}, Ready: condition.IsTrue(o.Status.Conditions, "Ready"), Limits: limits(o)}
		if o.Spec.Weight != nil {
			p.Weight = *o.Spec.Weight
		}
		pools[o.Name] = p
		x.LeastMicroUSDPerHour += p.LeastMicroUSDPerHour
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		p := pools[n.NodePool]
		if p == nil {
			p = &Pool{Name: n.NodePool, States: map[string]int{}}
			pools[n.NodePool] = p
		}
		p.Nodes, p.Pods = p.Nodes+1, p.Pods+n.Pods
		p.States[n.State]++
		p.MicroUSDPerHour += n.MicroUSDPerHour
		p.Allocatable.add(n.Allocatable)
		if n.Allocatable != (Amounts{}) { // of a node to come it is not known yet of what that would be
			p.Requested.add(n.Requested)
		}
		x.MicroUSDPerHour += n.MicroUSDPerHour
		if n.MicroUSDPerHour == 0 && n.Managed {
			x.Unpriced++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		x.Pools = append(x.Pools, *pools[name])
	}
}

func limits(p *karpv1.NodePool) map[string]string {
	if len(p.Spec.Limits) == 0 {
		return nil
	}
	m := map[string]string{}
	for name, q := range p.Spec.Limits {
		m[string(name)] = q.String()
	}
	return m
}
