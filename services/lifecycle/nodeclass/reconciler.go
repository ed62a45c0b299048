package nodeclass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
)

// Cloud is what a Reconciler needs of AWS. ec2.Client is one.
type Cloud interface {
	DescribeSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]ec2.Subnet, error)
	DescribeSecurityGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]ec2.SecurityGroup, error)
	DescribeCapacityReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]ec2.CapacityReservation, error)
	DescribePlacementGroup(ctx context.Context, s awsv1.PlacementGroupSelector) (*ec2.PlacementGroup, error)
	DescribeImages(ctx context.Context, q ec2.ImageQuery) ([]ec2.Image, error)
	SSMParameter(ctx context.Context, name string) (string, error)
	InstanceProfile(ctx context.Context, name string) (ec2.InstanceProfile, error)
	InstanceProfiles(ctx context.Context, path string) ([]ec2.InstanceProfile, error)
	EnsureInstanceProfile(ctx context.Context, want ec2.InstanceProfile) error
	DeleteInstanceProfile(ctx context.Context, name string) error
}

// Config of a Reconciler. All but SubnetsSeen, Authorize, IsolatedVPC and Hasher is required.
type Config struct {
	Cloud           Cloud
	Cluster, Region string
	// Version of Kubernetes, major.minor: names the images of an alias.
	Version func(ctx context.Context) (string, error)
	// CIDR of services, which AL2023 nodes must be told.
	CIDR func(ctx context.Context) (string, error)
	// DeleteTemplates deletes the launch templates of a class.
	DeleteTemplates func(ctx context.Context, nodeClass string) error
	// SubnetsSeen takes in what EC2 answered about subnets when it was asked at a time; nil: nobody wants to
	// know.
	SubnetsSeen func(subnets []ec2.Subnet, asked time.Time)
	// Authorize asks EC2 whether instances may be launched from a class whose status is resolved: nil is yes,
	// a *Refusal is no, another error says nothing. If Authorize is nil, nobody asks.
	Authorize func(ctx context.Context, nc *awsv1.EC2NodeClass) error
	// IsolatedVPC: IAM cannot be reached, so instance profiles are never deleted.
	IsolatedVPC bool
	Hasher      Hasher
	Now         func() time.Time
}

// Reconciler resolves EC2NodeClasses. Its only state are caches of what AWS answered; it is safe for
// concurrent use.
type Reconciler struct {
	cfg    Config
	caches caches
}

// New returns a Reconciler. It makes no call.
func New(cfg Config) *Reconciler { return &Reconciler{cfg: cfg, caches: newCaches(cfg.Now)} }

// Change is what a class should become.
type Change struct {
	// Object is the class as it should be: metadata and status.
	Object *awsv1.EC2NodeClass
	// Claims to be stamped with the hash of a new version, before the class is.
	Claims []ClaimStamp
	Events []service.KubeEvent
}

// ClaimStamp is a NodeClaim whose hash annotations change.
type ClaimStamp struct{ Before, After *karpv1.NodeClaim }

// How soon a step is to be repeated (ec2 §3).
const (
	retrySoon        = time.Minute
	imagesInterval   = 5 * time.Minute
	subnetsInterval  = time.Minute
	groupsInterval   = 5 * time.Minute
	validateInterval = 10 * time.Minute
	waitInterval     = 10 * time.Minute
)

// Reconcile resolves the class; see the package comment for the order in which to apply the Change.
func (r *Reconciler) Reconcile(ctx context.Context, nc *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) (Change, time.Duration, error) {
	if nc.DeletionTimestamp != nil {
		return r.finalize(ctx, nc, claims)
	}
	p := &pass{Reconciler: r, before: nc.Status.Conditions, nc: nc.DeepCopy(), conditions: newConditions(nc, r.cfg.Now())}
	if !slices.Contains(p.nc.Finalizers, awsv1.TerminationFinalizer) {
		p.nc.Finalizers = append(p.nc.Finalizers, awsv1.TerminationFinalizer)
	}
	if nc.Unreadable != "" { // what was resolved before stays; nothing can be said of the spec, not even its hash
		p.conditions.False(karpv1.ConditionTypeValidationSucceeded, reasonInvalid, nc.Unreadable)
		p.nc.Status.Conditions = p.conditions.Finish()
		return Change{Object: p.nc, Events: p.events()}, validateInterval, nil
	}
	stamps := stamp(r.cfg.Hasher, p.nc, claims)
	faults := Validate(nc)
	var errs []error
	again := validateInterval
	for _, s := range []struct {
		step step
		// kind of the condition, and the reason for which it stays Unknown while AWS refuses to be asked; ""
		// where the step says that itself.
		kind, refused string
	}{
		{p.images, awsv1.ConditionTypeAMIsReady, "AMIResolutionFailed"},
		{p.reservations, awsv1.ConditionTypeCapacityReservationsReady, "CapacityReservationResolutionFailed"},
		{p.placementGroup, "", ""},
		{p.subnets, awsv1.ConditionTypeSubnetsReady, "SubnetResolutionFailed"},
		{p.securityGroups, awsv1.ConditionTypeSecurityGroupsReady, "SecurityGroupResolutionFailed"},
		{p.profile, "", ""}, {p.validate, "", ""},
	} {
		after, err := s.step.inHalf(ctx, faults)
		p.explain(s.kind, s.refused, err)
		again = min(again, cmp.Or(after, again))
		errs = append(errs, err)
	}
	p.nc.Status.Conditions = p.conditions.Finish()
	return Change{Object: p.nc, Claims: stamps, Events: p.events()}, again, errors.Join(errs...)
}

// step resolves or checks one thing; it returns after what time again.
type step func(context.Context, []Fault) (time.Duration, error)

// inHalf takes the step in half of the time that is left. A call that hangs, such as where a network has no
// way to SSM or IAM, leaves the other half to the steps that follow, and to writing what they find.
func (s step) inHalf(ctx context.Context, faults []Fault) (time.Duration, error) {
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
		ctx = half
	}
	return s(ctx, faults)
}

// explain says of a condition that nothing is known of yet why that is so, where it will stay so until
// somebody changes something.
func (p *pass) explain(kind, reason string, err error) {
	if c := condition.Get(p.conditions.Conditions, kind); c == nil || c.Status != metav1.ConditionUnknown {
		return
	}
	if f, ok := errors.AsType[*ec2.Failure](err); ok {
		p.conditions.Unknown(kind, f.Reason, f.Message)
	} else if ec2.IsRefusal(err) {
		p.conditions.Unknown(kind, reason, ec2.Text(err))
	}
}

// pass is one reconciliation of one class.
type pass struct {
	*Reconciler
	nc         *awsv1.EC2NodeClass
	before     []metav1.Condition
	conditions *condition.List
	notes      []string
}

// subnets fills status.subnets: most free addresses first.
func (p *pass) subnets(ctx context.Context, faults []Fault) (time.Duration, error) {
	if bad := faultsOf(faults, fieldSubnets); bad != "" {
		p.nc.Status.Subnets = nil
		p.conditions.False(awsv1.ConditionTypeSubnetsReady, "SubnetsNotFound", bad)
		return retrySoon, nil
	}
	found, err := p.caches.subnets.get(key(p.nc.Spec.SubnetSelectorTerms), func() ([]ec2.Subnet, error) {
		asked := p.cfg.Now()
		found, err := p.cfg.Cloud.DescribeSubnets(ctx, p.nc.Spec.SubnetSelectorTerms)
		if err == nil && p.cfg.SubnetsSeen != nil {
			p.cfg.SubnetsSeen(found, asked)
		}
		return found, err
	})
	if err != nil {
		return retrySoon, fmt.Errorf("resolve subnets: %w", err)
	}
	p.nc.Status.Subnets = nil
	for _, s := range found {
		p.nc.Status.Subnets = append(p.nc.Status.Subnets, awsv1.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID})
	}
	if len(found) == 0 {
		p.conditions.False(awsv1.ConditionTypeSubnetsReady, "SubnetsNotFound", "SubnetSelector did not match any Subnets")
		return retrySoon, nil
	}
	p.conditions.True(awsv1.ConditionTypeSubnetsReady)
	return subnetsInterval, nil
}

func (p *pass) securityGroups(ctx context.Context, faults []Fault) (time.Duration, error) {
	if bad := faultsOf(faults, fieldGroups); bad != "" {
		p.nc.Status.SecurityGroups = nil
		p.conditions.False(awsv1.ConditionTypeSecurityGroupsReady, "SecurityGroupsNotFound", bad)
		return retrySoon, nil
	}
	found, err := p.caches.groups.get(key(p.nc.Spec.SecurityGroupSelectorTerms), func() ([]ec2.SecurityGroup, error) {
		return p.cfg.Cloud.DescribeSecurityGroups(ctx, p.nc.Spec.SecurityGroupSelectorTerms)
	})
	if err != nil {
		return retrySoon, fmt.Errorf("resolve security groups: %w", err)
	}
	p.nc.Status.SecurityGroups = nil
	for _, g := range found {
		p.nc.Status.SecurityGroups = append(p.nc.Status.SecurityGroups, awsv1.SecurityGroup{ID: g.ID, Name: g.Name})
	}
	if len(found) == 0 {
		p.conditions.False(awsv1.ConditionTypeSecurityGroupsReady, "SecurityGroupsNotFound", "SecurityGroupSelector did not match any SecurityGroups")
		return retrySoon, nil
	}
	p.conditions.True(awsv1.ConditionTypeSecurityGroupsReady)
	return groupsInterval, nil
}

// events say how conditions changed, and are one per note.
func (p *pass) events() []service.KubeEvent {
	out := service.Transitions(reference(p.nc), p.before, p.conditions.Conditions)
	for _, n := range p.notes {
		out = append(out, event(p.nc, corev1.EventTypeWarning, "ResolutionIncomplete", fmt.Sprintf("EC2NodeClass %s: %s", p.nc.Name, n)))
	}
	return out
}

func reference(nc *awsv1.EC2NodeClass) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: awsv1.SchemeGroupVersion.String(), Kind: "EC2NodeClass", Name: nc.Name, UID: nc.UID}
}

func event(nc *awsv1.EC2NodeClass, kind, reason, message string) service.KubeEvent {
	return service.KubeEvent{Object: reference(nc), Type: kind, Reason: reason, Message: message}
}
