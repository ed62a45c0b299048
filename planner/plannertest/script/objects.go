package script

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ktypes "k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
)

// Put shows an object and keeps it under the name by which commands call it.
func (c *Case) Put(kind string, object metav1.Object) {
	if object.GetUID() == "" {
		object.SetUID(ktypes.UID("uid-" + object.GetName()))
	}
	if ns := object.GetNamespace(); ns != "" {
		c.namespace(ns)
	}
	c.objects[kind+" "+object.GetName()] = object
	c.See(object)
}

// namespace makes sure that a namespace is there.
func (c *Case) namespace(name string) {
	if c.objects["namespace "+name] == nil {
		c.Put("namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}})
	}
}

// Nodes returns the Nodes as they were shown last, by name.
func (c *Case) Nodes() []*corev1.Node {
	var list []*corev1.Node
	for _, o := range c.objects {
		if n, ok := o.(*corev1.Node); ok {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Object returns the object of a kind and name as it was shown last; it must be there.
func Object[T any](c *Case, kind, name string) *T {
	c.T.Helper()
	o, ok := c.objects[kind+" "+name].(*T)
	if !ok {
		c.T.Fatalf("there is no %s %s", kind, name)
	}
	return o
}

func pool(c *Case, a *Args) {
	p := plannertest.Pool(a.Next())
	spec := &p.Spec.Template.Spec
	var budgets []karpv1.Budget
	for a.More() {
		switch k, v := a.Option(); k {
		case "weight":
			w := int32(a.number(v))
			p.Spec.Weight = &w
		case "replicas":
			n := int64(a.number(v))
			p.Spec.Replicas = &n
		case "after":
			plannertest.ConsolidateAfter(v)(p)
		case "policy":
			p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicy(v)
		case "expire":
			spec.ExpireAfter = karpv1.NewDuration(a.Duration(v))
		case "budget":
			budgets = append(budgets, a.budget(v))
			p.Spec.Disruption.Budgets = budgets
		case "taint":
			spec.Taints = append(spec.Taints, taintOf(v))
		case "startup-taint":
			spec.StartupTaints = append(spec.StartupTaints, taintOf(v))
		case "label":
			set(&p.Spec.Template.Labels, v)
		case "annotation":
			set(&p.Annotations, v)
		case "require":
			spec.Requirements = append(spec.Requirements, a.requirement(v))
		default:
			if p.Spec.Limits == nil {
				p.Spec.Limits = karpv1.Limits{}
			}
			p.Spec.Limits[corev1.ResourceName(k)] = a.quantity(v)
		}
	}
	c.Put("pool", Over(c, p, a.Block()))
}

// budget reads N[,reason…][,DURATION@CRON], the fields of CRON joined by _.
func (a *Args) budget(text string) karpv1.Budget {
	parts := strings.Split(text, ",")
	b := karpv1.Budget{Nodes: parts[0]}
	for _, p := range parts[1:] {
		duration, cron, window := strings.Cut(p, "@")
		if !window {
			b.Reasons = append(b.Reasons, karpv1.DisruptionReason(p))
			continue
		}
		cron = strings.ReplaceAll(cron, "_", " ")
		b.Schedule, b.Duration = &cron, &metav1.Duration{Duration: a.Duration(duration)}
	}
	return b
}

func overlay(c *Case, a *Args) {
	o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: a.Next()}}
	for a.More() {
		switch k, v := a.Option(); k {
		case "weight":
			w := int32(a.number(v))
			o.Spec.Weight = &w
		case "price":
			o.Spec.Price = &v
		case "adjust":
			o.Spec.PriceAdjustment = &v
		case "require":
			o.Spec.Requirements = append(o.Spec.Requirements, a.selectorRequirement(v))
		default:
			if o.Spec.Capacity == nil {
				o.Spec.Capacity = corev1.ResourceList{}
			}
			o.Spec.Capacity[corev1.ResourceName(k)] = a.quantity(v)
		}
	}
	c.Put("overlay", Over(c, o, a.Block()))
}

func node(c *Case, a *Args) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Next()}}
	n.Labels = map[string]string{corev1.LabelHostname: n.Name}
	amounts := corev1.ResourceList{"pods": a.quantity("110")}
	zone, claimName, poolName := "zone-a", "", ""
	for a.More() {
		switch k, v := a.Option(); k {
		case "label":
			set(&n.Labels, v)
		case "annotation":
			set(&n.Annotations, v)
		case "taint":
			n.Spec.Taints = append(n.Spec.Taints, taintOf(v))
		case "pool":
			poolName = v
			plannertest.InPool(v)(n)
		case "type":
			amounts = c.amountsOf(v)
			for key, value := range map[string]string{corev1.LabelInstanceTypeStable: v, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand} {
				n.Labels[key] = value
			}
		case "zone":
			zone, n.Labels[corev1.LabelTopologyZone] = v, v
		case "capacity":
			n.Labels[karpv1.CapacityTypeLabelKey] = v
		case "claim":
			claimName = v
		default:
			amounts[corev1.ResourceName(k)] = a.quantity(v)
		}
	}
	n.Spec.ProviderID = providerID(zone, n.Name)
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n = Over(c, n, a.Block())
	if claimName != "" {
		c.adopt(claimName, poolName, n)
	}
	c.Put("node", n)
}

func providerID(zone, node string) string { return fmt.Sprintf("aws:///%s/i-%s", zone, node) }

// amountsOf are the amounts of a type of the catalogue.
func (c *Case) amountsOf(name string) corev1.ResourceList {
	cat := c.World.RawCatalog("default")
	if cat != nil {
		for _, t := range cat.InstanceTypes {
			if t.Name == name {
				a := &Args{c: c}
				list := corev1.ResourceList{}
				for k, n := range t.Capacity {
					text := fmt.Sprint(n)
					if k == "cpu" {
						text += "m"
					}
					list[corev1.ResourceName(k)] = a.quantity(text)
				}
				delete(list, "ephemeral-storage")
				return list
			}
		}
	}
	c.T.Fatalf("no type %s in the catalogue", name)
	return nil
}

// adopt shows the NodeClaim of a Node, and records that the log has adopted it.
func (c *Case) adopt(name, poolName string, n *corev1.Node) {
	uid := ktypes.UID("uid-" + name)
	c.Record(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: name, UID: uid, NodePool: poolName, ProviderID: n.Spec.ProviderID})
	c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: n.Name})
	o := plannertest.Claim(name, n.Name, poolName)
	o.UID, o.CreationTimestamp = uid, metav1.NewTime(c.Clock)
	for i := range o.Status.Conditions {
		o.Status.Conditions[i].LastTransitionTime = metav1.NewTime(c.Clock)
	}
	for _, k := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, karpv1.CapacityTypeLabelKey} {
		o.Labels[k] = n.Labels[k]
	}
	o.Status.ProviderID, o.Status.Capacity, o.Status.Allocatable = n.Spec.ProviderID, n.Status.Capacity, n.Status.Allocatable
	if p, ok := c.objects["pool "+poolName].(*karpv1.NodePool); ok {
		o.Spec.ExpireAfter = p.Spec.Template.Spec.ExpireAfter
	}
	n.CreationTimestamp = metav1.NewTime(c.Clock)
	c.Put("claim", o)
}

func claim(c *Case, a *Args) {
	o := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: a.Next(), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	o.Spec.NodeClassRef = plannertest.ClassRef("default")
	for a.More() {
		switch k, v := a.Option(); k {
		case "pool":
			o.Labels[karpv1.NodePoolLabelKey] = v
		case "node":
			o.Status.NodeName, o.Status.ProviderID = v, Object[corev1.Node](c, "node", v).Spec.ProviderID
		case "label":
			set(&o.Labels, v)
		case "taint":
			o.Spec.Taints = append(o.Spec.Taints, taintOf(v))
		case "startup-taint":
			o.Spec.StartupTaints = append(o.Spec.StartupTaints, taintOf(v))
		case "require":
			o.Spec.Requirements = append(o.Spec.Requirements, a.requirement(v))
		default:
			c.T.Fatalf("claim %s: unknown option %s", o.Name, k)
		}
	}
	c.Put("claim", Over(c, o, a.Block()))
}

// bound puts a pod on a node, where it runs and is ready.
func (c *Case) bound(p *corev1.Pod, node string) {
	started := metav1.NewTime(c.Clock)
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
}

// clock moves the clock, and no heartbeat follows: the World stays as it was.
func clock(c *Case, a *Args) { c.Clock = c.Clock.Add(a.Duration(a.Next())) }

func forward(c *Case, a *Args) { c.Advance(a.Duration(a.Next()).Round(time.Millisecond)) }
