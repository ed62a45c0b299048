package disruptor

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
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
	"millwright/planner/disrupt/drainout"
	"millwright/planner/disrupt/patience"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/services/internal/backoff"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
	"millwright/store"
)

// Kube is the API server; errors are those kube.Classify knows. kube.Client is one.
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
	// Patience is what an eviction counts while consolidation waits, in micro USD; 0: it does not wait.
	Patience int64
}

// Service implements service.Service.
type Service struct {
	host    service.Host
	kube    Kube
	logger  zerolog.Logger
	metrics *metrics
	// retries of effects by key: taint/<node>, command/<id>.
	retries *backoff.Keys
	// searched and prompt are when Plan and PlanPrompt last decided nothing; cleared is when marks were last
	// checked, and on what.
	searched, prompt idle
	cleared          idle
	motion           motion
	patience         patience.Patience
	// from is where the next pass goes on with its search. A new leader begins anew.
	from ledger.SearchFrom
	// answered is when proposals were last checked.
	answered idle
	// tainted and overseen are when the taints of nodes that drain out, and their ends, were last checked.
	tainted, overseen idle
	// drainFrom is where the next pass goes on with what may begin to drain out.
	drainFrom string
	// memory of simulations, for whole plans alone.
	memory provision.Memory
	// policies are the statuses last written, policiesAt is when they are computed again.
	policies   toldPolicies
	policiesAt time.Time
}

const (
	// planEvery paces Plan and the check for stale marks: World and Ledger change all the time.
	planEvery = time.Second
	// idleMax is the longest time for which no step is requested.
	idleMax = 10 * time.Second
	// restShare: a plan that decided nothing is left alone for this many times as long as it took, so that a
	// large cluster at rest costs 2 % of a core; at most searchMax, or promptMax without consolidation. It is
	// twice as long as it took at first, and twice as much with each plan in vain: there is more to find soon
	// after something was decided, and after one pod in stirredPart has come or gone.
	restShare   = 50
	stirredPart = 20
	searchMax   = 5 * time.Minute
	promptMax   = 10 * time.Second
	// lostMax is how many appends in a row may lose before the command is dropped for this pass.
	lostMax = 3
	// passesMax bounds the passes of one step that start commands.
	passesMax = 10

	// retryFirst and retryMax bound the backoff of a call that failed.
	retryFirst = 100 * time.Millisecond
	retryMax   = 10 * time.Second
	// afterSuccess is how long a mark is not checked again while the World does not show it yet.
	afterSuccess = 2 * time.Second

	// callTimeout bounds an effect: as long as the API server works on one request, by default. Webhooks of
	// admission that have died, and that it does without, hold up each write for up to 30 s each.
	callTimeout = time.Minute
)

// New returns the service.
func New(host service.Host, deps Deps) *Service {
	return &Service{host: host, kube: deps.Kube, logger: deps.Logger, metrics: newMetrics(deps.Registerer), retries: backoff.New(retryFirst, retryMax),
		patience: patience.Patience{Cost: deps.Patience}}
}

// Name implements service.Service.
func (s *Service) Name() string { return ledger.ServiceDisruptor }

// Step implements service.Service. Recorded commands continue whatever the World's age; only new decisions
// need a fresh one.
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
	if err := s.drainOuts(ctx); err != nil {
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

// Released implements service.Releaser.
func (s *Service) Released() {
	s.metrics.forget()
	s.policiesAt = time.Time{}
	s.patience = patience.Patience{Cost: s.patience.Cost}
}

// start plans new commands, pass after pass, until nothing more may be taken.
func (s *Service) start(ctx context.Context) (time.Duration, error) {
	for range passesMax {
		decided, err := s.startPass(ctx)
		if err != nil {
			return 0, err
		}
		if !decided {
			break
		}
	}
	return s.wake(), nil
}

// startPass plans until a plan is appended, there is none, or too many were lost.
func (s *Service) startPass(ctx context.Context) (decided bool, err error) {
	for range lostMax {
		p, err := s.plan()
		if err != nil || p.skipped {
			return false, err
		}
		appended, err := s.append(ctx, p)
		switch {
		case err != nil && appended == 0 && errors.Is(err, store.ErrConflict):
			continue
		case err != nil && !errors.Is(err, store.ErrConflict):
			return false, fmt.Errorf("start command: %w", err)
		case appended == 0: // nothing, or shadow decisions that were recorded before
			s.nothing(p)
			return false, nil
		}
		s.searched.vain, s.prompt.vain = 0, 0
		return s.host.Mode() == ledger.ModeActive && p.idle.took < planEvery, nil // what was started continues before another long search
	}
	s.logger.Info().Msg("command dropped for this pass: others were faster")
	return false, nil
}

// append records the commands of a pass, as long as nothing but they has changed what they rely on, and as
// long as nobody stops it. It returns how many were new.
func (s *Service) append(ctx context.Context, p planned) (n int, err error) {
	advanced := map[string]uint64{}
	for _, d := range p.decisions {
		if n > 0 && s.stopped() {
			break
		}
		rec, err := s.host.Decide(ctx, p.basis, *disrupt.After(d, advanced))
		if err != nil {
			return n, err
		}
		if rec.Seq == 0 { // a shadow decision that was recorded before
			continue
		}
		n++
		for _, a := range d.Advances {
			advanced[a] = rec.Seq
		}
		s.started(rec, d)
	}
	return n, nil
}

// planned is the outcome of one look at a Snapshot.
type planned struct {
	// skipped: nothing may be started, or nothing can have changed.
	skipped bool
	// whole: consolidation was considered too.
	whole     bool
	decisions []*planner.Decision
	report    disrupt.Report
	basis     planner.Basis
	idle      idle
}

// idle is when a plan last decided nothing, on what, how long it took, and when time alone may change that.
type idle struct {
	at, wake      time.Time
	took          time.Duration
	seq, revision uint64
	// unfinished: it did not come to all nodes, so that the next one may decide something though nothing has
	// changed.
	unfinished bool
	// vain counts the plans that decided nothing since one did, pods are those that there were.
	vain, pods int
}

func (s *Service) plan() (p planned, err error) {
	err = s.host.Snapshot(service.ForDisruption, func(snap *planner.Snapshot) error {
		p.whole = !s.motion.look(snap.Now, bound(snap.World)) && s.searched.due(snap, searchMax)
		p.skipped = s.stopped() || snap.Ledger.Stop() != ledger.StopNone || !p.whole && !s.prompt.due(snap, promptMax)
		if p.skipped {
			return nil
		}
		took := s.evaluate(snap, &p)
		s.tellBlocked(p.report)
		s.tellProtection(snap)
		p.basis = snap.Basis()
		p.idle = idle{at: snap.Now, wake: p.report.WakeAt, took: took, seq: snap.Ledger.Seq(), revision: snap.World.Revision(),
			unfinished: p.report.Searched.Left > 0, pods: bound(snap.World)}
		return nil
	})
	return p, err
}

// evaluate plans, and measures each method; the look at all nodes counts for the first.
func (s *Service) evaluate(snap *planner.Snapshot, p *planned) time.Duration {
	began := s.host.Now()
	begin := disrupt.NewPromptPass
	if p.whole {
		begin = disrupt.NewPass
	}
	pass, from := begin(snap).From(s.from), began
	if p.whole {
		defer s.remember(pass, snap)()
	}
	for {
		name, list := pass.Next()
		if name == "" {
			break
		}
		p.decisions = list
		now := s.host.Now()
		s.metrics.tried(name, now.Sub(from))
		from = now
	}
	p.report = pass.Report()
	s.from = p.report.Next
	if p.whole {
		s.postpone(snap, p)
	}
	if p.whole && len(p.decisions) == 0 {
		d, next := drainout.Plan(snap, s.drainFrom)
		if s.drainFrom = next; d != nil {
			p.decisions = []*planner.Decision{d}
		}
	}
	s.metrics.evaluated(p.report)
	return s.host.Now().Sub(began)
}

// remember has a whole plan use what is remembered of earlier ones, until it ends.
func (s *Service) remember(pass *disrupt.Pass, snap *planner.Snapshot) (end func()) {
	asked, recalled := s.memory.Counts()
	s.memory.Begin(snap)
	pass.Remembering(&s.memory)
	return func() {
		s.memory.End()
		all, found := s.memory.Counts()
		s.metrics.simulated(all-asked, found-recalled)
	}
}

// nothing notes that a plan decided nothing. A whole plan stands for a prompt one, of which only the time it
// takes is kept.
func (s *Service) nothing(p planned) {
	if !p.whole {
		p.idle.vain = s.prompt.vain + 1
		s.prompt = p.idle
		return
	}
	p.idle.vain = s.searched.vain + 1
	prompt := p.idle
	prompt.took, prompt.vain, prompt.unfinished = s.prompt.took, s.prompt.vain, false
	s.searched, s.prompt = p.idle, prompt
}

// stopped reports that an operator has stopped voluntary disruption, or may have.
func (s *Service) stopped() bool { return s.host.Stop() != ledger.StopNone }

// unlessStopped is called right before each act of a command.
func (s *Service) unlessStopped(what string) error {
	if s.stopped() {
		return fmt.Errorf("%s: %w", what, service.ErrStopped)
	}
	return nil
}

// due reports that enough may have changed since, or that time has passed, for another plan.
func (i *idle) due(snap *planner.Snapshot, most time.Duration) bool {
	pause := max(planEvery, min(i.share(bound(snap.World))*i.took, most))
	changed := i.unfinished || snap.Ledger.Seq() != i.seq || snap.World.Revision() != i.revision || !i.wake.IsZero() && !snap.Now.Before(i.wake)
	if !changed {
		pause = max(idleMax, pause)
	}
	return ago(snap.Now, i.at) >= pause
}

// share is for how many times as long as the plan took there is to be no other. pods are how many there are
// now.
func (i *idle) share(pods int) time.Duration {
	if max(pods-i.pods, i.pods-pods)*stirredPart > i.pods {
		return 1
	}
	return min(restShare, time.Duration(1)<<min(i.vain, bits.Len(restShare)))
}

func (s *Service) started(rec store.Record, d *planner.Decision) {
	s.tellDrainOuts(d)
	started, ok := d.Payload.(*ledger.CommandStarted)
	if !ok {
		return
	}
	s.metrics.decided(started)
	s.tellConsolidation(started, d.Explanation)
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

// wake returns how long time alone can change nothing.
func (s *Service) wake() time.Duration {
	next := idleMax
	for _, i := range []*idle{&s.searched, &s.prompt} {
		if !i.wake.IsZero() {
			next = min(next, max(i.wake.Sub(s.host.Now()), planEvery))
		}
	}
	if !s.motion.since.IsZero() {
		next = min(next, planEvery)
	}
	return next
}
