package launch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

// Input of a launch. Nothing in it is changed or kept.
type Input struct {
	Claim *karpv1.NodeClaim
	// NodeClass is nil if it does not exist.
	NodeClass *awsv1.EC2NodeClass
	// Types of the NodeClass's catalogue; shared and read-only, so they may be taken out of a Snapshot.
	Types []*catalog.InstanceType
	// Unavailable offerings, from Marks.
	Unavailable map[ledger.OfferingKey]bool
	// FullSubnets are marked as without free addresses, sorted: nothing is launched there.
	FullSubnets []string
	// FreeReserved counts the free instances of capacity reservations by id, from FreeReserved; nil: none may
	// be used.
	FreeReserved map[string]int64
	// MinValuesBestEffort: truncation may break minValues.
	MinValuesBestEffort bool
}

// Built is what a launch asks EC2 for, whose launch templates exist. It keeps its Input.
type Built struct {
	// Key is equal for claims for which equal things are asked; see Builder.Request.
	Key string
	// Templates that the request names, in its order.
	Templates []ledger.LaunchTemplateRef
	Selection Selection
	// Warnings for the log: lower-case sentences.
	Warnings []string

	in      Input
	cluster Cluster
	groups  []group
}

// Order names who is launched by a request.
type Order struct {
	// Claims by name, one instance each; what is asked for is equal.
	Claims []string
	// Token is ledger.ClientToken(log-id, UID, attempt) of the first claim.
	Token string
	// LaunchTag is "<log-id>/<claim UID>/<attempt>" of the first claim.
	LaunchTag string
}

// Marks collects the offerings of types that unavailable says cannot be had.
func Marks(types []*catalog.InstanceType, unavailable func(ledger.OfferingKey) bool) map[ledger.OfferingKey]bool {
	marks := map[ledger.OfferingKey]bool{}
	for _, t := range types {
		for _, o := range t.Offerings {
			if k := (ledger.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, PlacementGroup: o.Group()}); unavailable(k) {
				marks[k] = true
			}
		}
	}
	return marks
}

// FreeReserved counts the free instances of the capacity reservations that a catalogue offers, by id.
func FreeReserved(c *catalog.Catalog, l *ledger.Ledger) map[string]int64 {
	counts := map[string]int64{}
	for id, seen := range c.Reservations() {
		counts[id] = l.ReservationFree(id, seen, c.ReservationsAt, ledger.ClockTolerance)
	}
	return counts
}

// Cloud is what a Builder needs of EC2.
type Cloud interface {
	EnsureLaunchTemplate(ctx context.Context, t ec2.LaunchTemplate) (ledger.LaunchTemplateRef, error)
	DescribeLaunchTemplates(ctx context.Context, tags map[string]string) ([]ec2.TemplateSummary, error)
	DeleteLaunchTemplate(ctx context.Context, id string) error
}

// Config of a Builder.
type Config struct {
	Cloud Cloud
	// DryRun is needed by Authorize alone.
	DryRun DryRunner
	// Cluster gives what nodes must know of the cluster.
	Cluster func(ctx context.Context) (Cluster, error)
	// Region is left out of nothing but the metadata options of isolated regions.
	Region string
	Now    func() time.Time
	// HasClass tells whether there is a NodeClass of the name; nil: of every name. It and the Registerer,
	// which may be nil, are for metrics.
	HasClass   func(name string) bool
	Registerer prometheus.Registerer
}

func compareOfferings(a, b catalog.Offering) int {
	return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.ReservationID, b.ReservationID))
}

func sortCandidates(c []Candidate) {
	slices.SortFunc(c, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Offerings[0].Price, b.Offerings[0].Price), cmp.Compare(a.Offerings[0].Rank, b.Offerings[0].Rank), cmp.Compare(a.Type.Name, b.Type.Name))
	})
}
