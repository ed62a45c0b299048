package garbage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millwright/planner/providerid"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/effects"
)

// OrphanAge keeps what others launched a moment ago out of garbage collection.
const OrphanAge = 30 * time.Second

// collect ends instances that no NodeClaim and no open claim names.
func (g *Collector) collect(ctx context.Context, l *listing) error {
	if g.host.Stop() == ledger.StopAll || g.host.LogAway() {
		return nil // the first scan after that finds them again
	}
	orphans := g.orphans(l)
	if breaks(len(orphans), len(l.instances)) {
		g.alarms.Raise(ctx, "orphans_held", fmt.Sprintf("%d of %d instances have no nodeclaim: none is terminated until a person has looked", len(orphans), len(l.instances)))
		return nil
	}
	for _, i := range orphans {
		g.endOrphan(i)
	}
	return nil
}

// endOrphan ends an instance beside the scan, which must not wait for it.
func (g *Collector) endOrphan(i ec2.Instance) {
	key := "orphan/" + i.ID
	if g.effects.Waits(key) {
		return
	}
	g.effects.Start(key, lane.Terminate, func(ctx context.Context) error {
		if err := g.endOrphanNow(ctx, i); err != nil {
			return g.effects.PutOff(key, fmt.Errorf("collect instance %s: %w", i.ID, err))
		}
		g.effects.Retries.Succeeded(key)
		return nil
	})
}

// orphans are live instances tagged as ours that belong to nothing, and are old enough for that to be sure.
func (g *Collector) orphans(l *listing) []ec2.Instance {
	known, launching, sought := map[string]bool{}, map[string]bool{}, l.sought()
	for _, id := range l.instanceIDs() {
		known[id] = true
	}
	for i := range l.open {
		if o := l.open[i].Open; o != nil {
			launching[ledger.LaunchTag(g.host.LogID(), o.UID, o.Attempt)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(l.instances), func(i ec2.Instance) bool {
		return i.Ending() || known[i.ID] || launching[i.Tags[awsv1.TagLaunch]] || sought[i.Tags[awsv1.TagNodeClaim]] ||
			!g.isOurs(i) && l.started.Sub(i.LaunchTime) <= OrphanAge
	})
}

// isOurs: the instance was launched by an attempt of this log, which recorded it before it was sent. If the
// attempt is neither open nor the instance's claim is, both are closed, and it goes at sight (DESIGN §5).
func (g *Collector) isOurs(i ec2.Instance) bool {
	return strings.HasPrefix(i.Tags[awsv1.TagLaunch], g.host.LogID()+"/")
}

func (g *Collector) endOrphanNow(ctx context.Context, i ec2.Instance) error {
	if g.found.facts(i.ID, g.host.Now()).Ending {
		return nil
	}
	tag := i.Tags[awsv1.TagNodeClaim]
	subjects := []string{"instance/" + i.ID}
	if tag != "" {
		subjects = append([]string{"claim/" + tag}, subjects...)
	}
	if !g.found.isRecorded(i.ID) { // EC2 may have refused to terminate it for hours
		_, err := g.host.Outcome(ctx, service.Outcome{
			Kind: ledger.KindOrphanFound, Subjects: subjects,
			Payload: &ledger.OrphanFound{InstanceID: i.ID, ClaimTag: tag, LaunchTime: i.LaunchTime.UTC()},
		})
		if err != nil {
			return err
		}
		g.found.setRecorded(i.ID)
	}
	if err := g.deps.EC2.TerminateInstances(ctx, []string{i.ID}); err != nil {
		if !errors.Is(err, service.ErrStopped) {
			g.notEnded.Count(err, i.Zone, g.zoneID(i.Zone))
		}
		return err
	}
	g.found.Asked(i.ID, g.host.Now())
	g.orphaned.Inc()
	g.deps.Logger.Info().Str("instance", i.ID).Str("nodeclaim", tag).Msg("garbage collected cloudprovider instance")
	for _, n := range g.deps.Cache.NodesByProviderID(providerid.Of(i.Zone, i.ID)) {
		if err := g.deps.Kube.DeleteNode(ctx, n.Name, n.UID); err != nil && !kube.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// zoneID of a zone, if a NodeClass has a subnet there.
func (g *Collector) zoneID(zone string) string {
	for _, nc := range g.deps.Cache.NodeClasses() {
		for _, s := range nc.Status.Subnets {
			if s.Zone == zone && s.ZoneID != "" {
				return s.ZoneID
			}
		}
	}
	return ""
}

// StepNodes lets Nodes go that are being deleted and have no claim any more.
func (g *Collector) StepNodes(now time.Time) time.Time {
	for _, n := range g.deps.Cache.DeletingNodes() {
		if !slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) || !g.isStray(n, now) ||
			g.deps.Outdated.Has(n, now) || g.deps.Nodes.IsGone(n.UID) {
			continue
		}
		key := ledger.NodeAggregate(n.Name)
		if g.effects.Waits(key) {
			continue
		}
		g.effects.Start(key, lane.Converge, func(ctx context.Context) error {
			if err := g.deps.Listener.ReleaseNode(ctx, n); err != nil {
				return g.effects.PutOff(key, err)
			}
			g.effects.Hold(key, effects.RetryFirst)
			return nil
		})
	}
	return time.Time{}
}

// isStray: no NodeClaim and no open claim has the Node's instance, and it is drained or its instance is gone.
func (g *Collector) isStray(n *corev1.Node, now time.Time) bool {
	if len(g.deps.Cache.NodeClaimsByProviderID(n.Spec.ProviderID)) > 0 {
		return false
	}
	drained := false
	err := g.host.Ledger(func(l *ledger.Ledger) error {
		d := l.Drain(n.Name)
		drained = d != nil && d.Drained > 0 && drain.IsOf(d, n, "")
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
	_, id := providerid.Split(n.Spec.ProviderID)
	return drained || id != "" && g.found.facts(id, now).Gone() && !claim.FactsOfNode(n, nil, false).Ready
}
