package ec2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	arctypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// ZonalShifts is what is asked of Amazon Application Recovery Controller; *arczonalshift.Client is one.
type ZonalShifts interface {
	GetManagedResource(ctx context.Context, in *arczonalshift.GetManagedResourceInput, opts ...func(*arczonalshift.Options)) (*arczonalshift.GetManagedResourceOutput, error)
}

// EKS says what the cluster is called there; *eks.Client is one.
type EKS interface {
	eks.DescribeClusterAPIClient
}

// ShiftConfig makes a Poller ask about zonal shifts.
type ShiftConfig struct {
	ARC ZonalShifts
	EKS EKS
	// Known are the shifts as they were published last, by this process or one before it; ok is false as long
	// as that is being read.
	Known func() (list []events.ZonalShift, ok bool)
}

// shifted holds the zones that traffic is shifted away from, by id, as ARC said last. It never changes.
type shifted struct {
	zones []events.ZonalShift
}

// at are the shifts that have not ended at a time; none of nil.
func (s *shifted) at(now time.Time) []events.ZonalShift {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.zones), func(z events.ZonalShift) bool { return !z.Until.IsZero() && !now.Before(z.Until) })
}

// pollShifts learns which zones are shifted away from: those of ARC's present answer and no others.
func (p *Poller) pollShifts(ctx context.Context) error {
	if p.clusterARN == "" {
		out, err := p.cfg.Shifts.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(p.cfg.Cluster)})
		if err != nil {
			return fmt.Errorf("describe cluster %s: %w", p.cfg.Cluster, err)
		}
		if out.Cluster == nil || aws.ToString(out.Cluster.Arn) == "" {
			return fmt.Errorf("describe cluster %s: the answer has no ARN", p.cfg.Cluster)
		}
		p.clusterARN = *out.Cluster.Arn
	}
	out, err := p.cfg.Shifts.ARC.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String(p.clusterARN)})
	var unknown *arctypes.ResourceNotFoundException
	if errors.As(err, &unknown) {
		return fmt.Errorf("get managed resource %s: zonal shift is not enabled for the cluster: %w", p.clusterARN, err)
	}
	if err != nil {
		return fmt.Errorf("get managed resource %s: %w", p.clusterARN, err)
	}
	now := &shifted{zones: appliedShifts(out)}
	before := p.shifted.Swap(now)
	if before == nil || !slices.Equal(before.zones, now.zones) {
		p.cfg.Logger.Info().Strs("zones", zoneIDs(now.zones)).Msg("zones that traffic is shifted away from")
		p.ClassesChanged()
	}
	return nil
}

// appliedShifts are those in effect, by zone id: a shift, or an autoshift, that another takes precedence over
// is not.
func appliedShifts(out *arczonalshift.GetManagedResourceOutput) []events.ZonalShift {
	var list []events.ZonalShift
	for i := range out.ZonalShifts {
		s := &out.ZonalShifts[i]
		if s.AppliedStatus == arctypes.AppliedStatusApplied && aws.ToString(s.AwayFrom) != "" {
			list = append(list, events.ZonalShift{ZoneID: *s.AwayFrom, Until: aws.ToTime(s.ExpiryTime).UTC()})
		}
	}
	for i := range out.Autoshifts {
		s := &out.Autoshifts[i]
		if s.AppliedStatus == arctypes.AutoshiftAppliedStatusApplied && aws.ToString(s.AwayFrom) != "" {
			list = append(list, events.ZonalShift{ZoneID: *s.AwayFrom})
		}
	}
	slices.SortFunc(list, func(a, b events.ZonalShift) int {
		// without an end first: it counts
		return cmp.Or(cmp.Compare(a.ZoneID, b.ZoneID), a.Until.Compare(b.Until))
	})
	return slices.CompactFunc(list, func(a, b events.ZonalShift) bool { return a.ZoneID == b.ZoneID })
}

func zoneIDs(list []events.ZonalShift) []string {
	ids := []string{}
	for _, s := range list {
		ids = append(ids, s.ZoneID)
	}
	return ids
}

// recallShifts takes what was known before this process for what ARC did not say yet.
func (p *Poller) recallShifts() error {
	list, ok := p.cfg.Shifts.Known()
	if !ok && p.cfg.Clock().Sub(p.began).Abs() < recallWithin {
		return errNotYet
	}
	var known []events.ZonalShift
	for _, s := range list {
		known = append(known, events.ZonalShift{ZoneID: s.ZoneID, Until: s.Until})
	}
	if p.shifted.CompareAndSwap(nil, &shifted{zones: known}) {
		p.cfg.Logger.Warn().Strs("zones", zoneIDs(known)).Msg("zonal shifts are not known, those known last count")
		p.ClassesChanged()
	}
	return nil
}

// recallWithin bounds how long what was known is waited for.
const recallWithin = 20 * time.Second

// shiftsOf are those of the zones of a NodeClass at a time, with the names of the zones.
func (p *Poller) shiftsOf(nc *karpawsv1.EC2NodeClass) []events.ZonalShift {
	var list []events.ZonalShift
	zones := subnetZones(nc)
	for _, s := range p.shifted.Load().at(p.cfg.Clock()) {
		// ARC names zones by id; what names them otherwise is not passed over.
		if i := slices.IndexFunc(zones, func(z zone) bool { return z.id == s.ZoneID || z.name == s.ZoneID }); i >= 0 {
			s.Zone = zones[i].name
			list = append(list, s)
		}
	}
	return list
}

// isShifted reports that a zone is among those of shifts.
func isShifted(shifts []events.ZonalShift, zone string) bool {
	return slices.ContainsFunc(shifts, func(s events.ZonalShift) bool { return s.Zone == zone })
}
