package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/services/internal/lane"
	"millwright/services/lifecycle/nodeclass"
)

// classesMax bounds how long a NodeClass goes without a look, classesMin how soon the next one follows: whoever keeps
// changing its status makes us write once a second at most.
const (
	classesMax = 5 * time.Minute
	classesMin = time.Second
)

// stepClasses has each EC2NodeClass reconciled when it changed, when its claims changed in number, and when it
// is due.
func (s *Service) stepClasses(now time.Time) time.Time {
	if s.deps.Classes == nil {
		return time.Time{}
	}
	if !s.classes.touched.Swap(false) && (s.classes.wake.IsZero() || now.Before(s.classes.wake)) {
		return s.classes.wake
	}
	users := s.classUsers()
	var wake time.Time
	for _, nc := range s.deps.Cache.NodeClasses() {
		claims := users[nc.Name]
		key := "nodeclass/" + nc.Name
		version := string(nc.UID) + "/" + nc.ResourceVersion + "/" + strconv.Itoa(len(claims))
		if due := latest(s.mem.classDue(nc.Name, version), s.mem.retries.At(key)); now.Before(due) || s.mem.outdated.Has(nc, now) {
			wake = earliest(latest(due, now.Add(classesMin)), wake)
			continue
		}
		s.effects.Start(key, lane.NodeClass, func(ctx context.Context) error {
			defer s.classes.touched.Store(true)
			return s.reconcileClass(ctx, key, version, nc, claims)
		})
	}
	s.classes.wake = wake
	return wake
}

// classUsers are the NodeClaims that refer to each NodeClass.
func (s *Service) classUsers() map[string][]*karpv1.NodeClaim {
	users := map[string][]*karpv1.NodeClaim{}
	now := s.host.Now()
	for _, o := range s.deps.Cache.NodeClaims() {
		if o = s.newest(o, now); claim.Managed(o) {
			users[o.Spec.NodeClassRef.Name] = append(users[o.Spec.NodeClassRef.Name], o)
		}
	}
	return users
}

func (s *Service) reconcileClass(ctx context.Context, key, version string, nc *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) error {
	change, again, err := s.deps.Classes.Reconcile(ctx, nc, claims)
	if change.Object != nil { // what did work is written also when something failed
		err = errors.Join(err, nodeclass.Apply(ctx, s.deps.Kube, nc, change))
	}
	for _, e := range change.Events {
		if s.host.Now().Sub(nc.CreationTimestamp.Time) < readyWithin {
			e.Type = corev1.EventTypeNormal
		}
		s.host.Event(e)
	}
	if err != nil {
		return s.effects.PutOff(key, fmt.Errorf("reconcile EC2NodeClass %s: %w", nc.Name, err))
	}
	s.mem.retries.Succeeded(key)
	s.effects.Hold(key, classesMin)
	if again <= 0 || again > classesMax {
		again = classesMax
	}
	s.mem.classDone(nc.Name, version, s.host.Now().Add(again))
	return nil
}

// classDue is when the class is to be looked at again; zero if it is not as it was last time.
func (m *memory) classDue(name, version string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.classAt[name]; r.version == version {
		return r.at
	}
	return time.Time{}
}

func (m *memory) classDone(name, version string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.classAt[name] = classRun{at: at, version: version}
}
