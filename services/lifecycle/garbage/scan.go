package garbage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/providerid"

	"millwright/planner/condition"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/recent"
)

const (
	// ScanEvery bounds how long a claim goes without a direct look at its object and instance (DESIGN §5).
	ScanEvery = 30 * time.Second
	// Floor and percent are the breaker of garbage collection.
	Floor   = 5
	percent = 10
)

// StepScan starts the direct look at everything when it is due.
func (g *Collector) StepScan(now time.Time) time.Time {
	due := planner.Latest(g.found.scanDue(now), g.effects.Retries.At("scan", now))
	if now.Before(due) {
		return due
	}
	g.effects.Start("scan", lane.Scan, func(ctx context.Context) error {
		if err := g.Scan(ctx); err != nil {
			return g.effects.PutOff("scan", err)
		}
		g.effects.Retries.Succeeded("scan")
		return nil
	})
	return now.Add(effects.RetryFirst)
}

// listing is what a scan reads, in this order: an instance that has a NodeClaim when it is listed still has
// one, or had, when the NodeClaims are.
type listing struct {
	started   time.Time
	ledgerSeq uint64
	instances []ec2.Instance
	claims    []*karpv1.NodeClaim
	pools     []*karpv1.NodePool
	open      []ledger.Claim
	// going are the instances of Nodes that are being deleted, whose claims may be closed.
	going []string
}

// Scan reads instances, NodeClaims and NodePools directly, and collects garbage in both directions.
func (g *Collector) Scan(ctx context.Context) error {
	l, err := g.list(ctx)
	if err != nil {
		return err
	}
	facts, err := g.lookAtInstances(ctx, l)
	if err != nil {
		return err
	}
	vanished := vanished(l, facts)
	held := breaks(len(vanished), l.managed())
	if held {
		g.alarms.Raise(ctx, "garbage_collection_held", fmt.Sprintf("%d of %d nodeclaims have no instance: none is deleted until a person has looked", len(vanished), l.managed()))
	}
	if err := g.lookForNodes(ctx, l); err != nil {
		return err
	}
	g.askReservations(ctx, l)
	g.found.scanned(g.host.Now(), l, held, facts)
	g.deps.Listener.Prune(g.presentBy(l), g.host.Now())
	g.refresh(l)
	g.deps.Listener.HearAll()
	return g.collect(ctx, l)
}

func (g *Collector) list(ctx context.Context) (*listing, error) {
	l := &listing{started: g.host.Now()}
	err := g.host.Ledger(func(led *ledger.Ledger) error { l.ledgerSeq = led.Seq(); return nil })
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	if l.instances, err = g.deps.EC2.DescribeInstancesByTags(ctx, g.ourTags()); err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	if l.claims, err = g.deps.Kube.ListNodeClaims(ctx); err != nil {
		return nil, err
	}
	if l.pools, err = g.deps.Kube.ListNodePools(ctx); err != nil {
		return nil, err
	}
	for _, n := range g.deps.Cache.DeletingNodes() {
		if _, id := providerid.Split(n.Spec.ProviderID); id != "" && claim.IsHeld(n) {
			l.going = append(l.going, id)
		}
	}
	err = g.host.Ledger(func(led *ledger.Ledger) error {
		for _, c := range led.Claims() {
			l.open = append(l.open, *c)
		}
		return nil
	})
	return l, err
}

// ourTags are on every instance made for this cluster, by us or by Karpenter.
func (g *Collector) ourTags() map[string]string {
	return map[string]string{awsv1.TagNodePool: "*", awsv1.TagNodeClass: "*", awsv1.TagEKSClusterName: g.deps.Cluster}
}

// instanceOf is the instance that a NodeClaim names; "" for one of another provider.
func instanceOf(c *karpv1.NodeClaim) string {
	if !claim.Managed(c) {
		return ""
	}
	_, id := providerid.Split(c.Status.ProviderID)
	return id
}

// managed counts the NodeClaims that are not of another provider.
func (l *listing) managed() (n int) {
	for _, c := range l.claims {
		if claim.Managed(c) {
			n++
		}
	}
	return n
}

// instanceIDs that NodeClaims, open claims and Nodes that go name, sorted. An id that EC2 cannot have made,
// of another provider or written by hand, is left out: EC2 would refuse the whole call.
func (l *listing) instanceIDs() []string {
	ids := map[string]bool{}
	for _, id := range l.going {
		ids[id] = true
	}
	for _, c := range l.claims {
		if id := instanceOf(c); id != "" {
			ids[id] = true
		}
	}
	for i := range l.open {
		if in := l.open[i].Instance; in != nil {
			ids[in.InstanceID] = true
		}
	}
	maps.DeleteFunc(ids, func(id string, _ bool) bool { return !providerid.IsInstanceID(id) })
	return slices.Sorted(maps.Keys(ids))
}

// sought are the names of NodeClaims whose instance may yet be found by its tag.
func (l *listing) sought() map[string]bool {
	inherited, open := map[string]bool{}, map[string]bool{}
	for i := range l.open {
		c := &l.open[i]
		open[c.Name] = true
		if c.Inherited && c.Instance == nil && !c.Terminated {
			inherited[c.Name] = true
		}
	}
	for _, o := range l.claims {
		if o.Status.ProviderID == "" && !open[o.Name] {
			inherited[o.Name] = true // not adopted yet
		}
	}
	return inherited
}

// vanished are the live NodeClaims whose instance is gone.
func vanished(l *listing, facts map[string]claim.InstanceFacts) []string {
	var names []string
	for _, c := range l.claims {
		id := instanceOf(c)
		if id != "" && c.DeletionTimestamp.IsZero() && facts[id].Gone() {
			names = append(names, c.Name)
		}
	}
	return names
}

// breaks: so many at once are a fault of ours or of EC2's answer rather than garbage.
func breaks(some, all int) bool { return some > max(Floor, all*percent/100) }

// nodeClassesInUse are those that exist and those that NodeClaims name.
func (g *Collector) nodeClassesInUse(l *listing) map[string]bool {
	names := map[string]bool{}
	for _, nc := range g.deps.Cache.NodeClasses() {
		names[nc.Name] = true
	}
	for _, c := range l.claims {
		if ref := c.Spec.NodeClassRef; ref != nil {
			names[ref.Name] = true
		}
	}
	return names
}

// Present are the objects a scan found. What is remembered of others goes.
type Present struct {
	Names, Classes map[string]bool
	Claims, Pools  map[types.UID]bool
	// ClassesInUse are those that exist and those that NodeClaims name.
	ClassesInUse map[string]bool
}

func (g *Collector) presentBy(l *listing) Present {
	p := Present{Names: map[string]bool{}, Classes: map[string]bool{}, Claims: map[types.UID]bool{}, Pools: map[types.UID]bool{}}
	for i := range l.open {
		p.Names[l.open[i].Name], p.Claims[l.open[i].UID] = true, true
	}
	for _, o := range l.claims {
		p.Names[o.Name], p.Claims[o.UID] = true, true
	}
	for _, o := range l.pools {
		p.Pools[o.UID] = true
	}
	for _, nc := range g.deps.Cache.NodeClasses() {
		p.Classes[nc.Name] = true
	}
	p.ClassesInUse = g.nodeClassesInUse(l)
	return p
}

// lookForNodes asks the API server for the Nodes of registered claims that the cache does not have.
func (g *Collector) lookForNodes(ctx context.Context, l *listing) error {
	missing := map[types.UID]bool{}
	for _, c := range l.claims {
		id, name := c.Status.ProviderID, c.Status.NodeName
		if id == "" || name == "" || !claim.Managed(c) || !c.DeletionTimestamp.IsZero() || !condition.IsTrue(c.Status.Conditions, karpv1.ConditionTypeRegistered) ||
			len(g.deps.Cache.NodesByProviderID(id)) > 0 {
			continue
		}
		n, err := g.deps.Kube.Node(ctx, name)
		if err != nil && !kube.IsNotFound(err) {
			return fmt.Errorf("get node of nodeclaim %s: %w", c.Name, err)
		}
		missing[c.UID] = err != nil || n.Spec.ProviderID != id
	}
	maps.DeleteFunc(missing, func(_ types.UID, gone bool) bool { return !gone })
	if breaks(len(missing), l.managed()) {
		g.alarms.Raise(ctx, "missing_nodes_held", fmt.Sprintf("%d of %d nodeclaims have no node: none is deleted until a person has looked", len(missing), l.managed()))
		missing = nil
	}
	g.found.setNodeless(missing, g.host.Now())
	return nil
}

// refresh lends objects that the cache does not have yet, or only an older version of, to the next look.
func (g *Collector) refresh(l *listing) {
	now := g.host.Now()
	for _, c := range l.claims {
		cached := g.deps.Cache.NodeClaim(c.Name)
		if have, known := g.deps.Claims.Newest(c.Name, cached, cached != nil, now); !known || recent.IsOlder(have, c) {
			g.deps.Claims.Saw(c, now)
		}
	}
}
