package story

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/store/audit"
)

// growth is the story of a claim that becomes a node.
type growth struct {
	claim  string
	thread *thread
	// first is the first record that it depends on: one of its pods may have waited before.
	first uint64
	// since is when its state began.
	since mark
	// of is the command which buys it and whose trace it is told in; nil: it has one of its own.
	of *command
	// pods that it waits for, and since when they wait.
	pods  map[types.UID]waitingPod
	ready bool
	// states that are over.
	states []state
	// about it, for the root.
	about []Attribute
}

type waitingPod struct {
	name  string
	since mark
}

// planned reads a round of the provisioner: claims, pods that wait, and pods that wait no more.
func (t *Teller) planned(e ledger.Entry, p *ledger.ProvisioningPlanned) {
	at := mark{e.Seq, e.Time}
	for _, uid := range p.Gone {
		t.gone(uid, at)
	}
	for i := range p.Claims {
		t.claimPlanned(e, i, &p.Claims[i], nil)
	}
	for i := range p.Widened {
		if g := t.claims[p.Widened[i].Claim]; g != nil {
			t.join(g, p.Widened[i].Content.Pods, at)
		}
	}
	for _, target := range p.Placements {
		if g := t.claims[target.Claim]; g != nil {
			t.join(g, target.Pods, at)
		} else if target.Node != "" {
			for _, pod := range target.Pods {
				t.decidedPod(pod, target.Node, nil, at)
			}
		}
	}
	for _, r := range p.Refused {
		for _, pod := range r.Pods {
			t.refusedPod(pod, r.Reasons, at)
			if _, known := t.waiting[pod.UID]; !known && t.pods[pod.UID] == nil {
				t.waiting[pod.UID] = at
			}
		}
	}
}

// claimPlanned begins the story of a claim. of: the command that buys it; nil: it is bought for pods.
func (t *Teller) claimPlanned(e ledger.Entry, index int, c *ledger.PlannedClaim, of *command) {
	at := mark{e.Seq, e.Time}
	name := ledger.ClaimName(t.logID, c.NodePool, e.Seq, index)
	g := &growth{claim: name, since: at, first: e.Seq, pods: map[types.UID]waitingPod{}, of: of}
	g.about = []Attribute{{"millwright.claim", name}, {"millwright.nodepool", c.NodePool}}
	if of != nil {
		g.thread = of.thread
		of.open++
	} else {
		g.thread = newThread(t.logID, "claim/"+name, e.Seq, e.Time)
		t.join(g, c.Pods, at)
		for _, p := range g.pods {
			if p.since.seq < g.first {
				g.first = p.since.seq
			}
			if p.since.at.Before(g.thread.began) {
				g.thread.began = p.since.at
			}
		}
	}
	t.claims[name] = g
	attributes := slices.Concat(g.about, choice(e, index, c), []Attribute{{"millwright.pods", podNames(c.Pods)}, {"millwright.pods.count", int64(len(c.Pods))}})
	if of == nil {
		t.out = append(t.out, g.thread.span("pod pending", name, g.thread.began, e.Time, e.Seq, attributes...))
	} else {
		t.out = append(t.out, g.thread.span("replacement planned", name, e.Time, e.Time, e.Seq, attributes...))
	}
}

// choice says what was chosen, what was rejected, and why.
func choice(e ledger.Entry, index int, c *ledger.PlannedClaim) []Attribute {
	list := []Attribute{{"millwright.text", clip(audit.Describe(e, ""))}}
	if c.Cheapest.InstanceType != "" {
		list = append(list, Attribute{"host.type", c.Cheapest.InstanceType}, Attribute{"cloud.availability_zone", c.Cheapest.Zone},
			Attribute{"millwright.capacity_type", c.Cheapest.CapacityType}, Attribute{"millwright.price", dollars(c.Cheapest.MicroUSDPerHour)})
	}
	var x provision.Explanation
	if len(e.Explanation) == 0 || json.Unmarshal(e.Explanation, &x) != nil {
		return list
	}
	var rejected []string
	for i := range x.Claims {
		if x.Claims[i].Index != index {
			continue
		}
		for _, a := range x.Claims[i].Alternatives {
			rejected = append(rejected, clip(fmt.Sprintf("%s in %s, %s: $%.4f an hour", a.InstanceType, a.Zone, a.CapacityType, dollars(a.MicroUSDPerHour))))
		}
		for _, r := range x.Claims[i].PoolsRejected {
			rejected = append(rejected, clip(fmt.Sprintf("NodePool %s: %s", r.NodePool, r.Message)))
		}
	}
	if len(rejected) > 0 {
		list = append(list, Attribute{"millwright.rejected", rejected[:min(len(rejected), listedMax)]})
	}
	return list
}

// join adds pods to a story.
func (t *Teller) join(g *growth, refs []ledger.PodRef, at mark) {
	for _, p := range refs {
		if len(t.pods) >= podsMax {
			return
		}
		if of := t.pods[p.UID]; of != nil {
			if of == g {
				continue
			}
			delete(of.pods, p.UID)
		}
		since, waited := t.waiting[p.UID]
		if !waited {
			since = at
		}
		delete(t.waiting, p.UID)
		t.decidedPod(p, "", g, at)
		g.pods[p.UID] = waitingPod{p.Namespace + "/" + p.Name, since}
		g.first = min(g.first, since.seq)
		t.pods[p.UID] = g
	}
}

// gone ends a pod's part: it is bound, or was deleted.
func (t *Teller) gone(uid types.UID, at mark) {
	delete(t.waiting, uid)
	t.endPod(uid, at, "")
	g := t.pods[uid]
	if g == nil {
		return
	}
	delete(t.pods, uid)
	pod, ok := g.pods[uid]
	if !ok {
		return
	}
	delete(g.pods, uid)
	t.out = append(t.out, g.thread.span("pod bound", string(uid), pod.since.at, at.at, at.seq, Attribute{"k8s.pod.uid", string(uid)},
		Attribute{"millwright.pod", pod.name}, Attribute{"millwright.claim", g.claim}, Attribute{"millwright.pod.end", "bound, or deleted"}))
	if g.ready && len(g.pods) == 0 {
		t.grown(g.claim, at, "")
	}
}

// step ends a state of a claim and begins the next.
func (t *Teller) step(claim string, at mark, was, is string, attributes ...Attribute) *growth {
	g := t.claims[claim]
	if g == nil {
		return nil
	}
	t.out = append(t.out, g.thread.span(was, claim, g.since.at, at.at, at.seq,
		slices.Concat(g.about, []Attribute{{"millwright.next", is}}, attributes)...))
	g.noteState(was, at)
	g.since = at
	return g
}

func (t *Teller) launched(p *ledger.Launched, at mark) {
	g := t.claims[p.Claim]
	if g == nil {
		return
	}
	g.about = append(g.about, Attribute{"cloud.resource_id", p.InstanceID}, Attribute{"host.type", p.InstanceType},
		Attribute{"cloud.availability_zone", p.Zone}, Attribute{"millwright.capacity_type", p.CapacityType}, Attribute{"millwright.price", dollars(p.Price)})
	t.step(p.Claim, at, "launch requested", "launched")
}

func (t *Teller) launchFailed(p *ledger.LaunchFailed, at mark) {
	if t.step(p.Claim, at, "launch requested", "launch failed", Attribute{"millwright.reason", p.Reason}) != nil {
		failed := clip(p.Class + ": " + p.Message)
		t.out[len(t.out)-1].Failed = failed
		if g := t.claims[p.Claim]; len(g.states) > 0 && g.states[len(g.states)-1].to == at {
			g.states[len(g.states)-1].failed = failed
		}
	}
}

func (t *Teller) initialized(p *ledger.ClaimInitialized, at mark) {
	g := t.step(p.Claim, at, "registered", "initialized", Attribute{"millwright.node", p.Node})
	if g == nil {
		return
	}
	g.ready = true
	g.about = append(g.about, Attribute{"millwright.node", p.Node})
	t.out = append(t.out, g.thread.span("initialized", p.Claim, at.at, at.at, at.seq, g.about...))
	if len(g.pods) == 0 {
		t.grown(p.Claim, at, "")
	}
}

// grown ends the story of a claim that is a node, or will never be one.
func (t *Teller) grown(claim string, at mark, failed string) {
	g := t.claims[claim]
	if g == nil {
		return
	}
	delete(t.claims, claim)
	for uid := range g.pods {
		delete(t.pods, uid)
	}
	if g.ready {
		failed = ""
	}
	if g.of == nil {
		t.out = append(t.out, g.thread.end("pods to node", at.at, at.seq, failed, g.about...))
		return
	}
	if failed != "" {
		s := g.thread.span("replacement ended", claim, g.since.at, at.at, at.seq, g.about...)
		s.Failed = failed
		t.out = append(t.out, s)
	}
	g.of.open--
	t.commandOver(g.of, at)
}
