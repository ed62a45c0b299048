package claims

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millwright/planner/providerid"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
)

// claimView is one claim as everything we can read shows it.
type claimView struct {
	name string
	// object is nil if there is none as far as we know. It is shared: never change it.
	object *karpv1.NodeClaim
	// ledger is a copy; nil if the Ledger does not know the claim.
	ledger *ledger.Claim
	nodes  []*corev1.Node
	class  *awsv1.EC2NodeClass
	input  claim.Input
	marks  claim.Marks
	// basis and at say where the Ledger stood: claim/<name> was last advanced by record at. expects is for
	// what is recorded upon it.
	basis   planner.Basis
	at      uint64
	expects []planner.Expectation
	options planner.Options
	// gathered: when these facts were gathered it waited to be launched, or was being launched.
	gathered bool
}

func claimKey(name string) string { return ledger.ClaimAggregate(name) }

// gatherFacts gathers the facts about a claim.
func (s *Stepper) gatherFacts(name string) (*claimView, error) {
	now := s.host.Now()
	v := &claimView{name: name, input: claim.Input{Name: name, Now: now.UTC(), RetryAt: s.effects.Retries.At(claimKey(name), now).UTC()}}
	v.gathered = s.gathering.has(name, now) // before what the launch writes is read
	var drained map[string]bool
	claims := 0
	err := s.host.Ledger(func(l *ledger.Ledger) error {
		if c := l.Claim(name); c != nil {
			copied := *c
			s.mem.asPresumed(&copied, s.host.LogAway())
			v.ledger = &copied
		}
		v.at, v.expects = l.Aggregate(ledger.ClaimAggregate(name)), planner.Expect(l, ledger.ClaimAggregate(name))
		v.basis = planner.Basis{LedgerSeq: l.Seq(), Now: planner.NowOf(now, l.LastTime()), OptionsSeq: l.OptionsSeq()}
		v.options = l.PlanningOptions()
		drained, claims = s.drained(v, l, now), len(l.Claims())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	v.input.Now = v.basis.Now.UTC()
	s.deps.Breaker.Pace(&v.input, claims)
	v.input.LaunchTimeout, v.input.RegistrationTimeout = v.options.LaunchTimeout, v.options.RegistrationTimeout
	s.complete(v, drained, now)
	return v, nil
}

// drained finds the Nodes of the claim and which of them have nothing left to wait for.
func (s *Stepper) drained(v *claimView, l *ledger.Ledger, now time.Time) map[string]bool {
	v.object = s.objectOf(v.name, now)
	v.nodes = s.nodesOf(providerID(v.ledger, v.object), now)
	drained := map[string]bool{}
	for _, n := range v.nodes {
		if d := l.Drain(n.Name); d != nil && d.Drained > 0 && drain.IsOf(d, n, v.uid()) {
			drained[n.Name] = true
		}
	}
	return drained
}

// objectOf returns the newest form of the NodeClaim; nil if a direct list after its creation did not have it.
func (s *Stepper) objectOf(name string, now time.Time) *karpv1.NodeClaim {
	o := s.deps.Cache.NodeClaim(name)
	o, known := s.deps.Claims.Newest(name, o, o != nil, now)
	if !known || s.deps.Claims.IsGone(o.UID) || s.deps.Findings.ClaimAbsent(o) {
		return nil
	}
	return o
}

// providerID of the claim: the Ledger's word counts before the object's.
func providerID(l *ledger.Claim, o *karpv1.NodeClaim) string {
	if l != nil && l.Instance != nil {
		return l.Instance.ProviderID
	}
	if o != nil {
		return o.Status.ProviderID
	}
	return ""
}

func (s *Stepper) complete(v *claimView, drained map[string]bool, now time.Time) {
	in := &v.input
	in.Ledger = claim.FactsOfLedger(v.ledger)
	in.Object = claim.FactsOfObject(v.object, v.ledger, s.host.LogID())
	in.ObjectGone = v.ledger != nil && (s.deps.Claims.IsGone(v.ledger.UID) || s.deps.Findings.ClaimGone(v.ledger.UID, v.at))
	own := v.own()
	for _, n := range v.nodes {
		facts := claim.FactsOfNode(n, own, drained[n.Name])
		facts.Finalizer = facts.Finalizer || s.mem.mayBeRegistered(n, now) // that write puts it on; pods may have come since
		in.Nodes = append(in.Nodes, facts)
	}
	if ref := refOf(v); ref != nil {
		v.class = s.deps.Cache.NodeClass(ref.Name)
	}
	in.NodeClass = claim.FactsOfNodeClass(v.class)
	in.PoolMissing, in.PoolGone = s.poolFacts(v)
	if v.ledger != nil && v.ledger.Planned != nil {
		in.Refused = s.mem.refusals.isLasting(v.name, s.generationOf(v.ledger.Planned.NodePool), now)
	}
	in.NodeGone = s.deps.Findings.NodeGone(v.uid(), now)
	in.Failure = claim.FailureOf(v.ledger)
	if v.ledger != nil && v.ledger.Open == nil && v.ledger.Instance == nil {
		if f := s.mem.failure(v.ledger.UID); f != nil {
			in.Failure = f
		}
	}
	_, instance := providerid.Split(providerID(v.ledger, v.object))
	in.Instance, in.CollectionHeld = s.deps.Findings.Instance(instance, now)
	if in.Interruptions = s.deps.Interruptions.Of(instance); instance != "" {
		in.Offering = v.offering()
		in.BlockEnds = claim.BlockEnds(v.class, in.Offering.ReservationID)
	}
	if v.overdue() {
		in.Boot = s.mem.bootOf(v.uid())
	}
	in.Unhealthy = s.unhealthy(v, now)
	v.marks = s.mem.marksOf(v.name)
	in.Sought = v.ledger != nil && s.mem.isSought(v.ledger.UID)
	in.Stopped, in.LogAway = s.host.Stop() == ledger.StopAll, s.host.LogAway()
	if in.Stopped || in.LogAway {
		s.idle.Store(now.UnixNano())
	}
	if from := planner.Latest(s.started, time.Unix(0, s.idle.Load())); v.ledger != nil && v.ledger.Attempt == 0 && !from.After(now) { // the clock may have been set back
		in.LaunchFrom = from.UTC()
	}
}

// own is the object if it is the one the Ledger means.
func (v *claimView) own() *karpv1.NodeClaim {
	if v.object != nil && v.ledger != nil && v.ledger.UID != "" && v.object.UID != v.ledger.UID {
		return nil
	}
	return v.object
}

func refOf(v *claimView) *karpv1.NodeClassReference {
	switch {
	case v.object != nil:
		return v.object.Spec.NodeClassRef
	case v.ledger != nil && v.ledger.Planned != nil:
		return &v.ledger.Planned.NodeClassRef
	}
	return nil
}

// poolFacts says whether the claim's NodePool is missing from the cache, and whether a direct list lacks it
// too.
func (s *Stepper) poolFacts(v *claimView) (missing, gone bool) {
	name, uid := poolOf(v)
	if uid == "" {
		return false, false
	}
	if p := s.deps.Cache.NodePool(name); p != nil && p.UID == uid {
		return false, false
	}
	return true, v.ledger != nil && s.deps.Findings.PoolGone(uid, v.ledger.PlannedSeq)
}

// poolOf is the NodePool the claim belongs to by plan, or by owner once there is an object.
func poolOf(v *claimView) (string, types.UID) {
	if v.object != nil {
		for _, r := range v.object.OwnerReferences {
			if r.Kind == "NodePool" && strings.HasPrefix(r.APIVersion, karpv1.Group+"/") {
				return r.Name, r.UID
			}
		}
		return "", ""
	}
	if v.ledger != nil && v.ledger.Planned != nil {
		return v.ledger.Planned.NodePool, v.ledger.Planned.NodePoolUID
	}
	return "", ""
}

// offering the instance runs on, by the Ledger, else by the NodeClaim's labels.
func (v *claimView) offering() *claim.Offering {
	o := &claim.Offering{InstanceType: v.label(corev1.LabelInstanceTypeStable), Zone: v.zone(), CapacityType: v.capacityType(),
		ReservationID: v.label(awsv1.LabelCapacityReservationID), ImageID: v.imageID()}
	if v.ledger != nil && v.ledger.Instance != nil && v.ledger.Instance.InstanceType != "" {
		o.InstanceType = v.ledger.Instance.InstanceType
	}
	return o
}

func (v *claimView) imageID() string {
	if v.ledger != nil && v.ledger.Instance != nil && v.ledger.Instance.ImageID != "" {
		return v.ledger.Instance.ImageID
	}
	if v.object != nil {
		return v.object.Status.ImageID
	}
	return ""
}

// versions names everything the wanted status depends on.
func (v *claimView) versions() string {
	parts := []string{strconv.FormatUint(v.at, 10)}
	if v.object != nil {
		parts = append(parts, string(v.object.UID), v.object.ResourceVersion)
	}
	if v.ledger != nil {
		parts = append(parts, string(v.ledger.State))
	}
	for _, n := range v.nodes {
		parts = append(parts, n.Name, n.ResourceVersion)
	}
	if v.input.NodeClass != nil {
		parts = append(parts, v.input.NodeClass.Ready)
	}
	if f := v.input.Failure; f != nil {
		parts = append(parts, f.Reason, f.Message)
	}
	if v.input.Boot != nil {
		parts = append(parts, fmt.Sprintf("%+v", *v.input.Boot))
	}
	m := v.marks
	parts = append(parts, m.Drift, strconv.FormatBool(m.DriftKnown), strconv.FormatBool(m.QuietKnown), strconv.FormatBool(m.Quiet), strconv.FormatInt(m.PodEvent.Unix(), 10))
	return strings.Join(parts, "|")
}

// pool is the NodePool's name, empty for a claim of none.
func (v *claimView) pool() string {
	if v.ledger != nil && v.ledger.NodePool != "" {
		return v.ledger.NodePool
	}
	if v.object != nil {
		return v.object.Labels[karpv1.NodePoolLabelKey]
	}
	return ""
}

func (v *claimView) uid() types.UID {
	if v.ledger != nil && v.ledger.UID != "" {
		return v.ledger.UID
	}
	if v.object != nil {
		return v.object.UID
	}
	return ""
}

// instanceID is empty while none is known.
func (v *claimView) instanceID() string {
	_, id := providerid.Split(providerID(v.ledger, v.own()))
	return id
}

// isOutdated reports that an object of the claim is known to have a newer version than is in sight.
func (s *Stepper) isOutdated(v *claimView) bool {
	now := s.host.Now()
	if o := v.own(); o != nil && s.deps.Outdated.Has(o, now) {
		return true
	}
	for _, n := range v.nodes {
		if s.deps.Outdated.Has(n, now) {
			return true
		}
	}
	return false
}

// readAnew reads the outdated objects of the claim from the API server itself.
func (s *Stepper) readAnew(ctx context.Context, v *claimView) error {
	now := s.host.Now()
	if o := v.own(); o != nil && s.deps.Outdated.Has(o, now) {
		if _, err := s.reread(ctx, v); err != nil {
			return err
		}
	}
	for _, n := range v.nodes {
		if !s.deps.Outdated.Has(n, now) {
			continue
		}
		live, err := s.deps.Kube.Node(ctx, n.Name)
		if err != nil && !kube.IsNotFound(err) {
			return err
		}
		if err != nil || live.UID != n.UID {
			s.deps.Nodes.Gone(n.Name, n.UID, now)
		}
	}
	return nil
}

// nodesOf are the Nodes of an instance, by name, in the newest form known.
func (s *Stepper) nodesOf(providerID string, now time.Time) []*corev1.Node {
	var nodes []*corev1.Node
	for _, n := range s.deps.Cache.NodesByProviderID(providerID) {
		n, _ = s.deps.Nodes.Newest(n.Name, n, true, now)
		if n.Spec.ProviderID == providerID && !s.deps.Nodes.IsGone(n.UID) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
