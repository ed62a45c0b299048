// Package users is what happens to a simulated cluster from outside: the script of the run, and, while there
// are faults, what users, hardware and AWS do to it.
package users

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// Users are what happens to the cluster from outside: the script of the run, and, while there are faults,
// whatever users, hardware and AWS do to it.
type Users struct {
	*stage.Stage
	// surprises counts the pods that came at the worst moment.
	surprises int
	// notices counts those that were sent.
	notices int
	// further is a DisruptionPolicy of its own random numbers; nil: there is none.
	further *mwv1alpha1.DisruptionPolicy
	// ailing is zero if no node ails.
	ailing ailing
	// Visits of pods that a DisruptionPolicy ignores, Recommendations to leave instances, and Buffers of
	// capacity; nil if there are none.
	Visits          *Visits
	Recommendations *Recommendations
	Buffers         *Buffers
	// Taken is called when an instance is taken back, right before it ends.
	Taken func(*cloud.Instance)
	// BlockTaken is called when an instance of a capacity block is taken, right before it ends.
	BlockTaken func(*cloud.Instance)
}

// New returns users who have done nothing yet.
func New(stage *stage.Stage) *Users { return &Users{Stage: stage} }

// Draw draws the script and the options.
func (s *Users) Draw() {
	s.Script = s.drawScript()
	s.Options = s.drawOptions()
	s.drawFurther()
	s.drawRepair()
	s.drawVisits()
	s.drawRecommendations()
	s.drawBuffers()
}

// surprisesMax bounds the pods that come at the worst moment.
const surprisesMax = 6

// Surprise creates a pod on a Node about which something has just been decided.
func (s *Users) Surprise(node string) {
	if s.surprises >= surprisesMax || !s.Happens(s.Faults.WorstTime) {
		return
	}
	deployments := s.Cluster.Deployments()
	d := deployments[s.Rng.IntN(len(deployments))]
	if d.Name == stage.NeverFits {
		return
	}
	s.surprises++
	s.Clock.After(time.Millisecond, func() { // a list made now does not have it
		s.Trace("user: one more pod of %s, while node %s is looked at", d.Name, node)
		s.Cluster.Surprise(d, node)
	})
}

// DeletePool deletes a NodePool, with everything that belongs to it, and creates it again after a while.
func (s *Users) DeletePool() {
	p := s.Script.Pools[s.Rng.IntN(len(s.Script.Pools))]
	s.Trace("user: deletes NodePool %s", p.Name)
	s.Cluster.Delete(events.KindNodePool, p.Name)
	s.Clock.After(s.Millis(500, 40_000), func() {
		if s.Cluster.NodePool(p.Name) == nil {
			s.Trace("user: makes NodePool %s again", p.Name)
			again := p.DeepCopy()
			again.ResourceVersion, again.Status = "", karpv1.NodePoolStatus{}
			s.Cluster.Apply(events.KindNodePool, again)
		}
	})
}

// UnreadyClass makes the EC2NodeClass not ready for a while.
func (s *Users) UnreadyClass() {
	nc := s.Cluster.NodeClass(stage.NodeClassName)
	if nc == nil || nc.Status.Conditions[0].Status != metav1.ConditionTrue {
		return
	}
	s.Trace("user: breaks the EC2NodeClass")
	broken := nc.DeepCopy()
	c := &broken.Status.Conditions[0]
	c.Status, c.Reason, c.LastTransitionTime = metav1.ConditionFalse, "SubnetsNotFound", metav1.NewTime(s.Clock.Now().Truncate(time.Second))
	s.Cluster.Apply(events.KindEC2NodeClass, broken)
	s.Clock.After(s.Millis(1000, 30_000), s.restoreClass)
}

// restoreClass makes the EC2NodeClass as it was in the beginning.
func (s *Users) restoreClass() {
	if nc := s.Cluster.NodeClass(stage.NodeClassName); nc == nil || nc.Status.Conditions[0].Status != metav1.ConditionTrue {
		s.Trace("user: restores the EC2NodeClass")
		s.Cluster.Apply(events.KindEC2NodeClass, s.nodeClass(s.Clock.Now().Truncate(time.Second)))
	}
}

// DeleteClass deletes the EC2NodeClass and creates it again after a while.
func (s *Users) DeleteClass() {
	s.Trace("user: deletes the EC2NodeClass")
	s.Cluster.Delete(events.KindEC2NodeClass, stage.NodeClassName)
	s.Clock.After(s.Millis(500, 30_000), s.restoreClass)
}

// EmptyOfferings makes some offerings run out for a while.
func (s *Users) EmptyOfferings() {
	all := cloud.Offerings()
	for range 1 + s.Rng.IntN(len(all)/2) {
		o := all[s.Rng.IntN(len(all))]
		s.Cloud.Exhaust(o, true)
		s.Clock.After(s.Millis(5000, 90_000), func() { s.Cloud.Exhaust(o, false) })
	}
}

// DropTemplates deletes all launch templates.
func (s *Users) DropTemplates() {
	s.Trace("user: deletes the launch templates")
	s.Cloud.DropTemplates()
}

// DeleteAny lets a user delete an object of a kind.
func (s *Users) DeleteAny(kind events.Kind) {
	var keys []string
	for _, c := range s.Cluster.Present() {
		if c.Kind == kind {
			keys = append(keys, c.Key)
		}
	}
	if len(keys) > 0 {
		key := keys[s.Rng.IntN(len(keys))]
		s.Trace("user: deletes %s %s", kind, key)
		if o := s.Cluster.Object(kind, key); kind == events.KindNode && len(o.GetFinalizers()) == 0 {
			s.Deeds.Stripped[string(o.GetUID())] = true
		}
		s.Cluster.Delete(kind, key)
	}
}

// Interrupt has EC2 take a spot instance back, if there is one; it reports whether.
func (s *Users) Interrupt() bool {
	var spot []*cloud.Instance
	for _, i := range s.Cloud.Instances() {
		if _, noticed := s.Deeds.Noticed[i.ID]; !i.Ending() && !noticed && i.CapacityType == karpv1.CapacityTypeSpot {
			spot = append(spot, i)
		}
	}
	if len(spot) == 0 {
		return false
	}
	i := spot[s.Rng.IntN(len(spot))]
	s.Trace("aws: %s is taken back in %s", i.ID, stage.NoticeTime)
	s.Deeds.Noticed[i.ID] = s.Clock.Now().Add(stage.NoticeTime)
	s.Clock.After(stage.NoticeTime, func() {
		if !i.Ending() {
			s.Trace("aws: %s is taken back", i.ID)
			s.Taken(i)
			s.Deeds.Ended[i.ID] = true
			s.Cloud.End(i)
		}
	})
	if !s.Happens(s.Faults.NoticeLost) {
		s.notify(events.SpotInterrupted, i.ID)
	}
	return true
}

// notify puts a notice on the queue, soon.
func (s *Users) notify(kind, instance string) {
	s.notices++
	n := &stage.Notice{ID: fmt.Sprintf("notice-%d", s.notices), Instance: instance, Kind: kind, At: s.Clock.Now()}
	late := s.Millis(100, 2000)
	if s.Happens(s.Faults.NoticeLate) {
		late = s.Millis(2000, 180_000)
	}
	n.VisibleAt = s.Clock.Now().Add(late)
	s.Queue = append(s.Queue, n)
}

// Forge puts a notice on the queue that is about no instance of this cluster, or about one that is no spot
// instance.
func (s *Users) Forge() {
	id := "i-99999999"
	for _, i := range s.Cloud.Instances() {
		if !i.Ending() && i.CapacityType != karpv1.CapacityTypeSpot && s.Happens(500) {
			id = i.ID
		}
	}
	s.Trace("somebody: sends a notice about %s", id)
	s.notify(events.SpotInterrupted, id)
}

// EndInstance has an instance end by itself, as a spot instance does.
func (s *Users) EndInstance() {
	var running []*cloud.Instance
	for _, i := range s.Cloud.Instances() {
		if !i.Ending() {
			running = append(running, i)
		}
	}
	if len(running) > 0 {
		i := running[s.Rng.IntN(len(running))]
		s.Trace("aws: %s ends by itself", i.ID)
		s.Deeds.Ended[i.ID] = true
		s.Cloud.End(i)
	}
}
