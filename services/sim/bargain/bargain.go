// Package bargain judges what commands of a simulated run buy: whether consolidation saves what its records
// promise, and whether what a command that was given up has bought for nothing goes too. Like package judge
// it reads payloads of records, the cluster and the cloud alone, and shares nothing with the planners.
package bargain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/cloud"
	"millwright/services/sim/judge"
	"millwright/services/sim/stage"
)

// Names of the checks, by the invariant of DESIGN §8 they are of.
const (
	CheckPromised = "4: a command's prices are those of what it removes and buys"
	CheckGot      = "4: what a command buys costs what was promised, unless EC2 had none of it"
	CheckStrays   = "4: what a command that was given up has bought for nothing goes, if nothing fails"
)

// Checks are all of them.
var Checks = []string{CheckPromised, CheckGot, CheckStrays}

// strayTime is how long services that nothing keeps from acting may take until a NodeClaim that is not needed
// is being deleted, calls that are lost or slow included.
const strayTime = 75 * time.Second

// Judge of one run.
type Judge struct {
	*stage.Stage
	// commands that run, by id.
	commands map[string]*command
	// bought are the claims of commands, by name.
	bought map[string]*bought
	// strays are the claims to be deleted, and since when nothing has kept services from it.
	strays map[string]time.Time
	// unpriced are the instance types that the stream has ever told no price of, up to its message read: of
	// their nodes no more is known than what they cost when they were launched.
	unpriced map[string]bool
	read     int
}

type command struct {
	*ledger.CommandStarted
	// claims that it buys.
	claims []string
}

// bought is a claim that a command planned.
type bought struct {
	planned *ledger.PlannedClaim
	// asked: every request for it has named the offering that the plan counted on. refused: EC2 has had none
	// of something that it was asked for.
	asked, refused bool
}

// New returns a judge of what happens on a stage.
func New(s *stage.Stage) *Judge {
	return &Judge{Stage: s, commands: map[string]*command{}, bought: map[string]*bought{}, strays: map[string]time.Time{}, unpriced: map[string]bool{}}
}

// Enter takes in a record.
func (j *Judge) Enter(e ledger.Entry) {
	if e.Mode == ledger.ModeShadow {
		return
	}
	switch p := e.Payload.(type) {
	case *ledger.CommandStarted:
		j.started(e.Seq, p)
	case *ledger.CommandSucceeded:
		delete(j.commands, p.ID)
	case *ledger.CommandRolledBack:
		j.givenUp(p)
	case *ledger.LaunchRequested:
		j.requested(p)
	case *ledger.Launched:
		j.launched(p, p.Unavailable)
	case *ledger.LaunchFailed:
		j.refused(p.Claim)
	case *ledger.FleetAnswered:
		for i := range p.Failed {
			j.refused(p.Failed[i].Claim)
		}
		for i := range p.Launched {
			j.launched(&p.Launched[i], p.Unavailable)
		}
	}
}

// started judges the prices of a command, by those of the beginning, for all move together, but for a
// hundredth. What consolidation exchanges must cost less each time, so that nothing is ever exchanged back
// for the same pods. Nodes of reserved capacity cost next to nothing: of them fewer are less.
func (j *Judge) started(seq uint64, p *ledger.CommandStarted) {
	c := &command{CommandStarted: p}
	j.commands[ledger.CommandID(j.Log.ID(), seq)] = c
	var before, after int64
	known := p.PriceBefore > 0
	for i := range p.Candidates {
		price, ok := j.priceOf(p.Candidates[i].ProviderID)
		before, known = before+price, known && ok
	}
	for i := range p.Replacements {
		r := &p.Replacements[i]
		name := ledger.ClaimName(j.Log.ID(), r.NodePool, seq, i)
		c.claims = append(c.claims, name)
		j.bought[name] = &bought{planned: r, asked: true}
		price := cloud.Price(offeringOf(r))
		after, known = after+price, known && price > 0
	}
	if known && !near(before*p.PriceAfter, after*p.PriceBefore) {
		j.Violate(CheckPromised, "record %d is to bring %d down to %d micro-dollars an hour, of what was %d to %d at the beginning", seq, p.PriceBefore, p.PriceAfter, before, after)
	}
	if p.Reason == karpv1.DisruptionReasonUnderutilized && (p.PriceAfter > p.PriceBefore || known && p.PriceAfter == p.PriceBefore) {
		j.Violate(CheckPromised, "record %d is to bring %d micro-dollars an hour to %d", seq, p.PriceBefore, p.PriceAfter)
	}
}

// requested notes whether EC2 is asked for what a plan counted on: it may be marked as unavailable since.
func (j *Judge) requested(p *ledger.LaunchRequested) {
	names := []string{p.Claim}
	for _, m := range p.Others {
		names = append(names, m.Claim)
	}
	for _, name := range names {
		if b := j.bought[name]; b != nil {
			b.asked = b.asked && slices.Contains(judge.Requested(p), offeringOf(b.planned))
		}
	}
}

func (j *Judge) refused(claim string) {
	if b := j.bought[claim]; b != nil {
		b.refused = true
	}
}

// launched demands that what was bought is no dearer than planned, if EC2 was asked for that and had it.
func (j *Judge) launched(p *ledger.Launched, unavailable []ledger.FailedOffering) {
	b := j.bought[p.Claim]
	if b == nil || b.refused || !b.asked || len(unavailable) > 0 {
		return
	}
	planned, got := cloud.Price(offeringOf(b.planned)), cloud.Price(cloud.Offering{InstanceType: p.InstanceType, Zone: p.Zone, CapacityType: p.CapacityType})
	if planned > 0 && got > planned && !near(got, planned) {
		j.Violate(CheckGot, "%s is a %s at %d micro-dollars an hour, planned as a %s at %d", p.Claim, p.InstanceType, got, b.planned.Cheapest.InstanceType, planned)
	}
}

// givenUp notes what has to go: what the record calls unused, and what no pod can be waiting for.
func (j *Judge) givenUp(p *ledger.CommandRolledBack) {
	c := j.commands[p.ID]
	delete(j.commands, p.ID)
	if c == nil {
		return
	}
	for _, u := range p.Unused {
		j.strays[u.Claim] = j.Clock.Now()
	}
	if slices.ContainsFunc(j.Cluster.Pods(), func(o *corev1.Pod) bool { return o.Spec.NodeName == "" && o.Labels["app"] != stage.NeverFits }) || j.Drawn.Buffers > 0 {
		return
	}
	for _, name := range c.claims {
		if !j.isUsed(name) {
			j.strays[name] = j.Clock.Now()
		}
	}
}

// Look demands, once a second, that strays go. able: nothing keeps the services from it.
func (j *Judge) Look(able bool) {
	for name, since := range j.strays {
		o := j.Cluster.NodeClaim(name)
		switch late := j.Clock.Now().Sub(since); {
		case o == nil || o.DeletionTimestamp != nil || j.isUsed(name) || j.Deeds.Stripped[string(o.UID)]:
			delete(j.strays, name)
		case !able:
			j.strays[name] = j.Clock.Now()
		case late > strayTime:
			j.Violate(CheckStrays, "NodeClaim %s is there, %s after the command that bought it was given up", name, late)
		}
	}
}

// isUsed reports that pods run on the node of a NodeClaim, those of DaemonSets aside.
func (j *Judge) isUsed(claim string) bool {
	o := j.Cluster.NodeClaim(claim)
	return o != nil && o.Status.NodeName != "" && slices.ContainsFunc(j.Cluster.PodsOn(o.Status.NodeName), func(p *corev1.Pod) bool {
		owner := metav1.GetControllerOf(p)
		return owner == nil || owner.Kind != "DaemonSet"
	})
}

// priceOf an instance at the beginning; false if it is not known, or next to nothing.
func (j *Judge) priceOf(providerID string) (int64, bool) {
	i := j.Cloud.Instance(judge.InstanceOf(providerID))
	if i == nil {
		return 0, false
	}
	price := cloud.Price(cloud.Offering{InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType})
	return price, price > 0 && !j.everUnpriced(i.InstanceType)
}

// everUnpriced reports that the stream has told prices without that of an instance type.
func (j *Judge) everUnpriced(instanceType string) bool {
	for ; j.read < len(j.Messages); j.read++ {
		prices, ok := j.Messages[j.read].Object.(*events.Prices)
		if !ok {
			continue
		}
		for _, name := range cloud.InstanceTypes() {
			if !slices.ContainsFunc(prices.Entries, func(e events.Price) bool { return e.InstanceType == name }) {
				j.unpriced[name] = true
			}
		}
	}
	return j.unpriced[instanceType]
}

func offeringOf(p *ledger.PlannedClaim) cloud.Offering {
	return cloud.Offering{InstanceType: p.Cheapest.InstanceType, Zone: p.Cheapest.Zone, CapacityType: p.Cheapest.CapacityType}
}

// near reports that two amounts are equal but for a hundredth.
func near(a, b int64) bool { return max(a, b)-min(a, b) <= max(a, b)/100 }
