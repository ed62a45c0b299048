package terminator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/backoff"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// Cluster is the present state according to informers; lists are by name. kube.Informers is one.
type Cluster interface {
	Synced() bool
	NodesByProviderID(id string) []*corev1.Node
	NodeClaimsByProviderID(id string) []*karpv1.NodeClaim
	// DeletingNodes and DeletingNodeClaims have a deletionTimestamp.
	DeletingNodes() []*corev1.Node
	DeletingNodeClaims() []*karpv1.NodeClaim
	VolumeAttachmentsOf(node string) []*storagev1.VolumeAttachment
}

// Kube is the API server itself; errors are those kube.Classify knows. kube.Client is one.
type Kube interface {
	PodsOnNode(ctx context.Context, node string) ([]corev1.Pod, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	PatchNode(ctx context.Context, name string, p kube.Patch) (*corev1.Node, error)
	EvictPod(ctx context.Context, namespace, name string, uid types.UID) error
	DeletePod(ctx context.Context, namespace, name string, uid types.UID, grace int64) error
	ReplicaSet(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error)
	Deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error)
	SurgeDeployment(ctx context.Context, d *appsv1.Deployment, value string) error
	SetClaimCondition(ctx context.Context, name string, uid types.UID, want metav1.Condition, now time.Time) error
}

// Deps of the service.
type Deps struct {
	Cluster    Cluster
	Kube       Kube
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Service implements service.Service.
type Service struct {
	host    service.Host
	cluster Cluster
	kube    Kube
	logger  zerolog.Logger
	metrics *metrics
	retries *backoff.Keys
	// tainted is when a node was first seen with the taint; unfit is since when there has been no valid
	// World.
	tainted map[string]time.Time
	unfit   time.Time
	// asked is since when the owners of a node's pods are asked about.
	asked   map[string]time.Time
	breaker *breaker
	listed  listedPods
	wave    wave
}

const (
	// poll is how often a running drain is checked if nothing changes.
	poll = time.Second
	// settle is how long the taint must have been seen before a node counts as empty: kube-scheduler may
	// still bind a pod it placed before it saw the taint, after its volumes are bound (reference: lifecycle
	// §8).
	settle = 5 * time.Second
	// unfitMax is how long a valid World is waited for before the API server is asked for pods.
	unfitMax = 15 * time.Second

	// retryFirst and retryMax bound the backoff of one pod's eviction (reference: lifecycle §8.3).
	retryFirst = 100 * time.Millisecond
	retryMax   = 10 * time.Second
	// afterSuccess is how long an accepted call is not repeated while the World does not show its effect yet.
	afterSuccess = 5 * time.Second

	// callTimeout bounds an effect: as long as the API server works on one request, by default. Webhooks of
	// admission that have died, and that it does without, hold up each write for up to 30 s each.
	callTimeout = time.Minute
)

// New returns the service.
func New(host service.Host, deps Deps) *Service {
	return &Service{host: host, cluster: deps.Cluster, kube: deps.Kube, logger: deps.Logger,
		metrics: newMetrics(deps.Registerer), retries: backoff.New(retryFirst, retryMax), tainted: map[string]time.Time{}, asked: map[string]time.Time{}, breaker: newBreaker(), listed: listedPods{byNode: map[string]listedNode{}}}
}

// Name implements service.Service.
func (s *Service) Name() string { return ledger.ServiceTerminator }

// Step implements service.Service. A node whose record cannot be appended does not hold up the others.
func (s *Service) Step(ctx context.Context) (time.Duration, error) {
	if !s.cluster.Synced() {
		return 0, fmt.Errorf("%w: informers have not listed yet", service.ErrNotReady)
	}
	leaving := nodesToDrain(s.cluster)
	if len(leaving) == 0 && !s.draining() {
		return 0, nil
	}
	s.recallListed(leaving)
	var errs []error
	ended := !s.host.LogAway()
	if ended {
		err := s.endDrains(ctx, leaving)
		ended = err == nil
		errs = append(errs, err, s.startDrains(ctx, leaving), s.recordListed(ctx, leaving))
	}
	plans, err := s.plan(leaving)
	if err != nil {
		return 0, errors.Join(append(errs, err)...)
	}
	next := time.Duration(0)
	for i := range plans {
		errs = append(errs, s.hindering(s.advance(ctx, &plans[i])))
		next = poll
	}
	s.alarm(ctx)
	s.forget(leaving, ended)
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return next, nil
}

// draining reports that a drain is recorded, or that this cannot be known now.
func (s *Service) draining() bool {
	none := false
	err := s.host.Ledger(func(l *ledger.Ledger) error { none = len(l.Drains()) == 0; return nil })
	return err != nil || !none || len(s.tainted) > 0
}

// advance records the tier of a drain and starts what is due.
func (s *Service) advance(ctx context.Context, p *plan) error {
	s.publishProgress(p)
	s.setConditions(p)
	if p.drained {
		return nil
	}
	if !s.taint(p) {
		return nil // nothing is evicted while new pods may come
	}
	if s.stopped(p.voluntary) {
		s.tellPaused(p)
		return nil
	}
	if p.direct {
		s.finish(p)
		return nil
	}
	if err := s.recordTier(ctx, p); err != nil {
		return err
	}
	s.surge(p)
	if !p.podsGone {
		s.listed.seen(p.node.Name)
	}
	for _, d := range p.deletes {
		s.delete(p, d)
	}
	for _, e := range p.evicts {
		s.evict(p, e.ref)
	}
	if p.podsGone && p.volumesGone && s.settled(p) {
		s.finish(p)
	}
	return nil
}

// settled reports that no pod that was placed before the taint is still to be bound, or that there is no time
// to wait for it.
func (s *Service) settled(p *plan) bool {
	since, now, end := s.tainted[p.node.Name], s.host.Now(), p.endOf()
	return !since.IsZero() && (now.Sub(since).Abs() >= settle || !end.IsZero() && now.Add(settle).After(end))
}

// stopped reports that operators have stopped the drain: all drains, or those that commands began.
func (s *Service) stopped(voluntary bool) bool {
	stop := s.host.Stop()
	return stop == ledger.StopAll || voluntary && stop != ledger.StopNone
}

// unlessStopped is called right before each act of a drain.
func (s *Service) unlessStopped(voluntary bool, what string) error {
	if s.stopped(voluntary) {
		return fmt.Errorf("%s: %w", what, service.ErrStopped)
	}
	return nil
}

// taint starts to put the taint, and the label for load balancers, on the Node and reports whether the taint
// is there. A label that another keeps is waited for once.
func (s *Service) taint(p *plan) bool {
	name := p.node.Name
	tainted, waited := kube.IsDisrupted(p.node), !s.tainted[name].IsZero()
	if tainted && !waited {
		s.tainted[name] = s.host.Now()
	}
	if kube.WithDisruptedTaint(p.node, true) == nil {
		return true
	}
	s.paced("taint/"+name, func(ctx context.Context) error {
		node, err := s.kube.Node(ctx, name)
		if err != nil || node.UID != p.node.UID {
			return err
		}
		patch := kube.WithDisruptedTaint(node, true)
		if patch == nil {
			return nil
		}
		if _, err := s.kube.PatchNode(ctx, name, *patch); err != nil {
			return fmt.Errorf("taint node %s: %w", name, err)
		}
		s.logger.Info().Str("node", name).Str("taint", karpv1.DisruptedTaintKey).Msg("tainted node")
		return nil
	})
	return tainted && waited
}

// paced starts a write that the cache shows a while later. Until then it is not repeated at every step.
func (s *Service) paced(key string, write func(ctx context.Context) error) {
	if !s.retries.Due(key, s.host.Now()) {
		return
	}
	s.host.Effect(key, lane.Converge, callTimeout, func(ctx context.Context) error {
		err := write(ctx)
		switch kube.Classify(err) {
		case kube.None, kube.NotFound:
			s.accepted(key)
			return nil
		case kube.Conflict:
			s.retries.Conflicted(key, s.host.Now())
			return nil
		}
		s.retries.Failed(key, s.host.Now())
		return err
	})
}

// accepted gives an accepted call time to take effect in the cache.
func (s *Service) accepted(key string) {
	now := s.host.Now()
	s.retries.Accepted(key, now.Add(afterSuccess), now)
}

// forget drops what is remembered of nodes that are gone; what was evicted from them only if it is recorded
// that their drains have ended.
func (s *Service) forget(leaving []leaving, ended bool) {
	present := map[string]bool{}
	for _, l := range leaving {
		present[l.node.Name] = true
	}
	for name := range s.tainted {
		if !present[name] {
			delete(s.tainted, name)
		}
	}
	maps.DeleteFunc(s.asked, func(name string, _ time.Time) bool { return !present[name] })
	s.breaker.forget(present)
	if ended {
		s.listed.keep(present)
	}
}
