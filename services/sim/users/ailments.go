package users

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/options"
)

// ailments are the conditions by which nodes are repaired, and how they ail by them.
var ailments = []corev1.NodeCondition{
	{Type: "StorageReady", Status: corev1.ConditionFalse, Reason: "Broken"},
	{Type: "NetworkingReady", Status: corev1.ConditionUnknown, Reason: "Silent"},
}

// ailing draws what nodes ail from, from random numbers of its own.
type ailing struct{ *rand.Rand }

// drawRepair has nodes repaired, if any ail, by policies that tolerate so little that a script can be longer.
func (s *Users) drawRepair() {
	if s.Faults.Ailing == 0 {
		return
	}
	s.ailing = ailing{s.Own(0x61696c)}
	if err := s.Options.SetFeatureGates(options.GateNodeRepair + "=true"); err != nil {
		panic(err)
	}
	for _, c := range ailments {
		tolerated := time.Duration(55+s.ailing.IntN(35)) * time.Second
		s.Options.RepairPolicies = append(s.Options.RepairPolicies, planner.RepairPolicy{Condition: string(c.Type), Status: string(c.Status), Toleration: tolerated})
	}
}

// Ail has now and then a node get a condition, or all nodes of a NodePool, and most of them lose it again,
// some only after it is tolerated no longer. It is called once a second of the script.
func (s *Users) Ail() {
	if s.Faults.Ailing == 0 || s.ailing.IntN(1000) >= s.Faults.Ailing {
		return
	}
	long := time.Duration(5+s.ailing.IntN(150)) * time.Second
	if s.ailing.IntN(4) == 0 {
		s.AilAll(s.Script.Pools[s.ailing.IntN(len(s.Script.Pools))].Name)
		s.Clock.After(long, s.inScript(s.Heal))
	} else if n := s.AilOne(); n != "" {
		s.Clock.After(long, s.inScript(func() { s.heal(n) }))
	}
}

// inScript does nothing once the script has ended, when all nodes are healed.
func (s *Users) inScript(heal func()) func() {
	return func() {
		if s.Calmed.IsZero() {
			heal()
		}
	}
}

// AilAll gives all nodes of a NodePool a condition.
func (s *Users) AilAll(pool string) {
	c := ailments[s.ailing.IntN(len(ailments))]
	for _, n := range s.Cluster.Nodes() {
		if n.Labels[karpv1.NodePoolLabelKey] == pool {
			s.ail(n.Name, c)
		}
	}
}

// AilOne gives one node a condition and returns its name; "" if there is none.
func (s *Users) AilOne() string {
	nodes := s.Cluster.Nodes()
	if len(nodes) == 0 {
		return ""
	}
	n := nodes[s.ailing.IntN(len(nodes))]
	s.ail(n.Name, ailments[s.ailing.IntN(len(ailments))])
	return n.Name
}

func (s *Users) ail(node string, c corev1.NodeCondition) {
	s.condition(node, func(list []corev1.NodeCondition) []corev1.NodeCondition {
		for _, have := range list {
			if have.Type == c.Type && have.Status == c.Status {
				return nil
			}
		}
		s.Trace("hardware: %s of node %s is %s", c.Type, node, c.Status)
		return append(without(list, c.Type), c)
	})
}

// Heal ends whatever nodes ail from.
func (s *Users) Heal() {
	for _, n := range s.Cluster.Nodes() {
		s.heal(n.Name)
	}
}

func (s *Users) heal(node string) {
	for _, c := range ailments {
		s.condition(node, func(list []corev1.NodeCondition) []corev1.NodeCondition {
			rest := without(list, c.Type)
			if len(rest) == len(list) {
				return nil
			}
			s.Trace("hardware: %s of node %s is True", c.Type, node)
			return append(rest, corev1.NodeCondition{Type: c.Type, Status: corev1.ConditionTrue})
		})
	}
}

// condition replaces the conditions of a Node; nil leaves them. The last one is new.
func (s *Users) condition(node string, change func([]corev1.NodeCondition) []corev1.NodeCondition) {
	n := s.Cluster.Node(node)
	if n == nil {
		return
	}
	list := change(n.Status.Conditions)
	if list == nil {
		return
	}
	list[len(list)-1].LastTransitionTime = metav1.NewTime(s.Clock.Now().Truncate(time.Second))
	o := n.DeepCopy()
	o.Status.Conditions = list
	s.Cluster.Apply(events.KindNode, o)
}

func without(list []corev1.NodeCondition, kind corev1.NodeConditionType) (rest []corev1.NodeCondition) {
	for _, c := range list {
		if c.Type != kind {
			rest = append(rest, c)
		}
	}
	return rest
}
