package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/condition"
	"millwright/planner/drift"
	"millwright/planner/ledger"
	"millwright/planner/providerid"
	"millwright/planner/world"
)

// facts gathers what the drift of NodeClaims follows from; NodePools and EC2NodeClasses are read once for all
// their claims.
type facts struct {
	k     *Keeper
	world *world.World
	in    drift.Input
	// rebalanceOption: recommendations to leave an instance are followed, where no policy says otherwise.
	rebalanceOption bool
	// pools and classes of the claims so far; nil for one that is not there, cannot be read, or is going.
	pools   map[string]*karpv1.NodePool
	classes map[string]*class
}

// class is an EC2NodeClass with what EC2 offers to it, which is nil while that is not known.
type class struct {
	drift.Class
	catalog *catalog.Catalog
}

// verdict on a claim of a NodePool that is there.
type verdict struct {
	drift.Verdict
	pool *karpv1.NodePool
}

func (k *Keeper) newFacts(w *world.World, now time.Time) *facts {
	return &facts{k: k, world: w, in: drift.Input{Now: now.UTC()}, pools: map[string]*karpv1.NodePool{}, classes: map[string]*class{}}
}

// addClaim gathers the facts about a claim, unless its NodePool is not there.
func (f *facts) addClaim(o *karpv1.NodeClaim) {
	pool := f.pool(o.Labels[karpv1.NodePoolLabelKey])
	if pool == nil {
		return
	}
	var placement *drift.Placement
	instance := providerid.InstanceID(o.Status.ProviderID)
	if p, listed := f.k.deps.Placements.Placement(instance); listed {
		placement = &drift.Placement{ImageID: p.ImageID, SubnetID: p.SubnetID, SecurityGroupIDs: p.SecurityGroupIDs}
		if f.k.deps.Placements.Running(p.ReservationID) {
			placement.ReservationID = p.ReservationID
		}
	}
	c := drift.ClaimOf(o, placement)
	if f.world != nil {
		for _, i := range f.world.InterruptionsOf(instance) {
			// EC2 recommends this of spot instances alone; about another it is forged.
			if i.MessageKind == events.RebalanceRecommendation && o.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot &&
				drift.FollowsRebalance(f.world.DisruptionPolicies(), pool, f.rebalanceOption) {
				c.RebalanceRecommended = true
			}
			c.EventScheduled = c.EventScheduled || i.MessageKind == events.EventStatus
		}
	}
	f.in.Claims = append(f.in.Claims, c)
	if c := f.class(o.Spec.NodeClassRef.Name); c != nil && c.catalog != nil {
		c.Offer(c.catalog.Type(o.Labels[corev1.LabelInstanceTypeStable]))
	}
}

// pool returns nil for a NodePool that is not there or cannot be read.
func (f *facts) pool(name string) *karpv1.NodePool {
	if p, ok := f.pools[name]; ok {
		return p
	}
	p := f.k.deps.Cache.NodePool(name)
	if p != nil && p.Unreadable != "" {
		p = nil
	}
	if f.pools[name] = p; p != nil {
		f.in.Pools = append(f.in.Pools, drift.PoolOf(p))
	}
	return p
}

// class returns nil for an EC2NodeClass that is not there or is going: then nothing of it has drifted.
func (f *facts) class(name string) *class {
	if c, ok := f.classes[name]; ok {
		return c
	}
	f.classes[name] = nil
	nc := f.k.deps.Cache.NodeClass(name)
	if nc == nil || !nc.DeletionTimestamp.IsZero() {
		return nil
	}
	var cat *catalog.Catalog
	if f.world != nil {
		cat = f.world.Catalog(name)
	}
	var hashes []string
	if nc.Unreadable == "" {
		hashes = f.k.deps.Hasher.Hashes(nc, nc.Annotations[awsv1.NodeClassHashVersionAnnotationKey])
	}
	f.classes[name] = &class{drift.ClassOf(nc, hashes, cat), cat}
	return f.classes[name]
}

// judge returns the verdicts on the claims that were added, by name.
func (f *facts) judge() map[string]verdict {
	in := f.input()
	verdicts := make(map[string]verdict, len(in.Claims))
	for i, v := range drift.Judge(in) {
		verdicts[v.Claim] = verdict{v, f.pools[in.Claims[i].NodePool]}
	}
	return verdicts
}

// input is sorted by name.
func (f *facts) input() drift.Input {
	in := f.in
	for _, c := range f.classes {
		if c != nil {
			in.Classes = append(in.Classes, c.Class)
		}
	}
	in.Sort()
	return in
}

// record states the verdicts that are news. It returns the claims of those that are not on record yet: they
// are not told.
func (k *Keeper) record(ctx context.Context, l *look, told []*karpv1.NodeClaim, marks map[string]claim.Marks) (unrecorded map[string]bool, err error) {
	unrecorded = map[string]bool{}
	var news []string
	subjects := map[string][]string{}
	for _, o := range told {
		if m := marks[o.Name]; m.DriftKnown && k.isNews(o, m.Drift) {
			news, unrecorded[o.Name], subjects[o.Name] = append(news, o.Name), true, subjectsOf(o)
		}
	}
	if len(news) == 0 || k.host.LogAway() {
		return unrecorded, nil
	}
	judged, why, err := recordOf(l.input(), news)
	if err != nil {
		return unrecorded, err
	}
	d := planner.Decision{Kind: ledger.KindDriftJudged, Payload: judged, Explanation: why}
	for _, c := range judged.Claims {
		d.Subjects = append(d.Subjects, subjects[c.Claim]...)
	}
	slices.Sort(d.Subjects)
	if _, err := k.host.Decide(ctx, l.basis, d); err != nil {
		return unrecorded, fmt.Errorf("record drift: %w", err)
	}
	for _, c := range judged.Claims {
		delete(unrecorded, c.Claim)
		k.setJudged(c)
	}
	return unrecorded, nil
}

// recordOf states the verdicts on as many of the claims as there is room for in a record; the others come
// with the next look.
func recordOf(in drift.Input, claims []string) (*ledger.DriftJudged, drift.Explanation, error) {
	for {
		judged, why, err := drift.Record(in.Of(claims...))
		if err != nil || len(judged.Facts) <= recordBytes || len(claims) == 1 {
			return judged, why, err
		}
		claims = claims[:len(claims)/2]
	}
}

// recordBytes bounds the facts of one record.
const recordBytes = 96 << 10

func subjectsOf(o *karpv1.NodeClaim) []string {
	list := []string{"claim/" + o.Name}
	if o.Status.NodeName != "" {
		list = append(list, "node/"+o.Status.NodeName)
	}
	return list
}

// isNews reports that a verdict is another than this process recorded last. What a former leader or Karpenter
// left is recorded once more, since nothing says that the log has the facts.
func (k *Keeper) isNews(o *karpv1.NodeClaim, reason string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last, ok := k.judged[o.UID]; ok {
		return last != reason
	}
	return reason != "" || condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeDrifted)
}

func (k *Keeper) setJudged(c ledger.JudgedClaim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.judged[c.UID] = c.Reason
}
