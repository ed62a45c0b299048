package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
	"millwright/services/internal/service"
	"millwright/store"
)

// Deps of the service.
type Deps struct {
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
	// PodMetrics: a series for each pod is served too.
	PodMetrics bool
	// ObjectMetrics: a series for each condition of each NodeClaim and node is served.
	ObjectMetrics bool
	// SearchMax: a plan that took longer is confirmed on a fresh Snapshot before it is recorded (DESIGN §4).
	// 0: 50 ms; negative: every plan.
	SearchMax time.Duration
	// Kube sets placement hints; nil: none are.
	Kube Hinter
}

// Service implements service.Service.
type Service struct {
	host    service.Host
	logger  zerolog.Logger
	metrics *metrics
	cluster *clusterMetrics
	// conditions is nil if nothing is to be measured.
	conditions *conditionMetrics
	times      *podTimes
	work       *workMetrics
	batch      batch
	last       round
	atLimit    []string
	passing    passing
	shifts     shifts
	kube       Hinter
	hints      hints
	// searchMax as in Deps; found is a plan to be confirmed in the next step.
	searchMax time.Duration
	found     *planned
	// plainUntil: claims are not widened, because a service of the cluster does not know such records.
	plainUntil time.Time
}

// round is when and on what the last one was planned.
type round struct {
	at time.Time
	// took is how long planning took.
	took time.Duration
	looked
	// seq of the Ledger.
	seq uint64
}

// looked is what was seen of the World.
type looked struct {
	// revision and unbound are the World's Revision and UnboundRevision.
	revision, unbound uint64
	// calm: no pod needed a place, no node is being removed and none is expected, so events of pods on nodes
	// do not matter.
	calm bool
}

func lookedAt(s *planner.Snapshot, r provision.Round) looked {
	going := func(n *planner.StateNode) bool { return n.MarkedForDeletion }
	calm := len(r.Verdicts) == 0 && len(s.InFlight()) == 0 && !slices.ContainsFunc(s.StateNodes(), going)
	return looked{revision: s.World.Revision(), unbound: s.World.UnboundRevision(), calm: calm}
}

// changed reports that a round may have another result than the last one.
func (l looked) changed(w *world.World) bool {
	if l.calm {
		return w.UnboundRevision() != l.unbound
	}
	return w.Revision() != l.revision
}

const (
	// replanEvery paces rounds without new pods while the cluster changes; the Ledger's changes (a failed
	// launch, a node that is removed) are considered sooner. Time alone matters at idleMax: marks of
	// offerings expire.
	replanEvery  = time.Second
	replanLedger = 100 * time.Millisecond
	idleMax      = 10 * time.Second
	// A round without new pods waits for restShare times as long as the last one took, one after a record for
	// workShare times as long: a large cluster at rest costs 2 % of a core.
	restShare        = 50
	workShare        = 5
	lostMax          = 5
	podsLoggedMax    = 5
	refusedLoggedMax = 10
	// plainFor is how long no widening is tried after one was held back.
	plainFor = 10 * time.Second
	// searchMax is the default of Deps.SearchMax; confirmAfter lets World and Ledger catch up with the time
	// of the search.
	searchMax    = 50 * time.Millisecond
	confirmAfter = 5 * time.Millisecond
)

// New returns the service.
func New(host service.Host, deps Deps) *Service {
	s := &Service{host: host, kube: deps.Kube, logger: deps.Logger, metrics: newMetrics(deps.Registerer), cluster: newClusterMetrics(host),
		batch: batch{seen: seen{}}, searchMax: cmp.Or(deps.SearchMax, searchMax)}
	s.times = newPodTimes(deps.Registerer)
	s.work = newWorkMetrics(s.cluster, s.times)
	if deps.Registerer != nil {
		s.conditions = newConditionMetrics(deps.Registerer, s.cluster, deps.ObjectMetrics)
		deps.Registerer.MustRegister(s.cluster, s.conditions, s.work)
		if deps.PodMetrics {
			deps.Registerer.MustRegister(newPodMetrics(s.cluster), newWaitMetrics(s.cluster, s.times))
		}
	}
	return s
}

// ForgetAfterwards waits until ctx ends, with the leadership, and lets go of what was noted of pods: a
// version of the World that nobody uses would stay in memory. What a step notes that has not ended then goes
// when the metrics are read.
func (s *Service) ForgetAfterwards(ctx context.Context) {
	<-ctx.Done()
	if s.times != nil {
		s.times.forget()
	}
}

// Name implements service.Service.
func (s *Service) Name() string { return ledger.ServiceProvisioner }

// Step implements service.Service.
func (s *Service) Step(ctx context.Context) (time.Duration, error) {
	s.cluster.stepped.Store(s.host.Now().UnixNano())
	if s.conditions != nil {
		s.conditions.observe(s.host.Now())
	}
	defer s.stepHints()
	for range lostMax {
		p, err := s.nextPlan()
		if err != nil || p.wait > 0 {
			return p.wait, err
		}
		err = s.record(ctx, p)
		if err == nil {
			return replanLedger, nil
		}
		switch {
		case errors.Is(err, service.ErrHeldBack) && p.decision.Kind == ledger.KindProvisioningWidened:
			s.plainUntil = s.host.Now().Add(plainFor)
		case !errors.Is(err, store.ErrConflict):
			return 0, err
		}
		s.logger.Debug().Err(err).Msg("round lost, planning anew")
		s.last = round{}
	}
	return 0, fmt.Errorf("record round: lost %d times in a row: %w", lostMax, store.ErrConflict)
}

// planned is the outcome of one look at a Snapshot.
type planned struct {
	// wait: nothing is due for this long.
	wait     time.Duration
	decision *planner.Decision
	round    provision.Round
	basis    planner.Basis
	looked   looked
	took     time.Duration
}

// nextPlan confirms the plan that waits for it, or else plans. A plan that took long is left for the next
// step.
func (s *Service) nextPlan() (planned, error) {
	if p := s.found; p != nil {
		s.found = nil
		return s.confirm(p)
	}
	p, err := s.plan()
	if err != nil || p.wait > 0 || p.decision == nil || p.took <= s.searchMax || p.decision.Kind == ledger.KindClaimWithdrawn {
		return p, err
	}
	s.found = &p
	return planned{wait: confirmAfter}, nil
}

// Released implements service.Releaser.
func (s *Service) Released() { s.metrics.forget() }

// confirm takes over, on a fresh Snapshot, the parts of a plan that still hold.
func (s *Service) confirm(p *planned) (planned, error) {
	confirmed := planned{took: p.took, looked: p.looked} // whatever came since is left to the next round
	err := s.host.Snapshot(service.ForProvisioning, func(snap *planner.Snapshot) error {
		if s.host.Stop() == ledger.StopAll {
			confirmed.wait = idleMax
			return nil
		}
		confirmed.decision, confirmed.round = provision.Confirm(provision.Search{Basis: p.basis, Decision: p.decision, Round: p.round}, snap)
		confirmed.basis = snap.Basis()
		return nil
	})
	return confirmed, err
}

// plan plans a round if one is due.
func (s *Service) plan() (planned, error) {
	var p planned
	err := s.host.Snapshot(service.ForProvisioning, func(snap *planner.Snapshot) error {
		for _, e := range s.shifts.note(snap.World) {
			s.host.Event(e)
		}
		s.times.note(snap)
		waiting := s.batch.notePending(snap)
		s.metrics.queueDepth.WithLabelValues(controller).Set(float64(waiting))
		if p.wait = s.due(snap); p.wait > 0 {
			return nil
		}
		if s.host.Stop() == ledger.StopAll {
			p.wait = idleMax // the end of the stop is a change of the Ledger
			return nil
		}
		began := s.host.Now()
		defer s.work.begin(began)()
		plan := provision.Plan
		if began.Before(s.plainUntil) {
			plan = provision.PlanPlain
		}
		p.decision, p.round = plan(snap)
		p.took = s.host.Now().Sub(began)
		p.basis, p.looked = snap.Basis(), lookedAt(snap, p.round)
		return nil
	})
	return p, err
}

// due returns how long to wait for the next round; 0 if it is due now. While a batch is open nothing else
// counts, since otherwise pods that belong together would be planned separately.
func (s *Service) due(snap *planner.Snapshot) time.Duration {
	if s.batch.open() {
		return s.batch.wait(snap.Now, snap.Options)
	}
	every := idleMax
	switch {
	case snap.Ledger.Seq() != s.last.seq:
		every = max(replanLedger, workShare*s.last.took)
	case s.last.changed(snap.World):
		every = max(replanEvery, restShare*s.last.took)
	}
	since := snap.Now.Sub(s.last.at)
	if since < 0 {
		return 0 // the clock was set back
	}
	return max(min(every, idleMax)-since, 0)
}

// record appends the decision, and reports the round.
func (s *Service) record(ctx context.Context, p planned) error {
	seq := uint64(0)
	if p.decision != nil {
		rec, err := s.host.Decide(ctx, p.basis, *p.decision)
		if err != nil {
			return fmt.Errorf("record round: %w", err)
		}
		seq = rec.Seq
	}
	s.last = round{at: p.basis.Now, took: p.took, looked: p.looked, seq: max(seq, p.basis.LedgerSeq)}
	s.metrics.rounds(p, s.batch.close(s.host.Now()))
	s.times.decide(p.round.Verdicts, s.host.Now())
	s.publishVerdicts(p.round, seq)
	s.logLimits(p.round.AtNodeLimit)
	if seq > 0 {
		s.log(p, seq)
	}
	return nil
}
