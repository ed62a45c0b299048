package plan

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
)

// Report is the plan, as it is printed. Pods are "namespace/name", sorted.
type Report struct {
	NewNodeClaims []NodeClaim `json:"newNodeClaims"`
	// StaticNodeClaims are those that static NodePools lack, for no pods and at no price that is known.
	StaticNodeClaims []StaticClaim  `json:"staticNodeClaims,omitempty"`
	ExistingNodes    []ExistingNode `json:"existingNodes"`
	Unschedulable    []Refusal      `json:"unschedulable"`
	// Buffers are the CapacityBuffers, if their feature gate is on. Their virtual pods are among the pods of
	// claims and nodes.
	Buffers []Buffer `json:"buffers,omitempty"`
	// Problems are the NodePools and NodeOverlays that cannot be used as they are.
	Problems []Problem `json:"problems,omitempty"`
	Stats    Stats     `json:"stats"`

	problems []provision.PoolProblem
	overlays []provision.OverlayProblem
	price    int64
	bound    int64
	// staticWave is how many claims static NodePools may have without an instance; 0: any number.
	staticWave int64
	// asOf is when the cluster was last seen; zero for files.
	asOf time.Time
}

// Problem of an object, as "NodePool name".
type Problem struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

func problemsOf(round provision.Round) (list []Problem) {
	for _, p := range round.OverlayProblems {
		list = append(list, Problem{"NodeOverlay " + p.NodeOverlay, p.Message})
	}
	for _, p := range round.Problems {
		if p.Reason != provision.ProblemStatic { // that is no fault: pods are not for it
			list = append(list, Problem{"NodePool " + p.NodePool, p.Message})
		}
	}
	return list
}

// NodeClaim that would be made.
type NodeClaim struct {
	NodePool string `json:"nodePool"`
	// InstanceTypes in price order; each can run all Pods.
	InstanceTypes []string `json:"instanceTypes"`
	// Requirements are final, by key.
	Requirements     []karpv1.NodeSelectorRequirementWithMinValues `json:"requirements"`
	Requests         corev1.ResourceList                           `json:"requests"`
	Pods             []string                                      `json:"pods"`
	CheapestOffering Offering                                      `json:"cheapestOffering"`
}

// Buffer says where the capacity of a CapacityBuffer is, as "namespace/name".
type Buffer struct {
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
	// Existing are the pods that fit on what is there, New those on new NodeClaims; there is none for
	// Unschedulable.
	Existing      int `json:"existing"`
	New           int `json:"new"`
	Unschedulable int `json:"unschedulable"`
	// Reason why there is no room, or why the buffer is ignored.
	Reason string `json:"reason,omitempty"`
}

func newBuffer(b *provision.BufferExplanation) Buffer {
	x := Buffer{Name: b.Buffer, Replicas: b.Replicas, Existing: b.Nodes + b.Claims, New: b.NewClaims, Unschedulable: b.Refused, Reason: b.Problem}
	if len(b.Reasons) > 0 {
		x.Reason = reason(b.Reasons)
	}
	if more := int(x.Replicas) - x.Existing - x.New - x.Unschedulable; more > 0 {
		text := fmt.Sprintf("%d more are not planned for: all CapacityBuffers together have %d virtual pods at most", more, planner.VirtualPodsMax)
		x.Reason = strings.TrimPrefix(x.Reason+"; "+text, "; ")
	}
	return x
}

// StaticClaim counts the claims a static NodePool lacks.
type StaticClaim struct {
	NodePool     string                                        `json:"nodePool"`
	Count        int                                           `json:"count"`
	Requirements []karpv1.NodeSelectorRequirementWithMinValues `json:"requirements"`
}

func (r *Report) addStatic(p *ledger.PlannedClaim) {
	if n := len(r.StaticNodeClaims); n > 0 && r.StaticNodeClaims[n-1].NodePool == p.NodePool {
		r.StaticNodeClaims[n-1].Count++
		return
	}
	r.StaticNodeClaims = append(r.StaticNodeClaims, StaticClaim{p.NodePool, 1, p.Requirements})
}

// Offering with its price in USD per hour.
type Offering struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	// ReservationID of reserved capacity.
	ReservationID string `json:"reservationID,omitempty"`
	Price         string `json:"price"`
}

// ExistingNode that takes pods: a Node, or a NodeClaim whose Node has not joined yet.
type ExistingNode struct {
	Name string   `json:"name"`
	Pods []string `json:"pods"`
}

// Refusal of a pod.
type Refusal struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

// Stats of the planning: how many pods needed a place, how long it took once all was read, and the price in
// USD per hour that no plan for the new NodeClaims can go below.
type Stats struct {
	Pods       int    `json:"pods"`
	PlanMillis int64  `json:"planMillis"`
	LowerBound string `json:"lowerBound"`
}

// Complete reports that every pod was placed.
func (r *Report) Complete() bool { return len(r.Unschedulable) == 0 }

// newReport prints prices as exactly as the catalogue has them.
func newReport(round provision.Round, staticWave int64, exact map[offeringKey]price, took time.Duration) *Report {
	r := &Report{
		NewNodeClaims: make([]NodeClaim, 0, len(round.Claims)), ExistingNodes: []ExistingNode{}, Unschedulable: []Refusal{},
		Problems: problemsOf(round),
		Stats:    Stats{PlanMillis: took.Milliseconds(), LowerBound: dollars(round.LowerBound)},
		problems: round.Problems, overlays: round.OverlayProblems, price: round.PricePerHour, bound: round.LowerBound, staticWave: staticWave,
	}
	for i := range round.Claims {
		if c := &round.Claims[i]; len(c.InstanceTypes) == 0 {
			r.addStatic(c)
		} else {
			r.NewNodeClaims = append(r.NewNodeClaims, newNodeClaim(c, exact))
		}
	}
	onNode := map[string][]string{}
	for i := range round.Buffers {
		r.Buffers = append(r.Buffers, newBuffer(&round.Buffers[i]))
	}
	for _, v := range round.Verdicts {
		if v.Buffer == "" {
			r.Stats.Pods++
		}
		switch {
		case v.Buffer != "" && len(v.Reasons) > 0: // its buffer says so
		case len(v.Reasons) > 0:
			r.Unschedulable = append(r.Unschedulable, Refusal{Pod: podName(v.Pod), Reason: reason(v.Reasons)})
		case v.NewClaim == 0:
			name := cmp.Or(v.Node, v.Claim)
			onNode[name] = append(onNode[name], podName(v.Pod))
		}
	}
	for name, pods := range onNode {
		slices.Sort(pods)
		r.ExistingNodes = append(r.ExistingNodes, ExistingNode{name, pods})
	}
	slices.SortFunc(r.ExistingNodes, func(a, b ExistingNode) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Unschedulable, func(a, b Refusal) int { return cmp.Compare(a.Pod, b.Pod) })
	return r
}

func newNodeClaim(p *ledger.PlannedClaim, exact map[offeringKey]price) NodeClaim {
	o := p.Cheapest
	c := NodeClaim{
		NodePool: p.NodePool, InstanceTypes: p.InstanceTypes, Requirements: p.Requirements, Requests: p.Requests.List(),
		CheapestOffering: Offering{
			InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType, ReservationID: o.ReservationID,
			Price: exactPrice(o, exact),
		},
	}
	for _, ref := range p.Pods {
		c.Pods = append(c.Pods, podName(ref))
	}
	slices.Sort(c.Pods)
	return c
}

// exactPrice is the price as the catalogue gives it, unless the planner used another one.
func exactPrice(o ledger.OfferingPrice, exact map[offeringKey]price) string {
	p, known := exact[offeringKey{o.InstanceType, o.Zone, o.CapacityType, o.ReservationID}]
	if known && (p.micro() == o.MicroUSDPerHour || o.CapacityType == karpv1.CapacityTypeReserved && (p.pico+picoPerMicro/2)/picoPerMicro == o.MicroUSDPerHour) {
		return p.text
	}
	return dollars(o.MicroUSDPerHour)
}

func podName(p ledger.PodRef) string { return p.Namespace + "/" + p.Name }

// reason is the text of the KubeEvent that the pod would get, without its beginning.
func reason(reasons []ledger.Refusal) string {
	return strings.TrimPrefix(provision.FailureMessage(reasons), "Failed to schedule pod, ")
}

// dollars writes micro USD as a decimal without trailing zeros: 96000 is 0.096.
func dollars(micro int64) string {
	s := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// WriteJSON writes the report as one JSON object, an element of a list to a line. A plan for tens of
// thousands of pods takes tens of megabytes, so it is written as it is encoded.
func (r *Report) WriteJSON(out io.Writer) error {
	w := newJSONWriter(bufio.NewWriterSize(out, 1<<16))
	w.text("{\n")
	writeList(w, "newNodeClaims", r.NewNodeClaims)
	if len(r.StaticNodeClaims) > 0 {
		writeList(w, "staticNodeClaims", r.StaticNodeClaims)
	}
	writeList(w, "existingNodes", r.ExistingNodes)
	writeList(w, "unschedulable", r.Unschedulable)
	if len(r.Buffers) > 0 {
		writeList(w, "buffers", r.Buffers)
	}
	w.text(`"stats": `)
	w.value(r.Stats)
	w.text("}\n")
	if err := errors.Join(w.err, w.out.Flush()); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}
