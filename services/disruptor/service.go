package disruptor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/services/internal/backoff"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
	"millwright/store"
)

// Kube is what is asked of the API server; errors are those kube.Classify knows. kube.Client is one.
type Kube interface {
	Node(ctx context.Context, name string) (*corev1.Node, error)
	PatchNode(ctx context.Context, name string, p kube.Patch) (*corev1.Node, error)
	GetNodeClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error)
	DeleteNodeClaim(ctx context.Context, name string, uid types.UID) error
	GetPolicy(ctx context.Context, name string) (*mwv1alpha1.DisruptionPolicy, error)
	UpdatePolicyStatus(ctx context.Context, before, after *mwv1alpha1.DisruptionPolicy) (*mwv1alpha1.DisruptionPolicy, error)
	SetClaimCondition(ctx context.Context, name string, uid types.UID, want metav1.Condition, now time.Time) error
}

// Deps of the service.
type Deps struct {
	Kube       Kube
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Service implements service.Service.
type Service struct {
	host    service.Host
	kube    Kube
	logger  zerolog.Logger
	metrics *metrics
	// retries of effects by key: taint/<node>, command/<id>.
	retries *backoff.Keys
	// searched and prompt are when Plan and PlanPrompt last decided nothing; cleared is when marks were last looked through, and on what.
	searched, prompt idle
	cleared          idle
	// answered is when proposals were last looked at.
	answered idle
	// policies are the statuses last written, policiesAt is when they are worked out again.
	policies   toldPolicies
	policiesAt time.Time
}

const (
	// planEvery paces Plan and the look for stale marks: World and Ledger change all the time.
	planEvery = time.Second
	// idleMax is how long no step is asked for at most.
	idleMax = 10 * time.Second
	// restShare: a plan that decided nothing is left alone for so many times as long as it took, so that a large cluster at rest costs 2 %
	// of a core; at most searchMax, or promptMax without consolidation.
	restShare = 50
	searchMax = 5 * time.Minute
	promptMax = 10 * time.Second
	// lostMax is how many appends in a row may lose before the command is dropped for this pass.
	lostMax = 3
	// commandsMax bounds the commands started in one step.
	commandsMax = 10

	// retryFirst and retryMax bound the backoff of a call that failed.
	retryFirst = 100 * time.Millisecond
	retryMax   = 10 * time.Second
	// afterSuccess is how long a mark is not looked at again while the World does not show it yet.
	afterSuccess = 2 * time.Second

	callTimeout   = 10 * time.Second
	deleteTimeout = time.Minute
)

// New returns the service.
func New(host service.Host, deps Deps) *Service {
	return &Service{host: host, kube: deps.Kube, logger: deps.Logger, metrics: newMetrics(deps.Registerer), retries: backoff.New(retryFirst, retryMax)}
}

// Name implements service.Service.
func (s *Service) Name() string { return ledger.ServiceDisruptor }

// Step implements service.Service. Recorded commands go on whatever the World's age; only new decisions need
// a fresh one.
func (s *Service) Step(ctx context.Context) (time.Duration, error) {
	if err := s.drive(); err != nil {
		return 0, err
	}
	if err := s.confirm(ctx); err != nil {
		return 0, err
	}
	if err := s.takeBack(); err != nil {
		return 0, err
	}
	if err := s.tellPolicies(); err != nil {
		return 0, err
	}
	if err := s.answer(ctx); err != nil {
		return 0, err
	}
	return s.start(ctx)
}

// start plans new commands, one after the other, until nothing more may be taken.
func (s *Service) start(ctx context.Context) (time.Duration, error) {
	for range commandsMax {
		decided, err := s.startOne(ctx)
		if err != nil {
			return 0, err
		}
		if !decided {
			break
		}
	}
	return s.wake(), nil
}

// startOne plans until a plan is appended, there is none, or too many were lost.
func (s *Service) startOne(ctx context.Context) (decided bool, err error) {
	for range lostMax {
		p, err := s.plan()
		if err != nil || p.skipped {
			return false, err
		}
		if p.decision == nil {
			s.nothing(p)
			return false, nil
		}
		rec, err := s.host.Decide(ctx, p.basis, *p.decision)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("start command: %w", err)
		}
		if rec.Seq == 0 { // a shadow decision that was recorded before
			s.nothing(p)
			return false, nil
		}
		s.started(rec, p.decision)
		return s.host.Mode() == ledger.ModeActive && p.idle.took < planEvery, nil // what was started goes on before another long search
	}
	s.logger.Info().Msg("command dropped for this pass: others were faster")
	return false, nil
}

// planned is the outcome of one look at a Snapshot.
type planned struct {
	// skipped: nothing may be started, or nothing can have changed.
	skipped bool
	// whole: consolidation was looked at too.
	whole    bool
	decision *planner.Decision
	report   disrupt.Report
	basis    planner.Basis
	idle     idle
}

// idle is when a plan last decided nothing, on what, how long it took, and when time alone may change that.
type idle struct {
	at, wake      time.Time
	took          time.Duration
	seq, revision uint64
}

func (s *Service) plan() (p planned, err error) {
	err = s.host.Snapshot(service.ForDisruption, func(snap *planner.Snapshot) error {
		p.whole = s.searched.due(snap, searchMax)
		p.skipped = s.stopped() || snap.Ledger.Stop() != ledger.StopNone || !p.whole && !s.prompt.due(snap, promptMax)
		if p.skipped {
			return nil
		}
		began := s.host.Now()
		if p.whole {
			p.decision, p.report = disrupt.Plan(snap)
		} else {
			p.decision, p.report = disrupt.PlanPrompt(snap)
		}
		s.tellBlocked(p.report)
		took := s.host.Now().Sub(began)
		s.metrics.evaluated(took, p.report)
		p.basis = snap.Basis()
		p.idle = idle{at: snap.Now, wake: p.report.WakeAt, took: took, seq: snap.Ledger.Seq(), revision: snap.World.Revision()}
		return nil
	})
	return p, err
}

// nothing notes that a plan decided nothing. A whole plan stands for a prompt one, of which only the time it takes is kept.
func (s *Service) nothing(p planned) {
	if !p.whole {
		s.prompt = p.idle
		return
	}
	s.searched, s.prompt = p.idle, idle{at: p.idle.at, wake: p.idle.wake, took: s.prompt.took, seq: p.idle.seq, revision: p.idle.revision}
}

// stopped reports that an operator has stopped voluntary disruption, or may have.
func (s *Service) stopped() bool { return s.host.Stop() != ledger.StopNone }

// unlessStopped is asked right before each act of a command.
func (s *Service) unlessStopped(what string) error {
	if s.stopped() {
		return fmt.Errorf("%s: %w", what, service.ErrStopped)
	}
	return nil
}

// due reports that enough may have changed since, or that time has passed, for another plan.
func (i *idle) due(snap *planner.Snapshot, most time.Duration) bool {
	pause := max(planEvery, min(restShare*i.took, most))
	changed := snap.Ledger.Seq() != i.seq || snap.World.Revision() != i.revision || !i.wake.IsZero() && !snap.Now.Before(i.wake)
	if !changed {
		pause = max(idleMax, pause)
	}
	return snap.Now.Sub(i.at) >= pause
}

func (s *Service) started(rec store.Record, d *planner.Decision) {
	started, ok := d.Payload.(*ledger.CommandStarted)
	if !ok {
		return
	}
	s.metrics.decided(started)
	nodes := make([]string, 0, len(started.Candidates))
	pods := 0
	for _, c := range started.Candidates {
		nodes = append(nodes, c.Node)
		pods += len(c.Pods)
	}
	s.logger.Info().Str("command", ledger.CommandID(s.host.LogID(), rec.Seq)).Uint64("decision_id", rec.Seq).
		Str("reason", string(started.Reason)).Str("decision", decisionOf(started)).Int("disrupted-node-count", len(nodes)).
		Int("replacement-node-count", len(started.Replacements)).Int("pod-count", pods).Strs("disrupted-nodes", nodes).
		Msg("disrupting node(s)")
}

// wake returns how long nothing can change by time alone.
func (s *Service) wake() time.Duration {
	next := idleMax
	for _, i := range []*idle{&s.searched, &s.prompt} {
		if !i.wake.IsZero() {
			next = min(next, max(i.wake.Sub(s.host.Now()), planEvery))
		}
	}
	return next
}
