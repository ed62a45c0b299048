package judge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// Names of the checks, by the invariant of DESIGN §8 they are of.
const (
	CheckOneInstance   = "1: a NodeClaim launches at most one instance"
	CheckRecorded      = "1: nothing is launched or made that is not recorded"
	CheckContent       = "1: a NodeClaim is as the Ledger has it"
	CheckLivingClaim   = "2: an instance is launched only for a NodeClaim that exists"
	CheckEviction      = "3: a protected pod is not evicted"
	CheckUndrained     = "3: no pod dies undrained with its node"
	CheckBudgets       = "4: commands stay within the budgets"
	CheckCheaper       = "4: consolidation does not buy dearer than what it removes"
	CheckReplaced      = "4: replacements are initialized before what they replace goes"
	CheckTainted       = "4: commands are confirmed on tainted nodes"
	CheckLimits        = "5: plans stay within the limits"
	CheckRoom          = "5: planned claims have room for their pods"
	CheckRegistration  = "6: registration is one write"
	CheckInstanceFirst = "7: Node and NodeClaim go after their instance"
	CheckLog           = "8: acknowledged records are kept and chained"
	CheckVerdicts      = "9: every pending pod has a verdict"
	CheckReplay        = "10: replay yields the recorded decisions"
	CheckJudged        = "10: drift is shown only where it is recorded"
	CheckStopped       = "nothing is begun that operators have stopped"
	CheckShadow        = "nothing is done in shadow mode"
	CheckFold          = "ledgers are the fold of the log"
	CheckTime          = "nothing is done by time before its time"
	CheckForged        = "nothing is done by a notice that is not about the instance"
	CheckTaken         = "pods that can be moved have left what EC2 takes back"
	CheckDrift         = "nobody edits what nodes are made of, so none drifts"
)

// Checks are all of them but those of convergence.
var Checks = []string{CheckOneInstance, CheckRecorded, CheckContent, CheckLivingClaim, CheckEviction, CheckUndrained, CheckBudgets, CheckCheaper, CheckReplaced, CheckTainted, CheckLimits, CheckRoom,
	CheckRegistration, CheckInstanceFirst, CheckLog, CheckVerdicts, CheckReplay, CheckJudged, CheckStopped, CheckShadow, CheckFold, CheckTime, CheckDrift, CheckForged, CheckTaken,
	CheckSavings, CheckAge, CheckRate, CheckWindows, CheckPause, CheckApproval, CheckDrainOut, CheckSurge}

// Judge makes the checks: when something is written, recorded, decided or called, and at the end.
type Judge struct {
	*stage.Stage
	history history
	rules   *rules
	book    *book
	// views are what the processes have seen.
	views    map[Process]*seen
	refolded refolded
	// Moved is called when a Node has just been tainted, or a command of it moved on.
	Moved func(node string)
}

// Process is who decides and acts, as far as it is judged.
type Process interface {
	fmt.Stringer
	// Name of its service.
	Name() string
	Mode() ledger.Mode
	// Folded is up to which message and which record it knows.
	Folded() (messages, records uint64)
}

// New returns a judge of what happens on a stage.
func New(stage *stage.Stage) *Judge {
	s := &Judge{Stage: stage, history: newHistory(), book: newBook(stage.Log.ID()), views: map[Process]*seen{}}
	s.rules = newRules(s)
	return s
}

// history is what checks remember.
type history struct {
	// launched instance by claim UID, and owner, the name of the claim, by instance; tokens that were
	// recorded; planned claim names.
	launched map[string]string
	owner    map[string]string
	// fleets are the claims that requests for several are for, those first that get no instance yet, by
	// launch tag.
	fleets  map[string][]ledger.FleetMember
	tokens  map[string]bool
	planned map[string]bool
	// drifted are the verdicts on record, as UID/reason.
	drifted map[string]bool
	// commands ever started, by id.
	commands map[string]*ledger.CommandStarted
	// swaps are the commands that buy nodes for a lower price, by id.
	swaps map[string]swap
	// pools are earlier states of NodePools, by name.
	pools map[string][]pastPool
	// deadlines are the termination timestamps of NodeClaims, by provider id.
	deadlines map[string]time.Time
	// bound is when a pod got its node, by UID; listed is when the pods of a node were last asked for.
	bound, listed map[string]time.Time
	// initialized are the NodeClaims that ever were, by name.
	initialized map[string]bool
}

// swap is what a command removes, by provider id, and the claims that it has made for that.
type swap struct{ removed, bought []string }

// pastPool is a NodePool as it was until a time.
type pastPool struct {
	until time.Time
	pool  *karpv1.NodePool
}

// lookback is how old what a decision relied on may be when it is stored; protection must be older to count.
const lookback = 45 * time.Second

func newHistory() history {
	return history{launched: map[string]string{}, owner: map[string]string{}, fleets: map[string][]ledger.FleetMember{}, tokens: map[string]bool{}, planned: map[string]bool{}, drifted: map[string]bool{},
		commands: map[string]*ledger.CommandStarted{}, swaps: map[string]swap{},
		pools: map[string][]pastPool{}, deadlines: map[string]time.Time{}, bound: map[string]time.Time{}, listed: map[string]time.Time{},
		initialized: map[string]bool{}}
}

// checkConfirmed demands that no pod can come to the nodes any more.
func (s *Judge) checkConfirmed(c *ledger.CommandStarted) {
	for _, candidate := range c.Candidates {
		n, o := s.Cluster.Node(candidate.Node), s.Cluster.NodeClaim(candidate.Claim)
		alive := n != nil && o != nil && n.Spec.ProviderID == candidate.ProviderID && o.UID == candidate.ClaimUID && o.DeletionTimestamp == nil
		byUser := n != nil && s.Clock.Now().Sub(s.Deeds.Untainted[n.Name]) < lookback
		if alive && !byUser && !kube.IsDisrupted(n) && !s.isDoomed(candidate.Claim) {
			s.Violate(CheckTainted, "node %s is not", n.Name)
		}
	}
}

// CheckRecord notes what was recorded.
func (s *Judge) CheckRecord(e ledger.Entry) {
	s.book.enter(e)
	s.rules.enter(e)
	switch p := e.Payload.(type) {
	case *ledger.LaunchRequested:
		s.history.tokens[p.Token] = true
		if len(p.Others) > 0 {
			s.Stats.Fleets++
			s.history.openFleet(s.Log.ID(), p)
		}
	case *ledger.FleetAnswered:
		s.checkAnswered(p)
	case *ledger.CommandStarted:
		s.history.commands[ledger.CommandID(s.Log.ID(), e.Seq)] = p
		s.commandStarted(e.Seq, p)
	case *ledger.CommandReduced:
		s.history.commands[p.ID] = reduced(s.history.commands[p.ID], p)
	case *ledger.ClaimInitialized:
		s.history.initialized[p.Claim] = true
	case *ledger.CommandSucceeded:
		s.checkCheaper(p.ID)
	case *ledger.CommandConfirmed:
		s.checkConfirmed(s.history.commands[p.ID])
		s.Moved(s.history.commands[p.ID].Candidates[0].Node)
	case *ledger.ClaimDoomed:
		s.checkTime(p)
		s.checkNoticed(p)
	case *ledger.ClaimCreated:
		s.checkContent(p)
	case *ledger.DriftJudged:
		for _, c := range p.Claims {
			s.history.drifted[string(c.UID)+"/"+c.Reason] = true
		}
	case *ledger.AggregatesRetired:
		s.Stats.Retired += len(p.Aggregates)
	case *ledger.ProvisioningPlanned:
		s.Stats.Widened += len(p.Widened)
		if p.Search != nil {
			s.Stats.Confirmed++
		}
		for i := range p.Claims {
			s.Stats.Claims++
			s.history.planned[ledger.ClaimName(s.Log.ID(), p.Claims[i].NodePool, e.Seq, i)] = true
		}
	}
}

func (s *Judge) commandStarted(seq uint64, p *ledger.CommandStarted) {
	var bought []string
	for i := range p.Replacements {
		s.Stats.Claims++
		name := ledger.ClaimName(s.Log.ID(), p.Replacements[i].NodePool, seq, i)
		s.history.planned[name] = true
		bought = append(bought, name)
	}
	if p.Reason == karpv1.DisruptionReasonUnderutilized {
		s.Stats.Consolidated++
		if len(bought) > 0 {
			s.Stats.Replacing++
			x := swap{bought: bought}
			for _, c := range p.Candidates {
				x.removed = append(x.removed, c.ProviderID)
			}
			s.history.swaps[ledger.CommandID(s.Log.ID(), seq)] = x
		}
	}
	s.Moved(p.Candidates[0].Node)
}

// CheckReplaced demands that a node which a command replaces is not deleted before all that it bought are
// initialized. A NodeClaim whose Node somebody else has removed goes in any case, by lifecycle if not by the
// command.
func (s *Judge) CheckReplaced(by Process, claim string, uid types.UID) {
	o := s.Cluster.NodeClaim(claim)
	if by.Name() != ledger.ServiceDisruptor || o == nil || o.UID != uid || o.DeletionTimestamp != nil || s.Cluster.Node(o.Status.NodeName) == nil {
		return
	}
	for id, c := range s.book.commands {
		if !slices.Contains(c.claims, claim) {
			continue
		}
		for _, name := range c.bought {
			if !s.history.initialized[name] {
				s.Violate(CheckReplaced, "%s deletes %s by command %s, whose %s is not ready", by, claim, id, name)
			}
		}
	}
}

// checkCheaper demands that the instances which a consolidation bought cost less than those it removes, by
// the prices of the beginning: all move together, but for a hundredth.
func (s *Judge) checkCheaper(id string) {
	x, swaps := s.history.swaps[id]
	if !swaps {
		return
	}
	delete(s.history.swaps, id)
	cost := func(providerID string) int64 {
		i := s.Cloud.Instance(instanceOf(providerID))
		if i == nil {
			return 0
		}
		return cloud.Price(cloud.Offering{InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType})
	}
	var before, after int64
	for _, p := range x.removed {
		before += cost(p)
	}
	for _, name := range x.bought {
		if c := s.book.claims[name]; c != nil {
			after += cost(c.provider)
		}
	}
	if after >= before+before/100 || after == before {
		s.Violate(CheckCheaper, "command %s buys %v at %d for %v at %d micro-dollars an hour", id, x.bought, after, x.removed, before)
	}
}

// reduced is the command without the nodes that were taken out of it.
func reduced(c *ledger.CommandStarted, by *ledger.CommandReduced) *ledger.CommandStarted {
	less := *c
	less.Candidates = slices.DeleteFunc(slices.Clone(c.Candidates), func(x ledger.Candidate) bool {
		return slices.ContainsFunc(by.Dropped, func(d ledger.DroppedNode) bool { return d.Claim == x.Claim })
	})
	return &less
}

// checkTime demands that nothing is doomed by time before its time.
func (s *Judge) checkTime(d *ledger.ClaimDoomed) {
	o := s.Cluster.NodeClaim(d.Claim)
	if o == nil || o.UID != d.UID {
		return
	}
	var life time.Duration
	switch d.Reason {
	case "expired":
		if o.Spec.ExpireAfter.Duration == nil {
			s.Violate(CheckTime, "NodeClaim %s never expires", d.Claim)
			return
		}
		life = *o.Spec.ExpireAfter.Duration
	case "launch_timeout":
		life = s.Options.LaunchTimeout
	case "registration_timeout":
		life = s.Options.RegistrationTimeout
	}
	if at := o.CreationTimestamp.Add(life); life > 0 && s.Clock.Now().Add(stage.ClocksApart).Before(at) {
		s.Violate(CheckTime, "NodeClaim %s is doomed by %s, %s before its time", d.Claim, d.Reason, at.Sub(s.Clock.Now()))
	}
}

// checkNoticed demands that nothing is doomed by a notice that EC2 did not send.
func (s *Judge) checkNoticed(d *ledger.ClaimDoomed) {
	if d.Reason != "spot_interrupted" {
		return
	}
	id := s.history.launched[string(d.UID)]
	end, noticed := s.Deeds.Noticed[id]
	if !noticed {
		s.Violate(CheckForged, "NodeClaim %s is doomed, and %s is not taken back", d.Claim, id)
	}
	if early := end.Sub(d.Deadline); !d.Deadline.IsZero() && early > stage.ClocksApart+s.slack() {
		s.Violate(CheckForged, "NodeClaim %s has the deadline %s, %s is taken back %s later", d.Claim, d.Deadline, id, early)
	}
}

// CheckTaken demands, of an instance that is taken back while nothing fails, that no pod is left on it that
// could have been evicted.
func (s *Judge) CheckTaken(i *cloud.Instance) {
	if s.Calmed.IsZero() || s.Clock.Now().Sub(s.Calmed) < stage.NoticeTime {
		return
	}
	for _, n := range s.Cluster.Nodes() {
		if instanceOf(n.Spec.ProviderID) != i.ID || s.strippedOf(n.Spec.ProviderID) || s.Deeds.Stripped[string(n.UID)] {
			continue
		}
		for _, p := range s.Cluster.PodsOn(n.Name) {
			if s.waitedFor(p) && p.DeletionTimestamp == nil {
				s.Violate(CheckTaken, "%s is on node %s as %s is taken back", p.Name, n.Name, i.ID)
			}
		}
	}
}

// checkContent demands that a NodeClaim that is recorded is made of what counts as planned from here on.
func (s *Judge) checkContent(p *ledger.ClaimCreated) {
	o, c := s.Cluster.NodeClaim(p.Claim), s.book.claims[p.Claim]
	if o == nil || o.UID != p.UID || c == nil || c.content() == nil {
		return
	}
	planned := c.content()
	want, have := planned.planned.Requests.MilliCPU, o.Spec.Resources.Requests.Cpu().MilliValue()
	types := 0
	for _, r := range o.Spec.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable {
			types = len(r.Values)
		}
	}
	if want != have || types != len(planned.planned.InstanceTypes) {
		s.Violate(CheckContent, "%s is made of %s, with %dm CPU and %d types; of record %d are %dm and %d", p.Claim, o.Annotations[karpv1.RecordAnnotationKey],
			have, types, planned.seq, want, len(planned.planned.InstanceTypes))
	}
}

// isDoomed reports that a claim is recorded as going, or as gone.
func (s *Judge) isDoomed(name string) bool {
	c := s.book.claims[name]
	return c == nil || c.doomed > 0
}

func reasonOf(list []metav1.Condition, kind string) string {
	for _, c := range list {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

func isRegistered(n *corev1.Node) bool {
	return n.Labels[karpv1.NodeRegisteredLabelKey] == "true" && !unregistered(n)
}

// toleratesDisrupted by the rules of Kubernetes: an empty key with Exists tolerates all, an empty effect all
// effects.
func toleratesDisrupted(p *corev1.Pod) bool {
	taint := karpv1.DisruptedTaint()
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect {
			return false
		}
		if t.Operator == corev1.TolerationOpExists {
			return t.Key == "" || t.Key == taint.Key
		}
		return t.Key == taint.Key && t.Value == taint.Value
	})
}

// CheckRequest demands that what EC2 is asked for is recorded.
func (s *Judge) CheckRequest(in *awsec2.CreateFleetInput) {
	if token := aws.ToString(in.ClientToken); !s.history.tokens[token] {
		s.Violate(CheckRecorded, "a fleet is asked for with token %s, of no LaunchRequested", token)
	}
}

// CheckLaunch looks at an instance that has just been made.
func (s *Judge) CheckLaunch(i *cloud.Instance) {
	tag := i.Tags[awsv1.TagLaunch]
	_, rest, _ := strings.Cut(tag, "/")
	uid, _, _ := strings.Cut(rest, "/")
	name := i.Tags[awsv1.TagNodeClaim]
	if members, of := s.history.fleets[tag]; of {
		if len(members) == 0 {
			s.Violate(CheckOneInstance, "fleet %s has launched one instance more than it has claims: %s", tag, i.ID)
			return
		}
		name, uid, s.history.fleets[tag] = members[0].Claim, string(members[0].UID), members[1:]
	}
	if first := s.history.launched[uid]; first != "" {
		s.Violate(CheckOneInstance, "NodeClaim %s (%s) has %s and %s", name, uid, first, i.ID)
	}
	s.history.launched[uid], s.history.owner[i.ID] = i.ID, name
	if c := s.Cluster.NodeClaim(name); (c == nil || string(c.UID) != uid) && !s.Deeds.Stripped[uid] {
		s.Violate(CheckLivingClaim, "instance %s is for NodeClaim %s (%s)", i.ID, name, uid)
	}
}

// openFleet notes whose instances come of a request for several claims, in this order.
func (h *history) openFleet(logID string, p *ledger.LaunchRequested) {
	members := append([]ledger.FleetMember{{Claim: p.Claim, UID: p.UID, Attempt: p.Attempt}}, p.Others...)
	h.fleets[fmt.Sprintf("%s/%s/%d", logID, p.UID, p.Attempt)] = members
}

// checkAnswered demands that each instance is recorded for the claim that it was launched for, and that no
// claim counts as failed that has one.
func (s *Judge) checkAnswered(p *ledger.FleetAnswered) {
	for i := range p.Launched {
		if l := &p.Launched[i]; s.history.launched[string(l.UID)] != l.InstanceID {
			s.Violate(CheckOneInstance, "NodeClaim %s has %s, and %s is recorded", l.Claim, s.history.launched[string(l.UID)], l.InstanceID)
		}
	}
	for i := range p.Failed {
		s.Stats.FleetsShort++
		if f := &p.Failed[i]; s.history.launched[string(f.UID)] != "" {
			s.Violate(CheckOneInstance, "NodeClaim %s has %s, and its launch is recorded as failed", f.Claim, s.history.launched[string(f.UID)])
		}
	}
}

// CheckWrite looks at every write of the cluster, by a service or by others.
func (s *Judge) CheckWrite(kind events.Kind, before, after cluster.Object, byService bool) {
	switch kind {
	case events.KindPod:
		if p, ok := after.(*corev1.Pod); ok && p.Spec.NodeName != "" && s.history.bound[string(p.UID)].IsZero() {
			s.history.bound[string(p.UID)] = s.Clock.Now()
		}
		for _, o := range []cluster.Object{before, after} {
			if p, ok := o.(*corev1.Pod); ok {
				s.rules.noteReady(p.Labels["app"])
			}
		}
	case events.KindNodePool:
		if p, ok := before.(*karpv1.NodePool); ok {
			s.history.pools[p.Name] = append(s.history.pools[p.Name], pastPool{s.Clock.Now(), p})
		}
	case events.KindNode:
		s.checkNode(before, after)
	case events.KindNodeClaim:
		if before == nil && byService && !s.history.planned[after.GetName()] {
			s.Violate(CheckRecorded, "NodeClaim %s was not planned", after.GetName())
		}
		if after == nil && !s.Deeds.Stripped[string(before.GetUID())] {
			s.checkGone("NodeClaim "+before.GetName(), s.history.launched[string(before.GetUID())])
		}
		if c, ok := after.(*karpv1.NodeClaim); ok {
			if t, err := time.Parse(time.RFC3339, c.Annotations[karpv1.TerminationTimestampAnnotationKey]); err == nil {
				s.history.deadlines[c.Status.ProviderID] = t
			}
		}
		if c, ok := after.(*karpv1.NodeClaim); ok && isTrue(c.Status.Conditions, karpv1.ConditionTypeDrifted) {
			s.checkDrifted(c, reasonOf(c.Status.Conditions, karpv1.ConditionTypeDrifted))
		}
	}
}

// checkDrifted demands that what a NodeClaim shows of its drift stands in the log, and that there is a cause.
func (s *Judge) checkDrifted(c *karpv1.NodeClaim, reason string) {
	if !s.history.drifted[string(c.UID)+"/"+reason] {
		s.Violate(CheckJudged, "NodeClaim %s shows %s", c.Name, reason)
	}
	if !s.Deeds.Reshaped {
		s.Violate(CheckDrift, "NodeClaim %s has drifted: %s", c.Name, reason)
	}
}

func (s *Judge) checkNode(before, after cluster.Object) {
	if before == nil {
		return
	}
	old := before.(*corev1.Node)
	id := instanceOf(old.Spec.ProviderID)
	if after == nil {
		if isRegistered(old) && !s.Deeds.Stripped[string(old.UID)] {
			s.checkGone("Node "+old.Name, id)
		}
		return
	}
	n := after.(*corev1.Node)
	if !kube.IsDisrupted(old) && kube.IsDisrupted(n) {
		s.Moved(n.Name)
	}
	if held(old) && !held(n) && !s.Deeds.Stripped[string(old.UID)] {
		s.checkGone("the finalizer of Node "+n.Name, id)
	}
	if unregistered(old) && !unregistered(n) {
		s.checkRegistered(n)
	}
}

func held(n *corev1.Node) bool { return slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) }

func unregistered(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
}

// checkGone demands that the instance has ended by the time that what goes.
func (s *Judge) checkGone(what, id string) {
	if i := s.Cloud.Instance(id); i != nil && !i.Gone() {
		s.Violate(CheckInstanceFirst, "%s is gone, %s is %s", what, id, i.State)
	}
}

// checkRegistered demands that everything is in place when the unregistered taint goes.
func (s *Judge) checkRegistered(n *corev1.Node) {
	var owner *karpv1.NodeClaim
	for _, c := range s.Cluster.NodeClaims() {
		if c.Status.ProviderID == n.Spec.ProviderID {
			owner = c
		}
	}
	if owner == nil {
		id := instanceOf(n.Spec.ProviderID)
		if i := s.Cloud.Instance(id); s.strippedOf(n.Spec.ProviderID) || i != nil && i.Gone() {
			return // users took the NodeClaim away, or it went as it should before the slow write of a deposed leader arrived
		}
		s.Violate(CheckRegistration, "Node %s is registered without a NodeClaim", n.Name)
		return
	}
	if n.Labels[karpv1.NodeRegisteredLabelKey] != "true" || !held(n) {
		s.Violate(CheckRegistration, "Node %s lacks the label or the finalizer", n.Name)
	}
	for _, m := range []struct{ want, have map[string]string }{{owner.Labels, n.Labels}, {owner.Annotations, n.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(m.want)) {
			lately := key == stage.NoteKey || key == karpv1.TerminationTimestampAnnotationKey // written a moment ago, by users or as the claim was deleted
			if m.have[key] != m.want[key] && !lately {
				s.Violate(CheckRegistration, "Node %s has %s=%q, its NodeClaim %q", n.Name, key, m.have[key], m.want[key])
			}
		}
	}
	for _, t := range owner.Spec.Taints {
		if !slices.ContainsFunc(n.Spec.Taints, func(have corev1.Taint) bool { return have.MatchTaint(&t) }) {
			s.Violate(CheckRegistration, "Node %s lacks taint %s", n.Name, t.Key)
		}
	}
}

// strippedOf reports that users have stripped the finalizers of the NodeClaim whose instance has a provider
// id.
func (s *Judge) strippedOf(providerID string) bool {
	id := instanceOf(providerID)
	for uid, launched := range s.history.launched {
		if launched == id && s.Deeds.Stripped[uid] {
			return true
		}
	}
	return false
}

// slack is how much a process's clock may be ahead of the true time.
func (s *Judge) slack() time.Duration {
	return min(2*max(s.Drawn.Skew, s.Drawn.Jump)+time.Second, stage.ClocksApart)
}

// deadlineOf is the termination timestamp that the NodeClaim behind a node has or had; zero for none.
func (s *Judge) deadlineOf(node string) time.Time {
	n := s.Cluster.Node(node)
	if n == nil {
		return time.Time{}
	}
	return s.history.deadlines[n.Spec.ProviderID]
}

func (s *Judge) passed(t time.Time) bool { return !t.IsZero() && s.Clock.Now().Add(s.slack()).After(t) }

// PodsListed notes that the API server lists the pods of a node now.
func (s *Judge) PodsListed(node string) { s.history.listed[node] = s.Clock.Now() }

// CheckEviction demands that do-not-disrupt is honoured. Budgets are the API server's.
func (s *Judge) CheckEviction(by Process, key string, uid types.UID) {
	p := s.Cluster.Pod(key)
	if p == nil || p.UID != uid || p.DeletionTimestamp != nil {
		return
	}
	s.rules.judgeSurge(by, p)
	since, lately := s.Deeds.Protected[string(uid)]
	if p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" && !(lately && s.Clock.Now().Sub(since) < lookback) {
		s.Violate(CheckEviction, "%s evicts %s", by, key)
	}
}

// CheckDeletion demands that a pod is deleted past its budget only as the node's deadline comes.
func (s *Judge) CheckDeletion(by Process, key string, uid types.UID) {
	p := s.Cluster.Pod(key)
	if p == nil || p.UID != uid || s.Cluster.Node(p.Spec.NodeName) == nil {
		return // of a Node that is gone: kubelet can't be asked any more
	}
	grace := 30 * time.Second
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	const margin = 30 * time.Second // before EC2 takes the instance back
	if end, noticed := s.Deeds.Noticed[instanceOf(s.Cluster.Node(p.Spec.NodeName).Spec.ProviderID)]; noticed && s.passed(end.Add(-margin-stage.ClocksApart)) {
		return
	}
	deadline := s.deadlineOf(p.Spec.NodeName)
	if deadline.IsZero() || !s.passed(deadline.Add(-grace)) {
		s.Violate(CheckEviction, "%s deletes %s, the deadline of %s is %s", by, key, p.Spec.NodeName, deadline)
	}
}

// CheckTermination demands that no pod that must be waited for runs on an instance that is ended. One that
// was bound after the API server listed the node's pods for the last time cannot be known.
func (s *Judge) CheckTermination(by Process, ids []string) {
	for _, id := range ids {
		i := s.Cloud.Instance(id)
		if i == nil || i.Ending() {
			continue
		}
		for _, n := range s.Cluster.Nodes() {
			if n.Spec.ProviderID != "aws:///"+i.Zone+"/"+id || s.passed(s.deadlineOf(n.Name)) {
				continue
			}
			for _, p := range s.Cluster.PodsOn(n.Name) {
				listed, bound := s.history.listed[n.Name], s.history.bound[string(p.UID)]
				if s.waitedFor(p) && (listed.IsZero() || !bound.After(listed)) {
					s.Violate(CheckUndrained, "%s ends %s with %s on node %s", by, id, p.Name, n.Name)
				}
			}
		}
	}
}

func (s *Judge) waitedFor(p *corev1.Pod) bool {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	stuck := p.DeletionTimestamp != nil && s.Clock.Now().Add(s.slack()).Sub(p.DeletionTimestamp.Time) > time.Minute
	return !ended && !stuck && !toleratesDisrupted(p)
}

// CheckShadow demands that a process in shadow mode only reads, and appends.
func (s *Judge) CheckShadow(by Process, call string) {
	verb, _, _ := strings.Cut(call, " ")
	if by.Mode() == ledger.ModeShadow && !slices.Contains([]string{"append", "read", "get", "list", "ec2:DescribeInstances"}, verb) {
		s.Violate(CheckShadow, "%s: %s", by, call)
	}
}

func (s *Judge) CheckLog() {
	ctx := context.Background()
	head, _ := s.Log.Head(ctx)
	if last, err := s.Log.Verify(ctx); err != nil || last != head.Seq {
		s.Violate(CheckLog, "verified up to %d of %d: %v", last, head.Seq, err)
	}
	for _, e := range s.Entries {
		for _, name := range e.Advances {
			if at, err := s.Log.Aggregate(ctx, name); err != nil || at != s.book.aggregates[name] {
				s.Violate(CheckLog, "aggregate %s is at %d, by the records at %d (%v)", name, at, s.book.aggregates[name], err)
			}
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(s.Acknowledged)) {
		recs, err := s.Log.Read(ctx, seq, 1)
		if err != nil || len(recs) != 1 || recs[0].Seq != seq || recs[0].Hash != s.Acknowledged[seq] {
			s.Violate(CheckLog, "record %d is not what was acknowledged (%v)", seq, err)
		}
	}
}

// CheckStopped demands that nothing is begun that operators have stopped.
func (s *Judge) CheckStopped(by Process, call string) {
	if s.Clock.Now().Sub(s.Operator.Since) <= stage.StopLag {
		return
	}
	var forbidden []string
	switch s.Operator.Stop {
	case ledger.StopAll:
		forbidden = []string{"create nodeclaim", "delete nodeclaim", "ec2:CreateFleet", "ec2:TerminateInstances", "evict pod", "delete pod"}
	case ledger.StopVoluntary:
		if by.Name() == ledger.ServiceDisruptor {
			forbidden = []string{"delete nodeclaim"}
		}
	}
	for _, f := range forbidden {
		if strings.HasPrefix(call, f) {
			s.Violate(CheckStopped, "%s: %s, stopped (%s) for %s", by, call, s.Operator.Stop, s.Clock.Now().Sub(s.Operator.Since))
		}
	}
}

// instanceOf is the instance id of a provider id aws:///ZONE/ID, by the judge's own reading.
func instanceOf(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }
