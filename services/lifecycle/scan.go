package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/recent"
)

const (
	// scanEvery bounds how long a claim goes without a direct look at its object and instance (DESIGN §5).
	scanEvery = 30 * time.Second
	// orphanAge keeps what others launched a moment ago out of garbage collection.
	orphanAge = 30 * time.Second
	// collectFloor and collectPercent are the breaker of garbage collection.
	collectFloor   = 5
	collectPercent = 10
)

// stepScan starts the direct look at everything when it is due.
func (s *Service) stepScan(now time.Time) time.Time {
	due := latest(s.mem.scanDue(), s.mem.retries.At("scan"))
	if now.Before(due) {
		return due
	}
	s.effect("scan", lane.Scan, func(ctx context.Context) error {
		if err := s.scan(ctx); err != nil {
			return s.putOff("scan", err)
		}
		s.mem.retries.Succeeded("scan")
		return nil
	})
	return now.Add(retryFirst)
}

func (m *memory) scanDue() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scan.at.IsZero() {
		return time.Time{}
	}
	return m.scan.at.Add(scanEvery)
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

// scan reads instances, NodeClaims and NodePools directly, and collects garbage in both directions.
func (s *Service) scan(ctx context.Context) error {
	l, err := s.list(ctx)
	if err != nil {
		return err
	}
	facts, err := s.lookAtInstances(ctx, l)
	if err != nil {
		return err
	}
	vanished := vanished(l, facts)
	held := breaks(len(vanished), len(l.claims))
	if held {
		s.alarm(ctx, "garbage_collection_held", fmt.Sprintf("%d of %d nodeclaims have no instance: none is deleted until a person has looked", len(vanished), len(l.claims)))
	}
	if err := s.lookForNodes(ctx, l); err != nil {
		return err
	}
	s.mem.scannedNow(s.host.Now(), l, held, facts)
	s.mem.prune(s.presentBy(l), s.host.Now())
	s.mem.keepCatalogues(s.nodeClassesInUse(l))
	s.refresh(l)
	s.agenda.hearAll()
	return s.collect(ctx, l)
}

func (s *Service) list(ctx context.Context) (*listing, error) {
	l := &listing{started: s.host.Now()}
	err := s.host.Ledger(func(led *ledger.Ledger) error { l.ledgerSeq = led.Seq(); return nil })
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	if l.instances, err = s.deps.EC2.DescribeInstancesByTags(ctx, s.ourTags()); err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	if l.claims, err = s.deps.Kube.ListNodeClaims(ctx); err != nil {
		return nil, err
	}
	if l.pools, err = s.deps.Kube.ListNodePools(ctx); err != nil {
		return nil, err
	}
	for _, n := range s.deps.Cache.DeletingNodes() {
		if _, id := splitProviderID(n.Spec.ProviderID); id != "" && isHeld(n) {
			l.going = append(l.going, id)
		}
	}
	err = s.host.Ledger(func(led *ledger.Ledger) error {
		for _, c := range led.Claims() {
			l.open = append(l.open, *c)
		}
		return nil
	})
	return l, err
}

// ourTags are on every instance made for this cluster, by us or by Karpenter.
func (s *Service) ourTags() map[string]string {
	return map[string]string{awsv1.TagNodePool: "*", awsv1.TagNodeClass: "*", awsv1.TagEKSClusterName: s.deps.Cluster}
}

// instanceIDs that NodeClaims, open claims and Nodes that go name, sorted.
func (l *listing) instanceIDs() []string {
	ids := map[string]bool{}
	for _, id := range l.going {
		ids[id] = true
	}
	for _, c := range l.claims {
		if _, id := splitProviderID(c.Status.ProviderID); id != "" {
			ids[id] = true
		}
	}
	for i := range l.open {
		if in := l.open[i].Instance; in != nil {
			ids[in.InstanceID] = true
		}
	}
	return sortedKeys(ids)
}

// lookAtInstances returns what EC2 says of all instances that are listed or named. It asks by id for what the list by tags does
// not show: terminated, unknown, or stripped of its tags.
func (s *Service) lookAtInstances(ctx context.Context, l *listing) (map[string]claim.InstanceFacts, error) {
	listed := map[string]bool{}
	for _, i := range l.instances {
		listed[i.ID] = true
	}
	missing := slices.DeleteFunc(l.instanceIDs(), func(id string) bool { return listed[id] })
	facts := s.factsOf(sortedKeys(listed), l.instances)
	if len(missing) == 0 {
		return facts, nil
	}
	found, err := s.deps.EC2.DescribeInstances(ctx, missing)
	if err != nil {
		return nil, fmt.Errorf("describe instances missing from the list: %w", err)
	}
	maps.Copy(facts, s.factsOf(missing, found))
	return facts, nil
}

// oldEnough reports that EC2 must know the instance by now: the claim that names it was launched long enough ago. That is not when the
// attempt was recorded, for its request may have been sent again since: what this leader launched counts from its answer, what an earlier
// one did at most from its own beginning.
func (s *Service) oldEnough(id string, now time.Time) bool {
	at := s.mem.launchedAt(id)
	if !at.IsZero() {
		return now.Sub(at) > visibleAfter
	}
	_ = s.host.Ledger(func(l *ledger.Ledger) error {
		for _, c := range l.Claims() {
			if c.Instance != nil && c.Instance.InstanceID == id && !c.OpenedAt.IsZero() {
				at = latest(c.OpenedAt, s.started)
			}
		}
		return nil
	})
	if at.IsZero() {
		at = s.createdAt(id)
	}
	return !at.IsZero() && now.Sub(at) > visibleAfter
}

// createdAt is the creation of the NodeClaim that names the instance: an adopted one's launch is not in the log.
func (s *Service) createdAt(id string) time.Time {
	for _, o := range s.deps.Cache.NodeClaims() {
		if _, of := splitProviderID(o.Status.ProviderID); of == id {
			return o.CreationTimestamp.Time
		}
	}
	for _, n := range s.deps.Cache.Nodes() {
		if _, of := splitProviderID(n.Spec.ProviderID); of == id {
			return n.CreationTimestamp.Time
		}
	}
	return time.Time{}
}

// vanished are the live NodeClaims whose instance is gone.
func vanished(l *listing, facts map[string]claim.InstanceFacts) []string {
	var names []string
	for _, c := range l.claims {
		_, id := splitProviderID(c.Status.ProviderID)
		if id != "" && c.DeletionTimestamp.IsZero() && facts[id].Gone() {
			names = append(names, c.Name)
		}
	}
	return names
}

// breaks: so many at once are a fault of ours or of EC2's answer rather than garbage.
func breaks(some, all int) bool { return some > max(collectFloor, all*collectPercent/100) }

// scannedNow takes in a scan. What it says of instances and whether the breaker holds go in together: a step in between would
// doom as many claims as the breaker is there to hold.
func (m *memory) scannedNow(now time.Time, l *listing, held bool, facts map[string]claim.InstanceFacts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learnInstances(facts)
	sc := scanned{at: now, started: l.started, ledgerSeq: l.ledgerSeq, held: held, claims: map[types.UID]bool{}, pools: map[types.UID]bool{}}
	for _, c := range l.claims {
		sc.claims[c.UID] = true
	}
	for _, p := range l.pools {
		sc.pools[p.UID] = true
	}
	m.placements = map[string]placement{}
	for _, i := range l.instances {
		m.placements[i.ID] = placementOf(i)
	}
	m.scan = sc
	m.dropUnnamed(l)
}

// nodeClassesInUse are those that exist and those that NodeClaims name.
func (s *Service) nodeClassesInUse(l *listing) map[string]bool {
	names := map[string]bool{}
	for _, nc := range s.deps.Cache.NodeClasses() {
		names[nc.Name] = true
	}
	for _, c := range l.claims {
		if ref := c.Spec.NodeClassRef; ref != nil {
			names[ref.Name] = true
		}
	}
	return names
}

// dropUnnamed forgets instances nothing names any more. The caller holds the lock.
func (m *memory) dropUnnamed(l *listing) {
	named := map[string]bool{}
	for _, id := range l.instanceIDs() {
		named[id] = true
	}
	for _, i := range l.instances {
		named[i.ID] = true
	}
	maps.DeleteFunc(m.instances, func(id string, _ instance) bool { return !named[id] })
}

// nodeGrace is how long the Node of a registered claim may be gone: a kubelet that starts again registers again.
const nodeGrace = 5 * time.Minute

// lookForNodes asks the API server for the Nodes of registered claims that the cache does not have.
func (s *Service) lookForNodes(ctx context.Context, l *listing) error {
	missing := map[types.UID]bool{}
	for _, c := range l.claims {
		id, name := c.Status.ProviderID, c.Status.NodeName
		if id == "" || name == "" || !managed(c) || !c.DeletionTimestamp.IsZero() || !claim.IsTrue(c.Status.Conditions, karpv1.ConditionTypeRegistered) ||
			len(s.deps.Cache.NodesByProviderID(id)) > 0 {
			continue
		}
		n, err := s.deps.Kube.Node(ctx, name)
		if err != nil && !kube.IsNotFound(err) {
			return fmt.Errorf("get node of nodeclaim %s: %w", c.Name, err)
		}
		missing[c.UID] = err != nil || n.Spec.ProviderID != id
	}
	maps.DeleteFunc(missing, func(_ types.UID, gone bool) bool { return !gone })
	if breaks(len(missing), len(l.claims)) {
		s.alarm(ctx, "missing_nodes_held", fmt.Sprintf("%d of %d nodeclaims have no node: none is deleted until a person has looked", len(missing), len(l.claims)))
		missing = nil
	}
	s.mem.setNodeless(missing, s.host.Now())
	return nil
}

// setNodeless remembers whose Nodes were not found, and keeps since when.
func (m *memory) setNodeless(missing map[types.UID]bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodeless := map[types.UID]time.Time{}
	for uid := range missing {
		if nodeless[uid] = now; !m.nodeless[uid].IsZero() {
			nodeless[uid] = m.nodeless[uid]
		}
	}
	m.nodeless = nodeless
}

// refresh lends objects that the cache does not have yet, or only an older version of, to the next look.
func (s *Service) refresh(l *listing) {
	now := s.host.Now()
	for _, c := range l.claims {
		cached := s.deps.Cache.NodeClaim(c.Name)
		if have, known := s.mem.claims.Newest(c.Name, cached, cached != nil, now); !known || recent.IsOlder(have, c) {
			s.mem.claims.Saw(c, now)
		}
	}
}

// collect ends instances that no NodeClaim and no open claim names.
func (s *Service) collect(ctx context.Context, l *listing) error {
	if s.host.Stop() == ledger.StopAll || s.host.LogAway() {
		return nil // the first scan after that finds them again
	}
	orphans := s.orphans(l)
	if breaks(len(orphans), len(l.instances)) {
		s.alarm(ctx, "orphans_held", fmt.Sprintf("%d of %d instances have no nodeclaim: none is terminated until a person has looked", len(orphans), len(l.instances)))
		return nil
	}
	for _, i := range orphans {
		s.endOrphan(i)
	}
	return nil
}

// endOrphan ends an instance beside the scan, which must not wait for it.
func (s *Service) endOrphan(i ec2.Instance) {
	key := "orphan/" + i.ID
	if s.host.Now().Before(s.mem.retries.At(key)) {
		return
	}
	s.effect(key, lane.Terminate, func(ctx context.Context) error {
		if err := s.endOrphanNow(ctx, i); err != nil {
			return s.putOff(key, fmt.Errorf("collect instance %s: %w", i.ID, err))
		}
		s.mem.retries.Succeeded(key)
		return nil
	})
}

// orphans are live instances tagged as ours that belong to nothing, and are old enough for that to be sure.
func (s *Service) orphans(l *listing) []ec2.Instance {
	known, launching, sought := map[string]bool{}, map[string]bool{}, l.sought()
	for _, id := range l.instanceIDs() {
		known[id] = true
	}
	for i := range l.open {
		if o := l.open[i].Open; o != nil {
			launching[ledger.LaunchTag(s.host.LogID(), o.UID, o.Attempt)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(l.instances), func(i ec2.Instance) bool {
		return i.Ending() || known[i.ID] || launching[i.Tags[awsv1.TagLaunch]] || sought[i.Tags[awsv1.TagNodeClaim]] ||
			!s.isOurs(i) && l.started.Sub(i.LaunchTime) <= orphanAge
	})
}

// isOurs: the instance was launched by an attempt of this log, which recorded it before it was sent. If the attempt is neither open
// nor the instance's claim is, both are closed, and it goes at sight (DESIGN §5).
func (s *Service) isOurs(i ec2.Instance) bool {
	return strings.HasPrefix(i.Tags[awsv1.TagLaunch], s.host.LogID()+"/")
}

func (s *Service) endOrphanNow(ctx context.Context, i ec2.Instance) error {
	if s.mem.instanceFacts(i.ID, s.host.Now()).Ending {
		return nil
	}
	tag := i.Tags[awsv1.TagNodeClaim]
	subjects := []string{"instance/" + i.ID}
	if tag != "" {
		subjects = append([]string{"claim/" + tag}, subjects...)
	}
	_, err := s.host.Outcome(ctx, service.Outcome{
		Kind: ledger.KindOrphanFound, Subjects: subjects,
		Payload: &ledger.OrphanFound{InstanceID: i.ID, ClaimTag: tag, LaunchTime: i.LaunchTime.UTC()},
	})
	if err != nil {
		return err
	}
	if err := s.deps.EC2.TerminateInstances(ctx, []string{i.ID}); err != nil {
		return err
	}
	s.mem.asked(i.ID, s.host.Now())
	s.metrics.orphans.Inc()
	s.deps.Logger.Info().Str("instance", i.ID).Str("nodeclaim", tag).Msg("garbage collected cloudprovider instance")
	for _, n := range s.deps.Cache.NodesByProviderID("aws:///" + i.Zone + "/" + i.ID) {
		if err := s.deps.Kube.DeleteNode(ctx, n.Name, n.UID); err != nil && !kube.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// alarmQuiet is how long there must be no reason for an alarm before the next one counts as another.
const alarmQuiet = 10 * time.Minute

// alarm is counted, logged and recorded once, however often it is raised and whatever its numbers are, until it has been quiet for
// alarmQuiet; nothing else happens.
func (s *Service) alarm(ctx context.Context, reason, message string) {
	now := s.host.Now()
	if !s.mem.alarms.begins(reason, now) {
		return
	}
	s.metrics.alarms.WithLabelValues(reason).Inc()
	s.deps.Logger.Error().Str("reason", reason).Msg(message)
	_, err := s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{Reason: reason, Message: message}})
	if err != nil {
		s.mem.alarms.forget(reason)
	}
}

// stepNodes lets Nodes go that are being deleted and have no claim any more.
func (s *Service) stepNodes(now time.Time) time.Time {
	for _, n := range s.deps.Cache.DeletingNodes() {
		if !slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) || !s.isStray(n, now) ||
			s.mem.outdated.Has(n, now) || s.mem.nodes.IsGone(n.UID) {
			continue
		}
		key := ledger.NodeAggregate(n.Name)
		if now.Before(s.mem.retries.At(key)) {
			continue
		}
		s.effect(key, lane.Converge, func(ctx context.Context) error {
			if err := s.releaseNode(ctx, n); err != nil {
				return s.putOff(key, err)
			}
			s.hold(key, retryFirst)
			return nil
		})
	}
	return time.Time{}
}

// isStray: no NodeClaim and no open claim has the Node's instance, and it is drained or its instance is gone.
func (s *Service) isStray(n *corev1.Node, now time.Time) bool {
	if len(s.deps.Cache.NodeClaimsByProviderID(n.Spec.ProviderID)) > 0 {
		return false
	}
	drained := false
	err := s.host.Ledger(func(l *ledger.Ledger) error {
		d := l.Drain(n.Name)
		drained = d != nil && d.Drained > 0
		for _, c := range l.Claims() {
			if c.Instance != nil && c.Instance.ProviderID == n.Spec.ProviderID {
				return service.ErrNotReady // not stray: its claim lets it go
			}
		}
		return nil
	})
	if err != nil {
		return false
	}
	_, id := splitProviderID(n.Spec.ProviderID)
	return drained || id != "" && s.mem.instanceFacts(id, now).Gone() && !claim.FactsOfNode(n, nil, false).Ready
}
