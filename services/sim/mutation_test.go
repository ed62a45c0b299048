package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/lifecycle"
	"millwright/services/sim/bargain"
	"millwright/services/sim/cloud"
	"millwright/services/sim/judge"
	"millwright/services/sim/stage"
	"millwright/store"
)

// seedsMax is how many seeds a bug may survive.
const seedsMax = 25

// Each bug is put between a service and what it uses, and the simulator must find it, by the check that is
// about it.
func TestBugsAreFound(t *testing.T) {
	ruled := stage.Faults{Policies: 1000}
	unanswered := stage.Faults{EC2Unanswered: 300, EC2Lost: 200}
	type bug struct {
		faults stage.Faults
		wrap   Wrap
		check  string
	}
	cases := map[string]bug{
		"open launches hold nothing of a reservation": {stage.Faults{Reservations: 1000, EC2Unanswered: 300, EC2Lost: 200}, Wrap{Entry: unheld}, judge.CheckReserved},
		"the ends of capacity blocks are not seen": {stage.Faults{Blocks: 1000, OfferingEmpty: 200, ClaimDeleted: 60}, Wrap{Cache: func(c lifecycle.Cache) lifecycle.Cache { return endless{c} }},
			judge.CheckBlockAsked},
		"nobody leaves capacity blocks": {stage.Faults{Blocks: 1000}, Wrap{Cache: func(c lifecycle.Cache) lifecycle.Cache { return endless{c} }}, judge.CheckBlockLeft},

		"conditions are read as an hour older": {stage.Faults{Ailing: 60}, Wrap{Cache: func(c lifecycle.Cache) lifecycle.Cache { return anxious{c} }}, judge.CheckAiling},
		"only the node in question is seen to ail": {stage.Faults{Ailing: 60}, Wrap{Cache: func(c lifecycle.Cache) lifecycle.Cache { return narrow{c} }},
			judge.CheckEpidemic},
		"nothing is seen to ail": {stage.Faults{Ailing: 60}, Wrap{Cache: func(c lifecycle.Cache) lifecycle.Cache { return hopeful{c} }}, judge.CheckRepaired},

		"NodeClaims are read as initialized since they were made": {stage.Faults{Starved: 60, SchedulerAway: 60}, Wrap{Observation: only(ledger.ServiceProvisioner, func(c *karpv1.NodeClaim) {
			c.Status.Conditions = slices.DeleteFunc(slices.Clone(c.Status.Conditions), func(x metav1.Condition) bool { return x.Type == karpv1.ConditionTypeInitialized })
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: c.CreationTimestamp})
		})}, judge.CheckExcluded},

		"kube-scheduler is taken to have tried each pod lately": {stage.Faults{SchedulerAway: 60}, Wrap{Observation: only(ledger.ServiceProvisioner, func(p *corev1.Pod) {
			p.Status.Conditions = slices.Clone(p.Status.Conditions)
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].LastProbeTime = metav1.NewTime(p.CreationTimestamp.Add(time.Hour))
			}
		})}, judge.CheckTried},

		"all pods are ignored": {stage.Faults{Ignored: 1000}, Wrap{Observation: ignoring(&metav1.LabelSelector{})}, judge.CheckQuiet},
		"no pod is ignored":    {stage.Faults{Ignored: 1000}, Wrap{Observation: ignoring(nil)}, judge.CheckIgnored},

		"what is said of recommendations is not seen": {stage.Faults{Recommended: 100}, Wrap{Observation: only(ledger.ServiceLifecycle, func(p *mwv1alpha1.DisruptionPolicy) {
			p.Spec.RebalanceRecommendation = ""
		})}, judge.CheckHeeded},
		"recommendations are taken for those of other instances": {stage.Faults{Recommended: 100}, Wrap{Observation: only(ledger.ServiceLifecycle, func(i *events.Interruption) {
			i.InstanceID = "i-0"
		})}, judge.CheckRecommended},
		"nobody acts on drift by recommendations": {stage.Faults{Recommended: 100}, Wrap{Observation: only(ledger.ServiceDisruptor, func(c *karpv1.NodeClaim) {
			c.Status.Conditions = slices.DeleteFunc(slices.Clone(c.Status.Conditions), func(x metav1.Condition) bool { return x.Reason == "RebalanceRecommended" })
		})}, "it converges: what EC2 recommends to leave is replaced"},

		"the disruptor sees no CapacityBuffers": {stage.Faults{Buffers: 1000}, Wrap{Observation: only(ledger.ServiceDisruptor, unbuffered)}, judge.CheckBufferKept},
		"CapacityBuffers are not provisioned":   {stage.Faults{Buffers: 1000}, Wrap{Observation: only(ledger.ServiceProvisioner, unbuffered)}, judge.CheckBufferFilled},
		"CapacityBuffers are filled that are gone": {stage.Faults{Buffers: 1000}, Wrap{Observation: func(process string, o events.Observation) events.Observation {
			if process == ledger.ServiceProvisioner && o.Kind == events.KindCapacityBuffer && o.Op == events.OpDelete {
				o.Name, o.UID = "default/other", "other"
			}
			return o
		}}, judge.CheckBufferGone},

		"a launch of unknown outcome counts as failed": {unanswered, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return hasty{e} }}, judge.CheckOneInstance},
		"the last instance of a fleet is overlooked":   {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return careless{e} }}, judge.CheckOneInstance},
		"a launch is repeated with a fresh token":      {unanswered, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return &fresh{EC2: e} }}, judge.CheckRecorded},
		"it is not said what a NodeClaim was made of":  {stage.Faults{KubeSlow: 400, KubeUnanswered: 400}, Wrap{Append: untold}, judge.CheckContent},
		"pods are deleted instead of evicted":          {stage.Faults{}, Wrap{Kube: func(_ string, k Kube) Kube { return rude{k} }}, judge.CheckEviction},
		"do-not-disrupt is not seen": {stage.Faults{NodeDeleted: 60}, Wrap{Observation: only(ledger.ServiceTerminator, func(p *corev1.Pod) {
			p.Annotations = nil
		})}, judge.CheckEviction},
		"finalizers go while the instance shuts down": {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return eager{e} }}, judge.CheckInstanceFirst},
		"budgets are not seen": {stage.Faults{}, Wrap{Observation: only(ledger.ServiceDisruptor, func(p *karpv1.NodePool) {
			p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
		})}, judge.CheckBudgets},
		"a command is confirmed before its nodes are tainted": {stage.Faults{}, Wrap{Host: func(h service.Host) service.Host { return rash{h} }}, judge.CheckTainted},
		"limits are not seen": {stage.Faults{}, Wrap{Observation: only(ledger.ServiceProvisioner, func(p *karpv1.NodePool) { p.Spec.Limits = nil })}, judge.CheckLimits},
		"requests are read as a tenth of what they are": {stage.Faults{}, Wrap{Observation: only(ledger.ServiceProvisioner, func(p *corev1.Pod) {
			p.Spec.Containers = slices.Clone(p.Spec.Containers)
			for i := range p.Spec.Containers {
				r := p.Spec.Containers[i].Resources.Requests.DeepCopy()
				for name, q := range r {
					r[name] = *resource.NewMilliQuantity(q.MilliValue()/10, q.Format)
				}
				p.Spec.Containers[i].Resources.Requests = r
			}
		})}, judge.CheckRoom},
		"registration takes two writes":           {stage.Faults{}, Wrap{Kube: func(_ string, k Kube) Kube { return halfway{k} }}, judge.CheckRegistration},
		"a Node is deleted without its finalizer": {stage.Faults{FinalizersStripped: 60, ClaimDeleted: 60}, Wrap{Kube: func(_ string, k Kube) Kube { return bare{k} }}, judge.CheckInstanceFirst},
		"a node counts as drained with pods on it": {stage.Faults{NodeDeleted: 60}, Wrap{
			Kube:        func(_ string, k Kube) Kube { return blind{k} },
			Observation: only(ledger.ServiceTerminator, func(p *corev1.Pod) { p.Spec.NodeName = "" }),
		}, judge.CheckUndrained},
		"a refusal is forgotten": {stage.Faults{}, Wrap{Host: func(h service.Host) service.Host { return forgetful{h} }}, judge.CheckVerdicts},
		"prices are read twice as high as they are": {stage.Faults{}, Wrap{Observation: only(ledger.ServiceProvisioner, func(p *events.Prices) {
			p.Entries = slices.Clone(p.Entries)
			for i := range p.Entries {
				p.Entries[i].MicroUSDPerHour *= 2
			}
		})}, judge.CheckReplay},
		"dear types are read as cheap, and cheap ones as dear": {stage.Faults{}, Wrap{Observation: only(ledger.ServiceDisruptor, func(p *events.Prices) {
			p.Entries = slices.Clone(p.Entries)
			for i := range p.Entries {
				p.Entries[i].MicroUSDPerHour = 1_000_000 - p.Entries[i].MicroUSDPerHour
			}
		})}, bargain.CheckPromised},
		"EC2 is asked for the dearest that will do": {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return lavish{e, false} }}, bargain.CheckGot},
		"EC2 has nothing but the dearest of all":    {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return lavish{e, true} }}, judge.CheckCheaper},
		"what is bought for nothing is not deleted": {stage.Faults{PoolEdited: 300, OfferingEmpty: 300, BudgetEdited: 300}, Wrap{Kube: func(_ string, k Kube) Kube { return idle{k} }}, bargain.CheckStrays},
		"what has registered is taken for initialized": {stage.Faults{}, Wrap{Entry: func(process string, e ledger.Entry) ledger.Entry {
			if p, ok := e.Payload.(*ledger.ClaimRegistered); ok && process == ledger.ServiceDisruptor {
				e.Kind, e.Payload = ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: p.Claim, Node: p.Node}
			}
			return e
		}}, judge.CheckReplaced},
		"a launch is sent once more, after it was given up": {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return &tardy{EC2: e} }}, judge.CheckLivingClaim},
		"instances are not ended":                           {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return generous{e} }}, "it converges"},
		"the log forgets a record it acknowledged":          {stage.Faults{}, Wrap{Append: forgetSome()}, judge.CheckLog},
		"a service misses what records advance": {stage.Faults{}, Wrap{Entry: func(process string, e ledger.Entry) ledger.Entry {
			if process == ledger.ServiceTerminator {
				e.Advances = nil
			}
			return e
		}}, judge.CheckFold},
		"a stop is not heeded": {stage.Faults{Stopped: 200}, Wrap{Host: func(h service.Host) service.Host { return deaf{h} }}, judge.CheckStopped},
		"an instance has other security groups than it was asked for": {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return elsewhere{e} }}, judge.CheckDrift},
		"drift is shown and not recorded": {stage.Faults{}, Wrap{EC2: func(e lifecycle.EC2) lifecycle.EC2 { return elsewhere{e} },
			Host: func(h service.Host) service.Host { return mute{h} }}, judge.CheckJudged},
		"one clock is believed, and the heartbeats of another like it": {stage.Faults{ClockOff: 60}, Wrap{
			Host: func(h service.Host) service.Host { return gullible{h.(*process)} },
			Observation: func(process string, o events.Observation) events.Observation {
				if o.Op == events.OpHeartbeat && process == ledger.ServiceLifecycle {
					o.ObservedAt = o.ObservedAt.Add(31 * 24 * time.Hour)
				}
				return o
			},
		}, judge.CheckTime},
		"a deletion is not sent": {stage.Faults{}, Wrap{Kube: func(_ string, k Kube) Kube { return idle{k} }}, "it converges"},
		"notices are read as if they were a minute older": {stage.Faults{Interrupted: 60}, Wrap{Observation: only(ledger.ServiceLifecycle, func(i *events.Interruption) {
			i.Deadline = i.Deadline.Add(-time.Minute)
		})}, judge.CheckForged},
		"notices are taken for those of other instances": {stage.Faults{}, Wrap{Observation: only(ledger.ServiceLifecycle, func(i *events.Interruption) {
			i.InstanceID = "i-0"
		})}, judge.CheckTaken},
		"pods are asked to leave only in words": {stage.Faults{Interrupted: 60}, Wrap{Kube: func(_ string, k Kube) Kube { return wordy{k} }}, judge.CheckLeft},
		"savings are not seen":                  {ruled, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.Savings = nil }), judge.CheckSavings},
		"minNodeAge is not seen":                {ruled, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.MinNodeAge = nil }), judge.CheckAge},
		"maxEvictionsPerHour is not seen":       {stage.Faults{Policies: 1000, PoolEdited: 60}, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.MaxEvictionsPerHour = nil }), judge.CheckRate},
		"windows are not seen":                  {ruled, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.Windows = nil }), judge.CheckWindows},
		"pauses are not seen":                   {ruled, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.Pause = nil }), judge.CheckPause},
		"nobody is asked for approval":          {ruled, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.Approval = nil }), judge.CheckApproval},
		"drainOut is seen where none is so":     {stage.Faults{Policies: 1000, Protected: 700, BudgetEdited: 300}, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.DrainOut = &mwv1alpha1.DrainOut{Nodes: "50%"} }), judge.CheckDrainOut},
		"surge is not seen":                     {ruled, Wrap{Observation: only(ledger.ServiceTerminator, func(p *mwv1alpha1.DisruptionPolicy) { p.Spec.Surge = nil })}, judge.CheckSurge},
		"pay-back is not asked for":             {stage.Faults{Further: 1000}, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.Savings = nil }), judge.CheckPayBack},
		"bans of destinations are not seen":     {stage.Faults{Further: 1000}, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.Destination = "" }), judge.CheckDestination},
		"waves are not seen":                    {stage.Faults{Further: 1000, PoolEdited: 200}, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) { p.Waves = nil }), judge.CheckWaves},
		"spot prices of before are not seen": {stage.Faults{Further: 1000, OfferingEmpty: 300, CatalogChanged: 60}, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) {
			if s := p.Savings; s != nil {
				p.Savings = &mwv1alpha1.Savings{PayBack: s.PayBack}
			}
		}), judge.CheckSpot},
		"what is preferred is taken to be there to stay": {stage.Faults{Further: 1000, OfferingEmpty: 300}, unruled(func(p *mwv1alpha1.DisruptionPolicySpec) {
			if r := p.ReturnToPreferred; r != nil {
				p.ReturnToPreferred = &mwv1alpha1.ReturnToPreferred{AvailableFor: &metav1.Duration{}, Nodes: r.Nodes, Preferences: r.Preferences}
			}
		}), judge.CheckReturns},
		"answers that there is no capacity are not seen": {stage.Faults{OfferingEmpty: 200}, Wrap{Entry: unmarked}, judge.CheckMarked},
		"a service in shadow mode acts":                  {stage.Faults{Shadowed: 500}, Wrap{Host: func(h service.Host) service.Host { return brazen{h.(*process)} }}, judge.CheckShadow},
	}
	for _, check := range slices.Concat(judge.Checks, bargain.Checks) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(cases)), func(c bug) bool { return c.check == check }) {
			t.Errorf("no bug shows that this check can fail: %s", check)
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := uint64(1); n <= seedsMax; n++ {
				r := Run(Config{Seed: n, Faults: &c.faults, Wrap: c.wrap, ConvergeMax: 7 * time.Minute})
				switch v := r.Violation; {
				case v == nil:
				case strings.HasPrefix(v.Check, c.check):
					t.Logf("found by seed %d: %v", n, v)
					return
				default:
					t.Logf("seed %d: %v", n, v)
				}
			}
			t.Errorf("%d seeds did not find it", seedsMax)
		})
	}
}

// unruled has the disruptor read DisruptionPolicies as they are not.
func unruled(change func(*mwv1alpha1.DisruptionPolicySpec)) Wrap {
	return Wrap{Observation: only(ledger.ServiceDisruptor, func(p *mwv1alpha1.DisruptionPolicy) { change(&p.Spec) })}
}

// ignoring has all services read the policies as if they ignored other pods.
func ignoring(pods *metav1.LabelSelector) func(string, events.Observation) events.Observation {
	return func(_ string, o events.Observation) events.Observation {
		if p, ok := o.Object.(*mwv1alpha1.DisruptionPolicy); ok {
			other := *p
			other.Spec.IgnorePodEvents, o.Object = pods, &other
		}
		return o
	}
}

// unbuffered is a CapacityBuffer for no pods.
func unbuffered(b *bufferv1beta1.CapacityBuffer) {
	none := int32(0)
	b.Spec.Replicas, b.Spec.Percentage = &none, nil
}

// only changes the objects of a type that one service folds.
func only[T any](service string, change func(*T)) func(string, events.Observation) events.Observation {
	return func(process string, o events.Observation) events.Observation {
		if object, ok := o.Object.(*T); ok && process == service {
			changed := *object
			change(&changed)
			o.Object = &changed
		}
		return o
	}
}

// hasty takes no answer for a refusal.
type hasty struct{ lifecycle.EC2 }

func (e hasty) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	r, err := e.EC2.CreateFleet(ctx, in)
	if ec2.Classify(err) == ec2.UnknownOutcome {
		err = cloud.Throttled("ec2:CreateFleet")
	}
	return r, err
}

// lavish launches the dearest of what is asked for, or of all there is, whatever it costs: EC2 then has none
// of what was asked for.
type lavish struct {
	lifecycle.EC2
	ofAll bool
}

func (e lavish) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	other := *in
	other.LaunchTemplateConfigs = slices.Clone(in.LaunchTemplateConfigs)
	capacityType := string(in.TargetCapacitySpecification.DefaultTargetCapacityType)
	price := func(o ec2types.FleetLaunchTemplateOverridesRequest) int64 {
		return cloud.Price(cloud.Offering{InstanceType: string(o.InstanceType), Zone: aws.ToString(o.AvailabilityZone), CapacityType: capacityType})
	}
	var none []ec2.FleetError
	for i := range other.LaunchTemplateConfigs {
		c := &other.LaunchTemplateConfigs[i]
		dearest := slices.MaxFunc(c.Overrides, func(a, b ec2types.FleetLaunchTemplateOverridesRequest) int { return cmp.Compare(price(a), price(b)) })
		if e.ofAll {
			for _, o := range c.Overrides {
				none = append(none, ec2.FleetError{Code: "InsufficientInstanceCapacity", Message: "no capacity", InstanceType: string(o.InstanceType), Zone: aws.ToString(o.AvailabilityZone), CapacityType: capacityType})
			}
			dearest.InstanceType = "m5.2xlarge"
		}
		c.Overrides = []ec2types.FleetLaunchTemplateOverridesRequest{dearest}
	}
	result, err := e.EC2.CreateFleet(ctx, &other)
	result.Errors = append(none, result.Errors...)
	return result, err
}

// careless does not see the last instance of a fleet for several claims.
type careless struct{ lifecycle.EC2 }

func (e careless) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	r, err := e.EC2.CreateFleet(ctx, in)
	if n := len(r.Instances); n > 1 {
		r.Instances = r.Instances[:n-1]
	}
	return r, err
}

// unmarked is what the records are without what they say of offerings, to the lifecycle.
func unmarked(process string, e ledger.Entry) ledger.Entry {
	if process != ledger.ServiceLifecycle {
		return e
	}
	switch p := e.Payload.(type) {
	case *ledger.LaunchFailed:
		less := *p
		less.Unavailable, e.Payload = nil, &less
	case *ledger.FleetAnswered:
		less := *p
		less.Unavailable, e.Payload = nil, &less
	case *ledger.Launched:
		less := *p
		less.Unavailable, e.Payload = nil, &less
	case *ledger.ClaimDoomed:
		less := *p
		less.Unavailable, e.Payload = nil, &less
	}
	return e
}

// fresh makes up a token for each call.
type fresh struct {
	lifecycle.EC2
	calls byte
}

func (e *fresh) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	e.calls++
	token := *in.ClientToken + string('a'+e.calls%26)
	other := *in
	other.ClientToken = &token
	return e.EC2.CreateFleet(ctx, &other)
}

// elsewhere puts instances into another security group.
type elsewhere struct{ lifecycle.EC2 }

func (e elsewhere) DescribeInstancesByTags(ctx context.Context, tags map[string]string, states ...string) ([]ec2.Instance, error) {
	list, err := e.EC2.DescribeInstancesByTags(ctx, tags, states...)
	list = slices.Clone(list)
	for i := range list {
		list[i].SecurityGroupIDs = []string{"sg-other"}
	}
	return list, err
}

// untold leaves out of which record a NodeClaim was made.
func untold(l store.Log, d store.Draft) (store.Record, error) {
	if ledger.Kind(d.Kind) == ledger.KindClaimCreated {
		var p ledger.ClaimCreated
		if err := json.Unmarshal(d.Payload, &p); err != nil {
			return store.Record{}, err
		}
		p.Record = 0
		d.Payload, _ = json.Marshal(p)
	}
	return l.Append(context.Background(), d)
}

// eager takes an instance that shuts down for one that is gone.
type eager struct{ lifecycle.EC2 }

func (e eager) DescribeInstances(ctx context.Context, ids []string) ([]ec2.Instance, error) {
	list, err := e.EC2.DescribeInstances(ctx, ids)
	for i := range list {
		if list[i].Ending() {
			list[i].State = ec2.StateTerminated
		}
	}
	return list, err
}

// unheld is what the records are without the reservations that planned claims hold, to who plans, and without
// those that requests name, to the lifecycle: each of the two keeps launches within what is free.
func unheld(process string, e ledger.Entry) ledger.Entry {
	switch p := e.Payload.(type) {
	case *ledger.LaunchRequested:
		if process != ledger.ServiceLifecycle {
			return e
		}
		less := *p
		less.LaunchTemplates = slices.Clone(p.LaunchTemplates)
		for i := range less.LaunchTemplates {
			less.LaunchTemplates[i].ReservationID = ""
		}
		e.Payload = &less
	case *ledger.ProvisioningPlanned:
		if process != ledger.ServiceProvisioner {
			return e
		}
		less := *p
		less.Claims = slices.Clone(p.Claims)
		for i := range less.Claims {
			less.Claims[i].Requirements = slices.DeleteFunc(slices.Clone(p.Claims[i].Requirements), func(r karpv1.NodeSelectorRequirementWithMinValues) bool {
				return r.Key == awsv1.LabelCapacityReservationID
			})
		}
		e.Payload = &less
	}
	return e
}

// endless sees no end of capacity blocks.
type endless struct{ lifecycle.Cache }

func (c endless) NodeClass(name string) *awsv1.EC2NodeClass {
	nc := c.Cache.NodeClass(name)
	if nc == nil {
		return nil
	}
	nc = nc.DeepCopy()
	for i := range nc.Status.CapacityReservations {
		nc.Status.CapacityReservations[i].EndTime = nil
	}
	return nc
}

// anxious sees all conditions of a node as an hour older.
type anxious struct{ lifecycle.Cache }

func (c anxious) NodesByProviderID(id string) []*corev1.Node {
	return conditioned(c.Cache.NodesByProviderID(id), func(x *corev1.NodeCondition) {
		x.LastTransitionTime = metav1.NewTime(x.LastTransitionTime.Add(-time.Hour))
	})
}

// narrow sees no condition of nodes when it counts them.
type narrow struct{ lifecycle.Cache }

func (c narrow) Nodes() []*corev1.Node { return conditioned(c.Cache.Nodes(), wellOf) }

// hopeful sees no condition at all by which nodes are repaired.
type hopeful struct{ lifecycle.Cache }

func (c hopeful) NodesByProviderID(id string) []*corev1.Node {
	return conditioned(c.Cache.NodesByProviderID(id), wellOf)
}

func wellOf(x *corev1.NodeCondition) {
	if x.Type != corev1.NodeReady {
		x.Status = corev1.ConditionTrue
	}
}

// conditioned are nodes with other conditions.
func conditioned(nodes []*corev1.Node, change func(*corev1.NodeCondition)) (list []*corev1.Node) {
	for _, n := range nodes {
		n = n.DeepCopy()
		for i := range n.Status.Conditions {
			change(&n.Status.Conditions[i])
		}
		list = append(list, n)
	}
	return list
}

// wordy says it has evicted or deleted pods.
type wordy struct{ Kube }

func (k wordy) EvictPod(context.Context, string, string, types.UID) error { return nil }

func (k wordy) DeletePod(context.Context, string, string, types.UID, int64) error { return nil }

// rude deletes what it is to evict.
type rude struct{ Kube }

func (k rude) EvictPod(ctx context.Context, namespace, name string, uid types.UID) error {
	return k.DeletePod(ctx, namespace, name, uid, 0)
}

// halfway takes the taint off before it writes the rest.
type halfway struct{ Kube }

func (k halfway) UpdateNode(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error) {
	if waits := func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
	}; waits(before) && !waits(after) {
		bare := before.DeepCopy()
		bare.Spec.Taints = after.Spec.Taints
		written, err := k.Kube.UpdateNode(ctx, before, bare)
		if err != nil {
			return nil, err
		}
		before = written
	}
	return k.Kube.UpdateNode(ctx, before, after)
}

// bare gives no Node its finalizer again.
type bare struct{ Kube }

func (k bare) UpdateNode(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error) {
	held := func(n *corev1.Node) bool { return slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) }
	if held(after) && !held(before) && before.Labels[karpv1.NodeRegisteredLabelKey] != "" {
		return before, nil
	}
	return k.Kube.UpdateNode(ctx, before, after)
}

// blind sees no pods.
type blind struct{ Kube }

func (k blind) PodsOnNode(context.Context, string) ([]corev1.Pod, error) { return nil, nil }

// tardy keeps the first launch back: it says that there is no capacity, and sends it before the next.
type tardy struct {
	lifecycle.EC2
	kept *awsec2.CreateFleetInput
}

func (e *tardy) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	if e.kept == nil {
		e.kept = in
		o := in.LaunchTemplateConfigs[0].Overrides[0]
		return ec2.FleetResult{FleetID: "fleet-0", Errors: []ec2.FleetError{{Code: "InsufficientInstanceCapacity", Message: "no capacity",
			InstanceType: string(o.InstanceType), Zone: aws.ToString(o.AvailabilityZone), SubnetID: aws.ToString(o.SubnetId),
			CapacityType: string(in.TargetCapacitySpecification.DefaultTargetCapacityType)}}}, nil
	}
	if _, err := e.EC2.CreateFleet(ctx, e.kept); err != nil {
		return ec2.FleetResult{}, err
	}
	return e.EC2.CreateFleet(ctx, in)
}

// generous says it has ended instances.
type generous struct{ lifecycle.EC2 }

func (e generous) TerminateInstances(context.Context, []string) error { return nil }

// forgetSome acknowledges each tenth record without keeping it.
func forgetSome() func(store.Log, store.Draft) (store.Record, error) {
	count := 0
	return func(l store.Log, d store.Draft) (store.Record, error) {
		if count++; count%10 != 0 {
			return l.Append(context.Background(), d)
		}
		head, err := l.Head(context.Background())
		return store.Record{Seq: head.Seq + 1, Draft: d}, err
	}
}

// deaf does not see stops.
type deaf struct{ service.Host }

func (h deaf) Stop() ledger.Stop { return ledger.StopNone }

// mute says it has recorded verdicts on drift.
type mute struct{ service.Host }

func (h mute) Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	if d.Kind == ledger.KindDriftJudged {
		return store.Record{}, nil
	}
	return h.Host.Decide(ctx, basis, d)
}

// gullible believes the clock of its machine and whatever is recorded, as the first version did.
type gullible struct{ *process }

func (h gullible) Now() time.Time {
	now := h.sim.Clock.Now().Add(h.machine.wrong)
	if last := h.ledger.LastTime(); last.After(now) {
		return last
	}
	return now
}

func (h gullible) Snapshot(_ service.Freshness, fn func(*planner.Snapshot) error) error {
	return h.Ledger(func(l *ledger.Ledger) error { return fn(planner.SnapshotAt(h.world, l, h.Now())) })
}

func (h gullible) Stop() ledger.Stop { return ledger.StopNone }

func (h gullible) Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	return h.decide(ctx, basis, d)
}

// brazen acts in any mode.
type brazen struct{ *process }

func (h brazen) Effect(key string, l lane.Lane, timeout time.Duration, fn func(context.Context) error) bool {
	return h.effect(key, l, timeout, fn)
}

// idle says it has deleted NodeClaims.
type idle struct{ Kube }

func (k idle) DeleteNodeClaim(ctx context.Context, name string, _ types.UID) error {
	_, err := k.GetNodeClaim(ctx, name)
	return err
}

// rash confirms a command as soon as it is started.
type rash struct{ service.Host }

func (h rash) Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	rec, err := h.Host.Decide(ctx, basis, d)
	if err == nil && d.Kind == ledger.KindCommandStarted {
		id := ledger.CommandID(h.LogID(), rec.Seq)
		aggregate := ledger.CommandAggregate(id)
		_, err = h.Host.Decide(ctx, basis, planner.Decision{Kind: ledger.KindCommandConfirmed, Payload: &ledger.CommandConfirmed{ID: id},
			Causation: rec.Seq, Advances: []string{aggregate}})
	}
	return rec, err
}

// forgetful does not record refusals.
type forgetful struct{ service.Host }

func (h forgetful) Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	if p, ok := d.Payload.(*ledger.ProvisioningPlanned); ok {
		less := *p
		less.Refused = nil
		d.Payload = &less
	}
	return h.Host.Decide(ctx, basis, d)
}
