package disruptor

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
)

// durationBuckets of karpenter_* durations (reference: operations §2).
var durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 150, 300, 450, 600}

// scoreBuckets are those of karpenter_consolidation_score; moveLabels its labels and those of
// karpenter_consolidation_moves_total.
var (
	scoreBuckets = []float64{.1, .25, .33, .5, 1, 2, 5, 10}
	moveLabels   = []string{"decision", "nodepool", "policy"}
)

type metrics struct {
	evaluation     *prometheus.HistogramVec
	decisions      *prometheus.CounterVec
	byPool         *prometheus.CounterVec
	eligible       *prometheus.GaugeVec
	allowed        *prometheus.GaugeVec
	consuming      *prometheus.GaugeVec
	failed         *prometheus.CounterVec
	queueFailures  *prometheus.CounterVec
	claimsDisrupts *prometheus.CounterVec
	podsDisrupted  *prometheus.CounterVec
	timeouts       *prometheus.CounterVec
	scores         *prometheus.HistogramVec
	moves          *prometheus.CounterVec
	proposals      *prometheus.GaugeVec
	covered        prometheus.Gauge
	held           *prometheus.GaugeVec
	halted         *prometheus.GaugeVec
	drainingOut    *prometheus.GaugeVec
	simulations    *prometheus.CounterVec
}

// methods by which commands come about.
var methods = []string{disrupt.MethodEmptiness, disrupt.MethodStaticDrift, disrupt.MethodDrift, disrupt.MethodPreferred, disrupt.MethodMulti, disrupt.MethodSingle}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "karpenter", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "karpenter", Name: name, Help: help}, labels)
	}
	m := &metrics{
		evaluation: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "karpenter",
			Name: "voluntary_disruption_decision_evaluation_duration_seconds",
			Help: "Duration of one method's part of a planning pass.", Buckets: durationBuckets}, []string{"reason", "consolidation_type"}),
		decisions: counter("voluntary_disruption_decisions_total", "Commands started.", "decision", "reason", "consolidation_type"),
		byPool: counter("voluntary_disruption_decisions_by_nodepool_total", "Commands started, by NodePool.",
			"decision", "reason", "consolidation_type", "nodepool"),
		eligible:  gauge("voluntary_disruption_eligible_nodes", "Nodes that could be disrupted if budgets allowed.", "reason"),
		allowed:   gauge("nodepools_allowed_disruptions", "What the budgets of a NodePool allow.", "nodepool", "reason"),
		consuming: gauge("nodepools_nodes_consuming_budgets", "Nodes that use up the budgets of a NodePool.", "nodepool", "reason"),
		failed: counter("voluntary_disruption_failed_validations_total", "Nodes of commands that were not confirmed.",
			"consolidation_type"),
		queueFailures: counter("voluntary_disruption_queue_failures_total", "Replacements that were not ready when a command failed.",
			"decision", "reason", "consolidation_type"),
		timeouts: counter("voluntary_disruption_consolidation_timeouts_total", "Searches that ended because their steps were used up.",
			"consolidation_type"),
		scores: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "karpenter", Name: "consolidation_score",
			Help: "Scores of moves of Balanced NodePools.", Buckets: scoreBuckets}, moveLabels),
		moves: counter("consolidation_moves_total", "Moves by consolidation that were chosen, once for each NodePool, and of those of Balanced NodePools also what their scores rejected.", moveLabels...),
		proposals: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millwright", Name: "disruption_proposals",
			Help: "Commands that wait for approval, or were answered and not ended yet."}, []string{"state"}),
		covered: f.NewGauge(prometheus.GaugeOpts{Namespace: "millwright", Name: "disruption_search_covered_ratio",
			Help: "Part of the nodes to look at for drift and consolidation that the last planning pass came to; the next one goes on with the others."}),
		held: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millwright", Name: "disruption_nodes_held_by_budgets",
			Help: "Nodes that could be disrupted if the budgets of their NodePool allowed more."}, []string{"nodepool", "reason"}),
		halted: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millwright", Name: "disruption_rollouts_halted",
			Help: "1 for a NodePool whose roll-out in waves has failed and waits for a person."}, []string{"nodepool"}),
		drainingOut: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millwright", Name: "disruption_draining_out_nodes",
			Help: "Nodes that are to run empty by themselves, as a DisruptionPolicy wants (drainOut)."}, []string{"nodepool"}),
		simulations: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Name: "disruption_simulations_total",
			Help: "Simulations that consolidation began, by result: recalled from an earlier planning pass since which nothing has changed that matters to them, or worked out anew."},
			[]string{"result"}),
		claimsDisrupts: shared(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_nodeclaims_disrupted_total",
			Help: "NodeClaims disrupted, by reason."}, []string{"reason", "nodepool", "capacity_type"})),
		podsDisrupted: shared(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_pods_disruption_initiated_total",
			Help: "Pods, DaemonSets aside, of NodeClaims when their disruption begins, by reason."}, []string{"reason", "nodepool", "capacity_type"})),
	}
	// They are there before the first failure, whose increase would not be seen otherwise.
	for _, method := range methods {
		m.failed.WithLabelValues(consolidationType(method))
		if method != disrupt.MethodEmptiness { // which replaces nothing
			m.queueFailures.WithLabelValues("replace", lower(reasonOf(method)), consolidationType(method))
		}
	}
	for _, method := range []string{disrupt.MethodMulti, disrupt.MethodSingle} {
		m.timeouts.WithLabelValues(consolidationType(method))
	}
	m.simulated(0, 0)
	return m
}

// simulated counts simulations of one planning pass, and those of them that an earlier one had worked out.
func (m *metrics) simulated(all, recalled int) {
	m.simulations.WithLabelValues("recalled").Add(float64(recalled))
	m.simulations.WithLabelValues("anew").Add(float64(all - recalled))
}

// shared registers a counter that lifecycle counts in too, when both run in one process.
func shared(r prometheus.Registerer, c *prometheus.CounterVec) *prometheus.CounterVec {
	if r == nil {
		return c
	}
	err := r.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			return existing
		}
	}
	if err != nil {
		panic(err) // two different metrics with one name
	}
	return c
}

// tried counts the time that a method took.
func (m *metrics) tried(method string, took time.Duration) {
	m.evaluation.WithLabelValues(lower(reasonOf(method)), consolidationType(method)).Observe(took.Seconds())
}

// Decisions on moves.
const (
	moveApproved = "approved"
	moveRejected = "rejected"
)

// scored observes the scores of moves of Balanced NodePools.
func (m *metrics) scored(decision string, scores []disrupt.Score) {
	for _, s := range scores {
		m.scores.WithLabelValues(decision, s.NodePool, string(karpv1.ConsolidationPolicyBalanced)).Observe(float64(s.Thousandths) / 1000)
	}
}

// moved counts a move of a NodePool, of whichever policy (reference: disruption §9).
func (m *metrics) moved(decision, pool string, policy karpv1.ConsolidationPolicy) {
	m.moves.WithLabelValues(decision, pool, string(policy)).Inc()
}

func (m *metrics) evaluated(r disrupt.Report) {
	for _, method := range r.StepsEnded {
		m.timeouts.WithLabelValues(consolidationType(method)).Inc()
	}
	m.scored(moveRejected, r.Unapproved)
	for _, s := range r.Unapproved {
		m.moved(moveRejected, s.NodePool, karpv1.ConsolidationPolicyBalanced)
	}
	m.covered.Set(1 - float64(r.Searched.Left)/float64(max(1, r.Searched.Candidates)))
	for _, reason := range append(slices.Clone(disrupt.Reasons), mwv1alpha1.ReasonPreferredAvailable) {
		m.eligible.WithLabelValues(lower(reason)).Set(float64(r.Eligible[reason]))
	}
	m.allowed.Reset()
	m.consuming.Reset()
	m.held.Reset()
	for _, n := range r.Nodes {
		if n.Blocked != nil && n.Blocked.Cause == disrupt.CauseBudget {
			m.held.WithLabelValues(n.NodePool, string(n.Blocked.Reason)).Inc()
		}
	}
	for _, p := range r.Pools {
		m.allowed.WithLabelValues(p.NodePool, string(p.Reason)).Set(float64(p.Allowed))
		m.consuming.WithLabelValues(p.NodePool, string(p.Reason)).Set(float64(p.Consuming))
	}
}

func (m *metrics) proposed(list []*ledger.Proposal) {
	counts := map[ledger.ProposalState]int{}
	for _, x := range list {
		counts[x.State]++
	}
	for _, state := range []ledger.ProposalState{ledger.ProposalOpen, ledger.ProposalApproved, ledger.ProposalRejected} {
		m.proposals.WithLabelValues(strings.ToLower(string(state))).Set(float64(counts[state]))
	}
}

func (m *metrics) decided(c *ledger.CommandStarted) {
	decision, reason, kind := decisionOf(c), lower(c.Reason), consolidationType(c.Method)
	m.decisions.WithLabelValues(decision, reason, kind).Inc()
	pools := map[string]bool{}
	for _, candidate := range c.Candidates {
		if !pools[candidate.NodePool] {
			pools[candidate.NodePool] = true
			m.byPool.WithLabelValues(decision, reason, kind, candidate.NodePool).Inc()
		}
	}
}

// rolledBack counts a command that was given up: its nodes if it was not confirmed, else its replacements
// that were not ready.
func (m *metrics) rolledBack(c *ledger.Command, d *planner.Decision) {
	kind := consolidationType(c.Started.Method)
	if c.State != ledger.CommandConfirmedState {
		m.failed.WithLabelValues(kind).Add(float64(candidatesOf(d)))
		return
	}
	if v, ok := d.Explanation.(disrupt.Verdict); ok && len(c.Started.Replacements) > 0 {
		m.queueFailures.WithLabelValues(decisionOf(&c.Started), lower(c.Started.Reason), kind).Add(float64(len(v.Waiting)))
	}
}

// reduced counts the nodes that a command was not confirmed for.
func (m *metrics) reduced(c *ledger.Command, d *planner.Decision) {
	if p, ok := d.Payload.(*ledger.CommandReduced); ok {
		m.failed.WithLabelValues(consolidationType(c.Started.Method)).Add(float64(len(p.Dropped)))
	}
}

// candidatesOf counts the nodes among the subjects of a rollback.
func candidatesOf(d *planner.Decision) (count int) {
	for _, s := range d.Subjects {
		if strings.HasPrefix(s, "node/") {
			count++
		}
	}
	return count
}

// succeeded counts the candidates of a command that it deleted.
func (m *metrics) succeeded(c *ledger.CommandStarted, deleted []ledger.Candidate) {
	for _, candidate := range deleted {
		labels := []string{lower(c.Reason), candidate.NodePool, candidate.CapacityType}
		m.claimsDisrupts.WithLabelValues(labels...).Inc()
		m.podsDisrupted.WithLabelValues(labels...).Add(float64(len(candidate.Pods)))
	}
}

func lower(r karpv1.DisruptionReason) string { return strings.ToLower(string(r)) }

func decisionOf(c *ledger.CommandStarted) string {
	if len(c.Replacements) > 0 {
		return "replace"
	}
	return "delete"
}

// reasonOf a method.
func reasonOf(method string) karpv1.DisruptionReason {
	switch method {
	case disrupt.MethodEmptiness:
		return karpv1.DisruptionReasonEmpty
	case disrupt.MethodStaticDrift, disrupt.MethodDrift:
		return karpv1.DisruptionReasonDrifted
	case disrupt.MethodPreferred:
		return mwv1alpha1.ReasonPreferredAvailable
	}
	return karpv1.DisruptionReasonUnderutilized
}

// consolidationType of a method; drift has none.
func consolidationType(method string) string {
	switch method {
	case disrupt.MethodEmptiness:
		return "empty"
	case "multi", "single":
		return method
	}
	return ""
}

// forget ceases to serve what the last passes found.
func (m *metrics) forget() {
	for _, g := range []*prometheus.GaugeVec{m.eligible, m.allowed, m.consuming, m.held, m.proposals, m.halted, m.drainingOut} {
		g.Reset()
	}
	m.covered.Set(0)
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
