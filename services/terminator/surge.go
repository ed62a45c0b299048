package terminator

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/planner/surge"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

const (
	// surgeAskedMax is how long the API server is asked about the owners of a node's pods.
	surgeAskedMax = time.Minute
	// surgeLook is how often a Deployment is looked at while it is to replace pods.
	surgeLook = 10 * time.Second
	// revisionAnnotation numbers the templates of a Deployment, on it and on its ReplicaSets.
	revisionAnnotation = "deployment.kubernetes.io/revision"
)

// surge asks about the owners of pods that nothing stands in for, and has Deployments replace those that they
// are to replace (reference: disruption §4.1).
func (s *Service) surge(p *plan) {
	if len(p.surges.Questions) > 0 {
		s.askSurge(p)
	} else {
		delete(s.asked, p.node.Name) // all are answered: pods that turn up later begin anew
	}
	for i := range p.surges.Running {
		s.restart(p, &p.surges.Running[i])
	}
}

// askSurge reads the owners of pods and records what becomes of these; only then are they evicted, or
// replaced.
func (s *Service) askSurge(p *plan) {
	key, now := "surge/"+p.node.Name, s.host.Now()
	if s.asked[p.node.Name].IsZero() {
		s.asked[p.node.Name] = now
	}
	since := s.asked[p.node.Name]
	if !s.retries.Due(key, now) {
		return
	}
	questions := p.surges.Questions
	s.host.Effect(key, lane.Evict, callTimeout, func(ctx context.Context) error {
		var owners []ledger.SurgedOwner
		for i := range questions {
			facts, _, err := s.surgeFacts(ctx, &questions[i])
			if err != nil && s.host.Now().Sub(since).Abs() < surgeAskedMax {
				s.retries.Failed(key, s.host.Now())
				return err
			}
			if err != nil {
				facts.Failure = fmt.Sprintf("the API server has not answered for %s", surgeAskedMax)
			}
			owners = append(owners, questions[i].Answer(facts, p.surges.Within, s.host.Now()))
		}
		if err := s.recordSurge(ctx, p, owners); err != nil {
			s.retries.Failed(key, s.host.Now())
			return err
		}
		s.retries.Succeeded(key)
		return nil
	})
}

// read is a Deployment with one of its ReplicaSets.
type read struct {
	set        *appsv1.ReplicaSet
	deployment *appsv1.Deployment
}

// surgeFacts completes the facts of a question. An error says that asking again may help.
func (s *Service) surgeFacts(ctx context.Context, q *drain.SurgeQuestion) (ledger.SurgeFacts, read, error) {
	facts, namespace := q.Facts, q.Pods[0].Namespace
	if facts.Owner != "ReplicaSet" || facts.Volume != "" {
		return facts, read{}, nil
	}
	set, err := s.kube.ReplicaSet(ctx, namespace, q.Owner)
	if failed, err := unreadable("ReplicaSet "+namespace+"/"+q.Owner, err); failed != "" || err != nil {
		facts.Failure = failed
		return facts, read{}, err
	}
	owner := metav1.GetControllerOfNoCopy(set)
	if set.UID != q.OwnerUID || owner == nil || owner.Kind != "Deployment" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
		return facts, read{}, nil
	}
	d, err := s.kube.Deployment(ctx, namespace, owner.Name)
	if failed, err := unreadable("Deployment "+namespace+"/"+owner.Name, err); failed != "" || err != nil {
		facts.Failure = failed
		return facts, read{}, err
	}
	if d.UID != owner.UID {
		return facts, read{}, nil
	}
	return surge.AddDeployment(facts, d), read{set, d}, nil
}

// unreadable says why an object can't be read; the error is one that passes.
func unreadable(what string, err error) (string, error) {
	switch {
	case err == nil:
		return "", nil
	case kube.IsForbidden(err):
		return what + " may not be read", nil
	case kube.IsNotFound(err):
		return what + " is gone", nil
	case kube.Classify(err) == kube.Permanent:
		return fmt.Sprintf("%s can't be read: %v", what, err), nil
	}
	return "", fmt.Errorf("read %s: %w", what, err)
}

func (s *Service) recordSurge(ctx context.Context, p *plan, owners []ledger.SurgedOwner) error {
	payload := &ledger.SurgeDecided{Node: p.node.Name, Command: p.surges.Command, Policy: p.surges.Policy, Owners: owners}
	_, err := s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindSurgeDecided, Payload: payload, Subjects: []string{"node/" + p.node.Name},
		Causation: p.started, Expects: p.expects, Advances: []string{ledger.NodeAggregate(p.node.Name)}})
	switch {
	case errors.Is(err, store.ErrConflict): // the next step looks again
		return nil
	case err != nil:
		return fmt.Errorf("record surge on node %s: %w", p.node.Name, err)
	}
	for i := range owners {
		o := &owners[i]
		s.metrics.surged(o.Refused)
		s.tellSurge(p, o)
		s.logger.Info().Str("node", p.node.Name).Str("deployment", o.Facts.Deployment).Int("pods", len(o.Pods)).Str("refused", o.Refused).Msg("decided surge")
	}
	return nil
}

// restart has a Deployment replace its pods, unless it does so already. It is looked at again and again, for
// the decision may be another leader's.
func (s *Service) restart(p *plan, q *drain.SurgeQuestion) {
	key := "restart/" + p.node.Name + "/" + string(q.OwnerUID)
	if !s.retries.Due(key, s.host.Now()) {
		return
	}
	s.host.Effect(key, lane.Evict, callTimeout, func(ctx context.Context) error {
		if err := s.unlessStopped(p.voluntary, "surge pods of node "+p.node.Name); err != nil {
			return err
		}
		facts, owner, err := s.surgeFacts(ctx, q)
		if err != nil {
			s.retries.Failed(key, s.host.Now())
			return err
		}
		if surge.Refusal(&facts) == "" && !replacesAlready(owner, p.surges.Command) {
			err = s.kube.SurgeDeployment(ctx, owner.deployment, p.surges.Command)
		}
		switch kube.Classify(err) {
		case kube.None:
		case kube.Conflict:
			s.retries.Conflicted(key, s.host.Now())
			return nil
		case kube.Permanent, kube.NotFound:
			facts.Failure = fmt.Sprintf("Deployment %s can't be changed: %v", facts.Deployment, err)
			if kube.IsForbidden(err) {
				facts.Failure = fmt.Sprintf("Deployment %s may not be changed", facts.Deployment)
			}
		default:
			s.retries.Failed(key, s.host.Now())
			return err
		}
		now := s.host.Now()
		s.retries.Hold(key, now.Add(surgeLook), now)
		if surge.Refusal(&facts) != "" {
			return s.recordSurge(ctx, p, []ledger.SurgedOwner{q.Answer(facts, 0, now)})
		}
		return nil
	})
}

// replacesAlready reports that the Deployment is on its way from the ReplicaSet to a newer template, by this
// command, another or a person: what is restarted once is not restarted again, so that two commands that take
// nodes of one Deployment do not outbid each other.
func replacesAlready(o read, command string) bool {
	of := func(m map[string]string, key string) string { return m[key] }
	have := of(o.deployment.Spec.Template.Annotations, mwv1alpha1.SurgeAnnotationKey)
	if have == command || have != of(o.set.Spec.Template.Annotations, mwv1alpha1.SurgeAnnotationKey) {
		return true
	}
	return of(o.deployment.Annotations, revisionAnnotation) != of(o.set.Annotations, revisionAnnotation)
}

func (s *Service) tellSurge(p *plan, o *ledger.SurgedOwner) {
	if o.Refused != "" {
		for _, ref := range o.Pods {
			s.host.Event(service.KubeEvent{Object: podReference(ref), Type: corev1.EventTypeNormal, Reason: "SurgeRefused",
				Message: "Evicted without a replacement: " + o.Refused, DedupeKey: string(ref.UID)})
		}
		return
	}
	namespace, name := o.Pods[0].Namespace, o.Facts.Deployment[len(o.Pods[0].Namespace)+1:]
	s.host.Event(service.KubeEvent{Object: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name, UID: o.Facts.DeploymentUID},
		Type: corev1.EventTypeNormal, Reason: "Surged", Message: fmt.Sprintf("Replaces its pods before node %s goes: %s", p.node.Name, o.Because)})
}

// tellLate says of pods that their Deployments have not replaced them in time.
func (s *Service) tellLate(p *plan) {
	for _, ref := range p.tier.Late {
		s.metrics.surges.WithLabelValues("late").Inc()
		s.host.Event(service.KubeEvent{Object: podReference(ref), Type: corev1.EventTypeWarning, Reason: "SurgeLate",
			Message: "Evicted though its Deployment has not replaced it in time", DedupeKey: string(ref.UID)})
	}
}
