package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/singleflight"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/nodeclass"
)

const (
	// templateTTL is how long a template is believed to exist after EC2 said so.
	templateTTL = 5 * time.Minute
	// templateIdle is the age at which a template nobody used is collected; templateIdleMin the one at which
	// it is while the account may have no more of them. Both are longer than templates are believed in.
	templateIdle    = 30 * time.Minute
	templateIdleMin = 2 * templateTTL
)

// Builder makes launch requests. It is safe for concurrent use.
type Builder struct {
	cfg Config

	// asking joins launches that need the same template at once.
	asking singleflight.Group
	// addresses of subnets, and what launches take of them.
	addresses *addresses

	mu sync.Mutex
	// templates by name: what EC2 has.
	templates map[string]cachedTemplate
	// used: when a launch last named the template, by id.
	used map[string]time.Time

	userData *userDataMetrics
}

type cachedTemplate struct {
	ref  ledger.LaunchTemplateRef
	seen time.Time
}

// New returns a Builder. It makes no call.
func New(cfg Config) *Builder {
	return &Builder{cfg: cfg, addresses: newAddresses(), templates: map[string]cachedTemplate{}, used: map[string]time.Time{}, userData: newUserDataMetrics(cfg.Registerer, cfg.HasClass)}
}

// Build chooses what to ask EC2 for and makes sure that the launch templates exist. Request completes it.
func (b *Builder) Build(ctx context.Context, in Input) (Built, error) {
	if err := nodeclass.Ready(in.NodeClass); err != nil {
		return Built{}, err
	}
	if err := groupUnknown(in.NodeClass); err != nil {
		return Built{}, err
	}
	cluster, err := b.cfg.Cluster(ctx)
	if err != nil {
		return Built{}, ec2.FailureOf(err)
	}
	selection, err := Select(in)
	if err != nil {
		return Built{}, err
	}
	built := Built{Selection: selection, in: in, cluster: cluster}
	if selection.Warning != "" {
		built.Warnings = append(built.Warnings, selection.Warning)
	}
	built.groups = groups(in, selection)
	for _, g := range built.groups {
		t, err := template(in, selection, g, cluster, b.cfg.Region)
		if err != nil {
			return Built{}, err
		}
		b.userData.made(in.NodeClass.Name, t)
		ref, err := b.ensure(ctx, t)
		if err != nil {
			return Built{}, ec2.FailureOf(err)
		}
		ref.ReservationID, ref.PlacementGroup = g.reservation, selection.Group
		built.Templates = append(built.Templates, ref)
	}
	built.Key, err = built.key()
	return built, err
}

// Request asks for one instance for each of the order's claims.
func (b *Builder) Request(built Built, o Order) *awsec2.CreateFleetInput {
	in, k := built.in, int64(len(o.Claims))
	subnets := b.addresses.promise(o.Token, in.subnets(), built.Selection.addressesByZone(), k, b.cfg.Now())
	return built.request(o, subnets)
}

// Room is for how many of a number of claims one request may be made: as many as the subnets with most
// addresses have enough for, one at least.
func (b *Builder) Room(built Built, claims int) int {
	return b.addresses.room(built.in.subnets(), built.Selection.addressesByZone(), claims)
}

// key identifies what will be asked for but subnets, token and the tags that name claim and attempt.
func (b Built) key() (string, error) {
	zones := map[string]string{}
	for _, s := range b.in.subnets() {
		zones[s.Zone] = s.Zone
	}
	body, err := EncodeRequest(b.request(Order{}, zones))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}

// Joint reports that several claims may be launched by one request. What is limited to few instances
// (reservations, placement groups) is asked for one by one, so that each answer is about one claim.
func (b Built) Joint() bool {
	return b.Selection.Group == "" && b.Selection.CapacityType != karpv1.CapacityTypeReserved
}

// SubnetsSeen takes in what EC2 answered about subnets when it was asked at a time.
func (b *Builder) SubnetsSeen(subnets []ec2.Subnet, asked time.Time) {
	b.addresses.seen(subnets, asked)
}

// Settle ends what a launch was promised: subnets are where its instances are, as far as that is known.
func (b *Builder) Settle(token string, subnets ...string) {
	b.addresses.settlePromise(token, subnets, b.cfg.Now())
}

// prioritized: a NodeOverlay has changed prices, which EC2 does not know; it is told the order (ec2 §4.5).
func (in Input) prioritized() bool {
	return in.Claim.Annotations[karpv1.PriceOverlayAnnotationKey] == "true"
}

// templateConfig asks for every offering of the group's types, one override each; with priorities, the
// cheaper the higher.
func templateConfig(ref ledger.LaunchTemplateRef, g group, subnets map[string]string, priorities bool) ec2types.FleetLaunchTemplateConfigRequest {
	c := ec2types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateId: aws.String(ref.ID), Version: aws.String(ref.Version),
	}}
	for _, m := range g.members {
		for _, o := range m.Offerings {
			r := ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(m.Type.Name), SubnetId: aws.String(subnets[o.Zone]),
				AvailabilityZone: aws.String(o.Zone), ImageId: aws.String(g.image.ID),
			}
			if priorities {
				r.Priority = aws.Float64(float64(o.Price) / 1e6)
			}
			c.Overrides = append(c.Overrides, r)
		}
	}
	return c
}

// request is that of an order; subnets by zone.
func (b Built) request(o Order, subnets map[string]string) *awsec2.CreateFleetInput {
	var configs []ec2types.FleetLaunchTemplateConfigRequest
	for i, g := range b.groups {
		configs = append(configs, templateConfig(b.Templates[i], g, subnets, b.in.prioritized()))
	}
	r := request(b.in, b.Selection, launchTags(b.in, b.cluster, o), configs)
	r.ClientToken, r.TargetCapacitySpecification.TotalTargetCapacity = aws.String(o.Token), aws.Int32(int32(len(o.Claims)))
	return r
}

// request is the CreateFleet request for one instance, without a token (ec2 §4.5).
func request(in Input, s Selection, tags map[string]string, configs []ec2types.FleetLaunchTemplateConfigRequest) *awsec2.CreateFleetInput {
	r := &awsec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant, LaunchTemplateConfigs: configs,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			DefaultTargetCapacityType: targetType(s), TotalTargetCapacity: aws.Int32(1),
		},
		TagSpecifications: fleetTags(tags),
	}
	if c := aws.ToString(in.NodeClass.Spec.Context); c != "" && in.Claim.Annotations[karpv1.MinValuesRelaxedAnnotationKey] != "true" {
		r.Context = aws.String(c)
	}
	switch s.kind {
	case capacityBlock:
		return r // there is one to choose from
	case interruptibleReservation:
		r.ReservedCapacityOptions = &ec2types.ReservedCapacityOptionsRequest{
			ReservationTypes: []ec2types.FleetReservationType{ec2types.FleetReservationTypeInterruptibleCapacityReservation},
		}
		return r
	}
	if in.prioritized() {
		r.SpotOptions, r.OnDemandOptions = prioritizedOptions(s.CapacityType)
		return r
	}
	if s.CapacityType == karpv1.CapacityTypeSpot {
		r.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized}
	} else {
		r.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice}
	}
	return r
}

func prioritizedOptions(capacityType string) (*ec2types.SpotOptionsRequest, *ec2types.OnDemandOptionsRequest) {
	if capacityType == karpv1.CapacityTypeSpot {
		return &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyCapacityOptimizedPrioritized}, nil
	}
	return nil, &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyPrioritized}
}

// targetType: a plain reservation is asked for as on-demand; the launch template names it.
func targetType(s Selection) ec2types.DefaultTargetCapacityType {
	switch {
	case s.kind == capacityBlock:
		return ec2types.DefaultTargetCapacityTypeCapacityBlock
	case s.kind == interruptibleReservation:
		return ec2types.DefaultTargetCapacityTypeReservedCapacity
	case s.CapacityType == karpv1.CapacityTypeSpot:
		return ec2types.DefaultTargetCapacityTypeSpot
	}
	return ec2types.DefaultTargetCapacityTypeOnDemand
}

// ensure returns the template, from memory if EC2 said lately that it exists. Launches that need the same one
// ask once; no lock is held meanwhile.
func (b *Builder) ensure(ctx context.Context, t ec2.LaunchTemplate) (ledger.LaunchTemplateRef, error) {
	if ref, ok := b.known(t.Name); ok {
		return ref, nil
	}
	ask := func() (any, error) {
		if ref, ok := b.known(t.Name); ok {
			return ref, nil // made since we looked
		}
		ref, err := b.cfg.Cloud.EnsureLaunchTemplate(ctx, t)
		if err == nil {
			b.remember(t.Name, ref)
		}
		return ref, err
	}
	v, err, shared := b.asking.Do(t.Name, ask)
	if err != nil && shared && ctx.Err() == nil {
		v, err, _ = b.asking.Do(t.Name, ask) // the asker may have been cancelled, we are not
	}
	if err != nil {
		return ledger.LaunchTemplateRef{}, err
	}
	return v.(ledger.LaunchTemplateRef), nil
}

// known returns a template EC2 said lately that it has, and notes its use.
func (b *Builder) known(name string) (ledger.LaunchTemplateRef, bool) {
	now := b.cfg.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	have, ok := b.templates[name]
	if !ok || now.Sub(have.seen).Abs() >= templateTTL {
		return ledger.LaunchTemplateRef{}, false
	}
	b.used[have.ref.ID] = now
	return have.ref, true
}

func (b *Builder) remember(name string, ref ledger.LaunchTemplateRef) {
	now := b.cfg.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.templates[name] = cachedTemplate{ref: ref, seen: now}
	b.used[ref.ID] = now
}

// Forget makes the next Build ask EC2 for these templates again: a launch was refused because one is gone.
func (b *Builder) Forget(refs []ledger.LaunchTemplateRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range refs {
		for name, t := range b.templates {
			if t.ref.ID == r.ID {
				delete(b.templates, name)
			}
		}
	}
}

// DeleteTemplates deletes every launch template of a NodeClass.
func (b *Builder) DeleteTemplates(ctx context.Context, nodeClass string) error {
	return b.deleteTemplates(ctx, map[string]string{awsv1.TagNodeClass: nodeClass}, func(ec2.TemplateSummary) bool { return true })
}

// CollectTemplates deletes the cluster's launch templates that no launch of this process has named for half
// an hour, that are older than that, and that are not in keep (ids named by open attempts). Call it every few
// minutes; scarce: the account may have no more of them, and ten minutes are enough.
func (b *Builder) CollectTemplates(ctx context.Context, keep map[string]bool, scarce bool) error {
	now, idle := b.cfg.Now(), templateIdle
	if scarce {
		idle = templateIdleMin
	}
	defer b.prune(now)
	return b.deleteTemplates(ctx, map[string]string{awsv1.TagNodeClass: "*"}, func(t ec2.TemplateSummary) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return !keep[t.ID] && now.Sub(t.Created) > idle && now.Sub(b.used[t.ID]) > idle
	})
}

// prune forgets what says nothing any more: uses that are too long ago to keep a template, templates that
// would be asked about again.
func (b *Builder) prune(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.used, func(_ string, at time.Time) bool { return now.Sub(at).Abs() > templateIdle })
	maps.DeleteFunc(b.templates, func(_ string, t cachedTemplate) bool { return now.Sub(t.seen).Abs() >= templateTTL })
}

func (b *Builder) deleteTemplates(ctx context.Context, tags map[string]string, want func(ec2.TemplateSummary) bool) error {
	cluster, err := b.cfg.Cluster(ctx)
	if err != nil {
		return err
	}
	tags[awsv1.TagEKSClusterName] = cluster.Name
	templates, err := b.cfg.Cloud.DescribeLaunchTemplates(ctx, tags)
	if err != nil {
		return err
	}
	var refused ec2.Refusals
	for _, t := range templates {
		if !want(t) {
			continue
		}
		b.Forget([]ledger.LaunchTemplateRef{{ID: t.ID}})
		if err := refused.Take(b.cfg.Cloud.DeleteLaunchTemplate(ctx, t.ID)); err != nil {
			return err
		}
	}
	return refused.Err()
}

func isIPv6(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && !a.Unmap().Is4()
}
