package script

import (
	"fmt"
	"math"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ktypes "k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/plannertest"
)

// commands that all planners share.
var commands map[string]Verb

func init() {
	commands = map[string]Verb{
		"types": types, "reserve": reserve, "pool": pool, "pod": pod, "node": node, "claim": claim, "daemonset": daemonset, "overlay": overlay, "pvc": pvc, "pv": pv,
		"class":        class,
		"pdb":          plain[policyv1.PodDisruptionBudget]("pdb", "default"),
		"storageclass": plain[storagev1.StorageClass]("storageclass", ""),
		"csinode":      plain[storagev1.CSINode]("csinode", ""),
		"attachment":   plain[storagev1.VolumeAttachment]("attachment", ""),
		"priority":     plain[schedulingv1.PriorityClass]("priority", ""),
		"policy":       plain[mwv1alpha1.DisruptionPolicy]("policy", ""),
		"buffer":       plain[bufferv1beta1.CapacityBuffer]("buffer", "default"),
		"podtemplate":  plain[corev1.PodTemplate]("podtemplate", "default"),
		"deployment":   plain[appsv1.Deployment]("deployment", "default"),
		"statefulset":  plain[appsv1.StatefulSet]("statefulset", "default"),
		"replicaset":   plain[appsv1.ReplicaSet]("replicaset", "default"),
		"namespace":    plain[corev1.Namespace]("namespace", ""),
		"change":       change, "delete": remove, "copies": copies, "bind": bind, "forward": forward, "clock": clock, "option": option, "fail": fail, "full": full, "forbid": forbid, "price": price, "create": create, "unreadable": unreadable, "drift": drift,
		"forget": func(c *Case, _ *Args) { c.Forget() },
	}
}

// pointer to an object that has metadata.
type pointer[T any] interface {
	*T
	metav1.Object
}

// plain shows an object that its block describes.
func plain[T any, P pointer[T]](kind, namespace string) Verb {
	return func(c *Case, a *Args) {
		o := P(new(T))
		o.SetName(a.Next())
		o.SetNamespace(namespace)
		if kind == "namespace" {
			o.SetLabels(map[string]string{corev1.LabelMetadataName: o.GetName()})
		}
		c.Put(kind, P(Over(c, (*T)(o), a.Block())))
	}
}

func class(c *Case, a *Args) {
	n := plannertest.NodeClass(a.Next())
	n.Status.Conditions[0].ObservedGeneration = n.Generation
	c.Put("class", Over(c, n, a.Block()))
}

// change lays its block over an object.
func change(c *Case, a *Args) {
	kind, name := a.Next(), a.Next()
	switch o := c.objects[kind+" "+name].(type) {
	case *corev1.Pod:
		c.Put(kind, Over(c, o, a.Block()))
	case *corev1.Node:
		c.Put(kind, Over(c, o, a.Block()))
	case *karpv1.NodeClaim:
		c.Put(kind, Over(c, o, a.Block()))
	case *karpv1.NodePool:
		c.Put(kind, Over(c, o, a.Block()))
	case *awsv1.EC2NodeClass:
		c.Put(kind, Over(c, o, a.Block()))
	case *bufferv1beta1.CapacityBuffer:
		c.Put(kind, Over(c, o, a.Block()))
	case *policyv1.PodDisruptionBudget:
		c.Put(kind, Over(c, o, a.Block()))
	case *mwv1alpha1.DisruptionPolicy:
		c.Put(kind, Over(c, o, a.Block()))
	case *appsv1.DaemonSet:
		c.Put(kind, Over(c, o, a.Block()))
	case *appsv1.Deployment:
		c.Put(kind, Over(c, o, a.Block()))
	default:
		c.T.Fatalf("%s: there is no such object that can be changed", a.Line)
	}
}

func remove(c *Case, a *Args) {
	key := a.Next() + " " + a.Next()
	if key == "claim it" && c.Subject != "" {
		key = "claim " + c.Subject
	}
	o := c.objects[key]
	if o == nil {
		c.T.Fatalf("%s: there is no such object", a.Line)
	}
	c.Gone(o)
	delete(c.objects, key)
}

func copies(c *Case, a *Args) {
	of, n := Object[corev1.Pod](c, "pod", a.Next()), a.number(a.Next()[1:])
	for i := 1; i < n; i++ {
		p := of.DeepCopy()
		p.Name, p.UID = fmt.Sprintf("%s-%02d", of.Name, i), ""
		if c.objects["pod "+p.Name] == nil {
			c.Put("pod", p)
		}
	}
}

func bind(c *Case, a *Args) {
	p := Object[corev1.Pod](c, "pod", a.Next()).DeepCopy()
	c.bound(p, a.Next())
	c.Put("pod", p)
}

func option(c *Case, a *Args) {
	name, value := a.Next(), a.Next()
	switch name {
	case "preferences":
		c.Options.PreferencePolicy = value
	case "minValues":
		c.Options.MinValuesPolicy = value
	case "types":
		c.Options.InstanceTypesMax = a.number(value)
	case "gates":
		c.Check(c.Options.SetFeatureGates(value))
	case "awaitDeparted":
		c.Options.AwaitDeparted = value == "on"
	case "awaitNewPods":
		c.Options.AwaitNewPods = value == "on"
	case "surgeFirst":
		c.Options.SurgeFirst = value == "on"
	case "payBackHistory":
		c.Options.PayBackHistory = value == "on"
	case "drainOutToUsed":
		c.Options.DrainOutToUsed = value == "on"
	case "consolidateReserved":
		c.Options.ConsolidateReserved = value == "on"
	case "revision":
		if c.Options.Revision = a.number(value); c.Options.Revision >= options.Revision8 {
			c.Record(ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(c.Options)}) // the Ledger asks
		}
	case "wavesAwaitDoomed":
		c.Options.WavesAwaitDoomed = value == "on"
		c.Record(ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(c.Options)}) // the Ledger asks
	case "staticWave":
		c.Options.StaticWave = int64(a.number(value))
	case "nodeCost":
		c.Options.NodeCost = int64(a.number(value))
	case "evictionHorizon":
		c.Options.EvictionHorizon = a.Duration(value)
	case "evictionCost":
		c.Options.EvictionCost = int64(a.number(value))
	default:
		c.T.Fatalf("unknown option %s", name)
	}
}

func price(c *Case, a *Args) {
	e := events.Price{InstanceType: a.Next(), Zone: a.Next(), CapacityType: a.Next()}
	usd, err := strconv.ParseFloat(a.Next(), 64)
	c.Check(err)
	e.MicroUSDPerHour = int64(math.Round(usd * 1e6))
	c.See(&events.Prices{Entries: []events.Price{e}})
}

// fail says that there was no capacity for an offering, in a placement group if one is named; full that a
// group takes no more instances in a zone.
func fail(c *Case, a *Args) {
	f := ledger.FailedOffering{InstanceType: a.Next(), Zone: a.Next(), CapacityType: a.Next(), Code: "InsufficientInstanceCapacity"}
	if a.More() {
		f.PlacementGroup = a.Next()
	}
	c.Record(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "x", Class: "no-capacity", Unavailable: []ledger.FailedOffering{f}})
}

func full(c *Case, a *Args) {
	f := ledger.FailedOffering{PlacementGroup: a.Next(), Zone: a.Next(), Code: "PlacementGroupLimitExceeded"}
	c.Record(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "x", Class: "no-capacity", Unavailable: []ledger.FailedOffering{f}})
}

// forbid says that the account may have nothing of a capacity type.
func forbid(c *Case, a *Args) {
	f := ledger.FailedOffering{CapacityType: a.Next(), Code: "AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
	c.Record(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "x", Class: "no-capacity", Unavailable: []ledger.FailedOffering{f}})
}

// create makes all planned claims.
func create(c *Case, _ *Args) {
	for _, p := range c.Ledger.Claims() {
		if p.State == ledger.ClaimPlanned {
			c.Record(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: p.Name, UID: ktypes.UID("uid-" + p.Name), Record: p.WidenedSeq})
		}
	}
}

// unreadable says that an object changed into something that nobody can read.
func unreadable(c *Case, a *Args) {
	key := a.Next() + " " + a.Next()
	if c.objects[key] == nil {
		c.T.Fatalf("%s: there is no such object", a.Line)
	}
	o := plannertest.Observe(c.objects[key])
	o.Op, o.Object = events.OpUnreadable, nil
	c.Send(o)
}

// drift says that a NodeClaim has drifted, for a reason, since a time of the day.
func drift(c *Case, a *Args) {
	o := Object[karpv1.NodeClaim](c, "claim", a.Next()).DeepCopy()
	reason := a.Next()
	at, err := time.Parse("15:04", a.Next())
	c.Check(err)
	since := time.Date(c.Clock.Year(), c.Clock.Month(), c.Clock.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
	o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{
		Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(since)})
	c.Put("claim", o)
}
